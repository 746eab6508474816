/* What bundle.c and bundle_watch.c share. */
#ifndef CLOISTER_APP_BUNDLE_INTERNAL_H
#define CLOISTER_APP_BUNDLE_INTERNAL_H

#include "app/bundle.h"
#include "base/buf.h"

#include <stdbool.h>

struct watch {
    uv_fs_event_t handle;
    struct bundle *bundle;
    char *directory;
};

struct bundle {
    uv_loop_t *loop;
    unsigned handles; /* the caller's, and one for each uv handle that is not closed */
    bool closing;

    /* the run */
    uv_process_t process;
    uv_pipe_t pipe; /* its stderr */
    bool running, reading;
    int64_t status;
    int signal;
    char chunk[4096];
    struct buf report;
    char *scratch; /* where it writes; NULL when removed */
    char *directory;
    char *main;
    struct app_rule *rules;
    size_t rule_count;
    bundle_done_fn done;
    void *user;

    /* watching */
    char **inputs; /* of the finished bundle; NULL: it failed */
    char **extra;  /* the configuration file and .dev.vars */
    struct watch **watches;
    size_t watch_count;
    uv_timer_t timer;
    bool watching;
    bundle_changed_fn changed;
    void *changed_user;
};

/* Gives up a reference; the last one frees. */
void bundle_release(struct bundle *b);
/* Close callback of a handle whose data is the bundle. */
void bundle_closed(uv_handle_t *handle);
void bundle_watch_stop(struct bundle *b);

#endif
