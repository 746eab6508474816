/* The file operations of agent_protocol.h. Each runs in a forked child of the agent, so that a file system
 * that blocks or lies harms only the one operation. */
#ifndef CLOISTER_AGENT_FS_H
#define CLOISTER_AGENT_FS_H

#include "agent/agent.h"

/* `method` without "fs.". Answers the call, now or later, and returns 0; or -1: the caller throws `err`. */
int fs_call(struct agent *a, struct link_call *call, const char *method, const struct cbor_reader *args,
            struct error *err);
/* Refuses the stream of a file operation (or whatever `method` is) that will not happen. */
void fs_refuse(struct agent *a, const char *method, const struct cbor_reader *args, const struct error *err);

#endif
