#include "daemon/execution.h"

#include "base/clock.h"
#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/flood.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of a cut result's stream that is kept for the curious. */
#define RESULT_TAIL ((size_t)16 << 10)

/* So much of a flood passes at once. */
#define FLOOD_MAX ((size_t)256 << 10)

struct execution *execution_new(struct cell *cell, const char *id, const char *const *cmd, size_t limit,
                                bool head_only, enum overflow overflow)
{
    struct execution *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->cmd = strv_copy(cmd);
    if (!x->cmd) {
        free(x);
        return NULL;
    }
    size_t head = head_only ? limit : limit / 2, tail = head_only ? RESULT_TAIL : limit - limit / 2;
    for (int i = 0; i < 2; i++)
        journal_init(&x->out[i], head, tail < limit ? tail : limit);
    snprintf(x->id, sizeof x->id, "%s", id);
    list_init(&x->link);
    list_init(&x->watches);
    list_init(&x->readers);
    buf_init(&x->feed, 0);
    x->cell = cell;
    x->refs = 1;
    x->overflow = overflow;
    x->grace_over = head_only;
    x->begun_ns = clock_monotonic_ns();
    x->started_ms = clock_wall_ms();
    return x;
}

void execution_ref(struct execution *x)
{
    x->refs++;
}

void execution_unref(struct execution *x)
{
    if (!x || --x->refs > 0)
        return;
    alarm_drop(&x->grace_alarm);
    journal_free(&x->out[0]);
    journal_free(&x->out[1]);
    buf_free(&x->feed);
    free(x->cmd);
    free(x);
}

static void tell(struct execution *x)
{
    execution_ref(x);
    list_each(it, tmp, &x->watches)
    {
        struct exec_watch *w = list_entry(it, struct exec_watch, link);
        w->fn(w->user, x);
    }
    execution_unref(x);
}

void execution_watch(struct execution *x, struct exec_watch *w)
{
    list_append(&x->watches, &w->link);
}

void execution_unwatch(struct exec_watch *w)
{
    list_del(&w->link);
}

/* ---- output ---- */

/* How long its first reader may still take to come. A main process is not kept waiting: mostly nobody reads
 * it. */
static uint64_t grace_left_ms(const struct execution *x)
{
    if (x->overflow != OVERFLOW_AUTO || x->grace_over || x->is_main)
        return 0;
    uint64_t age_ms = (clock_monotonic_ns() - x->begun_ns) / 1000000;
    return age_ms < EXECUTION_GRACE_MS ? EXECUTION_GRACE_MS - age_ms : 0;
}

static bool blocks(const struct execution *x)
{
    return x->overflow == OVERFLOW_BLOCK ||
           (x->overflow == OVERFLOW_AUTO && (!list_empty(&x->readers) || grace_left_ms(x) > 0));
}

/* Up to where everybody who reads has read; without readers, up to where anybody ever did. */
static uint64_t read_floor(const struct execution *x, int i)
{
    uint64_t floor = UINT64_MAX;
    list_each(it, tmp, &x->readers)
    {
        const struct exec_reader *r = list_entry(it, struct exec_reader, link);
        floor = r->cursor[i] < floor ? r->cursor[i] : floor;
    }
    return floor == UINT64_MAX ? x->out[i].floor : floor;
}

static void give_credit(struct execution *x, int i, size_t n)
{
    if (n > 0 && x->exec)
        exec_consumed(x->exec, i + 1, n);
}

void execution_read_on(struct execution *x)
{
    for (int i = 0; i < 2; i++)
        give_credit(x, i, journal_read_to(&x->out[i], read_floor(x, i), blocks(x)));
}

static void on_grace_end(void *user)
{
    struct execution *x = user;
    x->grace_over = true;
    execution_read_on(x);
}

/* Bytes are held back for a reader that may never come: only now a timer is worth having. */
static void limit_grace(struct execution *x, uint64_t ms)
{
    if (!x->grace_alarm && x->cell)
        alarm_set(&x->grace_alarm, x->cell->daemon->loop, ms, on_grace_end, x);
}

void execution_attach(struct execution *x, struct exec_reader *r)
{
    x->grace_over = true;
    alarm_drop(&x->grace_alarm);
    list_append(&x->readers, &r->link);
    execution_read_on(x);
}

void execution_detach(struct execution *x, struct exec_reader *r)
{
    list_del(&r->link);
    execution_read_on(x);
}

size_t execution_memory(const struct execution *x)
{
    return sizeof *x + journal_memory(&x->out[0]) + journal_memory(&x->out[1]) + x->feed.cap;
}

/* ---- what the engine tells ---- */

static bool output_open(const struct execution *x)
{
    return (x->piped[0] && !x->out[0].ended) || (x->piped[1] && !x->out[1].ended);
}

/* The engine keeps an exec until it has exited and its output has ended; a main process until its container
 * ends. */
static void maybe_forget_exec(struct execution *x)
{
    if (x->state != EXECUTION_EXITED || output_open(x) || x->is_main || !x->exec)
        return;
    x->exec = NULL;
    execution_unref(x);
}

static void on_started(void *user, struct exec *exec, int pid)
{
    struct execution *x = user;
    x->exec = exec;
    x->pid = pid;
    x->state = EXECUTION_RUNNING;
    tell(x);
}

static struct exec_watch *follower(struct execution *x, int i)
{
    list_each(it, tmp, &x->watches)
    {
        struct exec_watch *w = list_entry(it, struct exec_watch, link);
        if (w->follows && w->follows(w->user, i))
            return w;
    }
    return NULL;
}

/* UNTRUSTED INPUT: bytes only, kept and passed on. */
static void on_output(void *user, struct exec *exec, int fd, const uint8_t *data, size_t len)
{
    struct execution *x = user;
    int i = fd == 2;
    uint64_t grace_ms = grace_left_ms(x);
    give_credit(x, i, journal_append(&x->out[i], data, len, blocks(x)));
    if (grace_ms > 0 && x->out[i].unacked > 0)
        limit_grace(x, grace_ms);
    tell(x);
}

/* Output in large pieces, where a client waits for just that: see flood.h. UNTRUSTED INPUT, as above. */
static size_t on_flood(void *user, struct exec *exec, int fd, int from, size_t len)
{
    static uint8_t copy[FLOOD_MAX];
    struct execution *x = user;
    int i = fd == 2;
    struct exec_watch *w = blocks(x) ? follower(x, i) : NULL;
    size_t n = w ? flood_take(from, copy, len < FLOOD_MAX ? len : FLOOD_MAX) : 0;
    if (n == 0)
        return 0;
    uint64_t cursor = x->out[i].total;
    give_credit(x, i, journal_append(&x->out[i], copy, n, true));
    w->move(w->user, i, cursor, n);
    flood_clear();
    tell(x);
    return n;
}

static void on_output_end(void *user, struct exec *exec, int fd)
{
    struct execution *x = user;
    x->out[fd == 2].ended = true;
    tell(x);
    maybe_forget_exec(x);
}

static void feed_stdin(struct execution *x)
{
    while (x->exec && x->stdin_open && x->fed < x->feed.len) {
        ssize_t n = exec_write(x->exec, x->feed.data + x->fed, x->feed.len - x->fed);
        if (n == 0)
            return;
        if (n < 0) {
            x->stdin_open = false;
            break;
        }
        x->fed += (size_t)n;
    }
    if (x->exec && x->stdin_open)
        exec_close_stdin(x->exec);
    x->stdin_open = x->stdin_busy = false;
    buf_free(&x->feed);
}

static void on_writable(void *user, struct exec *exec)
{
    struct execution *x = user;
    if (x->feed.len > 0)
        feed_stdin(x);
    else
        tell(x);
}

static void finish(struct execution *x, const struct exit_status *status, const struct error *err)
{
    x->state = EXECUTION_EXITED;
    x->status = *status;
    x->exited_ms = clock_wall_ms();
    x->ended_ns = clock_monotonic_ns();
    x->stdin_open = false;
    buf_free(&x->feed);
    if (err)
        x->error = *err;
    if (x->cell)
        cell_exec_ended(x->cell, x);
    tell(x);
}

/* Inside this callback the engine still uses its object, so nobody may release it here: it is hidden
 * meanwhile. */
static void on_exit_status(void *user, struct exec *exec, const struct exit_status *status,
                           const struct error *err)
{
    struct execution *x = user;
    execution_ref(x);
    x->exec = NULL;
    if (err)
        x->out[0].ended = x->out[1].ended = true;
    finish(x, status, err);
    bool open = output_open(x);
    if (x->is_main || (open && !x->removed)) {
        x->exec = exec;
    } else {
        if (open)
            exec_release(exec);
        execution_unref(x); /* the engine's */
    }
    execution_unref(x);
}

const struct exec_events execution_events = {
    .on_started = on_started,
    .on_output = on_output,
    .on_flood = on_flood,
    .on_output_end = on_output_end,
    .on_writable = on_writable,
    .on_exit = on_exit_status,
};

void execution_container_ended(struct execution *x, const struct exit_status *why)
{
    execution_ref(x);
    x->out[0].ended = x->out[1].ended = true;
    if (x->state != EXECUTION_EXITED)
        finish(x, why, NULL);
    else
        tell(x);
    if (x->exec) {
        x->exec = NULL;
        execution_unref(x);
    }
    execution_unref(x);
}

/* ---- starting ---- */

int execution_start(struct execution *x, const struct exec_request *r, struct error *err)
{
    struct cell *c = x->cell;
    char **env = env_merge(c->env, r->env);
    if (!env)
        return error_oom(err);
    struct exec_spec spec = {
        .argv = r->cmd,
        .env = (const char *const *)env,
        .cwd = r->cwd ? r->cwd : c->cwd,
        .user = r->user ? r->user : c->user,
        .in = r->stdin_pipe || r->stdin_data,
        .out = r->out,
        .err = r->err,
        .combined = r->combined,
        .pty = r->pty,
        .cols = r->cols,
        .rows = r->rows,
        .timeout_ms = r->timeout_ms,
    };
    x->piped[0] = r->out;
    x->piped[1] = r->err;
    x->out[0].ended = !r->out;
    x->out[1].ended = !r->err;
    x->stdin_open = spec.in || spec.pty;
    int result = r->stdin_data ? buf_append(&x->feed, r->stdin_data, r->stdin_len) : 0;
    if (result < 0)
        error_oom(err);
    else
        result = container_exec(c->container, &spec, &execution_events, x, &x->exec, err);
    free(env);
    if (result < 0)
        return -1;
    execution_ref(x); /* the engine's */
    if (r->stdin_data) {
        x->stdin_busy = true;
        feed_stdin(x);
    }
    return 0;
}
