/* Streams: bytes one way, with credit. */
#include "link/link_internal.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Credit is given back in pieces of at least this much, so that small reads do not cause a frame each. */
#define CREDIT_BATCH (LINK_STREAM_WINDOW / 4)

struct stream {
    struct idnode node;
    const struct link_stream_ops *ops;
    void *user;
    bool sending;
    uint32_t credit;     /* sending: may send so much; receiving: may still arrive so much */
    uint32_t unconsumed; /* receiving: handed on, and not yet given back by link_stream_consumed() */
    uint32_t unreturned; /* receiving: consumed, and not yet granted to the sender again */
    bool waiting;        /* sending: found the link's output full; on the link's waiting list */
    struct stream *waiting_prev, *waiting_next;
};

static struct stream *find(const struct link *l, uint32_t id)
{
    struct idnode *n = idtable_find(&l->streams, id);
    return n ? container_of(n, struct stream, node) : NULL;
}

static bool own_parity(const struct link *l, uint32_t id)
{
    return (id & 1) == (l->config.side == LINK_GUEST);
}

/* --- tombs --- */

static enum tomb_state tomb_get(const struct tombs *t, uint32_t id)
{
    for (unsigned i = 0; i < LINK_TOMBS; i++)
        if (t->id[i] == id)
            return (enum tomb_state)t->state[i];
    return TOMB_NONE;
}

static void tomb_set(struct tombs *t, uint32_t id, enum tomb_state state)
{
    unsigned at = 0;
    while (at < LINK_TOMBS && t->id[at] != id)
        at++;
    if (at == LINK_TOMBS)
        at = t->next++ % LINK_TOMBS;
    t->id[at] = id;
    t->state[at] = (uint8_t)state;
}

/* --- waiting for room in the output --- */

static void wait_for_room(struct link *l, struct stream *s)
{
    l->out.was_full = true;
    if (s->waiting)
        return;
    s->waiting = true;
    s->waiting_next = NULL;
    s->waiting_prev = l->waiting_last;
    *(s->waiting_prev ? &s->waiting_prev->waiting_next : &l->waiting_first) = s;
    l->waiting_last = s;
}

static void stop_waiting(struct link *l, struct stream *s)
{
    if (!s->waiting)
        return;
    s->waiting = false;
    *(s->waiting_prev ? &s->waiting_prev->waiting_next : &l->waiting_first) = s->waiting_next;
    *(s->waiting_next ? &s->waiting_next->waiting_prev : &l->waiting_last) = s->waiting_prev;
}

/* Gives each stream that waits now one turn; who fills the output again goes to the back of the list. */
void link_streams_wake(struct link *l)
{
    uint32_t turns = 0;
    for (struct stream *s = l->waiting_first; s; s = s->waiting_next)
        turns++;
    for (; turns > 0 && l->alive && l->waiting_first && !link_output_full(l); turns--) {
        struct stream *s = l->waiting_first;
        stop_waiting(l, s);
        if (s->credit > 0 && s->ops->writable)
            s->ops->writable(s->user, s->node.id);
    }
    if (l->waiting_first)
        l->out.was_full = true;
}

/* --- opening and closing --- */

uint32_t link_stream_new(struct link *l)
{
    uint32_t id = l->next_stream;
    if (!l->alive || id >= UINT32_MAX - 2)
        return 0;
    l->next_stream += 2;
    return id;
}

static int check_number(const struct link *l, uint32_t id, struct error *err)
{
    if (!l->alive)
        return error_set(err, ERROR_GONE, "the link is closed: %s", l->why.message);
    if (id == 0 || (own_parity(l, id) && id >= l->next_stream))
        return error_set(err, ERROR_PROTOCOL, "stream %u has a number that the peer may not choose", id);
    if (find(l, id))
        return error_set(err, ERROR_PROTOCOL, "stream %u is open already", id);
    if (tomb_get(&l->tombs, id) != TOMB_NONE)
        return error_set(err, ERROR_PROTOCOL, "stream %u has ended already", id);
    if (l->streams.count >= LINK_MAX_STREAMS)
        return error_set(err, ERROR_LIMIT, "more than %u streams are open", LINK_MAX_STREAMS);
    return 0;
}

static int open_stream(struct link *l, uint32_t id, bool sending, const struct link_stream_ops *ops,
                       void *user, struct error *err)
{
    if (check_number(l, id, err) < 0)
        return -1;
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return error_oom(err);
    s->ops = ops;
    s->user = user;
    s->sending = sending;
    s->credit = LINK_STREAM_WINDOW;
    idtable_add(&l->streams, &s->node, id);
    return 0;
}

int link_stream_open_send(struct link *l, uint32_t id, const struct link_stream_ops *ops, void *user,
                          struct error *err)
{
    return open_stream(l, id, true, ops, user, err);
}

int link_stream_open_receive(struct link *l, uint32_t id, const struct link_stream_ops *ops, void *user,
                             struct error *err)
{
    return open_stream(l, id, false, ops, user, err);
}

/* Takes the stream out of the tables; `ret` keeps what the last callback needs. */
static void close_stream(struct link *l, struct stream *s, enum tomb_state state, struct stream *ret)
{
    stop_waiting(l, s);
    idtable_remove(&l->streams, &s->node);
    tomb_set(&l->tombs, s->node.id, state);
    if (ret)
        *ret = *s;
    free(s);
}

/* --- sending --- */

size_t link_stream_writable(const struct link *l, uint32_t id)
{
    struct stream *s = find(l, id);
    if (!l->alive || !s || !s->sending || s->credit == 0)
        return 0;
    if (link_output_full(l)) {
        /* Remembering who waits changes nothing that a caller could see, hence the const in the interface. */
        wait_for_room((struct link *)l, s);
        return 0;
    }
    size_t room = l->config.max_output - l->out.pending;
    return s->credit < room ? s->credit : room;
}

int link_stream_write(struct link *l, uint32_t id, const void *data, size_t len)
{
    const uint8_t *p = data;
    if (len > link_stream_writable(l, id))
        return -1;
    if (len > 0)
        find(l, id)->credit -= (uint32_t)len;
    while (len > 0) {
        size_t n = len < LINK_DATA_MAX ? len : LINK_DATA_MAX;
        if (link_put_frame(l, FRAME_DATA, id, NULL, 0, p, n) < 0)
            return -1;
        p += n;
        len -= n;
    }
    /* Who had more to say was told to say only what there is room for: it must hear when there is more. */
    struct stream *s = link_output_full(l) ? find(l, id) : NULL;
    if (s)
        wait_for_room(l, s);
    return 0;
}

int link_stream_write_apart(struct link *l, uint32_t id, size_t len, uint8_t header[LINK_HEADER_SIZE])
{
    _Static_assert(LINK_HEADER_SIZE == FRAME_HEADER_SIZE, "link.h and frame.h agree");
    if (l->out.pending > 0 || len == 0 || len > LINK_APART_MAX || len > link_stream_writable(l, id))
        return -1;
    find(l, id)->credit -= (uint32_t)len;
    frame_header_write(header, FRAME_DATA, id, (uint32_t)len);
    return 0;
}

void link_stream_end(struct link *l, uint32_t id)
{
    struct stream *s = find(l, id);
    if (!s || !s->sending)
        return;
    close_stream(l, s, TOMB_HERE, NULL);
    link_put_frame(l, FRAME_END, id, NULL, 0, NULL, 0);
}

static void put_reset(struct link *l, uint32_t id, const struct error *why)
{
    struct error plain = {.kind = ERROR_GONE, .message = "the stream was given up"};
    struct buf b;
    if (!l->alive)
        return;
    buf_init(&b, 2048);
    link_put_error(&b, why && why->kind != ERROR_NONE ? why : &plain);
    if (b.failed)
        link_out_of_memory(l);
    else
        link_put_frame(l, FRAME_RESET, id, b.data, b.len, NULL, 0);
    buf_free(&b);
}

void link_stream_reset(struct link *l, uint32_t id, const struct error *why)
{
    struct stream *s = find(l, id);
    if (!s)
        return;
    close_stream(l, s, TOMB_HERE, NULL);
    put_reset(l, id, why);
}

/* --- receiving --- */

void link_stream_consumed(struct link *l, uint32_t id, size_t n)
{
    struct stream *s = find(l, id);
    if (!l->alive || !s || s->sending)
        return;
    if (n > s->unconsumed)
        n = s->unconsumed;
    s->unconsumed -= (uint32_t)n;
    s->unreturned += (uint32_t)n;
    if (s->unreturned < CREDIT_BATCH)
        return;
    uint32_t grant = s->unreturned;
    s->unreturned = 0;
    s->credit += grant;
    link_put_u32_frame(l, FRAME_WINDOW, id, grant);
}

void link_stream_widen(struct link *l, uint32_t id, uint32_t n)
{
    struct stream *s = find(l, id);
    if (!l->alive || !s || s->sending || n == 0 || n > LINK_CREDIT_MAX / 2 - s->credit)
        return;
    s->credit += n;
    link_put_u32_frame(l, FRAME_WINDOW, id, n);
}

/* A frame about a stream that is not open here. Fatal when no honest peer could have sent it. */
static void stray(struct link *l, const struct frame *f)
{
    const char *kind = frame_kind_name(f->kind);
    bool last_word = f->kind == FRAME_END || f->kind == FRAME_RESET;
    enum tomb_state tomb = tomb_get(&l->tombs, f->id);
    if (own_parity(l, f->id) && f->id >= l->next_stream) {
        link_violation(l, "%s for stream %u, which was never opened", kind, f->id);
    } else if (tomb == TOMB_PEER) {
        link_violation(l, "%s for stream %u after its end", kind, f->id);
    } else if (last_word) {
        tomb_set(&l->tombs, f->id, TOMB_PEER);
    } else if (tomb == TOMB_NONE && !own_parity(l, f->id)) {
        /* The peer chose the number, and the call that names it was refused before anyone opened the stream.
         */
        struct error err = {0};
        error_set(&err, ERROR_NOT_FOUND, "stream %u is not open here", f->id);
        tomb_set(&l->tombs, f->id, TOMB_HERE);
        put_reset(l, f->id, &err);
    }
}

/* The open stream that the frame is about; NULL when there is none or the peer is on the wrong end of it. */
static struct stream *addressed(struct link *l, const struct frame *f, bool sending)
{
    struct stream *s = find(l, f->id);
    if (!s) {
        stray(l, f);
        return NULL;
    }
    if (s->sending != sending) {
        link_violation(l, "%s for stream %u from its %s", frame_kind_name(f->kind), f->id,
                       s->sending ? "receiver" : "sender");
        return NULL;
    }
    return s;
}

/* UNTRUSTED INPUT, as are the next ones */
void link_on_data_header(struct link *l, const struct frame *f)
{
    struct stream *s = addressed(l, f, false);
    if (!s)
        return;
    if (f->length > s->credit) {
        link_violation(l, "DATA of %u bytes for stream %u with a credit of %u", f->length, f->id, s->credit);
        return;
    }
    s->credit -= f->length;
}

void link_on_data(struct link *l, uint32_t id, const uint8_t *data, size_t len)
{
    struct stream *s = find(l, id);
    if (!s || s->sending)
        return; /* closed here, perhaps in the middle of this very frame */
    s->unconsumed += (uint32_t)len;
    s->ops->data(s->user, id, data, len);
}

/* What was taken is acknowledged like the rest, perhaps before take() returns: so all of it counts as handed
 * on meanwhile. */
size_t link_stream_take(struct link *l, uint32_t id, int fd, size_t len)
{
    struct stream *s = find(l, id);
    if (!s || s->sending || !s->ops->take)
        return 0;
    s->unconsumed += (uint32_t)len;
    size_t n = s->ops->take(s->user, id, fd, len), left = n == LINK_TAKE_LATER ? len : len - n;
    s = find(l, id);
    if (s)
        s->unconsumed -= (uint32_t)(left < s->unconsumed ? left : s->unconsumed);
    return n;
}

void link_on_window(struct link *l, const struct frame *f)
{
    uint32_t grant;
    memcpy(&grant, f->body, sizeof grant);
    grant = le32toh(grant);
    if (grant == 0) {
        link_violation(l, "WINDOW of 0 bytes for stream %u", f->id);
        return;
    }
    struct stream *s = addressed(l, f, true);
    if (!s)
        return;
    if (grant > LINK_CREDIT_MAX - s->credit) {
        link_violation(l, "WINDOW of %u bytes for stream %u with a credit of %u overflows", grant, f->id,
                       s->credit);
        return;
    }
    bool was_zero = s->credit == 0;
    s->credit += grant;
    if (was_zero && s->ops->writable)
        s->ops->writable(s->user, f->id);
}

void link_on_end(struct link *l, const struct frame *f)
{
    struct stream *s = addressed(l, f, false), last;
    if (!s)
        return;
    close_stream(l, s, TOMB_PEER, &last);
    if (last.ops->end)
        last.ops->end(last.user, f->id);
}

void link_on_reset(struct link *l, const struct frame *f)
{
    struct cbor_reader r;
    struct stream *s = find(l, f->id), last;
    struct error err = {0};
    if (f->body[0] >> 5 != 5 || !cbor_well_formed(f->body, f->length)) {
        link_violation(l, "RESET frame whose body is not a CBOR map");
        return;
    }
    if (!s) {
        stray(l, f);
        return;
    }
    cbor_reader_init(&r, f->body, f->length);
    link_get_error(r, &err);
    close_stream(l, s, TOMB_PEER, &last);
    if (last.ops->reset)
        last.ops->reset(last.user, f->id, &err);
}

void link_streams_shutdown(struct link *l)
{
    while (l->streams.first) {
        struct stream *s = container_of(l->streams.first, struct stream, node), last;
        close_stream(l, s, TOMB_HERE, &last);
        if (last.ops->reset)
            last.ops->reset(last.user, last.node.id, &l->why);
    }
}
