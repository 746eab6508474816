/* A process started over the link, and the capability that stands for it. */
#ifndef CLOISTER_AGENT_PROCESS_H
#define CLOISTER_AGENT_PROCESS_H

#include "agent/agent.h"
#include "agent/spec.h"

/* Starts what `spec` says and answers `call` with {process, pid} and, where `stages` is not NULL, the stage
 * times (its spawn time is filled in here). On failure -1: the caller throws and refuses the streams. `*ret`
 * is set before the answer. */
struct stage_times {
    uint64_t mounts, jail, spawn;
};
int process_start(struct agent *a, const struct spec *spec, struct link_call *call,
                  struct stage_times *stages, struct process **ret, struct error *err);
/* True once the end of it has been told to at least one "wait", or nobody can ask any more. */
bool process_reported(const struct process *p);

#endif
