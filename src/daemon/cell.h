/* A named container as the daemon knows it, running or not: "cell" to tell it from the engine's container,
 * which is one run of it. A name always reaches the same cell.
 *
 *   STOPPED   --cell_start()-->  STARTING   container is NULL (or being prepared)
 *   STARTING  --ready-->         RUNNING    container, main, env are set
 *   STARTING  --failure-->       STOPPED    start_error says why
 *   RUNNING   --end-->           STOPPED    stop says why
 *
 * Every transition is told to the waits. Reference counted: the registry holds one while the name is known, a
 * container one while it exists, each request one. */
#ifndef CLOISTER_DAEMON_CELL_H
#define CLOISTER_DAEMON_CELL_H

#include "base/error.h"
#include "container/engine.h"
#include "daemon/alarm.h"
#include "daemon/execution.h"
#include "daemon/list.h"
#include "daemon/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct launch;

enum cell_state { CELL_STOPPED, CELL_STARTING, CELL_RUNNING };

#define CELL_MAX_RUNNING_EXECS 1024u
#define CELL_MAX_FINISHED_EXECS 64u
#define CELL_MAX_JOURNALS ((size_t)128 << 20)
#define CELL_KILL_AFTER_MS 5000u

/* Why the last run ended. */
struct cell_stop {
    char reason[24]; /* stop_reason_name() */
    bool by_itself;  /* the main process ended: code counts */
    int code, signal;
    char detail[256];
};

struct cell {
    struct list link; /* the registry's */
    struct daemon *daemon;
    unsigned refs;
    char name[64];
    bool auto_named, forgotten;
    uint64_t family; /* of a Durable Object's container: which class' it is; 0: nobody's */
    enum cell_state state;
    json_t *spec; /* body of the last start */

    /* The present or last run; empty before the first. */
    char id[33], snapshot[33];
    char grade[192]; /* the isolation in force then */
    char *image, *image_id, *cwd, *user;
    char **entrypoint, **env; /* effective; env only while running */
    json_t *labels;
    struct limits limits;
    int64_t created_ms, started_ms, stopped_ms;
    bool ran;
    struct cell_stop stop;
    struct stage_timings timings;
    bool timed;
    struct error start_error;

    struct container *container;
    struct launch *launch; /* what the run needs until it ends: image, layer locks; also while preparing */
    struct execution *main;
    struct list execs;
    unsigned running_execs, finished_execs;
    struct list waits;
    struct list unsaved; /* state.c */
    bool snapshotting;

    /* lifetime.c */
    unsigned busy;
    uint64_t inactivity_ms;
    bool idled_out;
    struct alarm *idle_alarm, *kill_alarm;
};

/* Told at every change of state. It may take itself off the list, and nothing else. */
struct cell_wait {
    struct list link;
    void (*fn)(void *user, struct cell *c);
    void *user;
};

struct cell *cell_new(struct daemon *d, const char *name);
void cell_ref(struct cell *c);
void cell_unref(struct cell *c);

/* Begins a start of a stopped cell. Takes `r` over in any case. 0: STARTING; the waits hear how it went. */
int cell_start(struct cell *c, struct start_request *r, struct error *err);
void cell_destroy(struct cell *c, const char *reason);
void cell_await(struct cell *c, struct cell_wait *w);
void cell_unwait(struct cell_wait *w);

/* For launch.c: the start goes no further; and the transitions. */
void cell_start_failed(struct cell *c, const struct error *err);
extern const struct container_events cell_container_events;

/* NULL when there is none of that id. */
struct execution *cell_find_exec(struct cell *c, const char *id);
/* Puts it on the list, as running. */
int cell_add_exec(struct cell *c, struct execution *x, struct error *err);
void cell_exec_ended(struct cell *c, struct execution *x);
void cell_remove_exec(struct cell *c, struct execution *x);

/* ---- lifetime.c: what keeps a container alive ---- */
void cell_busy(struct cell *c);
void cell_idle(struct cell *c);
void cell_set_inactivity(struct cell *c, uint64_t ms);
void cell_lifetime_reset(struct cell *c); /* at the end of a run */
/* SIGTERM to the main process; destroyed when it is still there after `ms`. */
int cell_stop(struct cell *c, uint64_t ms, struct error *err);

#endif
