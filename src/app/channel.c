#include "app/channel.h"

#include "base/buf.h"

#include <stdbool.h>
#include <stdlib.h>

struct pipe_end {
    struct link *from, *to; /* NULL: that end is closed (or `to` is not attached yet) */
    uint32_t from_id, to_id;
    struct buf held;   /* arrived, not sent yet; its credit has not been given back */
    size_t held_start; /* of it, what has been sent */
    bool ended;        /* `from` ended in order; `to` ends when nothing is held */
    bool failed;       /* before it was attached */
    struct error why;
};

static void free_if_closed(struct pipe_end *p)
{
    if (p->from || p->to)
        return;
    buf_free(&p->held);
    free(p);
}

static void fail_to(struct pipe_end *p, const struct error *why)
{
    if (p->to)
        link_stream_reset(p->to, p->to_id, why);
    p->to = NULL;
}

static void fail_from(struct pipe_end *p, const struct error *why)
{
    if (p->from)
        link_stream_reset(p->from, p->from_id, why);
    p->from = NULL;
}

static size_t send_some(struct pipe_end *p, const uint8_t *data, size_t len)
{
    size_t room = link_stream_writable(p->to, p->to_id), n = len < room ? len : room;
    if (n == 0 || link_stream_write(p->to, p->to_id, data, n) < 0)
        return 0;
    if (p->from)
        link_stream_consumed(p->from, p->from_id, n);
    return n;
}

static void send_held(struct pipe_end *p)
{
    while (p->held_start < p->held.len) {
        size_t n = send_some(p, p->held.data + p->held_start, p->held.len - p->held_start);
        if (n == 0)
            return;
        p->held_start += n;
    }
    buf_clear(&p->held);
    p->held_start = 0;
    if (p->ended) {
        link_stream_end(p->to, p->to_id);
        p->to = NULL;
        free_if_closed(p);
    }
}

/* ---- the end that we receive from ---- */

static void on_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct pipe_end *p = user;
    size_t n = p->to && p->held.len == 0 ? send_some(p, data, len) : 0;
    if (p->held_start > 0) {
        buf_consume(&p->held, p->held_start);
        p->held_start = 0;
    }
    if (n == len || buf_append(&p->held, data + n, len - n) == 0)
        return;
    struct error why = {0};
    error_oom(&why);
    fail_from(p, &why);
    fail_to(p, &why);
    free_if_closed(p);
}

static void on_end(void *user, uint32_t stream)
{
    struct pipe_end *p = user;
    p->from = NULL;
    p->ended = true;
    if (p->to)
        send_held(p);
}

static void on_from_reset(void *user, uint32_t stream, const struct error *why)
{
    struct pipe_end *p = user;
    p->from = NULL;
    if (p->to) {
        fail_to(p, why);
        free_if_closed(p);
        return;
    }
    p->failed = true; /* who would attach it still holds it */
    p->why = *why;
}

/* ---- the end that we send to ---- */

static void on_writable(void *user, uint32_t stream)
{
    struct pipe_end *p = user;
    send_held(p);
}

static void on_to_reset(void *user, uint32_t stream, const struct error *why)
{
    struct pipe_end *p = user;
    p->to = NULL;
    fail_from(p, why);
    free_if_closed(p);
}

static const struct link_stream_ops from_ops = {.data = on_data, .end = on_end, .reset = on_from_reset};
static const struct link_stream_ops to_ops = {.writable = on_writable, .reset = on_to_reset};

/* ---- making them ---- */

struct pipe_end *pipe_open(struct link *from, uint32_t from_id, struct error *err)
{
    struct pipe_end *p = calloc(1, sizeof *p);
    if (!p) {
        error_oom(err);
        return NULL;
    }
    if (link_stream_open_receive(from, from_id, &from_ops, p, err) < 0) {
        free(p);
        return NULL;
    }
    buf_init(&p->held, LINK_STREAM_WINDOW);
    p->from = from;
    p->from_id = from_id;
    return p;
}

void pipe_abandon(struct pipe_end *p, const struct error *why)
{
    if (!p)
        return;
    fail_from(p, why);
    free_if_closed(p);
}

/* Opens the sending end, without sending yet. */
static int claim(struct pipe_end *p, struct link *to, uint32_t to_id, struct error *err)
{
    if (link_stream_open_send(to, to_id, &to_ops, p, err) < 0)
        return -1;
    p->to = to;
    p->to_id = to_id;
    return 0;
}

static void start(struct pipe_end *p)
{
    if (p->failed) {
        fail_to(p, &p->why);
        free_if_closed(p);
    } else {
        send_held(p);
    }
}

int pipe_attach(struct pipe_end *p, struct link *to, uint32_t to_id, struct error *err)
{
    struct error why = {0};
    if (claim(p, to, to_id, &why) == 0) {
        start(p);
        return 0;
    }
    pipe_abandon(p, &why);
    if (err)
        *err = why;
    return -1;
}

int channel_join(struct link *a, uint32_t a_in, uint32_t a_out, struct link *b, uint32_t b_in, uint32_t b_out,
                 struct error *err)
{
    struct error why = {0};
    struct pipe_end *there = pipe_open(a, a_out, &why);
    struct pipe_end *back = there ? pipe_open(b, b_out, &why) : NULL;
    if (back && claim(there, b, b_in, &why) == 0 && claim(back, a, a_in, &why) == 0) {
        start(there);
        start(back);
        return 0;
    }
    if (there)
        fail_to(there, &why);
    pipe_abandon(there, &why);
    pipe_abandon(back, &why);
    if (err)
        *err = why;
    return -1;
}
