/* What two honest ends of a link do for each other: calls and capabilities. */
#include "link/link_internal.h"
#include "link_ends.h"

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

/* ---- frames that wait ---- */

/* Calls of `hold_me` pass and hold the link; others are let through while `open`. */
struct gate {
    struct link *link;
    bool open;
    char seen[256];
};

static bool gate_admit(void *user, const struct link_object_ops *ops, const char *method)
{
    struct gate *g = user;
    size_t len = strlen(g->seen);
    bool pass = g->open || strcmp(method, "hold_me") == 0;
    snprintf(g->seen + len, sizeof g->seen - len, "%s%s%s ", pass ? "" : "!", ops ? "" : "-", method);
    return pass;
}

static void gate_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct gate *g = object;
    if (strcmp(method, "hold_me") == 0)
        link_hold(g->link);
    link_return(call, args.p, (size_t)(args.end - args.p));
}

static const struct link_object_ops gate_ops = {.call = gate_call};

static void feed_in_pieces(struct link *l, const struct buf *b, size_t piece)
{
    for (size_t at = 0; at < b->len; at += piece)
        assert_int_equal(link_receive(l, b->data + at, piece < b->len - at ? piece : b->len - at, NULL), 0);
}

static void frames_wait_in_order(void **state)
{
    static const size_t pieces[] = {1, 7, 4096};
    struct ends *e = *state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct gate g = {0};
        struct answer a = {0}, b = {0}, c = {0};
        struct buf out;
        g.link = link_new(&(struct link_config){.side = LINK_GUEST,
                                                .bootstrap = &gate_ops,
                                                .bootstrap_object = &g,
                                                .admit = gate_admit,
                                                .user = &g});
        struct link *host = link_new(&(struct link_config){.side = LINK_HOST});
        buf_init(&out, 0);
        link_call(host, 0, "first",
                  "\x61"
                  "1",
                  2, on_answer, &a);
        link_call(host, 0, "hold_me",
                  "\x61"
                  "2",
                  2, on_answer, &b);
        link_call(host, 0, "last",
                  "\x61"
                  "3",
                  2, on_answer, &c);
        take_output(host, &out);
        feed_in_pieces(g.link, &out, pieces[i]);
        assert_true(link_held(g.link));
        pump(host, g.link);
        assert_string_equal(g.seen, "!first ");
        assert_int_equal(a.count, 0);
        g.open = true;
        assert_int_equal(link_go_on(g.link, NULL), 0);
        assert_true(link_held(g.link)); /* by the second call, which is answered */
        pump(host, g.link);
        assert_string_equal(g.seen, "!first first hold_me ");
        assert_string_equal(a.text, "1");
        assert_string_equal(b.text, "2");
        assert_int_equal(c.count, 0);
        assert_int_equal(link_go_on(g.link, NULL), 0);
        assert_false(link_held(g.link));
        pump(host, g.link);
        assert_string_equal(c.text, "3");
        buf_free(&out);
        link_free(host);
        link_free(g.link);
    }
    close_both(e);
}

static size_t stream_bytes;

static void count_bytes(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    stream_bytes += len;
}

static void no_reset(void *user, uint32_t stream, const struct error *why)
{
}

/* Of what is no call too; a link that dies while it is held answers nothing and keeps nothing. */
static void data_waits_and_death_forgets_it(void **state)
{
    static const struct link_stream_ops ops = {.data = count_bytes, .reset = no_reset};
    struct ends *e = *state;
    for (int dies = 0; dies < 2; dies++) {
        struct gate g = {0};
        struct buf out;
        g.link = link_new(&(struct link_config){.side = LINK_GUEST, .admit = gate_admit, .user = &g});
        struct link *host = link_new(&(struct link_config){.side = LINK_HOST});
        uint32_t id = link_stream_new(host);
        stream_bytes = 0;
        buf_init(&out, 0);
        assert_int_equal(link_stream_open_send(host, id, &ops, NULL, NULL), 0);
        assert_int_equal(link_stream_open_receive(g.link, id, &ops, NULL, NULL), 0);
        link_stream_write(host, id, "12345", 5);
        link_stream_write(host, id, "678", 3);
        take_output(host, &out);
        feed_in_pieces(g.link, &out, 5);
        assert_int_equal(stream_bytes, 0);
        assert_string_equal(g.seen, "!- ");
        if (dies)
            link_shutdown(g.link, NULL);
        g.open = true;
        assert_int_equal(link_go_on(g.link, NULL), dies ? -1 : 0);
        assert_int_equal(stream_bytes, dies ? 0 : 8);
        buf_free(&out);
        link_free(host);
        link_free(g.link);
    }
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
        T(want_write_is_called_once_for_a_batch),
        T(call_numbers_wrap_around_those_in_use),
        T(frames_wait_in_order),
        T(data_waits_and_death_forgets_it),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
