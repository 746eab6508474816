#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/json_text.h"
#include "cli/message.h"
#include "cli/run.h"
#include "cli/tty.h"

#include <signal.h>
#include <string.h>

/* A limit that was asked for and cannot be enforced here is refused, never dropped. */
static int limits_check(const struct run *r, struct error *err)
{
    const struct limit_options *l = &r->request.limits;
    const struct grade *g = engine_grade(r->engine);
    static const char remedy[] = "leave it out, run as root, or delegate cgroups (see \"cloister doctor\")";
    if (l->cpu_milli && g->cpu == ENFORCE_NONE)
        return error_set(err, ERROR_UNSUPPORTED, "--cpus: this machine cannot limit CPUs for you; %s",
                         remedy);
    if (l->memory_bytes && g->memory == ENFORCE_NONE)
        return error_set(err, ERROR_UNSUPPORTED, "--memory: this machine cannot limit memory for you; %s",
                         remedy);
    if (l->pids && g->pids == ENFORCE_NONE)
        return error_set(err, ERROR_UNSUPPORTED, "--pids: this machine cannot limit processes for you; %s",
                         remedy);
    return 0;
}

static int engine_begin(struct run *r, struct error *err)
{
    struct engine_config config = {
        .loop = &r->loop,
        .data_dir = r->request.paths.data_dir,
        .run_dir = r->request.paths.run_dir,
        .last = true,
    };
    int failed = uv_loop_init(&r->loop);
    if (failed)
        return error_set(err, ERROR_INTERNAL, "cannot make an event loop: %s", uv_strerror(failed));
    r->loop_open = true;
    uv_timer_init(&r->loop, &r->timer);
    r->timer.data = r;
    uv_timer_init(&r->loop, &r->hold);
    r->hold.data = r;
    r->timer_open = true;
    /* Stdio before the engine: that changes our namespaces, and /proc/self/fd may be closed to us afterwards.
     */
    if (run_stdio_open(r, err) < 0 || run_signals_open(r, err) < 0 ||
        engine_open(&r->engine, &config, err) < 0)
        return -1;
    return limits_check(r, err);
}

static void close_loop(struct run *r)
{
    if (!r->loop_open)
        return;
    if (r->timer_open) {
        uv_close((uv_handle_t *)&r->timer, NULL);
        uv_close((uv_handle_t *)&r->hold, NULL);
    }
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_loop_close(&r->loop);
}

static int run_through(struct run *r)
{
    struct error err = {0};
    if (run_plan_make(&r->plan, &r->request, &err) < 0 || engine_begin(r, &err) < 0 || run_start(r, &err) < 0)
        r->error = err;
    else
        uv_run(&r->loop, UV_RUN_DEFAULT);
    tty_restore();
    return run_report(r);
}

static int usage_failed(const struct options *o, const struct error *err)
{
    if (options_given(o, "json"))
        json_text_error(err);
    return message_usage("run", err);
}

int cmd_run(const struct options *o)
{
    struct error err = {0};
    struct run *r = calloc(1, sizeof *r);
    if (!r) {
        error_oom(&err);
        return message_fail(&err);
    }
    int code;
    signal(SIGPIPE, SIG_IGN);
    if (run_request_read(&r->request, o, &err) < 0) {
        code = usage_failed(o, &err);
    } else {
        code = run_through(r);
        run_copy_cancel(r);
        if (r->engine)
            engine_reap_orphans(r->engine,
                                false); /* what a run that was killed outright could not remove itself */
        engine_close(r->engine);
        run_signals_close(r);
        run_stdio_close(r);
        close_loop(r);
        run_plan_free(&r->plan);
    }
    run_request_free(&r->request);
    free(r);
    return code;
}
