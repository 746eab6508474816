#include "app/blob.h"

#include "link/cbor.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct blob_reader {
    struct link *link;
    uint32_t stream;
    struct buf bytes;
    struct blob_budget *budget; /* NULL: none */
    blob_fn fn;
    void *user;
};

static void leave_budget(struct blob_reader *r)
{
    if (r->budget)
        r->budget->held -= r->bytes.len;
    r->budget = NULL;
}

static void finish(struct blob_reader *r, const struct error *err)
{
    leave_budget(r);
    if (err)
        buf_clear(&r->bytes);
    r->fn(r->user, &r->bytes, err);
    buf_free(&r->bytes);
    free(r);
}

static void on_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct blob_reader *r = user;
    struct blob_budget *b = r->budget;
    bool fits = !b || len <= b->max - b->held;
    if (fits && buf_append(&r->bytes, data, len) == 0) {
        if (b)
            b->held += len;
        link_stream_consumed(r->link, stream, len);
        return;
    }
    struct error err = {0};
    if (fits)
        error_set(&err, ERROR_LIMIT, "more than %zu bytes on one stream", r->bytes.max);
    else
        error_set(&err, ERROR_LIMIT, "more than %zu MiB are on their way at once; try again later",
                  b->max >> 20);
    link_stream_reset(r->link, stream, &err);
    finish(r, &err);
}

static void on_end(void *user, uint32_t stream)
{
    finish(user, NULL);
}

static void on_reset(void *user, uint32_t stream, const struct error *why)
{
    finish(user, why);
}

struct blob_reader *blob_read(struct link *l, uint32_t stream, size_t max, struct blob_budget *budget,
                              blob_fn fn, void *user, struct error *err)
{
    static const struct link_stream_ops ops = {.data = on_data, .end = on_end, .reset = on_reset};
    struct blob_reader *r = calloc(1, sizeof *r);
    if (!r) {
        error_oom(err);
        return NULL;
    }
    r->link = l;
    r->stream = stream;
    r->fn = fn;
    r->user = user;
    r->budget = budget;
    buf_init(&r->bytes, max);
    if (link_stream_open_receive(l, stream, &ops, r, err) == 0)
        return r;
    free(r);
    return NULL;
}

void blob_abandon(struct blob_reader *r, const struct error *why)
{
    if (!r)
        return;
    leave_budget(r);
    link_stream_reset(r->link, r->stream, why);
    buf_free(&r->bytes);
    free(r);
}

/* ---- going ---- */

struct blob_sender {
    struct blob_sender *next; /* in the outbox */
    struct link *link;
    uint32_t stream;
    bool waits, refused; /* in the outbox; and nobody wants it any more */
    uint8_t *bytes;
    size_t len, sent;
};

static void free_sender(struct blob_sender *s)
{
    free(s->bytes);
    free(s);
}

static void on_writable(void *user, uint32_t stream)
{
    struct blob_sender *s = user;
    while (!s->waits && s->sent < s->len) {
        size_t room = link_stream_writable(s->link, stream), left = s->len - s->sent;
        size_t n = left < room ? left : room;
        if (n == 0 || link_stream_write(s->link, stream, s->bytes + s->sent, n) < 0)
            return; /* more room later; or the link is dead, which its reset callback tells */
        s->sent += n;
    }
    if (s->waits)
        return;
    link_stream_end(s->link, stream);
    free_sender(s);
}

static void on_refused(void *user, uint32_t stream, const struct error *why)
{
    struct blob_sender *s = user;
    if (s->waits)
        s->refused = true;
    else
        free_sender(s);
}

uint32_t blob_send(struct blob_outbox *o, struct link *l, uint8_t *bytes, size_t len, struct error *err)
{
    static const struct link_stream_ops ops = {.writable = on_writable, .reset = on_refused};
    struct blob_sender *s = calloc(1, sizeof *s);
    if (!s) {
        free(bytes);
        error_oom(err);
        return 0;
    }
    *s = (struct blob_sender){
        .link = l, .stream = link_stream_new(l), .bytes = bytes, .len = len, .waits = true};
    if (link_stream_open_send(l, s->stream, &ops, s, err) < 0) {
        free_sender(s);
        return 0;
    }
    s->next = o->first;
    o->first = s;
    return s->stream;
}

int blob_put(struct blob_outbox *o, struct link *l, struct buf *b, const uint8_t *bytes, size_t len,
             size_t inline_max, struct error *err)
{
    if (len <= inline_max) {
        cbor_put_text(b, "data");
        cbor_put_bytes(b, bytes, len);
        return b->failed ? error_oom(err) : 0;
    }
    uint8_t *copy = malloc(len);
    if (!copy)
        return error_oom(err);
    memcpy(copy, bytes, len);
    uint32_t stream = blob_send(o, l, copy, len, err);
    if (!stream)
        return -1;
    cbor_put_text(b, "stream");
    cbor_put_uint(b, stream);
    return b->failed ? error_oom(err) : 0;
}

void blob_start(struct blob_outbox *o)
{
    struct blob_sender *s;
    while ((s = o->first)) {
        o->first = s->next;
        s->waits = false;
        if (s->refused)
            free_sender(s);
        else
            on_writable(s, s->stream);
    }
}

void blob_discard(struct blob_outbox *o, const struct error *why)
{
    struct blob_sender *s;
    while ((s = o->first)) {
        o->first = s->next;
        if (!s->refused)
            link_stream_reset(s->link, s->stream, why);
        free_sender(s);
    }
}
