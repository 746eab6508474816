/* One worker process: its link, its limits, its end.
 *
 * Life. workers_start() takes a child from the zygote's reserve, or waits for one. Once the child is there
 * the worker has a link, and the owner makes its first call (`init`). A worker ends when its process ends,
 * when it breaks the protocol, when it exceeds its memory, or by worker_end(): its link is shut down with the
 * named reason, so every call, stream and channel of it fails with that, and `ended` runs last. A worker is
 * freed by worker_release(), which also ends it if need be (then without `ended`). */
#ifndef CLOISTER_APP_WORKER_H
#define CLOISTER_APP_WORKER_H

#include "base/error.h"
#include "link/link.h"
#include "worker/zygote_protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct engine;
struct worker;
struct workers; /* one per application: the zygote, the transports, the watcher */

struct workers_config {
    uv_loop_t *loop;
    const char *program; /* see zygote.h */
    unsigned reserve;
    struct engine *engine; /* whose control groups they get; NULL: none; borrowed */
};
int workers_open(struct workers **ret, const struct workers_config *config, struct error *err);
/* Every worker has been released before. The memory goes once the loop has run again. */
void workers_close(struct workers *s);
uv_loop_t *workers_loop(struct workers *s);
/* Memory is short: what is kept beyond the least reserve ends. */
void workers_shrink(struct workers *s);

struct worker_config {
    enum zygote_child_kind kind;
    const char *name;                        /* for messages and logs; copied */
    const struct link_object_ops *bootstrap; /* what the worker may call; NULL: nothing */
    void *bootstrap_object;
    uint64_t memory_bytes;     /* beyond what it has from the zygote; 0: WORKER_DEFAULT_MEMORY */
    uint64_t cpu_ms;           /* only for the message when the process ends by it */
    void (*ready)(void *user); /* the link is there; not called when it is there at once */
    void (*ended)(void *user, const struct error *why);
    void (*log)(void *user, int level, int64_t ms, const char *text); /* UNTRUSTED INPUT; rate-limited */
    /* See link.h. NULL: all are. */
    bool (*admit)(void *user, const struct link_object_ops *ops, const char *method);
    void (*left)(void *user); /* it has gone away while its link was held; what it said is still handled */
    void *user;
};
#define WORKER_DEFAULT_MEMORY ((uint64_t)128 << 20)

/* NULL: out of memory. */
struct worker *worker_start(struct workers *s, const struct worker_config *config);
/* NULL until it is ready; then until worker_release(). It may be dead. */
struct link *worker_link(const struct worker *w);
/* Started, and not ended: calls make sense. NULL: no. */
bool worker_alive(const struct worker *w);
/* Kills the process; everything fails with `why` now. `ended` is called before this returns. */
void worker_end(struct worker *w, const struct error *why);
/* The owner is done with it: no callback any more. Kills it if it lives. NULL is fine. Not from within a
 * callback of its link. */
void worker_release(struct worker *w);
/* The same, at the next turn of the loop: from anywhere. */
void worker_release_later(struct worker *w);
const char *worker_name(const struct worker *w);
/* Its link was held (link_hold(), `admit`): it goes on. Not from a callback of the link. */
void worker_go_on(struct worker *w);
/* Writes what is queued for it now, rather than before the loop sleeps. */
void worker_flush(struct worker *w);

#endif
