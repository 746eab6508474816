#include "app/host.h"

#include "app/compile.h"
#include "app/host_internal.h"
#include "app/loader.h"
#include "app/outgoing.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process that lived so long was no failure. */
#define STEADY_MS 5000u
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MAX_MS 5000u
#define HOST_MEMORY ((uint64_t)1 << 30) /* the operator's own program, with many objects in it */

static void start(struct host *h);

/* ---- who waits for it ---- */

static void unlink_waiter(struct host_waiter *w)
{
    struct host *h = w->host;
    *(w->prev ? &w->prev->next : &h->first) = w->next;
    *(w->next ? &w->next->prev : &h->last) = w->prev;
    w->host = NULL;
}

/* Those who come while this runs wait for the next time. */
static void tell(struct host *h, struct link *l, const struct error *err)
{
    struct error why = err ? *err : (struct error){0};
    struct host_waiter *last = h->last;
    for (bool more = h->first != NULL; more && h->first;) {
        struct host_waiter *w = h->first;
        more = w != last;
        unlink_waiter(w);
        w->fn(w->user, l, err ? &why : NULL);
        free(w);
    }
}

void host_forget(struct host_waiter *w)
{
    if (!w || !w->host)
        return;
    unlink_waiter(w);
    free(w);
}

/* ---- a process and its end ---- */

static void on_timer_closed(uv_handle_t *h)
{
    free(h);
}

static void stop_retry(struct host *h)
{
    if (h->retry)
        uv_close((uv_handle_t *)h->retry, on_timer_closed);
    h->retry = NULL;
}

static void on_retry(uv_timer_t *t)
{
    struct host *h = t->data;
    stop_retry(h);
    start(h);
}

static void count_failure(struct host *h, const struct error *why)
{
    uint64_t delay = (uint64_t)BACKOFF_FIRST_MS << (h->failures < 6 ? h->failures : 6);
    h->failures++;
    h->why = *why;
    h->not_before = uv_now(h->loop) + (delay < BACKOFF_MAX_MS ? delay : BACKOFF_MAX_MS);
}

static void free_process(struct process *p)
{
    loader_free(p->loader);
    outgoing_user_free(p->outgoing);
    worker_release_later(p->worker);
    free(p);
}

/* Calls of the process that are under way have failed with its link already. */
static void on_ended(void *user, const struct error *why)
{
    struct process *p = user;
    struct host *h = p->host;
    struct error reason = *why;
    if (!h)
        return; /* end_process() is at it */
    bool steady = p->up && uv_now(h->loop) - p->up_ms >= STEADY_MS, up = p->up;
    h->process = NULL;
    if (p->session)
        h->config.objects->end(p->session, &reason);
    free_process(p);
    log_error("worker %s: %s", h->name, reason.message);
    if (steady)
        h->failures = 0;
    count_failure(h, &reason);
    if (!up)
        tell(h, NULL, &reason);
    else if (h->first)
        start(h);
}

static void end_process(struct host *h, const char *reason)
{
    struct process *p = h->process;
    struct error why = {0};
    if (!p)
        return;
    error_set(&why, ERROR_GONE, "%s", reason);
    h->process = NULL;
    p->host = NULL;
    if (p->session)
        h->config.objects->end(p->session, &why);
    p->session = NULL;
    worker_end(p->worker, &why); /* so that the link holds nothing of ours any more */
    free_process(p);
}

static void on_log(void *user, int level, int64_t ms, const char *text)
{
    struct process *p = user;
    if (p->host && p->host->config.log)
        p->host->config.log(p->host->config.user, p->host->name, NULL, level, ms, text);
}

static void on_dynamic_log(void *user, const char *worker, int level, int64_t ms, const char *text)
{
    struct process *p = user;
    if (p->host && p->host->config.log)
        p->host->config.log(p->host->config.user, p->host->name, worker, level, ms, text);
}

/* The output gate: see objects.h. */
static bool on_admit(void *user, const struct link_object_ops *ops, const char *method)
{
    struct process *p = user;
    struct error err = {0};
    bool object = ops == &host_bootstrap && strcmp(method, "object") == 0;
    int r = p->session ? p->host->config.objects->admit(p->session, ops, object, &err) : 1;
    if (r < 0)
        host_not_kept(p->host, &err);
    return r > 0;
}

static void on_left(void *user)
{
    struct process *p = user;
    if (p->session)
        p->host->config.objects->left(p->session);
}

/* ---- the start ---- */

static void on_init(void *user, const struct error *err, struct cbor_reader value)
{
    struct process *p = user;
    struct host *h = p->host;
    if (!h || (err && !worker_alive(p->worker)))
        return; /* on_ended() comes next */
    if (err) {
        struct error why = *err;
        log_error("worker %s: %s", h->name, why.message);
        count_failure(h, &why);
        end_process(h, "the Worker's main module failed");
        tell(h, NULL, &why);
        return;
    }
    p->up = true;
    p->up_ms = uv_now(h->loop);
    tell(h, worker_link(p->worker), NULL);
}

static int open_parts(struct process *p, struct link *l, struct error *err)
{
    struct host *h = p->host;
    struct loader_config lc = {.workers = h->config.workers,
                               .compiler = h->config.compiler,
                               .outgoing = h->config.outgoing,
                               .link = l,
                               .log = on_dynamic_log,
                               .user = p};
    p->loader = loader_new(&lc);
    p->outgoing = outgoing_user_new(h->config.outgoing, REACH_ALL);
    if (!p->loader || !p->outgoing)
        return error_oom(err);
    if (h->objects) {
        p->session = h->config.objects->begin(h->objects, l, err);
        if (!p->session)
            return -1;
    }
    return 0;
}

static void begin(struct process *p)
{
    struct host *h = p->host;
    struct error err = {0};
    struct init init = {0};
    struct link *l = worker_link(p->worker);
    host_fill_init(h, &init);
    if (open_parts(p, l, &err) == 0 && init_call(l, &init, on_init, p, &err) == 0)
        return;
    count_failure(h, &err);
    end_process(h, err.message);
    tell(h, NULL, &err);
}

static void on_ready(void *user)
{
    begin(user);
}

static void start_process(struct host *h)
{
    struct error err = {0};
    struct process *p = calloc(1, sizeof *p);
    struct worker_config config = {
        .kind = ZYGOTE_WORKER,
        .name = h->name,
        .bootstrap = &host_bootstrap,
        .bootstrap_object = p,
        .memory_bytes = HOST_MEMORY,
        .cpu_ms = h->app->cpu_ms,
        .ready = on_ready,
        .ended = on_ended,
        .log = on_log,
        .admit = on_admit,
        .left = on_left,
        .user = p,
    };
    if (p) {
        p->host = h;
        p->worker = worker_start(h->config.workers, &config);
    }
    if (!p || !p->worker) {
        free(p);
        error_set(&err, ERROR_INTERNAL, "cannot start the Worker's process");
        count_failure(h, &err);
        tell(h, NULL, &err);
        return;
    }
    h->process = p;
    if (worker_link(p->worker))
        begin(p);
}

static void on_compiled(void *user, const struct error *err)
{
    struct host *h = user;
    h->batch = NULL;
    if (err) {
        struct error why = *err;
        log_error("worker %s: %s", h->name, why.message);
        count_failure(h, &why);
        tell(h, NULL, &why);
        return;
    }
    h->compiled = true;
    start_process(h);
}

static void hold_back(struct host *h)
{
    uv_timer_t *t = malloc(sizeof *t);
    if (!t) {
        tell(h, NULL, &h->why);
        return;
    }
    uv_timer_init(h->loop, t);
    t->data = h;
    h->retry = t;
    uv_timer_start(t, on_retry, h->not_before - uv_now(h->loop), 0);
}

static void start(struct host *h)
{
    struct error err = {0};
    if (h->process || h->batch || h->retry)
        return;
    if (h->refused) {
        tell(h, NULL, &h->why);
        return;
    }
    if (!h->app)
        return; /* it is still being bundled: host_run() or host_refuse() goes on */
    if (h->failures > 0 && uv_now(h->loop) < h->not_before) {
        hold_back(h);
        return;
    }
    if (h->compiled) {
        start_process(h);
        return;
    }
    int r = compile(h->config.compiler, &h->modules, on_compiled, h, &h->batch, &err);
    if (r != 0)
        on_compiled(h, r < 0 ? &err : NULL);
}

void host_wait(struct host *h, host_up_fn fn, void *user, struct host_waiter **ret)
{
    struct host_waiter *w = calloc(1, sizeof *w);
    struct error err = {0};
    if (ret)
        *ret = w;
    if (!w) {
        error_oom(&err);
        fn(user, NULL, &err);
        return;
    }
    *w = (struct host_waiter){.host = h, .fn = fn, .user = user, .prev = h->last};
    *(h->last ? &h->last->next : &h->first) = w;
    h->last = w;
    start(h);
}

struct link *host_link(const struct host *h)
{
    return h->process && h->process->up && worker_alive(h->process->worker) ? worker_link(h->process->worker)
                                                                            : NULL;
}

bool host_running(const struct host *h)
{
    return host_link(h) != NULL;
}

const char *host_name(const struct host *h)
{
    return h->name;
}

void host_go_on(struct host *h)
{
    if (h->process)
        worker_go_on(h->process->worker);
}

void host_not_kept(struct host *h, const struct error *why)
{
    if (!h->process)
        return;
    log_error("worker %s: what it wrote cannot be kept: %s", h->name, why->message);
    worker_end(h->process->worker, why);
}

static void on_idle_ended(void *user, const struct error *err, struct cbor_reader value)
{
    struct process *p = user;
    p->ending_idle = 0;
}

void host_end_idle(struct host *h)
{
    struct link *l = host_link(h);
    struct buf none;
    if (!l || h->process->ending_idle)
        return;
    buf_init(&none, 16);
    cbor_put_null(&none);
    h->process->ending_idle = link_call(l, 0, "endIdle", none.data, none.len, on_idle_ended, h->process);
    buf_free(&none);
}

/* ---- what it runs ---- */

static void forget_code(struct host *h)
{
    compile_cancel(h->batch);
    h->batch = NULL;
    modules_free(&h->modules);
    h->compiled = false;
    stop_retry(h);
    h->failures = 0;
}

static int set_classes(struct host *h, const struct app_config *config, struct error *err)
{
    struct object_class *classes = NULL;
    size_t count = 0;
    if (host_classes(config, &classes, &count, err) < 0)
        return -1;
    int r = 0;
    if (h->objects) {
        r = h->config.objects->reconfigure(h->objects, classes, count, err);
    } else if (count > 0 && h->config.objects) {
        h->config.objects_config.host = h;
        h->config.objects_config.worker = h->name;
        h->config.objects_config.classes = classes;
        h->config.objects_config.class_count = count;
        r = h->config.objects->open(&h->objects, &h->config.objects_config, err);
    }
    if (r < 0) {
        host_classes_free(classes, count);
        return -1;
    }
    host_classes_free(h->classes, h->class_count);
    h->classes = classes;
    h->class_count = count;
    return 0;
}

int host_run(struct host *h, const struct app_config *config, struct modules *modules, struct error *err)
{
    forget_code(h);
    end_process(h, "The Worker was ended because its code has changed.");
    if (set_classes(h, config, err) < 0)
        return -1;
    h->app = config;
    h->modules = *modules;
    *modules = (struct modules){0};
    h->refused = false;
    if (h->first)
        start(h);
    return 0;
}

void host_refuse(struct host *h, const struct error *why)
{
    forget_code(h);
    end_process(h, "The Worker was ended because its code has changed.");
    h->refused = true;
    h->app = NULL;
    h->why = *why;
    tell(h, NULL, why);
}

struct host *host_new(const struct host_config *config, struct error *err)
{
    struct host *h = calloc(1, sizeof *h);
    if (!h || !(h->name = strdup(config->name))) {
        free(h);
        error_oom(err);
        return NULL;
    }
    h->config = *config;
    h->config.name = h->name;
    h->loop = workers_loop(config->workers);
    return h;
}

void host_free(struct host *h)
{
    struct error why = {0};
    if (!h)
        return;
    error_set(&why, ERROR_GONE, "the application ends");
    forget_code(h);
    h->refused = true;
    h->why = why;
    end_process(h, why.message);
    tell(h, NULL, &why);
    if (h->objects)
        h->config.objects->close(h->objects);
    host_classes_free(h->classes, h->class_count);
    free(h->name);
    free(h);
}
