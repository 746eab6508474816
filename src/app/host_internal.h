/* What the files of a hosted Worker share. host.c: its life; host_calls.c: what its process may call;
 * host_init.c: what it is told; host_alarm.c: alarms. */
#ifndef CLOISTER_APP_HOST_INTERNAL_H
#define CLOISTER_APP_HOST_INTERNAL_H

#include "app/host.h"
#include "app/init.h"

struct loader;
struct outgoing_user;

/* A process that runs it. */
struct process {
    struct host *host;
    struct worker *worker;
    struct loader *loader;
    struct outgoing_user *outgoing;
    struct objects_session *session; /* NULL: no Durable Objects */
    bool up;                         /* the main module has been evaluated */
    uint64_t up_ms;                  /* since when (uv_now) */
    uint32_t ending_idle;            /* that call is under way; 0: none */
};

struct host_waiter {
    struct host_waiter *next, *prev;
    struct host *host; /* NULL: taken off the list */
    host_up_fn fn;
    void *user;
};

struct host {
    struct host_config config;
    char *name;
    uv_loop_t *loop;
    const struct app_config *app; /* NULL: nothing to run yet; who waits goes on waiting */
    struct modules modules;       /* compiled once `compiled` */
    bool compiled;
    struct compile_batch *batch;
    struct process *process; /* NULL: none */
    struct objects *objects;
    struct object_class *classes;
    size_t class_count;
    struct host_waiter *first, *last;
    uv_timer_t *retry;   /* running while a start is held back */
    unsigned failures;   /* starts in a row that came to nothing */
    uint64_t not_before; /* uv_now() of the next start */
    struct error why;    /* of the last failure; or what is refused for good (`refused`) */
    bool refused;
};

extern const struct link_object_ops host_bootstrap; /* its object is the process */
/* What `init` tells a process besides the modules. */
void host_fill_init(const struct host *h, struct init *init);
/* The classes of the configuration, as objects.h wants them. */
int host_classes(const struct app_config *c, struct object_class **ret, size_t *ret_count, struct error *err);
void host_classes_free(struct object_class *classes, size_t count);

#endif
