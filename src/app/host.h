/* A hosted Worker: the operator's program in a worker process of role host, started when something is asked
 * of it and started anew after it died. It answers calls of src/link/worker_protocol.h, section 2. */
#ifndef CLOISTER_APP_HOST_H
#define CLOISTER_APP_HOST_H

#include "app/config.h"
#include "app/module.h"
#include "app/objects.h"
#include "app/worker.h"
#include "base/error.h"
#include "link/link.h"

#include <stdbool.h>
#include <stdint.h>

struct assets;
struct compiler;
struct outgoing;

struct host_config {
    const char *name; /* copied */
    struct workers *workers;
    struct compiler *compiler;
    struct outgoing *outgoing;
    const struct objects_ops *objects;    /* NULL: Durable Objects are refused */
    struct objects_config objects_config; /* `host`, `worker`, `classes` are filled in */
    /* Another hosted Worker of the application; NULL: there is none of that name. */
    struct host *(*find)(void *user, const char *name);
    /* The static files; NULL: there are none. */
    struct assets *(*assets)(void *user);
    /* A line of the console of this Worker (dynamic NULL) or of a Dynamic Worker of its. UNTRUSTED INPUT */
    void (*log)(void *user, const char *worker, const char *dynamic, int level, int64_t ms, const char *text);
    void *user;
};

struct host *host_new(const struct host_config *config, struct error *err);
/* Everything under way fails. Not from a callback of its link. */
void host_free(struct host *h);

/* What it runs from now on; the process that runs what it ran before ends. Both are borrowed: `config` until
 * the next host_run() or host_free(), `modules` are moved from. */
int host_run(struct host *h, const struct app_config *config, struct modules *modules, struct error *err);
/* Nothing, because of `why`: what is asked of it fails with that. */
void host_refuse(struct host *h, const struct error *why);

const char *host_name(const struct host *h);
/* Its link, when a process is up and its main module has been evaluated; else NULL: use host_wait(). */
struct link *host_link(const struct host *h);
/* Starts a process if none is there. `fn` runs later, or from inside this call when it is known at once that
 * it fails. The link is good for calls made from within `fn`. */
struct host_waiter;
typedef void (*host_up_fn)(void *user, struct link *l, const struct error *err);
void host_wait(struct host *h, host_up_fn fn, void *user, struct host_waiter **ret);
/* Memory is short: its idle Dynamic Workers are to end, those first that did nothing for longest. */
void host_end_idle(struct host *h);
/* Calls scheduled() {cron, scheduledTime}; as host_call_alarm() of objects.h, and ended by
 * host_cancel_alarm(). */
struct alarm_call *host_call_scheduled(struct host *h, const char *cron, int64_t scheduled_ms,
                                       alarm_done_fn done, void *user);
/* `fn` will not run. NULL is fine. */
void host_forget(struct host_waiter *w);

#endif
