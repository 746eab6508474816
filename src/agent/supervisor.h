/* Where no cgroup holds a tree together: a process between the agent and the program, which adopts every
 * orphan below it (PR_SET_CHILD_SUBREAPER), so that whoever descends from it can be found in /proc. */
#ifndef CLOISTER_AGENT_SUPERVISOR_H
#define CLOISTER_AGENT_SUPERVISOR_H

#include "agent/process_internal.h"

struct supervisor;

/* Starts the program under a new supervisor; p's start is answered, and its end told, when the supervisor
 * says so. */
struct supervisor *supervisor_start(struct process *p, const struct spawn *s, struct error *err);
void supervisor_signal(struct supervisor *v, int number);
/* Kills all of the tree; answers when nothing of it is left. */
void supervisor_kill_all(struct supervisor *v, struct link_call *call);
/* The process object goes; the supervisor stays as long as the tree lives. NULL-safe. */
void supervisor_free(struct supervisor *v);

#endif
