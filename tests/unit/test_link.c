/* What two honest ends of a link do for each other. */
#include "link/link_internal.h"
#include "link_testing.h"

#include <stdio.h>
#include <stdlib.h>

struct answer {
    int count;
    struct error err;
    char text[64];
    uint32_t cap;
};

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct answer *a = user;
    a->count++;
    if (err) {
        a->err = *err;
        return;
    }
    struct cbor_reader r = value;
    if (cbor_get_string(&value, a->text, sizeof a->text) < 0 && link_get_capability(&r, &a->cap) < 0)
        snprintf(a->text, sizeof a->text, "(other)");
}

struct object {
    struct link_call *held;
    int calls, drops, cancels;
    uint32_t cap;
    struct object *child;
};

static const struct link_object_ops object_ops;

static void count_cancel(void *user)
{
    ((struct object *)user)->cancels++;
}

static void object_call(void *user, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct object *o = user;
    struct buf b;
    o->calls++;
    buf_init(&b, 0);
    if (!strcmp(method, "echo")) {
        link_return(call, args.p, (size_t)(args.end - args.p));
    } else if (!strcmp(method, "fail")) {
        struct error err = {0};
        error_field(&err, "cwd", "cwd: no such directory");
        link_throw(call, &err);
    } else if (!strcmp(method, "errno")) {
        struct error err = {0};
        error_system(&err, 2, "cannot open %s", "/x\xff");
        link_throw(call, &err);
    } else if (!strcmp(method, "hold")) {
        o->held = call;
        link_call_on_cancel(call, count_cancel, o);
    } else if (!strcmp(method, "child")) {
        o->child->cap = link_put_capability(link_call_link(call), &b, &object_ops, o->child);
        link_return(call, b.data, b.len);
    } else if (!strcmp(method, "null")) {
        link_return(call, NULL, 0);
    } else if (!strcmp(method, "garbage")) {
        link_return(call, "\xff", 1);
    } else if (!strcmp(method, "huge")) {
        void *zeros = calloc(1, FRAME_MAX_BODY + 1);
        link_return(call, zeros, FRAME_MAX_BODY + 1);
        free(zeros);
    } else if (!strcmp(method, "shutdown")) {
        struct link *l = link_call_link(call);
        link_shutdown(l, NULL);
        link_return(call, NULL, 0);
    } else {
        link_throw(call, NULL);
    }
    buf_free(&b);
}

static void object_drop(void *user)
{
    ((struct object *)user)->drops++;
}

static const struct link_object_ops object_ops = {.call = object_call, .drop = object_drop};

struct ends {
    struct link *host, *guest;
    struct object object, child;
    int wants;
    char log[64];
};

static void want_write(void *user)
{
    ((struct ends *)user)->wants++;
}

static void on_log(void *user, int level, int64_t ms, const char *text)
{
    snprintf(((struct ends *)user)->log, 64, "%d %lld %.32s", level, (long long)ms, text);
}

static int setup(void **state)
{
    struct ends *e = calloc(1, sizeof *e);
    assert_non_null(e);
    e->object.child = &e->child;
    e->host = link_new(
        &(struct link_config){.side = LINK_HOST, .log = on_log, .user = e, .want_write = want_write});
    e->guest = link_new(
        &(struct link_config){.side = LINK_GUEST, .bootstrap = &object_ops, .bootstrap_object = &e->object});
    assert_non_null(e->host);
    assert_non_null(e->guest);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    struct ends *e = *state;
    link_free(e->host);
    link_free(e->guest);
    free(e);
    return 0;
}

/* Tests keep what callbacks write to on their stack, so both ends must die before the test returns. */
static void close_both(struct ends *e)
{
    link_shutdown(e->host, NULL);
    if (e->guest)
        link_shutdown(e->guest, NULL);
}

static void call_host(struct ends *e, uint32_t target, const char *method, struct answer *a)
{
    assert_int_not_equal(link_call(e->host, target, method, "\x62hi", 3, on_answer, a), 0);
    pump(e->host, e->guest);
}

static void calls_return_and_throw(void **state)
{
    struct ends *e = *state;
    struct answer echo = {0}, fail = {0}, sys = {0}, null = {0}, none = {0}, garbage = {0}, huge = {0};
    call_host(e, 0, "echo", &echo);
    assert_int_equal(echo.count, 1);
    assert_string_equal(echo.text, "hi");
    call_host(e, 0, "fail", &fail);
    assert_error(&fail.err, ERROR_INVALID, "cwd: no such directory");
    assert_string_equal(fail.err.field, "cwd");
    call_host(e, 0, "errno", &sys);
    assert_error(&sys.err, ERROR_SYSTEM, "cannot open /x?: No such file or directory");
    assert_string_equal(error_code(&sys.err), "ENOENT");
    call_host(e, 0, "null", &null);
    assert_string_equal(null.text, "(other)");
    call_host(e, 0, "nonsense", &none);
    assert_error(&none.err, ERROR_INTERNAL, "failed without a reason");
    call_host(e, 0, "garbage", &garbage);
    assert_error(&garbage.err, ERROR_INTERNAL, "the answer is not one well-formed value");
    call_host(e, 0, "huge", &huge);
    assert_error(&huge.err, ERROR_LIMIT, "the answer is larger than 1048576 bytes; it needs a stream");
    assert_true(link_alive(e->host) && link_alive(e->guest));
    close_both(e);
}

static void a_side_without_objects_refuses(void **state)
{
    struct ends *e = *state;
    struct answer a = {0};
    assert_int_not_equal(link_call(e->guest, 0, "x", NULL, 0, on_answer, &a), 0);
    pump(e->host, e->guest);
    assert_error(&a.err, ERROR_DENIED, "this side of the link offers nothing to call");

    /* A capability in arguments that nobody looked at is given back. */
    struct buf b;
    buf_init(&b, 0);
    cbor_put_array(&b, 2);
    cbor_put_text(&b, "x");
    assert_int_not_equal(link_put_capability(e->guest, &b, &object_ops, &e->child), 0);
    assert_int_not_equal(link_call(e->guest, 0, "x", b.data, b.len, on_answer, &a), 0);
    buf_free(&b);
    pump(e->host, e->guest);
    assert_int_equal(e->child.drops, 1);
    close_both(e);
}

static void bad_calls_are_not_sent(void **state)
{
    struct ends *e = *state;
    struct answer a = {0};
    char method[257];
    memset(method, 'm', 256);
    method[256] = '\0';
    assert_int_equal(link_call(e->host, 0, "", NULL, 0, on_answer, &a), 0);
    assert_int_equal(link_call(e->host, 0, method, NULL, 0, on_answer, &a), 0);
    assert_int_equal(link_call(e->host, 0, "x", "\x01\x01", 2, on_answer, &a), 0);
    uint8_t *big = calloc(1, FRAME_MAX_BODY);
    memcpy(big, "\x5a\x00\x0f\xff\xfb", 5); /* well-formed, and with its head just too large for a frame */
    assert_int_equal(link_call(e->host, 0, "x", big, FRAME_MAX_BODY, on_answer, &a), 0);
    free(big);
    struct iovec iov;
    assert_int_equal(link_output(e->host, &iov, 1), 0);
    assert_int_equal(a.count, 0);
    method[255] = '\0';
    assert_int_not_equal(link_call(e->host, 0, method, NULL, 0, on_answer, &a), 0);
    pump(e->host, e->guest);
    assert_int_equal(a.count, 1);
    close_both(e);
}

static void capabilities_can_be_called_dropped_and_revoked(void **state)
{
    struct ends *e = *state;
    struct answer a = {0}, b = {0}, gone = {0}, c = {0};
    call_host(e, 0, "child", &a);
    assert_int_equal(a.cap, e->child.cap);
    call_host(e, a.cap, "echo", &b);
    assert_int_equal(e->child.calls, 1);
    link_drop(e->host, a.cap);
    pump(e->host, e->guest);
    assert_int_equal(e->child.drops, 1);

    call_host(e, 0, "child", &c);
    assert_int_not_equal(c.cap, a.cap);
    link_revoke(e->guest, c.cap);
    call_host(e, c.cap, "echo", &gone);
    assert_error(&gone.err, ERROR_GONE, "the object was withdrawn");
    link_drop(e->host, c.cap);
    pump(e->host, e->guest);
    assert_int_equal(e->child.drops, 1); /* revoked: not told */
    close_both(e);
}

static void the_end_drops_exports(void **state)
{
    struct ends *e = *state;
    struct answer a = {0};
    call_host(e, 0, "child", &a);
    link_shutdown(e->guest, NULL);
    assert_int_equal(e->child.drops, 1);
    assert_int_equal(e->object.drops, 0); /* the bootstrap object is the owner's */
    struct buf b;
    buf_init(&b, 0);
    assert_int_equal(link_put_capability(e->guest, &b, &object_ops, &e->child), 0);
    assert_true(b.failed);
    buf_free(&b);
    close_both(e);
}

static void cancelled_calls_stay_silent(void **state)
{
    struct ends *e = *state;
    struct answer a = {0}, late = {0};
    uint32_t id = link_call(e->host, 0, "hold", NULL, 0, on_answer, &a);
    pump(e->host, e->guest);
    assert_int_equal(e->object.cancels, 0);
    link_cancel(e->host, id);
    link_cancel(e->host, id);
    pump(e->host, e->guest);
    assert_int_equal(e->object.cancels, 1);
    link_return(e->object.held, NULL, 0);
    pump(e->host, e->guest);
    assert_int_equal(a.count, 0);

    /* CANCEL and the answer cross; the capability in the answer is given back. */
    id = link_call(e->host, 0, "child", NULL, 0, on_answer, &late);
    struct buf wire;
    buf_init(&wire, 0);
    take_output(e->host, &wire);
    assert_int_equal(link_receive(e->guest, wire.data, wire.len, NULL), 0);
    link_cancel(e->host, id);
    pump(e->host, e->guest);
    assert_int_equal(late.count, 0);
    assert_int_equal(e->child.drops, 1);
    buf_free(&wire);
    close_both(e);
}

static void cancel_seen_late_is_told_at_once(void **state)
{
    struct ends *e = *state;
    struct answer a = {0};
    uint32_t id = link_call(e->host, 0, "hold", NULL, 0, on_answer, &a);
    pump(e->host, e->guest);
    link_call_on_cancel(e->object.held, NULL, NULL);
    link_cancel(e->host, id);
    pump(e->host, e->guest);
    assert_int_equal(e->object.cancels, 0);
    link_call_on_cancel(e->object.held, count_cancel, &e->object);
    assert_int_equal(e->object.cancels, 1);
    link_throw(e->object.held, NULL);
    close_both(e);
}

static void death_answers_every_call_once(void **state)
{
    struct ends *e = *state;
    struct answer a = {0};
    struct error why = {0};
    call_host(e, 0, "hold", &a);
    error_set(&why, ERROR_TIMEOUT, "took too long");
    link_shutdown(e->host, &why);
    link_shutdown(e->host, NULL);
    assert_int_equal(a.count, 1);
    assert_error(&a.err, ERROR_TIMEOUT, "took too long");
    assert_false(link_alive(e->host));
    assert_int_equal(link_call(e->host, 0, "echo", NULL, 0, on_answer, &a), 0);
    assert_int_equal(link_stream_new(e->host), 0);
    struct error err = {0};
    assert_int_equal(link_receive(e->host, "x", 1, &err), -1);
    assert_error(&err, ERROR_TIMEOUT, "took too long");

    link_shutdown(e->guest, NULL);
    assert_int_equal(e->object.cancels, 1);
    assert_ptr_equal(link_call_link(e->object.held), e->guest);
    link_free(e->guest);
    e->guest = NULL;
    assert_null(link_call_link(e->object.held));
    link_return(e->object.held, NULL, 0);
    close_both(e);
}

static void a_callback_may_shut_the_link_down(void **state)
{
    struct ends *e = *state;
    struct answer a = {0};
    struct buf wire;
    struct error err = {0};
    buf_init(&wire, 0);
    link_call(e->host, 0, "shutdown", NULL, 0, on_answer, &a);
    link_call(e->host, 0, "echo", NULL, 0, on_answer, &a);
    take_output(e->host, &wire);
    assert_int_equal(link_receive(e->guest, wire.data, wire.len, &err), -1);
    assert_error(&err, ERROR_GONE, "the link was closed");
    assert_int_equal(e->object.calls, 1);
    buf_free(&wire);
    close_both(e);
}

static void too_many_calls_are_not_sent(void **state)
{
    struct ends *e = *state;
    struct answer a = {0};
    for (unsigned i = 0; i < LINK_MAX_CALLS; i++)
        assert_int_not_equal(link_call(e->host, 0, "echo", NULL, 0, on_answer, &a), 0);
    assert_int_equal(link_call(e->host, 0, "echo", NULL, 0, on_answer, &a), 0);
    pump(e->host, e->guest);
    assert_int_equal(a.count, (int)LINK_MAX_CALLS);
    assert_int_not_equal(link_call(e->host, 0, "echo", NULL, 0, on_answer, &a), 0);
    close_both(e);
}

static void capabilities_are_limited(void **state)
{
    struct ends *e = *state;
    struct buf b;
    buf_init(&b, 0);
    for (unsigned i = 0; i < LINK_MAX_CAPS; i++)
        assert_int_not_equal(link_put_capability(e->host, &b, &object_ops, &e->child), 0);
    assert_false(b.failed);
    assert_int_equal(link_put_capability(e->host, &b, &object_ops, &e->child), 0);
    assert_true(b.failed);
    assert_true(link_alive(e->host));
    buf_free(&b);
    link_shutdown(e->host, NULL);
    assert_int_equal(e->child.drops, (int)LINK_MAX_CAPS);
    close_both(e);
}

static void logs_arrive(void **state)
{
    struct ends *e = *state;
    link_log(e->guest, 3, -5, "hello");
    pump(e->host, e->guest);
    assert_string_equal(e->log, "3 -5 hello");
    link_log(e->guest, 99, 0, "\xff");
    pump(e->host, e->guest);
    assert_string_equal(e->log, "7 0 \xff");
    char *big = malloc(100001);
    memset(big, 'x', 100000);
    big[100000] = '\0';
    link_log(e->guest, -1, 1, big);
    free(big);
    pump(e->host, e->guest);
    assert_string_equal(e->log, "0 1 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    close_both(e);
}

static void errors_of_a_peer_are_tamed(void **state)
{
    struct cbor_reader r;
    struct error err;
    struct buf b;
    buf_init(&b, 0);
    cbor_put_map(&b, 2);
    cbor_put_text(&b, "code");
    cbor_put_text(&b, "OK");
    cbor_put_text(&b, "message");
    cbor_put_text(&b, "a\nb\x1b[31m");
    cbor_reader_init(&r, b.data, b.len);
    link_get_error(r, &err);
    assert_error(&err, ERROR_INTERNAL, "a b [31m");
    cbor_reader_init(&r, "\xa0", 1);
    link_get_error(r, &err);
    assert_error(&err, ERROR_INTERNAL, "the other side gave no reason");

    buf_clear(&b);
    char text[600];
    memset(text, 'x', sizeof text);
    memcpy(text + 510, "\xc3\xa4", 2); /* the cut at 511 bytes would split it */
    cbor_put_map(&b, 1);
    cbor_put_text(&b, "message");
    cbor_put_text_n(&b, text, sizeof text);
    cbor_reader_init(&r, b.data, b.len);
    link_get_error(r, &err);
    assert_int_equal(strlen(err.message), 510);
    buf_free(&b);
}

/* --- streams --- */

struct sink {
    size_t bytes;
    int ends, resets, writable, pieces;
    const uint8_t *last;
    struct error why;
    struct link *l;
    uint32_t other;
};

static void sink_data(void *user, uint32_t id, const uint8_t *data, size_t len)
{
    struct sink *s = user;
    s->bytes += len;
    s->pieces++;
    s->last = data;
}

static void sink_end(void *user, uint32_t id)
{
    ((struct sink *)user)->ends++;
}

static void sink_reset(void *user, uint32_t id, const struct error *why)
{
    struct sink *s = user;
    s->resets++;
    s->why = *why;
    if (s->l)
        link_stream_reset(s->l, s->other, NULL);
}

static void sink_writable(void *user, uint32_t id)
{
    ((struct sink *)user)->writable++;
}

static const struct link_stream_ops sink_ops = {sink_data, sink_end, sink_reset, sink_writable};

static uint32_t open_pair(struct ends *e, struct sink *from, struct sink *to)
{
    uint32_t id = link_stream_new(e->host);
    assert_int_not_equal(id, 0);
    assert_int_equal(link_stream_open_send(e->host, id, &sink_ops, from, NULL), 0);
    assert_int_equal(link_stream_open_receive(e->guest, id, &sink_ops, to, NULL), 0);
    return id;
}

static uint8_t zeros[LINK_STREAM_WINDOW + 1];

static void streams_carry_bytes_within_credit(void **state)
{
    struct ends *e = *state;
    struct sink from = {0}, to = {0};
    uint32_t id = open_pair(e, &from, &to);
    assert_int_equal(link_stream_writable(e->host, id), LINK_STREAM_WINDOW);
    assert_int_equal(link_stream_write(e->host, id, zeros, LINK_STREAM_WINDOW + 1), -1);
    assert_int_equal(link_stream_write(e->host, id, zeros, LINK_STREAM_WINDOW), 0);
    assert_int_equal(link_stream_writable(e->host, id), 0);
    pump(e->host, e->guest);
    assert_int_equal(to.bytes, LINK_STREAM_WINDOW);
    assert_int_equal(from.writable, 0);
    link_stream_consumed(e->guest, id, 1);
    pump(e->host, e->guest);
    assert_int_equal(link_stream_writable(e->host, id), 0); /* not worth a frame yet */
    link_stream_consumed(e->guest, id, SIZE_MAX);           /* more than there is: clamped */
    pump(e->host, e->guest);
    assert_int_equal(from.writable, 1);
    assert_int_equal(link_stream_writable(e->host, id), LINK_STREAM_WINDOW);
    assert_int_equal(link_stream_write(e->host, id, zeros, 7), 0);
    link_stream_end(e->host, id);
    assert_int_equal(link_stream_writable(e->host, id), 0);
    assert_int_equal(link_stream_write(e->host, id, zeros, 1), -1);
    pump(e->host, e->guest);
    assert_int_equal(to.bytes, LINK_STREAM_WINDOW + 7);
    assert_int_equal(to.ends, 1);
    assert_int_equal(to.resets + from.ends + from.resets, 0);
    link_stream_consumed(e->guest, id, 7); /* after the end: nothing happens */
    pump(e->host, e->guest);
    close_both(e);
}

static void whole_data_frames_are_not_copied(void **state)
{
    struct ends *e = *state;
    struct sink from = {0}, to = {0};
    uint32_t id = open_pair(e, &from, &to);
    struct buf wire;
    buf_init(&wire, 0);
    link_stream_write(e->host, id, zeros, 1000);
    take_output(e->host, &wire);
    assert_int_equal(link_receive(e->guest, wire.data, wire.len, NULL), 0);
    assert_int_equal(to.pieces, 1);
    assert_ptr_equal(to.last, wire.data + FRAME_HEADER_SIZE);
    /* and a body in two pieces is handed on as it comes, from where it lies */
    assert_int_equal(link_receive(e->guest, wire.data, 500, NULL), 0);
    assert_int_equal(to.pieces, 2);
    assert_int_equal(to.bytes, 1000 + 500 - FRAME_HEADER_SIZE);
    assert_int_equal(link_receive(e->guest, wire.data + 500, wire.len - 500, NULL), 0);
    assert_ptr_equal(to.last, wire.data + 500);
    assert_int_equal(to.bytes, 2000);
    buf_free(&wire);
    close_both(e);
}

static void data_may_go_past_the_link(void **state)
{
    struct ends *e = *state;
    struct sink from = {0}, to = {0};
    uint32_t id = open_pair(e, &from, &to);
    uint8_t frame[LINK_HEADER_SIZE + 1000] = {0};
    assert_int_equal(link_stream_write_apart(e->host, id, 0, frame), -1);
    assert_int_equal(link_stream_write_apart(e->host, id, LINK_APART_MAX + 1, frame), -1);
    assert_int_equal(link_stream_write_apart(e->host, id, 1000, frame), 0);
    assert_int_equal(link_stream_writable(e->host, id), LINK_STREAM_WINDOW - 1000);
    link_stream_write(e->host, id, zeros, 5); /* what is queued now comes after it */
    assert_int_equal(link_stream_write_apart(e->host, id, 1000, frame), -1);
    assert_int_equal(link_receive(e->guest, frame, sizeof frame, NULL), 0);
    assert_int_equal(to.bytes, 1000);
    pump(e->host, e->guest);
    assert_int_equal(to.bytes, 1005);
    link_stream_end(e->host, id);
    pump(e->host, e->guest);
    assert_int_equal(link_stream_write_apart(e->host, id, 1, frame), -1);
    assert_int_equal(to.ends, 1);
    close_both(e);
}

static void a_receiver_may_widen_its_window(void **state)
{
    struct ends *e = *state;
    struct sink from = {0}, to = {0};
    uint32_t id = open_pair(e, &from, &to);
    link_stream_widen(e->host, id, 1000); /* only the receiver can */
    link_stream_widen(e->guest, id, 0);
    link_stream_widen(e->guest, id, UINT32_MAX);
    pump(e->host, e->guest);
    assert_int_equal(link_stream_writable(e->host, id), LINK_STREAM_WINDOW);
    link_stream_widen(e->guest, id, LINK_STREAM_WINDOW);
    pump(e->host, e->guest);
    assert_int_equal(link_stream_writable(e->host, id), 2 * LINK_STREAM_WINDOW);
    assert_int_equal(link_stream_write(e->host, id, zeros, LINK_STREAM_WINDOW), 0);
    assert_int_equal(link_stream_write(e->host, id, zeros, LINK_STREAM_WINDOW), 0);
    pump(e->host, e->guest);
    assert_int_equal(to.bytes, 2 * LINK_STREAM_WINDOW);
    link_stream_consumed(e->guest, id, SIZE_MAX);
    pump(e->host, e->guest);
    assert_int_equal(link_stream_writable(e->host, id), 2 * LINK_STREAM_WINDOW);
    close_both(e);
}

static void resets_reach_the_other_end(void **state)
{
    struct ends *e = *state;
    struct sink from = {0}, to = {0}, from2 = {0}, to2 = {0};
    struct error why = {0};
    uint32_t id = open_pair(e, &from, &to), id2 = open_pair(e, &from2, &to2);
    error_system(&why, 32, "the reader is gone");
    link_stream_reset(e->guest, id, &why);
    link_stream_write(e->host, id, zeros, 100); /* crosses with it */
    link_stream_end(e->host, id);
    pump(e->host, e->guest);
    assert_int_equal(from.resets + to.resets + to.ends + to.pieces,
                     0); /* ended on one side, reset on the other */
    link_stream_reset(e->host, id2, &why);
    pump(e->host, e->guest);
    assert_int_equal(to2.resets, 1);
    assert_int_equal(from2.resets, 0);
    assert_string_equal(error_code(&to2.why), "EPIPE");
    struct sink from3 = {0}, to3 = {0};
    uint32_t id3 = open_pair(e, &from3, &to3);
    link_stream_reset(e->guest, id3, NULL);
    pump(e->host, e->guest);
    assert_int_equal(from3.resets, 1);
    assert_error(&from3.why, ERROR_GONE, "the stream was given up");
    close_both(e);
}

static void a_full_output_stops_and_wakes_senders(void **state)
{
    struct ends *e = *state;
    struct link *l = link_new(&(struct link_config){.side = LINK_HOST, .max_output = 100000});
    struct sink a = {0}, b = {0};
    uint32_t ida = link_stream_new(l), idb = link_stream_new(l);
    assert_int_equal(link_stream_open_send(l, ida, &sink_ops, &a, NULL), 0);
    assert_int_equal(link_stream_open_send(l, idb, &sink_ops, &b, NULL), 0);
    assert_int_equal(link_stream_writable(l, ida), 100000);
    assert_int_equal(link_stream_write(l, ida, zeros, 100000), 0);
    assert_true(link_output_full(l));
    assert_int_equal(link_stream_writable(l, ida), 0);
    assert_int_equal(link_stream_writable(l, idb), 0);
    link_sent(l, 40000);
    assert_false(link_output_full(l));
    assert_int_equal(a.writable + b.writable, 0);
    link_sent(l, 20000);
    assert_int_equal(a.writable, 1);
    assert_int_equal(b.writable, 1);
    link_sent(l, 20000);
    assert_int_equal(a.writable + b.writable, 2);
    /* a waiting stream may close */
    assert_int_equal(link_stream_write(l, ida, zeros, link_stream_writable(l, ida)), 0);
    assert_int_equal(link_stream_writable(l, ida), 0);
    assert_int_equal(link_stream_writable(l, idb), 0);
    link_stream_end(l, ida);
    link_sent(l, SIZE_MAX);
    assert_int_equal(a.writable, 1);
    assert_int_equal(b.writable, 2);
    link_free(l);
    assert_int_equal(a.resets, 0);
    assert_int_equal(b.resets, 1);
    close_both(e);
}

static void a_peer_that_reads_nothing_ends_the_link(void **state)
{
    struct link *l = link_new(&(struct link_config){.side = LINK_HOST, .max_output = 1000});
    struct answer a = {0};
    uint8_t *args = calloc(1, 1 << 20);
    memcpy(args, "\x5a\x00\x0f\x00\x00", 5);
    for (int i = 0; i < 80 && link_alive(l); i++)
        link_call(l, 0, "x", args, 5 + 0xf0000, on_answer, &a);
    assert_false(link_alive(l));
    assert_int_equal(a.err.kind, ERROR_LIMIT);
    assert_int_equal(a.count, 68); /* every call but the one that was refused */
    free(args);
    link_free(l);
}

static void death_resets_every_stream_once(void **state)
{
    struct ends *e = *state;
    struct sink from = {0}, to = {0}, from2 = {0}, to2 = {0};
    uint32_t id = open_pair(e, &from, &to);
    uint32_t id2 = open_pair(e, &from2, &to2);
    /* Whichever is told first gives up the other, which must then hear nothing. */
    from.l = from2.l = e->host;
    from.other = id2;
    from2.other = id;
    link_shutdown(e->host, NULL);
    assert_int_equal(from.resets + from2.resets, 1);
    link_shutdown(e->guest, NULL);
    assert_int_equal(to.resets, 1);
    assert_int_equal(to2.resets, 1);
    close_both(e);
}

static void stream_numbers_are_checked(void **state)
{
    struct ends *e = *state;
    struct sink s = {0};
    struct error err = {0};
    uint32_t id = link_stream_new(e->host);
    assert_int_equal(id, 2);
    assert_int_equal(link_stream_new(e->guest), 1);
    assert_int_equal(link_stream_open_send(e->host, 0, &sink_ops, &s, &err), -1);
    assert_error(&err, ERROR_PROTOCOL, "stream 0 has a number that the peer may not choose");
    assert_int_equal(link_stream_open_receive(e->host, 4, &sink_ops, &s, &err), -1);
    assert_error(&err, ERROR_PROTOCOL, "stream 4 has a number that the peer may not choose");
    assert_int_equal(link_stream_open_receive(e->guest, 3, &sink_ops, &s, &err), -1);
    assert_error(&err, ERROR_PROTOCOL, "stream 3 has a number that the peer may not choose");
    assert_int_equal(link_stream_open_receive(e->host, 5, &sink_ops, &s, &err), 0);
    assert_int_equal(link_stream_open_send(e->host, 5, &sink_ops, &s, &err), -1);
    assert_error(&err, ERROR_PROTOCOL, "stream 5 is open already");
    link_stream_reset(e->host, 5, NULL);
    assert_int_equal(link_stream_open_receive(e->host, 5, &sink_ops, &s, &err), -1);
    assert_error(&err, ERROR_PROTOCOL, "stream 5 has ended already");
    for (uint32_t i = 0; i < LINK_MAX_STREAMS; i++)
        assert_int_equal(link_stream_open_receive(e->host, 101 + 2 * i, &sink_ops, &s, &err), 0);
    assert_int_equal(link_stream_open_receive(e->host, 99, &sink_ops, &s, &err), -1);
    assert_error(&err, ERROR_LIMIT, "more than 8192 streams are open");
    assert_true(link_alive(e->host));
    link_shutdown(e->host, NULL);
    assert_int_equal(link_stream_open_receive(e->host, 99, &sink_ops, &s, &err), -1);
    assert_error(&err, ERROR_GONE, "the link is closed: the link was closed");
    close_both(e);
}

static void streams_of_a_refused_call_are_reset(void **state)
{
    struct ends *e = *state;
    struct sink s = {0}, out = {0};
    struct answer a = {0};
    uint32_t id = link_stream_new(e->host), quiet = link_stream_new(e->host);
    assert_int_equal(link_stream_open_send(e->host, id, &sink_ops, &s, NULL), 0);
    assert_int_equal(link_stream_open_receive(e->host, quiet, &sink_ops, &out, NULL), 0);
    link_call(e->host, 0, "nonsense", NULL, 0, on_answer, &a); /* would have named them */
    link_stream_write(e->host, id, zeros, 1000);
    link_stream_write(e->host, id, zeros, 1000);
    link_stream_reset(e->host, quiet, NULL);
    pump(e->host, e->guest);
    assert_int_equal(a.count, 1);
    assert_int_equal(s.resets, 1);
    assert_error(&s.why, ERROR_NOT_FOUND, "stream 2 is not open here");
    struct error err = {0};
    assert_int_equal(link_stream_open_receive(e->guest, id, &sink_ops, &s, &err), -1);
    assert_error(&err, ERROR_PROTOCOL, "stream 2 has ended already");
    assert_true(link_alive(e->host) && link_alive(e->guest));
    close_both(e);
}

static void want_write_is_called_once_for_a_batch(void **state)
{
    struct ends *e = *state;
    struct answer a = {0};
    link_call(e->host, 0, "echo", NULL, 0, on_answer, &a);
    link_call(e->host, 0, "echo", NULL, 0, on_answer, &a);
    assert_int_equal(e->wants, 1);
    pump(e->host, e->guest);
    link_call(e->host, 0, "echo", NULL, 0, on_answer, &a);
    assert_int_equal(e->wants, 2);
    close_both(e);
}

/* Writes all it may in the callback, and says how much that was. */
static void greedy_writable(void *user, uint32_t id)
{
    struct sink *s = user;
    size_t n = link_stream_writable(s->l, id);
    s->writable++;
    s->bytes += n;
    assert_int_equal(link_stream_write(s->l, id, zeros, n), 0);
    assert_int_equal(link_stream_writable(s->l, id), 0);
}

static void greedy_writers_take_turns(void **state)
{
    static const struct link_stream_ops greedy_ops = {.writable = greedy_writable};
    struct link *l = link_new(&(struct link_config){.side = LINK_HOST, .max_output = 10000});
    struct sink sinks[3] = {0};
    for (int i = 0; i < 3; i++) {
        uint32_t id = link_stream_new(l);
        sinks[i].l = l;
        assert_int_equal(link_stream_open_send(l, id, &greedy_ops, &sinks[i], NULL), 0);
        greedy_writable(&sinks[i], id);
    }
    for (int round = 0; round < 30; round++)
        link_sent(l, 10000);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sinks[i].writable, 11);
    link_free(l);
}

static void receive_link(void *user, uint32_t id, const uint8_t *data, size_t len)
{
    struct sink *s = user;
    assert_int_equal(link_receive(s->l, "x", 1, &s->why), -1);
}

static void receiving_inside_a_callback_is_refused(void **state)
{
    static const struct link_stream_ops nested_ops = {.data = receive_link};
    struct ends *e = *state;
    struct sink from = {0}, to = {.l = e->guest};
    uint32_t id = link_stream_new(e->host);
    assert_int_equal(link_stream_open_send(e->host, id, &sink_ops, &from, NULL), 0);
    assert_int_equal(link_stream_open_receive(e->guest, id, &nested_ops, &to, NULL), 0);
    link_stream_write(e->host, id, zeros, 10);
    pump(e->host, e->guest);
    assert_error(&to.why, ERROR_INTERNAL, "link_receive() was called from inside one of its callbacks");
    assert_true(link_alive(e->guest));
    close_both(e);
}

static void call_numbers_wrap_around_those_in_use(void **state)
{
    struct ends *e = *state;
    struct answer first = {0}, a = {0};
    uint32_t held = link_call(e->host, 0, "hold", NULL, 0, on_answer, &first);
    assert_int_equal(held, 1);
    e->host->next_call = UINT32_MAX;
    assert_int_equal(link_call(e->host, 0, "echo", NULL, 0, on_answer, &a), UINT32_MAX);
    assert_int_equal(link_call(e->host, 0, "echo", NULL, 0, on_answer, &a), 2);
    pump(e->host, e->guest);
    assert_int_equal(a.count, 2);
    link_return(e->object.held, NULL, 0);
    pump(e->host, e->guest);
    assert_int_equal(first.count, 1);
    close_both(e);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(calls_return_and_throw),
        T(a_side_without_objects_refuses),
        T(bad_calls_are_not_sent),
        T(capabilities_can_be_called_dropped_and_revoked),
        T(the_end_drops_exports),
        T(cancelled_calls_stay_silent),
        T(cancel_seen_late_is_told_at_once),
        T(death_answers_every_call_once),
        T(a_callback_may_shut_the_link_down),
        T(too_many_calls_are_not_sent),
        T(capabilities_are_limited),
        T(logs_arrive),
        T(errors_of_a_peer_are_tamed),
        T(streams_carry_bytes_within_credit),
        T(data_may_go_past_the_link),
        T(a_receiver_may_widen_its_window),
        T(whole_data_frames_are_not_copied),
        T(resets_reach_the_other_end),
        T(a_full_output_stops_and_wakes_senders),
        T(a_peer_that_reads_nothing_ends_the_link),
        T(death_resets_every_stream_once),
        T(stream_numbers_are_checked),
        T(streams_of_a_refused_call_are_reset),
        T(want_write_is_called_once_for_a_batch),
        T(greedy_writers_take_turns),
        T(receiving_inside_a_callback_is_refused),
        T(call_numbers_wrap_around_those_in_use),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
