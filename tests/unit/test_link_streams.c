/* What two honest ends of a link do for each other: streams. */
#include "link/link_internal.h"
#include "link_ends.h"

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

/* A link with little room, and two senders on it. */
static struct link *open_two(struct sink *a, struct sink *b, uint32_t *ret_a, uint32_t *ret_b)
{
    struct link *l = link_new(&(struct link_config){.side = LINK_HOST, .max_output = 100000});
    *ret_a = link_stream_new(l);
    *ret_b = link_stream_new(l);
    assert_int_equal(link_stream_open_send(l, *ret_a, &sink_ops, a, NULL), 0);
    assert_int_equal(link_stream_open_send(l, *ret_b, &sink_ops, b, NULL), 0);
    return l;
}

static void a_full_output_stops_and_wakes_senders(void **state)
{
    struct ends *e = *state;
    struct sink a = {0}, b = {0};
    uint32_t ida, idb;
    struct link *l = open_two(&a, &b, &ida, &idb);
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

/* It had more to say, kept the rest, and has no reason to ask again. */
static void who_fills_the_output_is_woken(void **state)
{
    struct ends *e = *state;
    struct sink a = {0}, b = {0};
    uint32_t ida, idb;
    struct link *l = open_two(&a, &b, &ida, &idb);
    assert_int_equal(link_stream_write(l, idb, zeros, 90000), 0); /* leaves room for a part */
    assert_int_equal(link_stream_write(l, ida, zeros, link_stream_writable(l, ida)), 0);
    assert_true(link_output_full(l));
    link_sent(l, 60000);
    assert_int_equal(a.writable, 1);
    assert_int_equal(b.writable, 0);
    /* One that fills it with its last bytes may end before. */
    assert_int_equal(link_stream_write(l, idb, zeros, link_stream_writable(l, idb)), 0);
    link_stream_end(l, idb);
    link_sent(l, SIZE_MAX);
    assert_int_equal(a.writable, 1);
    assert_int_equal(b.writable, 0);
    link_free(l);
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

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(streams_carry_bytes_within_credit),
        T(data_may_go_past_the_link),
        T(a_receiver_may_widen_its_window),
        T(whole_data_frames_are_not_copied),
        T(resets_reach_the_other_end),
        T(a_full_output_stops_and_wakes_senders),
        T(who_fills_the_output_is_woken),
        T(a_peer_that_reads_nothing_ends_the_link),
        T(death_resets_every_stream_once),
        T(stream_numbers_are_checked),
        T(streams_of_a_refused_call_are_reset),
        T(greedy_writers_take_turns),
        T(receiving_inside_a_callback_is_refused),
    };
    return cmocka_run_group_tests_name("link streams", tests, NULL, NULL);
}
