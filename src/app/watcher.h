/* Looks at the resident memory of worker processes, often where it grows and seldom where it rests. This is
 * the limit where no cgroup can be had, and the exact name for what happened where one can. */
#ifndef CLOISTER_APP_WATCHER_H
#define CLOISTER_APP_WATCHER_H

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct watcher;
struct watch;

struct watcher *watcher_new(uv_loop_t *loop);
void watcher_free(struct watcher *s); /* every watch has been removed */
/* `over` runs once, when the process holds more than `max_bytes` of memory of its own (anonymous and shared
 * memory, not files). NULL when the process cannot be looked at: it is gone then, or /proc is not what it
 * should be. */
struct watch *watcher_add(struct watcher *s, pid_t pid, uint64_t max_bytes, void (*over)(void *user),
                          void *user);
void watcher_remove(struct watcher *s, struct watch *w); /* NULL is fine */
/* Bytes that a process holds by itself now; 0 when it cannot be read. */
uint64_t watcher_resident(pid_t pid);

#endif
