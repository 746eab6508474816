#include "container/container_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 65536u
#define EMPTY_MAP "\xa0" /* CBOR */
/* A stream that has brought so much already gets a wider window, so that its writer waits for us less. */
#define WIDEN_AFTER (256u << 10)
#define WIDEN_BY (256u << 10)

static void maybe_free(struct exec *x);

struct exec *exec_new(struct container *c, const struct exec_events *events, void *user)
{
    struct exec *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->container = c;
    if (events)
        x->events = *events;
    x->user = user;
    x->next = c->execs;
    if (x->next)
        x->next->prev = x;
    c->execs = x;
    return x;
}

/* ---- checking and encoding ---- */

static int check_list(const char *const *list, const char *field, size_t max_bytes, struct error *err)
{
    size_t bytes = 0, n = 0;
    for (; list && list[n]; n++) {
        bytes += strlen(list[n]) + 1;
        if (bytes > max_bytes || n >= MAX_ARGS)
            return error_field(err, field, "%s: at most %zu bytes and %u strings together", field, max_bytes,
                               MAX_ARGS);
    }
    return 0;
}

int exec_check_spec(const struct exec_spec *s, struct error *err)
{
    if (!s->argv || !s->argv[0] || !*s->argv[0])
        return error_field(err, "cmd", "cmd: expected a program and its arguments");
    if (check_list(s->argv, "cmd", AGENT_MAX_ARGV_BYTES, err) < 0 ||
        check_list(s->env, "env", AGENT_MAX_ENV_BYTES, err) < 0)
        return -1;
    if (s->cwd && (s->cwd[0] != '/' || strlen(s->cwd) >= AGENT_MAX_PATH))
        return error_field(err, "cwd", "cwd: expected an absolute path of at most %u bytes",
                           AGENT_MAX_PATH - 1);
    if (s->combined && s->err)
        return error_field(err, "stderr", "stderr: cannot be piped and combined at once");
    if (s->pty && (!s->cols || !s->rows))
        return error_field(err, "pty", "pty: columns and rows are 1 to 65535");
    return 0;
}

static void put_list(struct buf *b, const char *key, const char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    cbor_put_text(b, key);
    cbor_put_array(b, n);
    for (size_t i = 0; i < n; i++)
        cbor_put_string(b, list[i]);
}

static void put_stream(struct buf *b, const char *key, uint32_t id)
{
    if (!id)
        return;
    cbor_put_text(b, key);
    cbor_put_uint(b, id);
}

int exec_put_spec(struct exec *x, const struct exec_spec *s, struct buf *b, struct error *err)
{
    uint64_t pairs =
        2u + !!s->cwd + !!s->user + !!x->in + !!x->out + !!x->err + s->combined + s->pty + x->tree;
    cbor_put_map(b, pairs);
    put_list(b, "argv", s->argv);
    put_list(b, "env", s->env);
    if (s->cwd) {
        cbor_put_text(b, "cwd");
        cbor_put_string(b, s->cwd);
    }
    if (s->user) {
        cbor_put_text(b, "user");
        cbor_put_string(b, s->user);
    }
    put_stream(b, "stdin", x->in);
    put_stream(b, "stdout", x->out);
    put_stream(b, "stderr", x->err);
    if (s->combined) {
        cbor_put_text(b, "combined");
        cbor_put_bool(b, true);
    }
    if (s->pty) {
        cbor_put_text(b, "pty");
        cbor_put_map(b, 2);
        cbor_put_text(b, "cols");
        cbor_put_uint(b, s->cols);
        cbor_put_text(b, "rows");
        cbor_put_uint(b, s->rows);
    }
    if (x->tree) {
        cbor_put_text(b, "tree");
        cbor_put_bool(b, true);
    }
    return b->failed ? error_set(err, ERROR_LIMIT, "the command is too long") : 0;
}

/* ---- streams ---- */

static int stream_fd(const struct exec *x, uint32_t id)
{
    return id == x->err ? 2 : 1;
}

static void maybe_widen(struct exec *x, uint32_t id, size_t len)
{
    size_t *seen = &x->seen[stream_fd(x, id) - 1];
    struct link *l = container_link(x->container);
    if (*seen >= WIDEN_AFTER || !l)
        return;
    *seen += len;
    if (*seen >= WIDEN_AFTER)
        link_stream_widen(l, id, WIDEN_BY);
}

static void on_data(void *user, uint32_t id, const uint8_t *data, size_t len)
{
    struct exec *x = user;
    maybe_widen(x, id, len);
    if (x->released || !x->events.on_output) {
        struct link *l = container_link(x->container);
        if (l)
            link_stream_consumed(l, id, len);
        return;
    }
    x->events.on_output(x->user, x, stream_fd(x, id), data, len);
}

_Static_assert(FLOOD_LATER == LINK_TAKE_LATER, "on_take() passes it on");

static size_t on_take(void *user, uint32_t id, int from, size_t len)
{
    struct exec *x = user;
    if (x->released || !x->events.on_flood)
        return 0;
    size_t n = x->events.on_flood(x->user, x, stream_fd(x, id), from, len);
    if (n != FLOOD_LATER)
        maybe_widen(x, id, n);
    return n;
}

static void output_ended(struct exec *x, uint32_t id)
{
    int fd = stream_fd(x, id);
    *(fd == 2 ? &x->piped_err : &x->piped_out) = false;
    *(fd == 2 ? &x->err : &x->out) = 0;
    if (!x->released && x->events.on_output_end)
        x->events.on_output_end(x->user, x, fd);
    maybe_free(x);
}

static void on_end(void *user, uint32_t id)
{
    output_ended(user, id);
}

static void on_reset(void *user, uint32_t id, const struct error *why)
{
    output_ended(user, id);
}

static void on_stdin_reset(void *user, uint32_t id, const struct error *why)
{
    struct exec *x = user;
    x->in = 0;
    if (x->stdin_blocked && !x->released && x->events.on_writable)
        x->events.on_writable(x->user, x); /* the next exec_write says that it is closed */
}

static void on_stdin_writable(void *user, uint32_t id)
{
    struct exec *x = user;
    x->stdin_blocked = false;
    if (!x->released && x->events.on_writable)
        x->events.on_writable(x->user, x);
}

static const struct link_stream_ops output_ops = {
    .data = on_data, .take = on_take, .end = on_end, .reset = on_reset};
static const struct link_stream_ops input_ops = {.reset = on_stdin_reset, .writable = on_stdin_writable};

static int open_output(struct exec *x, struct link *l, uint32_t *ret_id, bool *ret_open, struct error *err)
{
    uint32_t id = link_stream_new(l);
    if (link_stream_open_receive(l, id, &output_ops, x, err) < 0)
        return -1;
    *ret_id = id;
    *ret_open = true;
    return 0;
}

int exec_open_streams(struct exec *x, const struct exec_spec *s, struct error *err)
{
    struct link *l = container_link(x->container);
    if (!l)
        return error_set(err, ERROR_STATE, "the container is not running");
    if ((s->out || s->pty) && open_output(x, l, &x->out, &x->piped_out, err) < 0)
        return -1;
    if (s->err && !s->pty && open_output(x, l, &x->err, &x->piped_err, err) < 0)
        return -1;
    if (s->in || s->pty) {
        uint32_t id = link_stream_new(l);
        if (link_stream_open_send(l, id, &input_ops, x, err) < 0)
            return -1;
        x->in = id;
    }
    x->tree = s->timeout_ms > 0;
    return 0;
}

/* ---- the deadline ---- */

static void on_deadline(uv_timer_t *t)
{
    struct exec *x = t->data;
    struct link *l = container_link(x->container);
    x->timed_out = true;
    if (l && x->process)
        link_call(l, x->process, "killTree", EMPTY_MAP, 1, NULL, NULL);
}

static void timer_closed(uv_handle_t *h)
{
    struct exec *x = h->data;
    struct container *c = x->container;
    x->have_timer = false;
    maybe_free(x);
    container_handle_closed(c);
}

void exec_set_timeout(struct exec *x, uint64_t ms)
{
    if (!ms)
        return;
    uv_timer_init(x->container->engine->loop, &x->timer);
    x->timer.data = x;
    x->have_timer = true;
    x->container->open_handles++;
    uv_timer_start(&x->timer, on_deadline, ms, 0);
}

static void stop_timer(struct exec *x)
{
    if (x->have_timer && !uv_is_closing((uv_handle_t *)&x->timer))
        uv_close((uv_handle_t *)&x->timer, timer_closed);
}

/* ---- the end ---- */

static void unlink_exec(struct exec *x)
{
    if (x->next)
        x->next->prev = x->prev;
    if (x->prev)
        x->prev->next = x->next;
    else
        x->container->execs = x->next;
}

static void close_streams(struct exec *x)
{
    struct link *l = container_any_link(x->container);
    uint32_t ids[] = {x->in, x->out, x->err};
    for (int i = 0; l && i < 3; i++)
        if (ids[i])
            link_stream_reset(l, ids[i], NULL);
    x->in = x->out = x->err = 0;
    x->piped_out = x->piped_err = false;
}

static void maybe_free(struct exec *x)
{
    if (!x->exited || x->piped_out || x->piped_err || x->have_timer)
        return;
    /* A main process stays known until its container goes. */
    if (x->container->main == x && x->container->state != CONTAINER_DEAD)
        return;
    struct link *l = container_link(x->container);
    if (l && x->in)
        link_stream_end(l, x->in);
    else
        close_streams(x); /* a dying link still knows them */
    if (l && x->process)
        link_drop(l, x->process);
    if (x->container->main == x)
        x->container->main = NULL;
    unlink_exec(x);
    free(x);
}

static void finish(struct exec *x, const struct error *err)
{
    struct container *c = x->container;
    if (x->exited)
        return;
    x->exited = true;
    stop_timer(x);
    bool is_main = c->main == x;
    struct exit_status status = x->status;
    if (!x->released && x->events.on_exit)
        x->events.on_exit(x->user, x, &x->status, err);
    maybe_free(x);
    if (is_main && !err)
        container_main_exited(c, &status);
}

static void read_status(struct exec *x, struct cbor_reader value)
{
    uint64_t code = 0, signal = 0;
    bool watched = false; /* the agent's own memory watch struck */
    struct cbor_reader v = value;
    cbor_map_bool(&v, "memoryLimit", false, &watched);
    cbor_map_uint(&v, "code", 255, 0, &code);
    cbor_map_uint(&v, "signal", 64, 0, &signal);
    cbor_map_uint(&v, "cpuUs", UINT64_MAX, 0, &x->status.cpu_us);
    cbor_map_uint(&v, "maxRssKib", UINT64_MAX, 0, &x->status.max_rss_kib);
    x->status.signal = (int)signal;
    x->status.code = signal ? 128 + (int)signal : (int)code;
    x->status.reason = STOP_EXIT;
    if (x->timed_out) {
        x->status.reason = STOP_TIMEOUT;
        snprintf(x->status.detail, sizeof x->status.detail, "the deadline passed");
    } else if (watched || (signal == 9 && container_take_oom(x->container, x->oom_before))) {
        x->status.reason = STOP_MEMORY;
        snprintf(x->status.detail, sizeof x->status.detail, "memory limit reached");
    }
}

static void on_wait(void *user, const struct error *err, struct cbor_reader value)
{
    struct exec *x = user;
    x->call = 0;
    if (err && !container_link(x->container)) /* the container's end tells the reason */
        return;
    if (err) {
        x->status.reason = STOP_AGENT;
        x->status.code = 128 + 9;
        snprintf(x->status.detail, sizeof x->status.detail, "%.255s", err->message);
        finish(x, NULL);
        return;
    }
    read_status(x, value);
    finish(x, NULL);
}

void exec_started(struct exec *x, uint32_t process, int pid)
{
    struct link *l = container_link(x->container);
    x->started = true;
    x->process = process;
    x->pid = pid;
    x->oom_before = x->container->oom_seen;
    if (!l)
        return;
    if (x->early_signal)
        exec_kill(x, x->early_signal, NULL);
    x->call = link_call(l, process, "wait", EMPTY_MAP, 1, on_wait, x);
    if (x->timed_out)
        on_deadline(&x->timer);
    if (!x->released && x->events.on_started)
        x->events.on_started(x->user, x, pid);
}

void exec_start_failed(struct exec *x, const struct error *err)
{
    close_streams(x);
    x->status.reason = STOP_START;
    snprintf(x->status.detail, sizeof x->status.detail, "%.255s", err->message);
    finish(x, err);
}

void exec_container_gone(struct exec *x, const struct exit_status *why)
{
    x->in = x->out = x->err = 0;
    if (!x->exited) {
        struct error gone;
        bool started = x->started;
        x->status = *why;
        if (!started && x->container->start_error.kind)
            gone = x->container->start_error;
        else if (!started)
            error_set(&gone, ERROR_GONE, "the container ended (%s) before the process started",
                      stop_reason_name(why->reason));
        x->piped_out = x->piped_err = false;
        finish(x, started ? NULL : &gone);
        return;
    }
    x->piped_out = x->piped_err = false;
    maybe_free(x);
}

/* ---- for the owner ---- */

static void failed_to_start(struct exec *x, const struct error *err)
{
    if (x->container->main == x)
        container_main_failed(x->container, err);
    else
        exec_start_failed(x, err);
}

static void on_exec(void *user, const struct error *err, struct cbor_reader value)
{
    struct exec *x = user;
    struct cbor_reader v = value, at;
    uint64_t pid = 0;
    uint32_t process;
    struct error bad;
    x->call = 0;
    if (err && !container_link(x->container)) /* the container's end tells the reason */
        return;
    if (err) {
        failed_to_start(x, err);
        return;
    }
    if (!cbor_map_find(&v, "process", &at) || link_get_capability(&at, &process) < 0 ||
        cbor_map_uint(&v, "pid", INT32_MAX, 0, &pid) < 0) {
        error_set(&bad, ERROR_PROTOCOL, "the agent answered \"exec\" without a process");
        failed_to_start(x, &bad);
        return;
    }
    if (x->container->main == x)
        container_main_started(x->container);
    exec_started(x, process, (int)pid);
}

static int send_exec(struct exec *x, const char *method, const struct exec_spec *spec, struct error *err)
{
    struct link *l = container_link(x->container);
    struct buf args;
    buf_init(&args, 4u << 20);
    int r = exec_open_streams(x, spec, err);
    if (r == 0)
        r = exec_put_spec(x, spec, &args, err);
    if (r == 0 && args.len > (1u << 20) - 64)
        r = error_field(err, "cmd", "cmd: arguments and environment together take more than 1 MiB");
    if (r == 0) {
        x->call = link_call(l, 0, method, args.data, args.len, on_exec, x);
        if (!x->call)
            r = error_set(err, ERROR_LIMIT, "too many operations are in progress in this container");
    }
    buf_free(&args);
    if (r == 0)
        exec_set_timeout(x, spec->timeout_ms);
    return r;
}

int container_exec(struct container *c, const struct exec_spec *spec, const struct exec_events *events,
                   void *user, struct exec **ret, struct error *err)
{
    if (c->state != CONTAINER_RUNNING || !container_link(c))
        return error_set(err, ERROR_STATE, "the container is not running");
    if (exec_check_spec(spec, err) < 0)
        return -1;
    struct exec *x = exec_new(c, events, user);
    if (!x)
        return error_oom(err);
    if (send_exec(x, "exec", spec, err) < 0) {
        close_streams(x);
        unlink_exec(x);
        free(x);
        return -1;
    }
    *ret = x;
    return 0;
}

int exec_send_main(struct container *c, struct error *err)
{
    return send_exec(c->main, "main", &start_copy_spec(c->spec)->main, err);
}

int container_release_main(struct container *c, struct error *err)
{
    if (!c->held || c->state != CONTAINER_RUNNING || !container_link(c))
        return error_set(err, ERROR_STATE, "the container is not held");
    c->held = false;
    return exec_send_main(c, err);
}

ssize_t exec_write(struct exec *x, const void *data, size_t len)
{
    struct link *l = container_link(x->container);
    if (!l || !x->in || x->stdin_closing)
        return -1;
    size_t n = link_stream_writable(l, x->in);
    if (n > len)
        n = len;
    if (n > 0 && link_stream_write(l, x->in, data, n) < 0)
        return -1;
    x->stdin_blocked = n < len;
    return (ssize_t)n;
}

void exec_close_stdin(struct exec *x)
{
    struct link *l = container_link(x->container);
    x->stdin_closing = true;
    if (l && x->in)
        link_stream_end(l, x->in);
    x->in = 0;
}

void exec_consumed(struct exec *x, int fd, size_t n)
{
    struct link *l = container_link(x->container);
    uint32_t id = fd == 2 ? x->err : x->out;
    if (l && id && n)
        link_stream_consumed(l, id, n);
}

static int call_process(struct exec *x, const char *method, const struct buf *args, struct error *err)
{
    struct link *l = container_link(x->container);
    if (!l || x->exited)
        return error_set(err, ERROR_STATE, "the process has ended");
    if (!x->process)
        return error_set(err, ERROR_STATE, "the process has not started yet");
    uint32_t call = link_call(l, x->process, method, args ? args->data : (const uint8_t *)EMPTY_MAP,
                              args ? args->len : 1, NULL, NULL);
    return call ? 0 : error_set(err, ERROR_LIMIT, "too many operations are in progress in this container");
}

int exec_kill(struct exec *x, int signal, struct error *err)
{
    struct buf args;
    if (signal < 1 || signal > 64)
        return error_field(err, "signal", "signal: expected 1 to 64, got %d", signal);
    if (!x->process && !x->exited) {
        x->early_signal = signal;
        return 0;
    }
    buf_init(&args, 0);
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "signal");
    cbor_put_uint(&args, (uint64_t)signal);
    int r = call_process(x, "kill", &args, err);
    buf_free(&args);
    return r;
}

int exec_kill_tree(struct exec *x, struct error *err)
{
    return x->tree ? call_process(x, "killTree", NULL, err) : exec_kill(x, 9, err);
}

int exec_resize(struct exec *x, uint16_t cols, uint16_t rows, struct error *err)
{
    struct buf args;
    if (!cols || !rows)
        return error_field(err, "pty", "pty: columns and rows are 1 to 65535");
    buf_init(&args, 0);
    cbor_put_map(&args, 2);
    cbor_put_text(&args, "cols");
    cbor_put_uint(&args, cols);
    cbor_put_text(&args, "rows");
    cbor_put_uint(&args, rows);
    int r = call_process(x, "resize", &args, err);
    buf_free(&args);
    return r;
}

int exec_pid(const struct exec *x)
{
    return x->pid;
}

void exec_release(struct exec *x)
{
    struct link *l = container_link(x->container);
    x->released = true;
    memset(&x->events, 0, sizeof x->events);
    if (l && x->in)
        link_stream_end(l, x->in);
    x->in = 0;
    maybe_free(x);
}
