/* The jail of the zygote and of its children, in the order in which it closes:
 *
 *   jail_split()   a child in user, mount, PID, network, IPC, UTS and cgroup namespaces of its own; the
 * caller's half waits for it jail_close()   an empty, read-only root; no capabilities but those to give each
 * worker an id; no_new_privs; rlimits; the zygote's seccomp filter jail_worker()  in a forked worker: an id
 * of its own, no capabilities, tighter rlimits and filter. From here on it can compute, use memory, start
 * threads, and use the descriptors it has
 *
 * As root, ids come from a range below those of containers that belongs to this process alone; as an ordinary
 * user everything runs under the user's own id, the only one there is. */
#ifndef CLOISTER_WORKER_JAIL_H
#define CLOISTER_WORKER_JAIL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct jail {
    uint32_t ids;     /* that workers can have; 1: all share the zygote's */
    uint32_t next_id; /* of the next worker */
};

/* Returns in the child only; the calling process closes `control_fd`, waits for the child and exits as it did
 * (or 1, with a line on standard error). -1 in the child or before there is one. */
int jail_split(struct jail *jail, int control_fd, struct error *err);
int jail_close(const struct jail *jail, struct error *err);
/* `number` tells the workers of a zygote apart. */
int jail_worker(const struct jail *jail, uint32_t number, struct error *err);

#endif
