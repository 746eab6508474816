/* A peer that breaks the protocol: each violation ends the link with its own error, and each has a legal
 * twin. Attack lines C8 (length bombs, partial frames) and G14 (forged capabilities) of the threat list. */
#include "link_testing.h"

#include <stdio.h>
#include <stdlib.h>

struct victim {
    struct link *l; /* the host side */
    struct buf raw; /* what the peer sends next */
    struct link_call *held[LINK_MAX_CALLS];
    unsigned held_count, calls, drops, answers, ends, resets;
    size_t bytes;
    uint32_t cap;
};

static const struct link_object_ops ops;

static void on_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct victim *v = object;
    v->calls++;
    if (!strcmp(method, "hold")) {
        v->held[v->held_count++] = call;
        return;
    }
    struct buf b;
    buf_init(&b, 0);
    if (!strcmp(method, "cap"))
        v->cap = link_put_capability(v->l, &b, &ops, v);
    link_return(call, b.data, b.len);
    buf_free(&b);
}

static void on_drop(void *object)
{
    ((struct victim *)object)->drops++;
}

static const struct link_object_ops ops = {on_call, on_drop};

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    ((struct victim *)user)->answers++;
}

static void on_data(void *user, uint32_t id, const uint8_t *data, size_t len)
{
    ((struct victim *)user)->bytes += len;
}

static void on_end(void *user, uint32_t id)
{
    ((struct victim *)user)->ends++;
}

static void on_reset(void *user, uint32_t id, const struct error *why)
{
    ((struct victim *)user)->resets++;
}

static const struct link_stream_ops stream_ops = {on_data, on_end, on_reset, NULL};

static int setup(void **state)
{
    struct victim *v = calloc(1, sizeof *v);
    assert_non_null(v);
    v->l = link_new(&(struct link_config){.side = LINK_HOST, .bootstrap = &ops, .bootstrap_object = v});
    assert_non_null(v->l);
    buf_init(&v->raw, 0);
    *state = v;
    return 0;
}

static int teardown(void **state)
{
    struct victim *v = *state;
    link_shutdown(v->l, NULL);
    for (unsigned i = 0; i < v->held_count; i++)
        link_return(v->held[i], NULL, 0);
    link_free(v->l);
    buf_free(&v->raw);
    free(v);
    return 0;
}

static int feed(struct victim *v, struct error *err)
{
    assert_false(v->raw.failed);
    int r = link_receive(v->l, v->raw.data, v->raw.len, err);
    buf_clear(&v->raw);
    return r;
}

/* What is in v->raw is all right. */
static void accepted(struct victim *v)
{
    struct error err = {0};
    feed(v, &err);
    assert_string_equal(err.message, "");
    assert_true(link_alive(v->l));
}

/* What is in v->raw ends the link with exactly this message. */
static void fatal(struct victim *v, const char *message)
{
    struct error err = {0};
    assert_int_equal(feed(v, &err), -1);
    assert_error(&err, ERROR_PROTOCOL, message);
    assert_false(link_alive(v->l));
    struct iovec iov;
    assert_int_equal(link_output(v->l, &iov, 1), 0);
}

static void fatal_bytes(struct victim *v, const char *bytes, size_t len, const char *message)
{
    buf_append(&v->raw, bytes, len);
    fatal(v, message);
}

static void oversized_frame(void **state)
{
    fatal_bytes(*state, "\1\0\x10\0\1\0\0\0\1\0\0\0", 12,
                "CALL frame with a body of 1048577 bytes, expected 1 to 1048576");
}

static void unknown_kind(void **state)
{
    fatal_bytes(*state, "\0\0\0\0\x2a\0\0\0\1\0\0\0", 12, "frame of unknown kind 42");
}

static void unknown_flags(void **state)
{
    fatal_bytes(*state, "\0\0\0\0\4\1\0\0\1\0\0\0", 12, "CANCEL frame with unknown flags 0x01");
}

static void reserved_bits(void **state)
{
    fatal_bytes(*state, "\0\0\0\0\4\0\0\1\1\0\0\0", 12, "CANCEL frame with reserved bits set");
}

static void zero_id(void **state)
{
    fatal_bytes(*state, "\1\0\0\0\6\0\0\0\0\0\0\0x", 13, "DATA frame with id 0");
}

static void violations_are_found_byte_by_byte(void **state)
{
    struct victim *v = *state;
    static const char bytes[] = "\0\0\0\0\x2a\0\0\0\1\0\0";
    struct error err = {0};
    for (size_t i = 0; i < 11; i++)
        assert_int_equal(link_receive(v->l, bytes + i, 1, &err), 0);
    assert_int_equal(link_receive(v->l, "\0", 1, &err), -1);
    assert_error(&err, ERROR_PROTOCOL, "frame of unknown kind 42");
}

static const char *const call_message = "CALL frame whose body is not [target, method, arguments]";

static void bad_call_bodies(void **state)
{
    static const struct {
        const char *body;
        size_t len;
    } bad[] = {
        {"\x83\x00\x61x\x18\x17", 6}, /* arguments not in shortest form */
        {"\x83\x00\x61x", 4},         /* no arguments */
        {"\x83\x00\x61x\xf6\xf6", 6}, /* bytes after them */
        {"\x82\x00\x61x", 4},
        {"\x84\x00\x61x\xf6\xf6", 6},
        {"\xa1\x00\x61x", 4},                                      /* a map */
        {"\x83\x20\x61x\xf6", 5},                                  /* negative target */
        {"\x83\x1b\x00\x00\x00\x01\x00\x00\x00\x00\x61x\xf6", 13}, /* target of 33 bits */
        {"\x83\x00\x60\xf6", 4},                                   /* empty method */
        {"\x83\x00\x41x\xf6", 5},                                  /* method of bytes */
        {"\x83\x00\x61\x00\xf6", 5},                               /* NUL in the method */
        {"\x83\x00\x61\xff\xf6", 5},                               /* not UTF-8 */
        {"\x83\x00\x61x\x9f\xff", 6},                              /* indefinite length */
        {"\xff", 1},
    };
    struct victim *v = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_frame(&v->raw, FRAME_CALL, 1, bad[i].body, bad[i].len);
        fatal(v, call_message);
        link_free(v->l);
        v->l = link_new(&(struct link_config){.side = LINK_HOST, .bootstrap = &ops, .bootstrap_object = v});
    }
    assert_int_equal(v->calls, 0);
    put_frame(&v->raw, FRAME_CALL, 1, "\x83\x00\x61x\xf6", 5); /* the twin */
    accepted(v);
    assert_int_equal(v->calls, 1);
}

static void method_too_long(void **state)
{
    struct victim *v = *state;
    char method[257] = "";
    memset(method, 'm', 255);
    put_call_frame(&v->raw, 1, 0, method);
    accepted(v);
    method[255] = 'm';
    put_call_frame(&v->raw, 2, 0, method);
    fatal(v, call_message);
}

static void arguments_too_deep(void **state)
{
    struct victim *v = *state;
    uint8_t body[4 + CBOR_MAX_DEPTH + 2] = {0x83, 0x00, 0x61, 'x'};
    memset(body + 4, 0x81, CBOR_MAX_DEPTH + 1);
    body[4 + CBOR_MAX_DEPTH] = 0x00;
    put_frame(&v->raw, FRAME_CALL, 1, body, 4 + CBOR_MAX_DEPTH + 1);
    accepted(v);
    body[4 + CBOR_MAX_DEPTH] = 0x81;
    body[4 + CBOR_MAX_DEPTH + 1] = 0x00;
    put_frame(&v->raw, FRAME_CALL, 2, body, sizeof body);
    fatal(v, call_message);
}

static void forged_capability(void **state)
{
    struct victim *v = *state;
    put_call_frame(&v->raw, 1, 0, "cap");
    accepted(v);
    put_call_frame(&v->raw, 2, v->cap, "x");
    accepted(v);
    assert_int_equal(v->calls, 2);
    put_call_frame(&v->raw, 3, v->cap + 1, "x");
    fatal(v, "CALL on capability 2, which was never given");
    assert_int_equal(v->calls, 2);
    assert_int_equal(v->drops, 1);
}

static void replay_after_drop(void **state)
{
    struct victim *v = *state;
    put_call_frame(&v->raw, 1, 0, "cap");
    put_u32_frame(&v->raw, FRAME_DROP, 1, 1);
    accepted(v);
    assert_int_equal(v->drops, 1);
    put_call_frame(&v->raw, 2, 1, "x");
    fatal(v, "CALL on capability 1 after it was dropped");
    assert_int_equal(v->drops, 1);
}

static void drop_twice(void **state)
{
    struct victim *v = *state;
    put_call_frame(&v->raw, 1, 0, "cap");
    put_u32_frame(&v->raw, FRAME_DROP, 1, 1);
    accepted(v);
    put_u32_frame(&v->raw, FRAME_DROP, 1, 1);
    fatal(v, "DROP of capability 1, which was dropped already");
}

static void drop_of_nothing(void **state)
{
    struct victim *v = *state;
    put_u32_frame(&v->raw, FRAME_DROP, 7, 1);
    fatal(v, "DROP of capability 7, which was never given");
}

static void drop_too_much(void **state)
{
    struct victim *v = *state;
    put_call_frame(&v->raw, 1, 0, "cap");
    put_u32_frame(&v->raw, FRAME_DROP, 1, 2);
    fatal(v, "DROP of 2 references to capability 1, of which the peer holds 1");
}

static void drop_zero(void **state)
{
    struct victim *v = *state;
    put_call_frame(&v->raw, 1, 0, "cap");
    put_u32_frame(&v->raw, FRAME_DROP, 1, 0);
    fatal(v, "DROP of 0 references to capability 1, of which the peer holds 1");
}

static void call_number_in_use(void **state)
{
    struct victim *v = *state;
    put_call_frame(&v->raw, 5, 0, "x");
    put_call_frame(&v->raw, 5, 0, "hold"); /* answered, so free again */
    accepted(v);
    put_call_frame(&v->raw, 5, 0, "x");
    fatal(v, "CALL with number 5, which is in use");
}

static void too_many_calls(void **state)
{
    struct victim *v = *state;
    for (uint32_t i = 1; i <= LINK_MAX_CALLS; i++)
        put_call_frame(&v->raw, i, 0, "hold");
    accepted(v);
    assert_int_equal(v->held_count, LINK_MAX_CALLS);
    put_call_frame(&v->raw, LINK_MAX_CALLS + 1, 0, "hold");
    fatal(v, "more than 4096 calls in progress");
}

static void cancel_of_nothing(void **state)
{
    struct victim *v = *state;
    put_call_frame(&v->raw, 5, 0, "x");
    put_frame(&v->raw, FRAME_CANCEL, 5, NULL, 0); /* crossed with the answer */
    accepted(v);
    put_frame(&v->raw, FRAME_CANCEL, 6, NULL, 0);
    fatal(v, "CANCEL for call 6, which was never made");
}

static uint32_t make_call(struct victim *v)
{
    uint32_t id = link_call(v->l, 0, "x", NULL, 0, on_answer, v);
    assert_int_not_equal(id, 0);
    return id;
}

static void double_answer(void **state)
{
    struct victim *v = *state;
    uint32_t id = make_call(v);
    put_frame(&v->raw, FRAME_RETURN, id, "\xf6", 1);
    accepted(v);
    assert_int_equal(v->answers, 1);
    put_frame(&v->raw, FRAME_RETURN, id, "\xf6", 1);
    fatal(v, "RETURN for call 1, which was answered already");
    assert_int_equal(v->answers, 1);
}

static void double_answer_after_cancel(void **state)
{
    struct victim *v = *state;
    uint32_t id = make_call(v);
    link_cancel(v->l, id);
    put_frame(&v->raw, FRAME_RETURN, id, "\xf6", 1);
    accepted(v);
    put_frame(&v->raw, FRAME_THROW, id, "\xa0", 1);
    fatal(v, "THROW for call 1, which was answered already");
    assert_int_equal(v->answers, 0);
}

static void answer_to_nothing(void **state)
{
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_RETURN, 1, "\xf6", 1);
    fatal(v, "RETURN for call 1, which was never made");
}

static void bad_return(void **state)
{
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_RETURN, make_call(v), "\xf6\xf6", 2);
    fatal(v, "RETURN frame whose body is not one CBOR value");
    assert_int_equal(v->answers, 1); /* with the error */
}

static void bad_throw(void **state)
{
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_THROW, make_call(v), "\x61x", 2);
    fatal(v, "THROW frame whose body is not a CBOR map");
}

static void bad_log(void **state)
{
    static const struct {
        const char *body;
        size_t len;
    } bad[] = {{"\x83\x08\x00\x61x", 5},
               {"\x83\x00\x61x\x00", 5},
               {"\x82\x00\x00", 3},
               {"\x83\x00\x00\x61x\x00", 6},
               {"\x83\x00\x00\x61\x00", 5},
               {"\x83\x00\x00\x61\xff", 5},
               {"\xf6", 1}};
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_LOG, 0, "\x83\x00\x00\x61x", 5);
    accepted(v);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_frame(&v->raw, FRAME_LOG, 0, bad[i].body, bad[i].len);
        fatal(v, "LOG frame whose body is not [level, milliseconds, text]");
        link_free(v->l);
        v->l = link_new(&(struct link_config){.side = LINK_HOST});
    }
}

/* --- streams --- */

static uint32_t open_stream(struct victim *v, bool send)
{
    uint32_t id = link_stream_new(v->l);
    assert_int_equal(send ? link_stream_open_send(v->l, id, &stream_ops, v, NULL)
                          : link_stream_open_receive(v->l, id, &stream_ops, v, NULL),
                     0);
    return id;
}

static uint8_t zeros[LINK_STREAM_WINDOW + 1];

static void credit_overrun_in_one_frame(void **state)
{
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_DATA, open_stream(v, false), zeros, LINK_STREAM_WINDOW + 1);
    fatal(v, "DATA of 262145 bytes for stream 2 with a credit of 262144");
    assert_int_equal(v->bytes, 0);
    assert_int_equal(v->resets, 1);
}

static void credit_overrun_in_many_frames(void **state)
{
    struct victim *v = *state;
    uint32_t id = open_stream(v, false);
    put_frame(&v->raw, FRAME_DATA, id, zeros, LINK_STREAM_WINDOW - 1);
    put_frame(&v->raw, FRAME_DATA, id, zeros, 1);
    accepted(v);
    link_stream_consumed(v->l, id, 1000); /* too little for a WINDOW frame, so no credit yet */
    put_frame(&v->raw, FRAME_DATA, id, zeros, 1);
    fatal(v, "DATA of 1 bytes for stream 2 with a credit of 0");
    assert_int_equal(v->bytes, LINK_STREAM_WINDOW);
}

static void data_after_end(void **state)
{
    struct victim *v = *state;
    uint32_t id = open_stream(v, false);
    put_frame(&v->raw, FRAME_DATA, id, zeros, 5);
    put_frame(&v->raw, FRAME_END, id, NULL, 0);
    accepted(v);
    assert_int_equal(v->ends, 1);
    put_frame(&v->raw, FRAME_DATA, id, zeros, 1);
    fatal(v, "DATA for stream 2 after its end");
    assert_int_equal(v->bytes, 5);
    assert_int_equal(v->resets, 0);
}

static void end_twice(void **state)
{
    struct victim *v = *state;
    uint32_t id = open_stream(v, false);
    put_frame(&v->raw, FRAME_END, id, NULL, 0);
    put_frame(&v->raw, FRAME_END, id, NULL, 0);
    fatal(v, "END for stream 2 after its end");
    assert_int_equal(v->ends, 1);
}

static void anything_after_reset(void **state)
{
    struct victim *v = *state;
    uint32_t id = open_stream(v, true);
    put_frame(&v->raw, FRAME_RESET, id, "\xa0", 1);
    put_u32_frame(&v->raw, FRAME_WINDOW, id, 1);
    fatal(v, "WINDOW for stream 2 after its end");
    assert_int_equal(v->resets, 1);
}

static void frames_that_cross_with_our_end_are_ignored_once(void **state)
{
    struct victim *v = *state;
    uint32_t sent = open_stream(v, true), received = open_stream(v, false);
    link_stream_end(v->l, sent);
    link_stream_reset(v->l, received, NULL);
    put_u32_frame(&v->raw, FRAME_WINDOW, sent, 1000);
    put_frame(&v->raw, FRAME_DATA, received, zeros, 1000);
    put_frame(&v->raw, FRAME_RESET, sent, "\xa0", 1);
    put_frame(&v->raw, FRAME_END, received, NULL, 0);
    accepted(v);
    assert_int_equal(v->bytes + v->ends + v->resets, 0);
    put_frame(&v->raw, FRAME_DATA, received, zeros, 1);
    fatal(v, "DATA for stream 4 after its end");
}

static void number_of_wrong_parity(void **state)
{
    struct victim *v = *state;
    open_stream(v, false); /* 2 */
    put_frame(&v->raw, FRAME_DATA, 4, zeros, 1);
    fatal(v, "DATA for stream 4, which was never opened");
}

static void reset_of_wrong_parity(void **state)
{
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_RESET, 2, "\xa0", 1);
    fatal(v, "RESET for stream 2, which was never opened");
}

static void wrong_end_sends_data(void **state)
{
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_DATA, open_stream(v, true), zeros, 1);
    fatal(v, "DATA for stream 2 from its receiver");
}

static void wrong_end_sends_end(void **state)
{
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_END, open_stream(v, true), NULL, 0);
    fatal(v, "END for stream 2 from its receiver");
}

static void wrong_end_sends_window(void **state)
{
    struct victim *v = *state;
    put_u32_frame(&v->raw, FRAME_WINDOW, open_stream(v, false), 1);
    fatal(v, "WINDOW for stream 2 from its sender");
}

static void zero_window(void **state)
{
    struct victim *v = *state;
    put_u32_frame(&v->raw, FRAME_WINDOW, open_stream(v, true), 0);
    fatal(v, "WINDOW of 0 bytes for stream 2");
}

static void window_overflow(void **state)
{
    struct victim *v = *state;
    uint32_t id = open_stream(v, true);
    put_u32_frame(&v->raw, FRAME_WINDOW, id, INT32_MAX - LINK_STREAM_WINDOW);
    accepted(v);
    put_u32_frame(&v->raw, FRAME_WINDOW, id, 1);
    fatal(v, "WINDOW of 1 bytes for stream 2 with a credit of 2147483647 overflows");
}

static void bad_reset(void **state)
{
    struct victim *v = *state;
    put_frame(&v->raw, FRAME_RESET, open_stream(v, true), "\xa1\x01", 2);
    fatal(v, "RESET frame whose body is not a CBOR map");
}

static void unopened_streams_of_the_peer_are_refused_once(void **state)
{
    struct victim *v = *state;
    struct buf out, want;
    struct error err = {0};
    buf_init(&out, 0);
    buf_init(&want, 0);
    put_frame(&v->raw, FRAME_DATA, 3, zeros, 10);
    put_frame(&v->raw, FRAME_DATA, 3, zeros, 10);
    put_frame(&v->raw, FRAME_END, 3, NULL, 0);
    put_frame(&v->raw, FRAME_END, 5, NULL, 0);
    accepted(v);
    take_output(v->l, &out);
    struct buf body;
    buf_init(&body, 0);
    error_set(&err, ERROR_NOT_FOUND, "stream 3 is not open here");
    link_put_error(&body, &err);
    put_frame(&want, FRAME_RESET, 3, body.data, body.len);
    assert_int_equal(out.len, want.len);
    assert_memory_equal(out.data, want.data, want.len);
    buf_free(&out);
    buf_free(&want);
    buf_free(&body);
    put_frame(&v->raw, FRAME_DATA, 3, zeros, 1);
    fatal(v, "DATA for stream 3 after its end");
}

static void reset_in_the_middle_of_a_body(void **state)
{
    struct victim *v = *state;
    uint32_t id = open_stream(v, false);
    put_frame(&v->raw, FRAME_DATA, id, zeros, 1000);
    struct error err = {0};
    assert_int_equal(link_receive(v->l, v->raw.data, 512, &err), 0);
    assert_int_equal(v->bytes, 500);
    link_stream_reset(v->l, id, NULL);
    assert_int_equal(link_receive(v->l, v->raw.data + 512, 500, &err), 0);
    assert_int_equal(v->bytes, 500);
    buf_clear(&v->raw);
    put_call_frame(&v->raw, 1, 0, "x"); /* the frame after it is understood */
    accepted(v);
    assert_int_equal(v->calls, 1);
}

static void endless_refusals_are_bounded(void **state)
{
    /* A flood of frames for streams that nobody opened, from a peer that reads nothing. */
    struct victim *v = *state;
    struct error err = {0};
    for (uint32_t id = 1; link_alive(v->l) && id < 4000000; id += 2) {
        put_frame(&v->raw, FRAME_DATA, id, zeros, 1);
        feed(v, &err);
    }
    assert_int_equal(err.kind, ERROR_LIMIT);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(oversized_frame),
        T(unknown_kind),
        T(unknown_flags),
        T(reserved_bits),
        T(zero_id),
        T(violations_are_found_byte_by_byte),
        T(bad_call_bodies),
        T(method_too_long),
        T(arguments_too_deep),
        T(forged_capability),
        T(replay_after_drop),
        T(drop_twice),
        T(drop_of_nothing),
        T(drop_too_much),
        T(drop_zero),
        T(call_number_in_use),
        T(too_many_calls),
        T(cancel_of_nothing),
        T(double_answer),
        T(double_answer_after_cancel),
        T(answer_to_nothing),
        T(bad_return),
        T(bad_throw),
        T(bad_log),
        T(credit_overrun_in_one_frame),
        T(credit_overrun_in_many_frames),
        T(data_after_end),
        T(end_twice),
        T(anything_after_reset),
        T(frames_that_cross_with_our_end_are_ignored_once),
        T(number_of_wrong_parity),
        T(reset_of_wrong_parity),
        T(wrong_end_sends_data),
        T(wrong_end_sends_end),
        T(wrong_end_sends_window),
        T(zero_window),
        T(window_overflow),
        T(bad_reset),
        T(unopened_streams_of_the_peer_are_refused_once),
        T(reset_in_the_middle_of_a_body),
        T(endless_refusals_are_bounded),
    };
    return cmocka_run_group_tests_name("link_hostile", tests, NULL, NULL);
}
