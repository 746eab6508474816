/* `cloister run`: one container, driven in this process. Shared by the run_*.c files only.
 *
 * The course of a run (struct run, `stage`):
 *   RUN_STARTING   the container is being made; a signal ends it
 *   RUN_COPY_IN    it is held: the copies go in one after the other
 *   RUN_RUNNING    the command exists; signals go to it, stdio flows
 *   RUN_COPY_OUT   it has ended; the container is kept until the copies are out
 *   RUN_ENDING     the container is being ended
 *   RUN_ENDED      the container is gone; output that waits for a slow reader is still flushed
 * Stages only go forward. */
#ifndef CLOISTER_CLI_RUN_H
#define CLOISTER_CLI_RUN_H

#include "base/buf.h"
#include "base/paths.h"
#include "cli/environment.h"
#include "cli/limit_options.h"
#include "cli/stream.h"
#include "container/engine.h"
#include "image/image.h"

#define RUN_CAPTURE_MAX ((size_t)1 << 20) /* of each output stream, with --json */

enum run_stage { RUN_STARTING, RUN_COPY_IN, RUN_RUNNING, RUN_COPY_OUT, RUN_ENDING, RUN_ENDED };

/* A SRC:DST option taken apart; owned. */
struct copy_spec {
    char *from, *to;
};

/* What was asked for; filled by run_request_read(). */
struct run_request {
    const struct options *options;
    const char *image, *snapshot, *name, *hostname, *cwd, *user;
    bool tty, no_stdin, json, timings, quiet;
    struct limit_options limits;
    struct copy_spec *in, *out;
    size_t in_count, out_count;
    struct paths paths;
};

/* What it takes to do it; filled by run_prepare(). */
struct run_plan {
    struct image *image;
    struct environment env;
    const char **layers;
    size_t layer_count;
    char **snapshot_layers; /* owned; also in `layers` */
    int *snapshot_holds;    /* locks on them */
    size_t snapshot_layer_count;
    const char *const *argv;
    char **image_argv; /* owned array, where the image's own command is run */
};

/* One of the command's output streams. */
struct run_sink {
    struct run *run;
    int number; /* 1 or 2 */
    struct stream stream;
    uv_poll_t poll;
    bool poll_open, polling;
    bool through_memory; /* the hold took too long */
    bool holds;          /* asked to wait with what comes next until it can be moved on */
    struct buf pending;  /* what the reader has not taken yet, from `off` on */
    size_t off;
    struct buf captured; /* with --json */
    uint64_t bytes;
    uint64_t broken_ns; /* when its reader went away; 0: it did not */
};

struct run_source {
    struct run *run;
    struct stream stream;
    uv_poll_t poll;
    bool poll_open, open;
    uint8_t *chunk;
    size_t have, off;
};

struct run_copy; /* run_copy.c */

#define RUN_SIGNALS 7

struct run {
    struct run_request request;
    struct run_plan plan;
    uv_loop_t loop;
    bool loop_open;
    struct engine *engine;
    struct container *container; /* NULL before and after */
    struct exec *command;        /* NULL before it runs and after it has ended */
    enum run_stage stage;
    bool as_exec; /* the command is an exec in a held container (--copy-out) */

    struct run_sink out, err;
    struct run_source in;
    uv_signal_t signals[RUN_SIGNALS];
    bool signals_open;
    uv_timer_t timer; /* gives up on a reader that never reads */
    uv_timer_t hold;  /* ends the wait of a sink that holds */
    bool timer_open;
    unsigned interrupts; /* SIGINT in quick succession */
    uint64_t interrupted_ns;

    struct run_copy *copy;
    size_t copied; /* of the present direction */

    uint64_t started_ns, ended_ns;
    struct stage_timings timings;
    bool have_timings;
    struct exit_status status; /* of the command, or why the container ended before */
    bool have_status;
    int stopped_by; /* a signal that ended it before the command ran, or that ends the wait for a reader */
    bool output_refused; /* ended because nobody reads its output */
    struct error error;  /* ours; kind NONE: none */
};

/* run_request.c */
int run_request_read(struct run_request *ret, const struct options *o, struct error *err);
void run_request_free(struct run_request *q);

/* run_plan.c: image, environment, layers, command. */
int run_plan_make(struct run_plan *ret, const struct run_request *q, struct error *err);
void run_plan_free(struct run_plan *p);

/* run_stdio.c */
int run_stdio_open(struct run *r, struct error *err);
void run_stdio_close(struct run *r);
void run_sink_push(struct run_sink *s, const uint8_t *data, size_t len);
size_t run_sink_move(struct run_sink *s, int from,
                     size_t len);             /* as push, from a socket; bytes moved, or FLOOD_LATER */
bool run_sink_idle(const struct run_sink *s); /* nothing is pending */
void run_source_begin(struct run *r);
void run_source_continue(struct run *r);
void run_source_end(struct run *r);

/* run_signals.c */
int run_signals_open(struct run *r, struct error *err);
void run_signals_close(struct run *r);

/* run_copy.c: run_copy_next() begins the next copy of the present direction; when none is left, or one
 * failed, it calls run_copies_done(). */
void run_copy_next(struct run *r);
void run_copy_cancel(struct run *r);

/* run_events.c */
int run_start(struct run *r, struct error *err);
void run_copies_done(struct run *r, const struct error *err);
void run_end(struct run *r, const char *why); /* ends the container; the stage goes to RUN_ENDING */
void run_settle(struct run *r); /* stops the loop when the container is gone and output is flushed */

/* run_report.c: says how it went; the exit code. */
int run_report(struct run *r);

#endif
