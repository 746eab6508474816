#include "container/container_internal.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void end_now(struct container *c);

const char *stop_reason_name(enum stop_reason r)
{
    static const char *const names[] = {"exit",       "timeout", "memory limit",   "destroy",
                                        "inactivity", "agent",   "daemon restart", "start failed"};
    return names[r];
}

struct link *container_link(struct container *c)
{
    struct link *l = c->transport ? transport_link(c->transport) : NULL;
    return l && link_alive(l) ? l : NULL;
}

struct link *container_any_link(struct container *c)
{
    return c->transport ? transport_link(c->transport) : NULL;
}

const char *container_id(const struct container *c)
{
    return c->id;
}

struct exec *container_main(struct container *c)
{
    return c->main;
}

bool container_running(const struct container *c)
{
    return c->state == CONTAINER_RUNNING;
}

void container_go_on(struct container *c)
{
    if (c->transport)
        transport_go_on(c->transport);
}

void container_list_add(struct container *c)
{
    struct engine *e = c->engine;
    c->prev = NULL;
    c->next = e->containers;
    if (c->next)
        c->next->prev = c;
    e->containers = c;
}

void container_list_remove(struct container *c)
{
    if (c->next)
        c->next->prev = c->prev;
    if (c->prev)
        c->prev->next = c->next;
    else if (c->engine->containers == c)
        c->engine->containers = c->next;
    c->next = c->prev = NULL;
}

/* True when the memory limit killed something since `before`; counted once. */
bool container_take_oom(struct container *c, uint64_t before)
{
    uint64_t now = c->sandbox ? c->engine->backend->oom_kills(c->sandbox) : 0;
    c->oom_seen = now;
    return now > before;
}

/* ---- the end ---- */

void container_handle_closed(struct container *c)
{
    if (--c->open_handles > 0)
        return;
    start_copy_free(c->spec);
    free(c);
}

static void timer_closed(uv_handle_t *h)
{
    container_handle_closed(h->data);
}

static void release(struct container *c)
{
    if (c->sandbox)
        c->engine->backend->destroy(c->sandbox);
    c->sandbox = NULL;
    uv_close((uv_handle_t *)&c->wall_timer, timer_closed);
}

static void final_status(struct container *c, struct exit_status *to)
{
    if (c->have_stop && !(c->main_ended && c->stop.reason == STOP_AGENT)) {
        *to = c->stop;
    } else if (c->main_ended) {
        *to = c->main_status;
    } else {
        memset(to, 0, sizeof *to);
        bool oom = container_take_oom(c, 0);
        to->reason = oom ? STOP_MEMORY : STOP_AGENT;
        to->code = 128 + SIGKILL;
        snprintf(to->detail, sizeof to->detail,
                 oom ? "memory limit reached" : "the container's first process died");
    }
    if (c->start_error.kind && !c->have_stop) {
        to->reason = STOP_START;
        snprintf(to->detail, sizeof to->detail, "%.255s", c->start_error.message);
    }
    if (to->reason == STOP_TIMEOUT || to->reason == STOP_DESTROY || to->reason == STOP_INACTIVITY) {
        if (!to->code)
            to->code = c->main_ended ? c->main_status.code : 128 + SIGKILL;
    }
}

static void gone(struct container *c)
{
    struct exit_status status;
    struct container_usage usage = {0};
    bool never_ready = !c->ready_told;
    if (c->state == CONTAINER_BLANK || c->state == CONTAINER_WARM)
        pool_forget(&c->engine->pool, c);
    final_status(c, &status);
    if (c->engine->backend->usage(c->sandbox, &usage, NULL) == 0)
        status.memory_peak_bytes = usage.memory_peak_bytes;
    c->state = CONTAINER_DEAD;
    transport_close(c->transport);
    c->transport = NULL;
    for (struct fs_op *op; (op = c->ops);)
        fs_container_gone(op);
    for (struct exec *x = c->execs, *next; x; x = next) {
        next = x->next;
        exec_container_gone(x, &status);
    }
    container_list_remove(c);
    if (c->blank_ready) {
        struct error e;
        error_set(&e, ERROR_GONE, "the container agent ended while it was being set up");
        c->blank_ready(c, &e);
    } else if (c->events.on_exit) {
        bool failed = never_ready && !c->have_stop;
        if (failed && !c->start_error.kind)
            error_set(&c->start_error, ERROR_GONE, "the container ended while it was starting");
        if (failed)
            status.reason = STOP_START;
        c->events.on_exit(c->user, c, &status, failed ? &c->start_error : NULL);
    }
    release(c);
}

static void on_dead(void *user, int wait_status)
{
    struct container *c = user;
    /* The last words (the main process's status) may still be in the socket: read them first. */
    if (c->transport && c->state != CONTAINER_DEAD) {
        transport_drain(c->transport);
    }
    gone(c);
}

static void end_now(struct container *c)
{
    if (c->state != CONTAINER_DEAD)
        c->state = CONTAINER_ENDING;
    c->engine->backend->kill(c->sandbox);
}

static void on_link_closed(void *user, const struct error *why)
{
    struct container *c = user;
    if (c->state == CONTAINER_DEAD)
        return;
    if (!c->main_ended && !c->have_stop) {
        c->have_stop = why->kind == ERROR_PROTOCOL;
        c->stop.reason = STOP_AGENT;
        c->stop.code = 128 + SIGKILL;
        snprintf(c->stop.detail, sizeof c->stop.detail, "%.255s", why->message);
    }
    end_now(c);
}

void container_main_exited(struct container *c, const struct exit_status *status)
{
    c->main_ended = true;
    c->main_status = *status;
    uv_timer_stop(&c->wall_timer);
    if (c->state == CONTAINER_RUNNING || c->state == CONTAINER_STARTING)
        c->state = CONTAINER_ENDING;
}

void container_destroy_as(struct container *c, enum stop_reason reason, const char *detail)
{
    if (c->state == CONTAINER_DEAD || c->have_stop)
        return;
    if (!c->main_ended) {
        c->have_stop = true;
        c->stop.reason = reason;
        snprintf(c->stop.detail, sizeof c->stop.detail, "%s", detail ? detail : "");
    }
    end_now(c);
}

void container_destroy(struct container *c, const char *detail)
{
    container_destroy_as(c, STOP_DESTROY, detail);
}

static void on_wall(uv_timer_t *t)
{
    struct container *c = t->data;
    char detail[64];
    snprintf(detail, sizeof detail, "hard timeout of %llu ms", (unsigned long long)c->wall_deadline_ms);
    container_destroy_as(c, STOP_TIMEOUT, detail);
}

/* ---- starting ---- */

static void start_failed(struct container *c, const struct error *err)
{
    if (!c->start_error.kind)
        c->start_error = *err;
    end_now(c);
}

static uint32_t us_since(uint64_t from)
{
    return (uint32_t)((clock_monotonic_ns() - from) / 1000);
}

static void tell_ready(struct container *c)
{
    c->state = CONTAINER_RUNNING;
    c->ready_told = true;
    c->timings.ready = us_since(c->t_sent);
    c->timings.total = us_since(c->t_begin);
    if (c->wall_deadline_ms)
        uv_timer_start(&c->wall_timer, on_wall, c->wall_deadline_ms, 0);
    if (c->events.on_ready)
        c->events.on_ready(c->user, c, &c->timings);
}

/* A member of the pool has come as far as it was sent. */
static void tell_pool(struct container *c, const struct error *err, enum container_state reached)
{
    void (*ready)(struct container *, const struct error *) = c->blank_ready;
    c->blank_ready = NULL;
    if (!err)
        c->state = reached;
    ready(c, err);
    if (err)
        end_now(c);
}

void container_main_started(struct container *c)
{
    if (c->state == CONTAINER_STARTING)
        tell_ready(c);
}

void container_main_failed(struct container *c, const struct error *err)
{
    if (c->main && !c->main->exited)
        exec_start_failed(c->main, err);
    start_failed(c, err);
}

static void on_start(void *user, const struct error *err, struct cbor_reader value)
{
    struct container *c = user;
    struct cbor_reader v = value, at;
    uint32_t process;
    uint64_t pid = 0;
    struct error bad;
    if (c->state != CONTAINER_STARTING && c->state != CONTAINER_WARMING)
        return; /* it was ended meanwhile */
    if (err && !c->blank_ready) {
        container_main_failed(c, err);
        return;
    }
    if (c->blank_ready) {
        tell_pool(c, err, CONTAINER_WARM);
        return;
    }
    if (c->held) {
        tell_ready(c);
        return;
    }
    if (!cbor_map_find(&v, "process", &at) || link_get_capability(&at, &process) < 0 ||
        cbor_map_uint(&v, "pid", INT32_MAX, 0, &pid) < 0) {
        error_set(&bad, ERROR_PROTOCOL, "the agent answered \"start\" without a process");
        start_failed(c, &bad);
        return;
    }
    tell_ready(c);
    exec_started(c->main, process, (int)pid);
}

static void put_limits(const struct engine *e, const struct limits *l, struct buf *b)
{
    bool rlimit_pids = !e->cgroups.has[CGROUP_PIDS], watch = !e->cgroups.has[CGROUP_MEMORY];
    cbor_put_text(b, "limits");
    cbor_put_map(b, 1u + rlimit_pids + watch);
    cbor_put_text(b, "openFiles");
    cbor_put_uint(b, l->open_files ? l->open_files : LIMIT_DEFAULT_OPEN_FILES);
    if (rlimit_pids) {
        cbor_put_text(b, "pids");
        cbor_put_uint(b, l->pids ? l->pids : LIMIT_DEFAULT_PIDS);
    }
    if (watch) {
        cbor_put_text(b, "memoryWatch");
        cbor_put_uint(b, l->memory_bytes ? l->memory_bytes : LIMIT_DEFAULT_MEMORY);
    }
}

static int send_start(struct container *c, struct error *err)
{
    const struct start_spec *spec = start_copy_spec(c->spec);
    struct buf args, all;
    int fds[AGENT_MAX_START_FDS], nfds = 0, r;
    unsigned pairs = 0;
    uint64_t t = clock_monotonic_ns();
    buf_init(&args, 2u << 20);
    buf_init(&all, 3u << 20);
    r = c->engine->backend->prepare(c->sandbox, spec, &args, &pairs, fds, AGENT_MAX_START_FDS, &nfds, err);
    c->timings.root = us_since(t);
    if (r == 0 && !c->held)
        r = exec_open_streams(c->main, &spec->main, err);
    if (r == 0) {
        cbor_put_map(&all, pairs + 2u + !c->held);
        buf_append(&all, args.data, args.len);
        cbor_put_text(&all, "hostname");
        cbor_put_string(&all, spec->hostname ? spec->hostname : "cloister");
        put_limits(c->engine, &spec->limits, &all);
        if (!c->held) {
            cbor_put_text(&all, "main");
            r = exec_put_spec(c->main, &spec->main, &all, err);
        }
    }
    if (r == 0 && (all.failed || all.len > (1u << 20) - 64))
        r = error_field(err, "cmd", "cmd: arguments and environment together take more than 1 MiB");
    if (r == 0) {
        transport_flush(c->transport);
        c->t_sent = clock_monotonic_ns();
        c->state = c->blank_ready ? CONTAINER_WARMING : CONTAINER_STARTING;
        if (!link_call(transport_link(c->transport), 0, "start", all.data, all.len, on_start, c))
            r = error_set(err, ERROR_GONE, "the container agent has ended");
        else
            r = transport_send_with_fds(c->transport, fds, nfds, err);
    }
    c->engine->backend->settle(c->sandbox);
    while (nfds > 0)
        close(fds[--nfds]);
    buf_free(&args);
    buf_free(&all);
    return r;
}

static void begin_start(struct container *c)
{
    struct error err = {0};
    if (send_start(c, &err) < 0)
        start_failed(c, &err);
}

static void on_setup(void *user, const struct error *err, struct cbor_reader value)
{
    struct container *c = user;
    if (c->state != CONTAINER_SETTING_UP && c->state != CONTAINER_STARTING)
        return; /* it was ended meanwhile */
    c->timings.agent = us_since(c->t_setup);
    if (err) {
        struct error wrapped = *err;
        error_wrap(&wrapped, "cannot set up a container");
        if (c->blank_ready)
            tell_pool(c, &wrapped, CONTAINER_BLANK);
        else
            container_main_failed(c, &wrapped);
        return;
    }
    if (c->blank_ready)
        tell_pool(c, NULL, CONTAINER_BLANK);
}

/* What the agent has to say, for the owner's log. Blanks have no owner yet. */
static void on_log_frame(void *user, int level, int64_t ms, const char *text)
{
    struct container *c = transport_user(user);
    if (c->events.on_log)
        c->events.on_log(c->user, c, text);
}

static struct container *container_new(struct engine *e, struct error *err)
{
    static const struct sandbox_events sandbox_events = {.dead = on_dead};
    struct link_config link = {.side = LINK_HOST, .log = on_log_frame};
    struct container *c = calloc(1, sizeof *c);
    uint64_t t = clock_monotonic_ns();
    if (!c) {
        error_oom(err);
        return NULL;
    }
    c->engine = e;
    engine_random_hex(c->id, CONTAINER_ID_LEN);
    if (e->backend->create(e, c->id, &c->sandbox, err) < 0) {
        free(c);
        return NULL;
    }
    c->timings.namespaces = us_since(t);
    uv_timer_init(e->loop, &c->wall_timer);
    c->wall_timer.data = c;
    c->open_handles = 1;
    struct transport_config tc = {.set = &e->transports,
                                  .fd = e->backend->link_fd(c->sandbox),
                                  .link = &link,
                                  .closed = on_link_closed,
                                  .user = c};
    c->transport = transport_new(&tc, err);
    if (!c->transport) {
        close(tc.fd);
        release(c);
        return NULL;
    }
    e->backend->watch(c->sandbox, &sandbox_events, c);
    container_list_add(c);
    c->t_setup = clock_monotonic_ns();
    link_call(transport_link(c->transport), 0, "setup", "\xa0", 1, on_setup, c);
    transport_flush(c->transport); /* the agent works on that while we make the root */
    return c;
}

int container_blank_new(struct engine *e, void (*ready)(struct container *c, const struct error *err),
                        struct container **ret, struct error *err)
{
    struct container *c = container_new(e, err);
    if (!c)
        return -1;
    c->blank_ready = ready;
    *ret = c;
    return 0;
}

int container_warm_up(struct container *c, const struct start_copy *image,
                      void (*ready)(struct container *c, const struct error *err))
{
    struct error err = {0};
    c->spec = start_copy_new(start_copy_spec(image));
    if (!c->spec)
        return -1;
    c->held = true;
    c->blank_ready = ready;
    if (send_start(c, &err) == 0)
        return 0;
    if (c->state == CONTAINER_BLANK) {
        start_copy_free(c->spec);
        c->spec = NULL;
        c->held = false;
        c->blank_ready = NULL;
        return -1;
    }
    tell_pool(c, &err, CONTAINER_WARM);
    return 0;
}

/* From the pool or new. */
static struct container *obtain(struct engine *e, const struct start_spec *spec, struct error *err)
{
    struct container *c = pool_take(&e->pool, spec);
    if (!c)
        return container_new(e, err);
    memset(&c->timings, 0, sizeof c->timings);
    c->timings.from_pool = true;
    return c;
}

/* The root is there: limits and name, then the main process. */
static void begin_warm(struct container *c)
{
    const struct start_spec *spec = start_copy_spec(c->spec);
    struct error err = {0};
    uint64_t t = clock_monotonic_ns();
    int r = c->engine->backend->adjust(c->sandbox, &spec->limits, spec->hostname, &err);
    c->timings.root = us_since(t);
    c->t_sent = clock_monotonic_ns();
    c->state = CONTAINER_STARTING;
    if (r < 0 || exec_send_main(c, &err) < 0)
        start_failed(c, &err);
}

static int check_start(const struct start_spec *spec, struct error *err)
{
    if (spec->hostname && (!*spec->hostname || strlen(spec->hostname) > 64))
        return error_field(err, "hostname", "hostname: expected 1 to 64 bytes");
    if (spec->mount_count > 32)
        return error_field(err, "mounts", "mounts: at most 32");
    return exec_check_spec(&spec->main, err);
}

int container_start(struct engine *e, const struct start_spec *spec, const struct container_events *events,
                    void *user, const struct exec_events *main_events, void *main_user,
                    struct container **ret, struct error *err)
{
    uint64_t begin = clock_monotonic_ns();
    if (check_start(spec, err) < 0)
        return -1;
    struct start_copy *copy = start_copy_new(spec);
    if (!copy)
        return error_oom(err);
    struct container *c = obtain(e, spec, err);
    if (!c) {
        start_copy_free(copy);
        return -1;
    }
    start_copy_free(c->spec);
    c->spec = copy;
    c->t_begin = begin;
    c->held = spec->hold; /* a warm one was held so far */
    c->wall_deadline_ms = spec->limits.wall_ms;
    c->main = exec_new(c, main_events, main_user);
    if (!c->main) {
        error_oom(err);
        container_list_remove(c);
        transport_close(c->transport);
        c->transport = NULL;
        release(c);
        return -1;
    }
    c->events = *events;
    c->user = user;
    *ret = c;
    /* No event comes before this function returns: an answer needs a turn of the loop, and a failure here
     * ends the sandbox, whose death tells it. */
    if (c->state == CONTAINER_WARM)
        begin_warm(c);
    else /* a new one still sets up: the root is built meanwhile, and "start" waits for the agent in the link
          */
        begin_start(c);
    if (spec->mount_count == 0)
        pool_learn(&e->pool, spec);
    pool_poke(&e->pool);
    return 0;
}

/* ---- for the owner ---- */

int container_signal(struct container *c, int signal, struct error *err)
{
    if (c->state != CONTAINER_RUNNING && c->state != CONTAINER_STARTING)
        return error_set(err, ERROR_STATE, "the container is not running");
    return exec_kill(c->main, signal, err);
}

int container_signal_all(struct container *c, int signal, struct error *err)
{
    struct link *l = container_link(c);
    struct buf args;
    if (signal < 1 || signal > 64)
        return error_field(err, "signal", "signal: expected 1 to 64, got %d", signal);
    if (c->state != CONTAINER_RUNNING || !l)
        return error_set(err, ERROR_STATE, "the container is not running");
    buf_init(&args, 0);
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "signal");
    cbor_put_uint(&args, (uint64_t)signal);
    uint32_t call = link_call(l, 0, "signalAll", args.data, args.len, NULL, NULL);
    buf_free(&args);
    return call ? 0 : error_set(err, ERROR_LIMIT, "too many operations are in progress in this container");
}

int container_freeze(struct container *c, bool on, struct error *err)
{
    if (c->state != CONTAINER_RUNNING)
        return error_set(err, ERROR_STATE, "the container is not running");
    return c->engine->backend->freeze(c->sandbox, on, err);
}

int container_upper(struct container *c, const char **ret_dir, int *ret_userns, struct error *err)
{
    if (c->state != CONTAINER_RUNNING)
        return error_set(err, ERROR_STATE, "the container is not running");
    return c->engine->backend->upper(c->sandbox, ret_dir, ret_userns, err);
}

int container_usage(struct container *c, struct container_usage *ret, struct error *err)
{
    if (!c->sandbox)
        return error_set(err, ERROR_STATE, "the container is not running");
    return c->engine->backend->usage(c->sandbox, ret, err);
}

void container_abandon(struct container *c)
{
    memset(&c->events, 0, sizeof c->events);
    for (struct exec *x = c->execs; x; x = x->next) {
        memset(&x->events, 0, sizeof x->events);
        x->released = true;
    }
    c->blank_ready = NULL;
    c->have_stop = true;
    c->stop.reason = STOP_DESTROY;
    gone(c);
}
