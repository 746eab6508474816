/* What a host Worker's link offers of the daemon's own objects (Durable Object storage, alarms, containers),
 * as one replaceable part: the application (app.c) calls the table below, src/app/storage*.c fills it, tests
 * put their own in its place.
 *
 * Lifetimes. objects_open() once for each hosted Worker of the application; objects_begin() once for each
 * process that runs it (it is restarted when it dies), objects_end() when that process's link is about to die
 * or has died. Everything here runs on the application's loop. What may take long does not: it runs on a
 * thread of the implementation's, and the process's link is held meanwhile (link_hold()), so that all that
 * the process sent keeps its order; others do not wait.
 *
 * The output gate. Before a frame of the process takes effect the application calls admit(). When that has
 * returned 1, what the process wrote is on disk, unless the frame itself is for its storage only. When it
 * fails, that process is ended with the error: nobody learns of a write that is not there. */
#ifndef CLOISTER_APP_OBJECTS_H
#define CLOISTER_APP_OBJECTS_H

#include "base/error.h"
#include "link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct engine;
struct host;    /* a hosted Worker: host.h */
struct objects; /* the implementation's state of one hosted Worker */
struct objects_session;
struct object_containers_ops; /* containers.h */

/* A Durable Object class of the hosted Worker, as its configuration has it. */
struct object_class {
    const char *name;
    bool sql;       /* SQLite-backed: storage.sql is there */
    bool container; /* ctx.container is there */
    /* container: name (or "" for the only one) and image, pairs ended by NULL, NULL; absent: NULL */
    const char *const *images;
    const char *instance_type; /* NULL: the default */
    unsigned max_instances;    /* 0: not limited */
};

struct objects_config {
    uv_loop_t *loop;       /* borrowed, as everything here */
    const char *state_dir; /* private directory of this hosted Worker, made 0700; relative to nothing */
    const char *worker;    /* its name */
    struct engine *engine; /* NULL: containers cannot be started here, see no_engine */
    const char *no_engine; /* why not: a sentence for the error, or NULL */
    const char *image_dir; /* the engine's data directory: where images are looked up; NULL: no engine */
    const struct object_class *classes;
    size_t class_count;
    struct host *host; /* for host_call_alarm() */
    /* Where ctx.container comes from; NULL: containers cannot be started here, see no_engine. */
    const struct object_containers_ops *containers;
    void *containers_user;
};

struct objects_ops {
    int (*open)(struct objects **ret, const struct objects_config *config, struct error *err);
    /* Ends every session first. Containers are destroyed. */
    void (*close)(struct objects *o);
    /* The classes of a changed configuration (cloister dev reloads); those that went keep their files. */
    int (*reconfigure)(struct objects *o, const struct object_class *classes, size_t count,
                       struct error *err);

    /* A process of the hosted Worker is up; `link` lives until end() has returned. */
    struct objects_session *(*begin)(struct objects *o, struct link *link, struct error *err);
    /* The link is dead or dies next: open transactions are rolled back. Exports of the session are dropped by
     * the link (drop callbacks), before or after this: they must not need the session any more. `why` is what
     * holders are told. */
    void (*end)(struct objects_session *s, const struct error *why);

    /* The method `object` of the bootstrap capability: {class, id} -> {storage, container, alarm}. Consumes
     * the call. UNTRUSTED INPUT: class and id are the process's words. */
    void (*object)(struct objects_session *s, struct link_call *call, struct cbor_reader args);
    /* See above; `ops`: of what the frame calls or drops, or NULL; `object`: it calls the method `object`. 0:
     * not yet, host_go_on() follows. -1: what was written cannot be kept. Quick when nothing was written. */
    int (*admit)(struct objects_session *s, const struct link_object_ops *ops, bool object,
                 struct error *err);
    /* The process has died while its link was held. end() still follows. */
    void (*left)(struct objects_session *s);
};

/* The implementation that the daemon uses: storage_objects.c. */
extern const struct objects_ops storage_objects;

/* ---- what the application does for the implementation (host.c) ---- */

/* Calls `alarm` {class, id, retryCount, scheduledTime} of the hosted Worker, starting its process when none
 * runs. `done` runs exactly once, from the loop, never from inside this call: err is NULL when the handler
 * has returned, else what it threw (or why the Worker could not be started, or its end). `id` is 64
 * hexadecimal digits. Returns a handle for host_cancel_alarm(), valid until `done` has run; NULL when out of
 * memory (then `done` never runs). */
struct alarm_call;
typedef void (*alarm_done_fn)(void *user, const struct error *err);
struct alarm_call *host_call_alarm(struct host *h, const char *class_name, const char *id,
                                   unsigned retry_count, int64_t scheduled_ms, alarm_done_fn done,
                                   void *user);
/* Forgets `done`. The handler may run all the same. */
void host_cancel_alarm(struct alarm_call *c);
/* True while a process of the hosted Worker runs. */
bool host_running(const struct host *h);
/* The link of its process was held, and goes on. Not from inside a function of the table above. */
void host_go_on(struct host *h);
/* What its process wrote is not on disk: the process ends with that. */
void host_not_kept(struct host *h, const struct error *why);

#endif
