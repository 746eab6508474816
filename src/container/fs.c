#include "container/container_internal.h"

#include <stdlib.h>
#include <string.h>

/* A CALL frame also holds target and method. */
#define FRAME_ARGS_MAX ((1u << 20) - 256u)

struct fs_op {
    struct container *container;
    struct fs_op *prev, *next;
    struct fs_events events;
    void *user;
    uint32_t stream; /* 0: none, or ended */
    uint32_t call;
    bool input, output_open, answered, cancelled;
    /* the answer, held back until the output stream has ended */
    struct buf value;
    struct error error;
    bool failed;
};

static void op_free(struct fs_op *op)
{
    if (op->next)
        op->next->prev = op->prev;
    if (op->prev)
        op->prev->next = op->next;
    else
        op->container->ops = op->next;
    buf_free(&op->value);
    free(op);
}

static void maybe_done(struct fs_op *op)
{
    struct cbor_reader value;
    if (!op->answered || (op->output_open && !op->failed))
        return;
    /* Also of a link that is just dying: its streams are told after its calls, and op is freed here. */
    struct link *l = container_any_link(op->container);
    if (op->stream && l)
        link_stream_reset(l, op->stream, NULL);
    op->stream = 0;
    cbor_reader_init(&value, op->value.data, op->value.len);
    if (!op->cancelled && op->events.on_done)
        op->events.on_done(op->user, op->failed ? &op->error : NULL, value);
    op_free(op);
}

static void on_data(void *user, uint32_t id, const uint8_t *data, size_t len)
{
    struct fs_op *op = user;
    if (op->events.on_data)
        op->events.on_data(op->user, data, len);
    else
        fs_consumed(op, len);
}

static void on_end(void *user, uint32_t id)
{
    struct fs_op *op = user;
    op->stream = 0;
    op->output_open = false;
    maybe_done(op);
}

static void on_reset(void *user, uint32_t id, const struct error *why)
{
    struct fs_op *op = user;
    op->stream = 0;
    op->output_open = false;
    if (op->input) {
        /* The reader wants no more; the answer says why. A writer that waits for credit must wake up. */
        if (op->events.on_writable && !op->answered)
            op->events.on_writable(op->user);
        return;
    }
    if (!op->failed) {
        op->failed = true;
        op->error = *why;
    }
    maybe_done(op);
}

static void on_writable(void *user, uint32_t id)
{
    struct fs_op *op = user;
    if (op->events.on_writable)
        op->events.on_writable(op->user);
}

static const struct link_stream_ops output_ops = {.data = on_data, .end = on_end, .reset = on_reset};
static const struct link_stream_ops input_ops = {.reset = on_reset, .writable = on_writable};

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct fs_op *op = user;
    op->call = 0;
    op->answered = true;
    if (err) {
        op->failed = true;
        op->error = *err;
    } else {
        buf_append(&op->value, value.p, (size_t)(value.end - value.p));
    }
    maybe_done(op);
}

int container_fs(struct container *c, const char *method, const void *args, size_t args_len, unsigned pairs,
                 bool input, bool output, const struct fs_events *events, void *user, struct fs_op **ret,
                 struct error *err)
{
    struct link *l = container_link(c);
    if (c->state != CONTAINER_RUNNING || !l)
        return error_set(err, ERROR_STATE, "the container is not running");
    struct fs_op *op = calloc(1, sizeof *op);
    if (!op)
        return error_oom(err);
    op->container = c;
    op->events = *events;
    op->user = user;
    op->input = input;
    op->output_open = output;
    buf_init(&op->value, 0);
    op->next = c->ops;
    if (op->next)
        op->next->prev = op;
    c->ops = op;

    struct buf b;
    buf_init(&b, FRAME_ARGS_MAX);
    cbor_put_map(&b, pairs + (input || output ? 1u : 0u));
    buf_append(&b, args, args_len);
    int r = 0;
    if (input || output) {
        op->stream = link_stream_new(l);
        r = input ? link_stream_open_send(l, op->stream, &input_ops, op, err)
                  : link_stream_open_receive(l, op->stream, &output_ops, op, err);
        cbor_put_text(&b, "stream");
        cbor_put_uint(&b, op->stream);
    }
    if (r == 0 && b.failed)
        r = error_set(err, ERROR_LIMIT, "the arguments of %s are too large", method);
    if (r == 0) {
        op->call = link_call(l, 0, method, b.data, b.len, on_answer, op);
        if (!op->call)
            r = error_set(err, ERROR_LIMIT, "too many operations are in progress in this container");
        if (r < 0 && op->stream)
            link_stream_reset(l, op->stream, NULL);
    }
    buf_free(&b);
    if (r < 0) {
        op_free(op);
        return -1;
    }
    *ret = op;
    return 0;
}

ssize_t fs_write(struct fs_op *op, const void *data, size_t len)
{
    struct link *l = container_link(op->container);
    if (!l || !op->input || !op->stream)
        return -1;
    size_t n = link_stream_writable(l, op->stream);
    if (n > len)
        n = len;
    if (n > 0 && link_stream_write(l, op->stream, data, n) < 0)
        return -1;
    return (ssize_t)n;
}

void fs_end(struct fs_op *op)
{
    struct link *l = container_link(op->container);
    if (l && op->input && op->stream)
        link_stream_end(l, op->stream);
    op->stream = 0;
}

void fs_consumed(struct fs_op *op, size_t n)
{
    struct link *l = container_link(op->container);
    if (l && op->stream && n)
        link_stream_consumed(l, op->stream, n);
}

void fs_cancel(struct fs_op *op)
{
    struct link *l = container_any_link(op->container);
    if (l && op->call)
        link_cancel(l, op->call);
    if (l && op->stream)
        link_stream_reset(l, op->stream, NULL);
    op_free(op);
}

/* The link is gone: link_shutdown() already answered the call and ended the streams, so what is left here
 * waits for nothing. */
void fs_container_gone(struct fs_op *op)
{
    if (!op->failed)
        error_set(&op->error, ERROR_GONE, "the container has ended");
    op->failed = op->answered = true;
    maybe_done(op);
}
