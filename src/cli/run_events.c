/* The course of a run: what the engine says, and what follows from it. */
#include "base/clock.h"
#include "cli/run.h"
#include "cli/tty.h"

/* How long the rest of the output may wait for its reader after a time limit. */
#define FLUSH_AFTER_TIMEOUT_MS 2000

static void start_command(struct run *r);

/* ---- the command ---- */

static void on_started(void *user, struct exec *x, int pid)
{
    struct run *r = user;
    r->command = x;
    r->stage = RUN_RUNNING;
    if (r->request.tty)
        tty_raw();
    run_source_begin(r);
}

static void on_output(void *user, struct exec *x, int fd, const uint8_t *data, size_t len)
{
    struct run *r = user;
    r->command = x;
    run_sink_push(fd == 2 ? &r->err : &r->out, data, len);
}

static size_t on_flood(void *user, struct exec *x, int fd, int from, size_t len)
{
    struct run *r = user;
    r->command = x;
    return run_sink_move(fd == 2 ? &r->err : &r->out, from, len);
}

static void on_writable(void *user, struct exec *x)
{
    run_source_continue(user);
}

static void on_command_exit(void *user, struct exec *x, const struct exit_status *status,
                            const struct error *err)
{
    struct run *r = user;
    r->command = NULL;
    run_source_end(r);
    tty_restore();
    r->ended_ns = clock_monotonic_ns();
    if (err && r->error.kind == ERROR_NONE)
        r->error = *err;
    if (!err) {
        r->status = *status;
        r->have_status = true;
    }
    if (r->as_exec && r->container && r->stage <= RUN_RUNNING) {
        if (err) {
            run_end(r, "the command did not start");
            return;
        }
        r->stage = RUN_COPY_OUT;
        r->copied = 0;
        run_copy_next(r);
    }
}

static const struct exec_events command_events = {
    .on_started = on_started,
    .on_output = on_output,
    .on_flood = on_flood,
    .on_writable = on_writable,
    .on_exit = on_command_exit,
};

/* With --copy-out the command is an exec, and the main process never begins. */
static void on_no_main_exit(void *user, struct exec *x, const struct exit_status *status,
                            const struct error *err)
{
}

static const struct exec_events no_main_events = {.on_exit = on_no_main_exit};

/* ---- the container ---- */

static void on_ready(void *user, struct container *c, const struct stage_timings *t)
{
    struct run *r = user;
    r->container = c;
    r->timings = *t;
    r->have_timings = true;
    if (r->stage != RUN_STARTING)
        return;
    if (r->request.in_count > 0) {
        r->stage = RUN_COPY_IN;
        run_copy_next(r);
    } else if (r->as_exec) {
        start_command(r);
    }
}

static void on_container_exit(void *user, struct container *c, const struct exit_status *status,
                              const struct error *err)
{
    struct run *r = user;
    run_copy_cancel(r);
    r->container = NULL;
    r->command = NULL;
    run_source_end(r);
    tty_restore();
    r->stage = RUN_ENDED;
    if (!r->ended_ns)
        r->ended_ns = clock_monotonic_ns();
    if (err && r->error.kind == ERROR_NONE)
        r->error = *err;
    /* Why the container ended says more than how its command did, unless we ended it. */
    bool ours = status && (status->reason == STOP_DESTROY || status->reason == STOP_EXIT);
    if (!err && status && (!r->have_status || !ours)) {
        r->status = *status;
        r->have_status = true;
    }
    run_settle(r);
}

static const struct container_events container_events = {.on_ready = on_ready, .on_exit = on_container_exit};

/* ---- steps ---- */

static void fill_command(struct run *r, struct exec_spec *s)
{
    const struct run_plan *p = &r->plan;
    *s = (struct exec_spec){
        .argv = p->argv,
        .env = (const char *const *)p->env.items,
        .cwd = r->request.cwd ? r->request.cwd : p->image->workdir,
        .user = r->request.user     ? r->request.user
                : p->image->user[0] ? p->image->user
                                    : NULL,
        .in = r->in.open,
        .out = true,
        .err = !r->request.tty,
        .pty = r->request.tty,
    };
    if (s->pty)
        tty_size(&s->cols, &s->rows);
    if (r->as_exec)
        s->timeout_ms = r->request.limits.timeout_ms;
}

/* In a held container: lets the main process begin, or begins the command beside it. */
static void start_command(struct run *r)
{
    struct error err = {0};
    struct exec_spec spec;
    fill_command(r, &spec);
    int result = r->as_exec ? container_exec(r->container, &spec, &command_events, r, &r->command, &err)
                            : container_release_main(r->container, &err);
    if (result == 0)
        return;
    r->error = err;
    run_end(r, "the command could not be started");
}

void run_copies_done(struct run *r, const struct error *err)
{
    if (err && r->error.kind == ERROR_NONE)
        r->error = *err;
    if (r->stage == RUN_COPY_IN && !err)
        start_command(r);
    else
        run_end(r, "done");
}

void run_end(struct run *r, const char *why)
{
    if (r->stage < RUN_ENDING) {
        r->stage = RUN_ENDING;
        run_copy_cancel(r);
        if (r->container)
            container_destroy(r->container, why);
    }
}

static void on_flush_timeout(uv_timer_t *timer)
{
    struct run *r = timer->data;
    uv_stop(&r->loop);
}

void run_settle(struct run *r)
{
    if (r->stage != RUN_ENDED)
        return;
    if ((run_sink_idle(&r->out) && run_sink_idle(&r->err)) || r->stopped_by)
        uv_stop(&r->loop);
    else if (r->have_status && r->status.reason == STOP_TIMEOUT && !uv_is_active((uv_handle_t *)&r->timer))
        uv_timer_start(&r->timer, on_flush_timeout, FLUSH_AFTER_TIMEOUT_MS, 0);
}

static void fill_limits(const struct run *r, struct limits *l)
{
    const struct limit_options *o = &r->request.limits;
    *l = (struct limits){
        .memory_bytes = o->memory_bytes,
        .cpu_milli = o->cpu_milli,
        .pids = o->pids,
        .disk_bytes = o->disk_bytes,
        .open_files = o->open_files,
        .wall_ms = r->as_exec ? 0 : o->timeout_ms,
    };
}

int run_start(struct run *r, struct error *err)
{
    const struct run_request *q = &r->request;
    r->as_exec = q->out_count > 0;
    struct start_spec spec = {
        .layers = r->plan.layers,
        .layer_count = r->plan.layer_count,
        .host_usr = r->plan.image->host_usr,
        .hostname = q->hostname ? q->hostname
                    : q->name   ? q->name
                                : "cloister",
        .hold = q->in_count > 0 || r->as_exec,
    };
    fill_limits(r, &spec.limits);
    fill_command(r, &spec.main);
    r->started_ns = clock_monotonic_ns();
    return container_start(r->engine, &spec, &container_events, r,
                           r->as_exec ? &no_main_events : &command_events, r, &r->container, err);
}
