#include "daemon/cell.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/launch.h"
#include "daemon/registry.h"
#include "daemon/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cell *cell_new(struct daemon *d, const char *name)
{
    struct cell *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->daemon = d;
    c->refs = 1;
    c->created_ms = clock_wall_ms();
    snprintf(c->name, sizeof c->name, "%s", name);
    list_init(&c->link);
    list_init(&c->execs);
    list_init(&c->waits);
    list_init(&c->unsaved);
    return c;
}

void cell_ref(struct cell *c)
{
    c->refs++;
}

static void forget_execs(struct cell *c)
{
    list_each(it, tmp, &c->execs) cell_remove_exec(c, list_entry(it, struct execution, link));
    c->main = NULL;
}

void cell_unref(struct cell *c)
{
    if (--c->refs > 0)
        return;
    list_del(&c->unsaved);
    forget_execs(c);
    cell_lifetime_reset(c);
    json_decref(c->spec);
    json_decref(c->labels);
    free(c->image);
    free(c->image_id);
    free(c->cwd);
    free(c->user);
    free(c->entrypoint);
    free(c->env);
    free(c);
}

void cell_await(struct cell *c, struct cell_wait *w)
{
    list_append(&c->waits, &w->link);
}

void cell_unwait(struct cell_wait *w)
{
    list_del(&w->link);
}

static void tell(struct cell *c)
{
    list_each(it, tmp, &c->waits)
    {
        struct cell_wait *w = list_entry(it, struct cell_wait, link);
        w->fn(w->user, c);
    }
}

/* ---- execs ---- */

struct execution *cell_find_exec(struct cell *c, const char *id)
{
    list_each(it, tmp, &c->execs)
    {
        struct execution *x = list_entry(it, struct execution, link);
        if (strcmp(x->id, id) == 0)
            return x;
    }
    return NULL;
}

int cell_add_exec(struct cell *c, struct execution *x, struct error *err)
{
    if (c->running_execs >= CELL_MAX_RUNNING_EXECS)
        return error_set(err, ERROR_LIMIT, "container %s runs %u execs already, the most it may", c->name,
                         CELL_MAX_RUNNING_EXECS);
    list_append(&c->execs, &x->link);
    if (!x->is_main) {
        c->running_execs++;
        x->counted = true;
        cell_busy(c);
    }
    return 0;
}

/* Finished execs are kept for a while, so that a client that lost its connection can still ask; the oldest go
 * first. */
static void evict_finished(struct cell *c)
{
    size_t memory = 0;
    unsigned finished = 0;
    for (struct list *it = c->execs.prev, *before; it != &c->execs; it = before) {
        struct execution *x = list_entry(it, struct execution, link);
        before = it->prev;
        if (x->is_main || x->state != EXECUTION_EXITED)
            continue;
        memory += execution_memory(x);
        if (++finished > CELL_MAX_FINISHED_EXECS || memory > CELL_MAX_JOURNALS)
            cell_remove_exec(c, x);
    }
    c->finished_execs = finished < CELL_MAX_FINISHED_EXECS ? finished : CELL_MAX_FINISHED_EXECS;
}

void cell_exec_ended(struct cell *c, struct execution *x)
{
    if (!x->counted)
        return;
    x->counted = false;
    c->running_execs--;
    if (++c->finished_execs > CELL_MAX_FINISHED_EXECS)
        evict_finished(c);
    cell_idle(c);
}

void cell_remove_exec(struct cell *c, struct execution *x)
{
    if (x->removed)
        return;
    x->removed = true;
    if (x->counted) {
        x->counted = false;
        c->running_execs--;
        cell_idle(c);
    }
    list_del(&x->link);
    if (x->exec && !x->is_main) {
        exec_release(x->exec);
        x->exec = NULL;
        execution_unref(x);
    }
    x->cell = NULL;
    execution_unref(x);
}

/* ---- starting ---- */

int cell_start(struct cell *c, struct start_request *r, struct error *err)
{
    if (c->state != CELL_STOPPED) {
        spec_start_free(r);
        return error_set(err, ERROR_STATE, "container %s is running already", c->name);
    }
    error_clear(&c->start_error);
    forget_execs(c);
    json_t *old_spec = c->spec, *old_labels = c->labels;
    c->spec = json_incref(r->body);
    c->labels = r->labels ? json_incref((json_t *)r->labels) : NULL;
    c->state = CELL_STARTING;
    int result = launch_begin(c, r, err);
    if (result < 0) {
        json_t *spec = c->spec, *labels = c->labels;
        c->state = CELL_STOPPED;
        c->spec = old_spec;
        c->labels = old_labels;
        old_spec = spec;
        old_labels = labels;
    }
    json_decref(old_spec);
    json_decref(old_labels);
    return result;
}

static void note_stop(struct cell *c, const struct exit_status *status)
{
    memset(&c->stop, 0, sizeof c->stop);
    enum stop_reason reason = status->reason;
    if (c->idled_out && reason == STOP_EXIT)
        reason = STOP_INACTIVITY; /* SIGTERM was enough */
    snprintf(c->stop.reason, sizeof c->stop.reason, "%s", stop_reason_name(reason));
    snprintf(c->stop.detail, sizeof c->stop.detail, "%s", status->detail);
    c->stop.by_itself = reason == STOP_EXIT;
    c->stop.code = status->code;
    c->stop.signal = status->signal;
    c->stopped_ms = clock_wall_ms();
}

static void became_stopped(struct cell *c)
{
    c->state = CELL_STOPPED;
    c->container = NULL;
    launch_free(c->launch);
    c->launch = NULL;
    cell_lifetime_reset(c);
    free(c->env);
    c->env = NULL;
    log_info("container %s: stopped: %s%s%s", c->name, c->stop.reason, c->stop.detail[0] ? ": " : "",
             c->stop.detail);
    if (!c->forgotten && c->ran)
        state_put(c->daemon->state_db, c);
    cell_ref(c);
    tell(c);
    cell_unref(c);
}

void cell_start_failed(struct cell *c, const struct error *err)
{
    struct exit_status status = {.reason = STOP_START};
    snprintf(status.detail, sizeof status.detail, "%.255s", err->message);
    c->start_error = *err;
    note_stop(c, &status);
    became_stopped(c);
}

static void on_ready(void *user, struct container *container, const struct stage_timings *t)
{
    struct cell *c = user;
    c->state = CELL_RUNNING;
    c->ran = true;
    c->timed = true;
    c->timings = *t;
    log_info("container %s: running: image %s, %u us%s", c->name, c->image, t->total,
             t->from_pool ? " (from pool)" : "");
    cell_set_inactivity(c, c->inactivity_ms);
    cell_ref(c);
    tell(c);
    cell_unref(c);
}

static void on_exit_status(void *user, struct container *container, const struct exit_status *status,
                           const struct error *err)
{
    struct cell *c = user;
    list_each(it, tmp, &c->execs) execution_container_ended(list_entry(it, struct execution, link), status);
    if (err) {
        cell_start_failed(c, err);
    } else {
        if (c->state == CELL_STARTING)
            error_set(&c->start_error, ERROR_GONE, "container %s was ended while it started: %s", c->name,
                      status->detail[0] ? status->detail : stop_reason_name(status->reason));
        note_stop(c, status);
        became_stopped(c);
    }
    cell_unref(c);
}

static void on_log(void *user, struct container *container, const char *text)
{
    struct cell *c = user;
    log_info("container %s: %s", c->name, text);
}

const struct container_events cell_container_events = {
    .on_ready = on_ready, .on_exit = on_exit_status, .on_log = on_log};

void cell_destroy(struct cell *c, const char *reason)
{
    if (c->container)
        container_destroy(c->container, reason);
    else if (c->launch)
        launch_cancel(c->launch, reason);
}
