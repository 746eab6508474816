/* Random operations on two honest ends, with every byte carried in random pieces. Whatever the order: neither
 * end ever breaks the protocol, every call gets exactly one answer, every stream ends exactly once at each
 * end, bytes arrive whole and in order, and no sender exceeds the credit, which a monitor on the wire checks
 * by itself. */
#include "link_testing.h"

#include <stdio.h>
#include <stdlib.h>

#define STEPS 4000
#define SEEDS 40
#define MAX_THINGS 4096

/* One end of a stream. */
struct end {
    struct stream *stream;
    int side;
    bool opened, open;
    int terminals; /* end and reset callbacks */
    bool ended_orderly;
};

struct stream {
    uint32_t id;
    int sender; /* side */
    uint64_t sent, received, consumed;
    struct end ends[2];
    /* what the monitor saw on the wire */
    uint64_t wire_data, wire_credit;
    bool wire_end;
};

struct call {
    uint32_t id;
    bool cancelled;
    int answers;
    struct stream *stream; /* named in its arguments */
};

struct object {
    struct world *world;
    int side; /* where it lives */
    int drops;
    bool revoked, known; /* known: its number arrived at the other side */
    uint32_t cap;
};

struct held {
    struct link_call *call;
    struct world *world;
    int cancels;
};

struct direction {
    struct buf wire;
    struct buf monitor; /* bytes of an unfinished frame */
};

struct world {
    uint64_t seed;
    struct link *link[2];
    struct direction to[2]; /* bytes on their way to this side */
    struct stream *streams[MAX_THINGS];
    struct call *calls[2][MAX_THINGS];
    struct object *objects[MAX_THINGS];
    struct held *held[2][MAX_THINGS];
    unsigned stream_count, call_count[2], object_count, held_count[2];
    uint32_t caps[2][MAX_THINGS]; /* capabilities that this side holds */
    unsigned cap_count[2];
    uint8_t answered[2][MAX_THINGS * 2]; /* by call number, as seen on the wire: 1 called, 2 answered */
    struct object bootstrap[2];
};

static uint64_t rnd(struct world *w, uint64_t below)
{
    w->seed ^= w->seed << 13;
    w->seed ^= w->seed >> 7;
    w->seed ^= w->seed << 17;
    return (w->seed >> 11) % below;
}

static uint8_t pattern(const struct stream *s, uint64_t offset)
{
    return (uint8_t)(s->id * 37 + offset * 11 + (offset >> 8));
}

/* --- the monitor on the wire --- */

static struct stream *stream_by_id(struct world *w, uint32_t id)
{
    for (unsigned i = w->stream_count; i > 0; i--)
        if (w->streams[i - 1]->id == id)
            return w->streams[i - 1];
    fail_msg("a frame about stream %u, which nobody made", id);
    return NULL;
}

static void monitor_frame(struct world *w, int to, const struct frame *f)
{
    int from = !to;
    if (f->kind == FRAME_CALL) {
        assert_true(f->id < MAX_THINGS * 2);
        assert_int_equal(w->answered[from][f->id], 0);
        w->answered[from][f->id] = 1;
    } else if (f->kind == FRAME_RETURN || f->kind == FRAME_THROW) {
        assert_int_equal(w->answered[to][f->id], 1);
        w->answered[to][f->id] = 2;
    } else if (f->kind == FRAME_DATA) {
        struct stream *s = stream_by_id(w, f->id);
        assert_int_equal(s->sender, from);
        assert_false(s->wire_end);
        s->wire_data += f->length;
        assert_true(s->wire_data <= LINK_STREAM_WINDOW + s->wire_credit);
        assert_true(f->length <= LINK_DATA_MAX);
    } else if (f->kind == FRAME_WINDOW) {
        struct stream *s = stream_by_id(w, f->id);
        assert_int_equal(s->sender, to);
        uint32_t grant = (uint32_t)f->body[0] | (uint32_t)f->body[1] << 8 | (uint32_t)f->body[2] << 16;
        s->wire_credit += grant;
        assert_true(s->wire_credit <= s->consumed);
    } else if (f->kind == FRAME_END) {
        struct stream *s = stream_by_id(w, f->id);
        assert_int_equal(s->sender, from);
        assert_false(s->wire_end);
        s->wire_end = true;
    }
}

static void monitor(struct world *w, int to, const uint8_t *data, size_t len)
{
    struct buf *m = &w->to[to].monitor;
    buf_append(m, data, len);
    size_t at = 0;
    while (m->len - at >= FRAME_HEADER_SIZE) {
        struct frame f;
        assert_int_equal(frame_header_read(m->data + at, &f, NULL), 0);
        if (m->len - at - FRAME_HEADER_SIZE < f.length)
            break;
        f.body = m->data + at + FRAME_HEADER_SIZE;
        monitor_frame(w, to, &f);
        at += FRAME_HEADER_SIZE + f.length;
    }
    buf_consume(m, at);
}

/* Takes some of one side's output onto the wire. */
static void take_some(struct world *w, int from, size_t most)
{
    struct iovec iov[3];
    int n = link_output(w->link[from], iov, 1 + (int)rnd(w, 3));
    for (int i = 0; i < n && most > 0; i++) {
        size_t len = iov[i].iov_len < most ? iov[i].iov_len : most;
        buf_append(&w->to[!from].wire, iov[i].iov_base, len);
        monitor(w, !from, iov[i].iov_base, len);
        link_sent(w->link[from], len);
        most -= len;
        if (len < iov[i].iov_len)
            break;
        /* link_sent() may have woken a writer; what the other pieces point to stays until it is sent */
    }
    assert_false(w->to[!from].wire.failed);
}

static void deliver_some(struct world *w, int to, size_t most)
{
    struct buf *wire = &w->to[to].wire;
    size_t len = wire->len < most ? wire->len : most;
    struct error err = {0};
    if (len == 0)
        return;
    uint8_t *copy = malloc(len); /* exact, so that a sanitizer sees reads beyond it and use after return */
    assert_non_null(copy);
    memcpy(copy, wire->data, len);
    buf_consume(wire, len);
    if (link_receive(w->link[to], copy, len, &err) < 0)
        fail_msg("the link died: %s", err.message);
    free(copy);
}

/* --- streams --- */

static void terminal(struct end *e, uint32_t id)
{
    assert_int_equal(id, e->stream->id);
    assert_true(e->open);
    e->open = false;
    assert_int_equal(++e->terminals, 1);
}

static void on_data(void *user, uint32_t id, const uint8_t *data, size_t len)
{
    struct end *e = user;
    struct stream *s = e->stream;
    assert_true(e->open);
    assert_int_equal(id, s->id);
    for (size_t i = 0; i < len; i++)
        if (data[i] != pattern(s, s->received + i))
            fail_msg("byte %llu of stream %u is wrong", (unsigned long long)(s->received + i), id);
    s->received += len;
    assert_true(s->received <= s->sent);
}

static void on_end(void *user, uint32_t id)
{
    struct end *e = user;
    terminal(e, id);
    e->ended_orderly = true;
    assert_int_equal(e->stream->received, e->stream->sent);
    assert_int_not_equal(e->side, e->stream->sender);
}

static void on_reset(void *user, uint32_t id, const struct error *why)
{
    terminal(user, id);
    assert_int_not_equal(why->kind, ERROR_NONE);
}

static void on_writable(void *user, uint32_t id)
{
    struct end *e = user;
    assert_true(e->open);
    assert_int_equal(e->side, e->stream->sender);
}

static const struct link_stream_ops stream_ops = {on_data, on_end, on_reset, on_writable};

static void open_end(struct world *w, struct stream *s, int side)
{
    struct end *e = &s->ends[side];
    struct error err = {0};
    int r = side == s->sender ? link_stream_open_send(w->link[side], s->id, &stream_ops, e, &err)
                              : link_stream_open_receive(w->link[side], s->id, &stream_ops, e, &err);
    if (r < 0)
        fail_msg("cannot open stream %u: %s", s->id, err.message);
    e->opened = e->open = true;
}

static struct stream *make_stream(struct world *w, int side)
{
    if (w->stream_count == MAX_THINGS)
        return NULL;
    struct stream *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->id = link_stream_new(w->link[side]);
    s->sender = (int)rnd(w, 2);
    for (int i = 0; i < 2; i++)
        s->ends[i] = (struct end){.stream = s, .side = i};
    w->streams[w->stream_count++] = s;
    open_end(w, s, side);
    return s;
}

/* A random one of the latest streams whose end at `side` is open. */
static struct stream *pick_stream(struct world *w, int side, bool sending)
{
    for (int tries = 0; tries < 8 && w->stream_count > 0; tries++) {
        unsigned recent = w->stream_count < 24 ? w->stream_count : 24;
        struct stream *s = w->streams[w->stream_count - 1 - rnd(w, recent)];
        if (s->ends[side].open && (s->sender == side) == sending)
            return s;
    }
    return NULL;
}

static void write_some(struct world *w, int side)
{
    struct stream *s = pick_stream(w, side, true);
    static uint8_t bytes[LINK_STREAM_WINDOW];
    if (!s)
        return;
    size_t room = link_stream_writable(w->link[side], s->id);
    assert_true(room <= LINK_STREAM_WINDOW);
    size_t len = rnd(w, 4) || room == 0 ? 1 + rnd(w, 2000) : room;
    if (len > link_stream_writable(w->link[side], s->id)) {
        assert_int_equal(link_stream_write(w->link[side], s->id, bytes, len), -1);
        return;
    }
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(s, s->sent + i);
    s->sent += len;
    assert_int_equal(link_stream_write(w->link[side], s->id, bytes, len), 0);
}

static void consume_some(struct world *w, int side)
{
    struct stream *s = pick_stream(w, side, false);
    if (!s || s->received == s->consumed)
        return;
    uint64_t left = s->received - s->consumed, n = rnd(w, 2) ? left : 1 + rnd(w, left);
    s->consumed += n;
    link_stream_consumed(w->link[side], s->id, n);
}

static void end_some(struct world *w, int side)
{
    struct stream *s = pick_stream(w, side, true);
    if (!s)
        return;
    s->ends[side].open = false;
    link_stream_end(w->link[side], s->id);
}

static void reset_end(struct world *w, struct stream *s, int side)
{
    if (!s || !s->ends[side].open)
        return;
    s->ends[side].open = false;
    link_stream_reset(w->link[side], s->id, NULL);
}

/* --- calls and capabilities --- */

static void object_call(void *user, struct link_call *call, const char *method, struct cbor_reader args);
static void object_drop(void *user);
static const struct link_object_ops object_ops = {object_call, object_drop};

static void put_new_capability(struct world *w, struct buf *b, int side)
{
    if (w->object_count == MAX_THINGS) {
        cbor_put_null(b);
        return;
    }
    struct object *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->world = w;
    o->side = side;
    w->objects[w->object_count++] = o;
    o->cap = link_put_capability(w->link[side], b, &object_ops, o);
    assert_int_not_equal(o->cap, 0);
}

static void object_drop(void *user)
{
    struct object *o = user;
    assert_false(o->revoked);
    assert_int_equal(++o->drops, 1);
}

/* A value that perhaps holds a capability, the way this test writes one. */
static void read_capability(struct world *w, int side, struct cbor_reader value)
{
    uint32_t cap;
    if (link_get_capability(&value, &cap) == 0 && w->cap_count[side] < MAX_THINGS)
        w->caps[side][w->cap_count[side]++] = cap;
}

static void count_cancel(void *user)
{
    struct held *h = user;
    assert_non_null(h->call);
    assert_int_equal(++h->cancels, 1);
}

static void answer(struct world *w, int side, struct link_call *call)
{
    struct error err = {0};
    if (rnd(w, 4) == 0) {
        error_set(&err, ERROR_STATE, "no");
        link_throw(call, &err);
        return;
    }
    struct buf b;
    buf_init(&b, 0);
    if (rnd(w, 2)) {
        put_new_capability(w, &b, side);
    } else {
        size_t len = rnd(w, 8) ? rnd(w, 200) : rnd(w, 60000);
        void *zeros = calloc(1, len + 1);
        cbor_put_bytes(&b, zeros, len);
        free(zeros);
    }
    link_return(call, b.data, b.len);
    buf_free(&b);
}

/* Arguments: [stream number or 0, value]. */
static void object_call(void *user, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct object *o = user;
    struct world *w = o->world;
    uint64_t n, id;
    struct error err = {0};
    assert_string_equal(method, "do");
    assert_false(o->revoked);
    assert_int_equal(o->drops, 0);
    assert_int_equal(cbor_get_array(&args, 2, &n), 0);
    assert_int_equal(cbor_get_uint(&args, UINT32_MAX, &id), 0);
    read_capability(w, o->side, args);
    if (rnd(w, 4) == 0) { /* refused, stream and all */
        error_set(&err, ERROR_DENIED, "refused");
        link_throw(call, &err);
        return;
    }
    if (id)
        open_end(w, stream_by_id(w, (uint32_t)id), o->side);
    if (rnd(w, 2) || w->held_count[o->side] == MAX_THINGS) {
        answer(w, o->side, call);
        return;
    }
    struct held *h = calloc(1, sizeof *h);
    assert_non_null(h);
    *h = (struct held){.call = call, .world = w};
    w->held[o->side][w->held_count[o->side]++] = h;
    link_call_on_cancel(call, count_cancel, h);
}

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct call *c = user;
    assert_false(c->cancelled);
    assert_int_equal(++c->answers, 1);
    if (err)
        assert_true(cbor_at_end(&value));
    else
        assert_true(cbor_well_formed(value.p, (size_t)(value.end - value.p)));
}

/* As on_answer(), for callers that go on with what they got. */
struct asking {
    struct call *call;
    struct world *world;
    int side;
};

static void on_answer_asking(void *user, const struct error *err, struct cbor_reader value)
{
    struct asking *a = user;
    on_answer(a->call, err, value);
    if (err && a->call->stream)
        reset_end(a->world, a->call->stream, a->side);
    if (!err)
        read_capability(a->world, a->side, value);
    free(a);
}

static void make_call(struct world *w, int side)
{
    if (w->call_count[side] == MAX_THINGS)
        return;
    struct call *c = calloc(1, sizeof *c);
    struct buf b;
    assert_non_null(c);
    buf_init(&b, 0);
    cbor_put_array(&b, 2);
    c->stream = rnd(w, 2) ? make_stream(w, side) : NULL;
    cbor_put_uint(&b, c->stream ? c->stream->id : 0);
    if (rnd(w, 3) == 0)
        put_new_capability(w, &b, side);
    else
        cbor_put_null(&b);
    uint32_t target = 0;
    if (rnd(w, 3) && w->cap_count[side] > 0)
        target = w->caps[side][rnd(w, w->cap_count[side])];
    struct asking *a = calloc(1, sizeof *a);
    assert_non_null(a);
    *a = (struct asking){c, w, side};
    w->calls[side][w->call_count[side]++] = c;
    c->id = link_call(w->link[side], target, "do", b.data, b.len, on_answer_asking, a);
    assert_int_not_equal(c->id, 0);
    buf_free(&b);
    if (rnd(w, 10) == 0) { /* gives up at once; `a` is not called, and so is freed here */
        c->cancelled = true;
        link_cancel(w->link[side], c->id);
        free(a);
        reset_end(w, c->stream, side);
    }
}

static void answer_held(struct world *w, int side)
{
    if (w->held_count[side] == 0)
        return;
    unsigned i = (unsigned)rnd(w, w->held_count[side]);
    struct held *h = w->held[side][i];
    w->held[side][i] = w->held[side][--w->held_count[side]];
    struct link_call *call = h->call;
    free(h);
    link_call_on_cancel(call, NULL, NULL);
    answer(w, side, call);
}

static void drop_some(struct world *w, int side)
{
    if (w->cap_count[side] == 0)
        return;
    unsigned i = (unsigned)rnd(w, w->cap_count[side]);
    link_drop(w->link[side], w->caps[side][i]);
    w->caps[side][i] = w->caps[side][--w->cap_count[side]];
}

static void revoke_some(struct world *w)
{
    if (w->object_count == 0)
        return;
    struct object *o = w->objects[rnd(w, w->object_count)];
    if (o->drops || o->revoked)
        return;
    o->revoked = true;
    link_revoke(w->link[o->side], o->cap);
}

/* --- the whole --- */

static void step(struct world *w)
{
    int side = (int)rnd(w, 2);
    size_t most = rnd(w, 3) ? 1 + rnd(w, 100) : 1 + rnd(w, 300000);
    switch (rnd(w, 20)) {
    case 0:
    case 1:
        make_call(w, side);
        break;
    case 2:
        answer_held(w, side);
        break;
    case 3:
        drop_some(w, side);
        break;
    case 4:
        if (rnd(w, 4) == 0)
            revoke_some(w);
        break;
    case 5:
    case 6:
        write_some(w, side);
        break;
    case 7:
    case 8:
        consume_some(w, side);
        break;
    case 9:
        end_some(w, side);
        break;
    case 10:
        if (rnd(w, 4) == 0)
            reset_end(w, pick_stream(w, side, rnd(w, 2)), side);
        break;
    case 11:
        link_log(w->link[side], 1, (int64_t)rnd(w, 1000), "a line");
        break;
    case 12:
    case 13:
    case 14:
    case 15:
        take_some(w, side, most);
        break;
    default:
        deliver_some(w, side, most);
        break;
    }
}

/* Answers and carries everything, until nothing is on its way. */
static void settle(struct world *w)
{
    for (bool busy = true; busy;) {
        busy = false;
        for (int side = 0; side < 2; side++) {
            struct iovec iov;
            while (w->held_count[side] > 0)
                answer_held(w, side);
            while (link_output(w->link[side], &iov, 1) > 0)
                take_some(w, side, SIZE_MAX);
            busy |= w->to[!side].wire.len > 0;
            deliver_some(w, !side, SIZE_MAX);
        }
    }
}

static void check_calls(struct world *w)
{
    for (int side = 0; side < 2; side++)
        for (unsigned i = 0; i < w->call_count[side]; i++) {
            struct call *c = w->calls[side][i];
            assert_int_equal(c->answers, !c->cancelled);
            assert_int_equal(w->answered[side][c->id], 2);
            free(c);
        }
}

static void check_streams(struct world *w)
{
    for (unsigned i = 0; i < w->stream_count; i++) {
        struct stream *s = w->streams[i];
        for (int side = 0; side < 2; side++) {
            assert_false(s->ends[side].open);
            assert_true(s->ends[side].terminals <= s->ends[side].opened);
        }
        if (s->ends[!s->sender].ended_orderly)
            assert_int_equal(s->received, s->sent);
        free(s);
    }
}

static void run(uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->seed = seed;
    for (int side = 0; side < 2; side++) {
        w->bootstrap[side] = (struct object){.world = w, .side = side};
        w->link[side] = link_new(&(struct link_config){.side = side ? LINK_GUEST : LINK_HOST,
                                                       .bootstrap = &object_ops,
                                                       .bootstrap_object = &w->bootstrap[side],
                                                       .max_output = side ? 0 : 200000});
        assert_non_null(w->link[side]);
        buf_init(&w->to[side].wire, 0);
        buf_init(&w->to[side].monitor, 0);
    }
    for (int i = 0; i < STEPS; i++)
        step(w);
    settle(w);
    check_calls(w);
    for (int side = 0; side < 2; side++)
        link_free(w->link[side]);
    check_streams(w);
    for (unsigned i = 0; i < w->object_count; i++) {
        assert_int_equal(w->objects[i]->drops, !w->objects[i]->revoked);
        free(w->objects[i]);
    }
    for (int side = 0; side < 2; side++) {
        buf_free(&w->to[side].wire);
        buf_free(&w->to[side].monitor);
    }
    free(w);
}

static void random_operations_keep_every_promise(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        print_message("# seed %llu\n", (unsigned long long)seed);
        run(seed * 0x9e3779b97f4a7c15u);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations_keep_every_promise)};
    return cmocka_run_group_tests_name("link_property", tests, NULL, NULL);
}
