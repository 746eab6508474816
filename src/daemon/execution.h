/* One process that the API started in a container (or its main process, id "main"): its journal, its state,
 * who watches.
 *
 * Reference counted: the container's list holds one while it is on it, the engine one until its last event,
 * requests one each. */
#ifndef CLOISTER_DAEMON_EXECUTION_H
#define CLOISTER_DAEMON_EXECUTION_H

#include "base/buf.h"
#include "base/error.h"
#include "container/engine.h"
#include "daemon/alarm.h"
#include "daemon/journal.h"
#include "daemon/list.h"
#include "daemon/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct cell;

enum execution_state { EXECUTION_STARTING, EXECUTION_RUNNING, EXECUTION_EXITED };

struct execution {
    struct list link;  /* cell->execs */
    struct cell *cell; /* NULL once the container has forgotten it */
    struct exec *exec; /* NULL when the engine has no more to say about it */
    unsigned refs;
    char id[33];
    char **cmd;
    enum execution_state state;
    bool is_main, counted, removed;
    int pid;
    int64_t started_ms, exited_ms;
    uint64_t begun_ns, ended_ns;
    struct exit_status status; /* when exited */
    struct error error;        /* set: it never started */
    struct journal out[2];     /* stdout, stderr */
    bool piped[2];
    enum overflow overflow;
    bool grace_over; /* of "auto": it has had a reader, or none came in time */
    struct alarm *grace_alarm;
    struct list watches, readers;
    /* stdin */
    bool stdin_open, stdin_busy;
    struct buf feed; /* text given with the request, still to be written */
    size_t fed;
};

/* Called on every event: started, output, end of output, stdin writable, exited. It may take itself off the
 * list, and nothing else. */
struct exec_watch {
    struct list link;
    void (*fn)(void *user, struct execution *x);
    /* May be NULL. Whether it has had everything of stream `i` and its client takes more now; and sending on
     * `len` bytes that have just been added to the journal at `cursor`, and are in flood_pipe() too. */
    bool (*follows)(void *user, int i);
    void (*move)(void *user, int i, uint64_t cursor, size_t len);
    void *user;
};

/* How long an "auto" stream waits for its first reader: whoever starts an exec attaches in a second request.
 */
#define EXECUTION_GRACE_MS 10000u

/* A reader that has come to `cursor` in each stream. While one is attached, "auto" streams wait for it. */
struct exec_reader {
    struct list link;
    uint64_t cursor[2];
};

extern const struct exec_events execution_events;

/* `head_only`: for results: the journal keeps the first `limit` bytes and a short tail; otherwise half and
 * half. A result has no reader to wait for. */
struct execution *execution_new(struct cell *cell, const char *id, const char *const *cmd, size_t limit,
                                bool head_only, enum overflow overflow);
void execution_ref(struct execution *x);
void execution_unref(struct execution *x);
/* Starts it in its running container. On failure the caller still drops its reference. */
int execution_start(struct execution *x, const struct exec_request *r, struct error *err);
/* The container's end: whatever had not ended ends with it; the engine's objects are gone. */
void execution_container_ended(struct execution *x, const struct exit_status *why);

void execution_watch(struct execution *x, struct exec_watch *w);
void execution_unwatch(struct exec_watch *w);
void execution_attach(struct execution *x, struct exec_reader *r);
void execution_detach(struct execution *x, struct exec_reader *r);
/* Tells the journal that the reader's cursors moved: gives the producer credit. */
void execution_read_on(struct execution *x);
size_t execution_memory(const struct execution *x);

#endif
