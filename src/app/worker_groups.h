/* Control groups of worker processes: one for each, with a wall around its memory and its number of threads,
 * and with a share of the processor like every other's. They are made ahead, and used again when their
 * process has ended, so that a load waits for none. Where there are no control groups (an ordinary user
 * without delegation) there are none of these either, and the watcher alone looks after memory. */
#ifndef CLOISTER_APP_WORKER_GROUPS_H
#define CLOISTER_APP_WORKER_GROUPS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct engine;
struct worker_group;
struct worker_groups;

#define WORKER_GROUP_FDS 4u
/* Of a memory limit, what the wall stands further out: what the kernel holds for a process (page tables,
 * socket buffers) counts there too, and the process itself and the watcher should come first, since they can
 * say what happened. */
#define WORKER_GROUP_SLACK ((uint64_t)48 << 20)
#define WORKER_GROUP_THREADS 64u

/* NULL: no groups can be had (or no memory). `e` is borrowed, and outlives them. */
struct worker_groups *worker_groups_open(uv_loop_t *loop, struct engine *e);
/* Every group has been given back. NULL is fine. */
void worker_groups_close(struct worker_groups *s);
/* One that nobody is in, with the default memory limit. NULL: none can be made; why is logged. */
struct worker_group *worker_group_take(struct worker_groups *s);
/* Files to write "0" into for a process to enter; the caller closes them. Their number; -1: error. */
int worker_group_open(const struct worker_group *g, int fds[WORKER_GROUP_FDS], struct error *err);
/* The wall for a process whose limit is `memory_bytes`. NULL is fine. */
void worker_group_limit(struct worker_group *g, uint64_t memory_bytes);
/* The kernel has ended a process in it since it was taken. NULL: no. */
bool worker_group_oom(struct worker_group *g);
/* Its process has been killed, or never entered it. NULL is fine. */
void worker_group_give_back(struct worker_group *g);

#endif
