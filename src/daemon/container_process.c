#include "daemon/container_process.h"

#include "daemon/cell.h"
#include "daemon/json_cbor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Input of the process that it has not taken yet. The worker has this much credit, and gets it back as it is
 * taken. */
#define INPUT_MAX ((size_t)LINK_STREAM_WINDOW)

struct wait {
    struct wait *next;
    struct link_call *call;
};

/* Kept by its export, or by the call to be answered; and until the worker's streams are over. */
struct process {
    struct link *link; /* alive as long as a stream of ours is open */
    struct execution *execution;
    struct exec_watch watch;
    struct exec_reader reader;
    struct link_call *call; /* `exec`, until it is answered */
    struct wait *waits;
    uint32_t out[2], in; /* streams; 0: none, or over */
    struct buf input;
    bool input_ended, exported, reading;
    int pins; /* callbacks under way */
};

/* ---- life ---- */

static void stop_reading(struct process *p)
{
    if (!p->reading)
        return;
    p->reading = false;
    p->execution->overflow = OVERFLOW_DROP; /* nobody will read the rest: it must not wait for that */
    execution_detach(p->execution, &p->reader);
}

static void settle(struct process *p)
{
    if (!p->out[0] && !p->out[1])
        stop_reading(p);
    if (p->exported || p->call || p->waits || p->out[0] || p->out[1] || p->in || p->pins > 0)
        return;
    execution_unwatch(&p->watch);
    execution_unref(p->execution);
    buf_free(&p->input);
    free(p);
}

/* ---- output: from the journal to the streams, as they have credit ---- */

static void pump_output(struct process *p, int i)
{
    const uint8_t *data;
    uint64_t lost;
    size_t room, n;
    const struct journal *j = &p->execution->out[i];
    while (p->out[i] && (room = link_stream_writable(p->link, p->out[i])) > 0 &&
           (n = journal_peek(j, &p->reader.cursor[i], &data, &lost)) > 0) {
        n = n < room ? n : room;
        n = n < LINK_DATA_MAX ? n : LINK_DATA_MAX;
        if (link_stream_write(p->link, p->out[i], data, n) < 0)
            return;
        p->reader.cursor[i] += n;
    }
    if (p->out[i] && j->ended && p->reader.cursor[i] == j->total) {
        link_stream_end(p->link, p->out[i]);
        p->out[i] = 0;
    }
}

static void pump(struct process *p)
{
    for (int i = 0; i < 2; i++)
        if (p->out[i])
            pump_output(p, i);
    if (p->reading)
        execution_read_on(p->execution);
}

static void on_output_writable(void *user, uint32_t stream)
{
    struct process *p = user;
    p->pins++;
    pump(p);
    p->pins--;
    settle(p);
}

static void on_output_reset(void *user, uint32_t stream, const struct error *why)
{
    struct process *p = user;
    for (int i = 0; i < 2; i++)
        if (p->out[i] == stream)
            p->out[i] = 0;
    settle(p);
}

static const struct link_stream_ops output_ops = {.writable = on_output_writable, .reset = on_output_reset};

/* ---- input ---- */

static void close_input(struct process *p)
{
    struct execution *x = p->execution;
    if (x->exec && x->stdin_open)
        exec_close_stdin(x->exec);
    x->stdin_open = false;
}

static void pump_input(struct process *p)
{
    struct execution *x = p->execution;
    while (p->input.len > 0 && x->exec && x->stdin_open) {
        ssize_t n = exec_write(x->exec, p->input.data, p->input.len);
        if (n == 0)
            return;
        if (n < 0) {
            x->stdin_open = false;
            break;
        }
        buf_consume(&p->input, (size_t)n);
        if (p->in)
            link_stream_consumed(p->link, p->in, (size_t)n);
    }
    if (p->in && x->state == EXECUTION_EXITED) {
        struct error err;
        uint32_t in = p->in;
        p->in = 0;
        error_set(&err, ERROR_GONE, "the process has ended");
        link_stream_reset(p->link, in, &err);
    }
    if (p->input_ended && p->input.len == 0 && x->state != EXECUTION_STARTING)
        close_input(p);
}

/* UNTRUSTED INPUT: bytes only, passed on. */
static void on_input(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct process *p = user;
    p->pins++;
    if (buf_append(&p->input, data, len) < 0) {
        struct error err;
        uint32_t in = p->in;
        p->in = 0;
        error_oom(&err);
        link_stream_reset(p->link, in, &err);
    }
    if (p->execution->state != EXECUTION_STARTING)
        pump_input(p);
    p->pins--;
    settle(p);
}

static void on_input_end(void *user, uint32_t stream)
{
    struct process *p = user;
    p->in = 0;
    p->input_ended = true;
    p->pins++;
    pump_input(p);
    p->pins--;
    settle(p);
}

static void on_input_reset(void *user, uint32_t stream, const struct error *why)
{
    on_input_end(user, stream);
}

static const struct link_stream_ops input_ops = {
    .data = on_input, .end = on_input_end, .reset = on_input_reset};

/* ---- its capability ---- */

static void answer_wait(struct link_call *call, const struct exit_status *s)
{
    struct buf b;
    buf_init(&b, 512);
    cbor_put_map(&b, 2);
    cbor_put_text(&b, "code");
    cbor_put_int(&b, s->code);
    cbor_put_text(&b, "reason");
    cbor_put_text(&b, stop_reason_name(s->reason));
    link_return(call, b.data, b.len);
    buf_free(&b);
}

static void call_wait(struct process *p, struct link_call *call)
{
    struct wait *w;
    struct error err;
    if (p->execution->state == EXECUTION_EXITED) {
        answer_wait(call, &p->execution->status);
    } else if (!(w = calloc(1, sizeof *w))) {
        error_oom(&err);
        link_throw(call, &err);
    } else {
        w->call = call;
        w->next = p->waits;
        p->waits = w;
    }
}

static int act(struct process *p, const char *method, const struct cbor_reader *args, struct error *err)
{
    struct execution *x = p->execution;
    uint64_t a = 0, b = 0;
    bool kill = strcmp(method, "kill") == 0;
    if (!kill && strcmp(method, "resize") != 0)
        return error_set(err, ERROR_INVALID, "a process has no method %.32s", method);
    if (kill && (cbor_map_uint(args, "signal", 64, 15, &a) < 0 || a == 0))
        return error_field(err, "signal", "signal: expected a whole number from 1 to 64");
    if (!kill && (cbor_map_uint(args, "cols", 65535, 0, &a) < 0 ||
                  cbor_map_uint(args, "rows", 65535, 0, &b) < 0 || a == 0 || b == 0))
        return error_field(err, "cols", "cols, rows: expected whole numbers from 1 to 65535");
    if (x->state == EXECUTION_EXITED || !x->exec)
        return error_set(err, ERROR_STATE, "the process has ended");
    return kill ? exec_kill(x->exec, (int)a, err) : exec_resize(x->exec, (uint16_t)a, (uint16_t)b, err);
}

/* UNTRUSTED INPUT */
static void on_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct process *p = object;
    struct error err = {0};
    if (strcmp(method, "wait") == 0)
        call_wait(p, call);
    else if (act(p, method, &args, &err) < 0)
        link_throw(call, &err);
    else
        link_return(call, NULL, 0);
}

static void on_drop(void *object)
{
    struct process *p = object;
    p->exported = false;
    settle(p);
}

static const struct link_object_ops process_ops = {.call = on_call, .drop = on_drop};

/* ---- what happens to it ---- */

static void answer_started(struct process *p)
{
    struct buf b;
    struct error err = {0};
    struct link_call *call = p->call;
    struct link *l = link_call_link(call);
    p->call = NULL;
    buf_init(&b, 256);
    cbor_put_map(&b, 2);
    cbor_put_text(&b, "pid");
    cbor_put_int(&b, p->execution->pid);
    cbor_put_text(&b, "process");
    p->exported = l && link_alive(l) && link_put_capability(l, &b, &process_ops, p) != 0;
    if (p->exported) {
        link_return(call, b.data, b.len);
    } else {
        error_set(&err, ERROR_LIMIT, "the worker holds too many objects");
        link_throw(call, &err);
    }
    buf_free(&b);
}

/* The streams of a process that never was: a worker that hears of the failure wants none of them. */
static void refuse_start(struct process *p, const struct error *err)
{
    struct link_call *call = p->call;
    uint32_t streams[3] = {p->out[0], p->out[1], p->in};
    p->call = NULL;
    p->out[0] = p->out[1] = p->in = 0;
    for (int i = 0; i < 3; i++)
        if (streams[i])
            link_stream_reset(p->link, streams[i], err);
    link_throw(call, err);
}

static void on_event(void *user, struct execution *x)
{
    struct process *p = user;
    p->pins++;
    if (p->call && x->error.kind) {
        struct error err = x->error;
        if (strcmp(err.field, "argv") == 0)
            snprintf(err.field, sizeof err.field, "cmd");
        refuse_start(p, &err);
    } else if (p->call && x->state != EXECUTION_STARTING) {
        answer_started(p);
    }
    if (!x->error.kind) {
        pump(p);
        if (x->state != EXECUTION_STARTING)
            pump_input(p);
    }
    if (x->state == EXECUTION_EXITED)
        while (p->waits) {
            struct wait *w = p->waits;
            p->waits = w->next;
            answer_wait(w->call, &x->status);
            free(w);
        }
    p->pins--;
    settle(p);
}

/* ---- starting ---- */

/* Streams are named beside what spec_exec() reads: taken out of `body`. -1 with 0 for none. */
static int take_stream(json_t *body, const char *name, uint32_t *ret, struct error *err)
{
    json_t *v = json_object_get(body, name);
    json_int_t n = json_integer_value(v);
    if (v && (!json_is_integer(v) || n < 1 || n > UINT32_MAX))
        return error_field(err, name, "%s: expected the number of a stream", name);
    *ret = (uint32_t)n;
    json_object_del(body, name);
    return 0;
}

static int open_streams(struct process *p, const uint32_t ids[3], struct error *err)
{
    for (int i = 0; i < 2; i++)
        if (ids[i]) {
            if (link_stream_open_send(p->link, ids[i], &output_ops, p, err) < 0)
                return -1;
            p->out[i] = ids[i];
        }
    if (ids[2]) {
        if (link_stream_open_receive(p->link, ids[2], &input_ops, p, err) < 0)
            return -1;
        p->in = ids[2];
    }
    return 0;
}

static int new_id(char to[33], struct error *err)
{
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set(err, ERROR_INTERNAL, "no random numbers");
    for (int i = 0; i < 16; i++)
        sprintf(to + 2 * i, "%02x", bytes[i]);
    return 0;
}

static int begin(struct process *p, struct cell *c, const struct exec_request *spec, const uint32_t ids[3],
                 struct error *err)
{
    char id[33];
    if (new_id(id, err) < 0)
        return -1;
    struct execution *x = execution_new(c, id, spec->cmd, SPEC_OUTPUT_DEFAULT, false, OVERFLOW_BLOCK);
    if (!x)
        return error_oom(err);
    x->grace_over = true;
    if (cell_add_exec(c, x, err) < 0) {
        execution_unref(x);
        return -1;
    }
    execution_ref(x);
    p->execution = x;
    execution_watch(x, &p->watch);
    execution_attach(x, &p->reader);
    p->reading = true;
    x->stdin_busy = true; /* API clients do not write between */
    if (open_streams(p, ids, err) == 0 && execution_start(x, spec, err) == 0)
        return 0;
    cell_remove_exec(c, x);
    return -1;
}

static int read_args(struct cbor_reader args, uint32_t ids[3], struct exec_request *ret, struct error *err)
{
    static const char *const names[] = {"stdout", "stderr", "stdin"};
    json_t *body = json_from_cbor(&args, err);
    if (!body)
        return -1;
    int r = json_is_object(body) ? 0 : error_set(err, ERROR_INVALID, "exec: expected a map");
    for (int i = 0; r == 0 && i < 3; i++)
        r = take_stream(body, names[i], &ids[i], err);
    bool combined = json_is_true(json_object_get(body, "combined"));
    bool pty = json_object_get(body, "pty") != NULL;
    json_object_del(body, "combined");
    if (r < 0) {
        json_decref(body);
        return -1;
    }
    if (!pty) {
        json_object_set_new(body, "stdin", json_string(ids[2] ? "pipe" : "none"));
        json_object_set_new(body, "stdout", json_string(ids[0] ? "pipe" : "ignore"));
        json_object_set_new(body, "stderr", json_string(combined ? "combined" : ids[1] ? "pipe" : "ignore"));
    }
    return spec_exec(ret, body, err);
}

void container_process_start(struct cell *c, struct link *l, struct link_call *call, struct cbor_reader args)
{
    struct exec_request spec;
    struct error err = {0};
    uint32_t ids[3] = {0};
    struct process *p = NULL;
    if (read_args(args, ids, &spec, &err) < 0) {
        link_throw(call, &err);
        return;
    }
    p = calloc(1, sizeof *p);
    if (!p) {
        error_oom(&err);
        link_throw(call, &err);
        spec_exec_free(&spec);
        return;
    }
    *p = (struct process){.link = l, .call = call, .watch = {.fn = on_event, .user = p}, .pins = 1};
    list_init(&p->watch.link);
    list_init(&p->reader.link);
    buf_init(&p->input, 2 * INPUT_MAX);
    if (begin(p, c, &spec, ids, &err) < 0 && p->call)
        refuse_start(p, &err);
    spec_exec_free(&spec);
    p->pins--;
    if (p->execution)
        settle(p);
    else if (!p->call)
        free(p);
}
