/* The link's natives: calls, streams, channels, synchronous calls, as the daemon sees them. */
#include "harness.h"

#include "link/cbor.h"
#include "link/worker_protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct zygote_process zygote;

static int open_zygote(void **state)
{
    (void)state;
    zygote_open(&zygote);
    return 0;
}

static int close_zygote(void **state)
{
    (void)state;
    zygote_close(&zygote);
    return 0;
}

/* The daemon's object: `echo` returns its argument; `slow` first calls the worker's `other`, then answers;
 * `fail` throws. */
struct service {
    struct peer *peer;
    struct answer other;
    struct link_call *waiting;
};

static void on_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct service *s = object;
    struct error err = {0};
    if (strcmp(method, "echo") == 0) {
        link_return(call, args.p, (size_t)(args.end - args.p));
    } else if (strcmp(method, "slow") == 0) {
        /* Arrives before the answer, and must wait for it. */
        peer_eval_start(s->peer, 0, "T.order.push('other'); 'other'", &s->other);
        link_return(call, args.p, (size_t)(args.end - args.p));
    } else {
        error_set(&err, ERROR_NOT_FOUND, "nothing is called %s", method);
        link_throw(call, &err);
    }
}

static const struct link_object_ops service_ops = {.call = on_call};

static void calls_the_daemon(void **state)
{
    (void)state;
    struct peer p;
    struct service s = {.peer = &p};
    peer_open(&p, &zygote, &service_ops, &s);
    assert_string_equal(peer_eval(&p, 0,
                                  "new Promise((r) => { T.on.answer = (id, code, message, value) => "
                                  "r(`${code} ${T.readText(new Uint8Array(value), 0)}`);"
                                  " T.natives.call(0, 'echo', T.cborText('hi')); })"),
                        "null hi");
    assert_string_equal(peer_eval(&p, 0,
                                  "new Promise((r) => { T.on.answer = (id, code, message, value) => "
                                  "r(`${code} ${message} ${value}`);"
                                  " T.natives.call(0, 'nonsense', T.cborText('hi')); })"),
                        "NOT_FOUND nothing is called nonsense undefined");
    assert_string_equal(
        peer_eval(&p, 0, "try { T.natives.call(0, '', T.cborText('hi')) } catch (e) { e.code }"),
        "LIMIT_EXCEEDED");
    assert_string_equal(
        peer_eval(&p, 0, "try { T.natives.call(0, 'echo', new Uint8Array([0xff])) } catch (e) { e.code }"),
        "LIMIT_EXCEEDED");
    assert_string_equal(
        peer_eval(&p, 0, "try { T.natives.call(-1, 'echo', T.cborText('')) } catch (e) { e.name }"),
        "TypeError");
    peer_close(&p);
}

static void synchronous_calls_let_other_events_wait(void **state)
{
    (void)state;
    struct peer p;
    struct service s = {.peer = &p};
    peer_open(&p, &zygote, &service_ops, &s);
    assert_string_equal(peer_eval(&p, 0,
                                  "T.order = []; const v = T.readText(new Uint8Array(T.natives.callSync(0, "
                                  "'slow', T.cborText('x'))), 0);"
                                  " T.order.push(v); T.order.join()"),
                        "x");
    peer_pump_until(&p, &s.other.done);
    answer_free(&s.other);
    assert_string_equal(peer_eval(&p, 0, "T.order.join()"), "x,other");
    assert_string_equal(
        peer_eval(
            &p, 0,
            "try { T.natives.callSync(0, 'no', T.cborText('')) } catch (e) { e.code + ': ' + e.message }"),
        "NOT_FOUND: nothing is called no");
    peer_close(&p);
}

struct sink {
    struct buf bytes;
    bool ended;
    struct link *link;
    bool hold; /* gives no credit back */
};

static void sink_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct sink *s = user;
    buf_append(&s->bytes, data, len);
    if (!s->hold)
        link_stream_consumed(s->link, stream, len);
}

static void sink_end(void *user, uint32_t stream)
{
    ((struct sink *)user)->ended = true;
    (void)stream;
}

static void sink_reset(void *user, uint32_t stream, const struct error *why)
{
    struct sink *s = user;
    (void)stream;
    buf_clear(&s->bytes);
    buf_append_str(&s->bytes, why->message);
    s->ended = true;
}

static const struct link_stream_ops sink_ops = {.data = sink_data, .end = sink_end, .reset = sink_reset};
static const struct link_stream_ops source_ops = {.reset = sink_reset};

static void sends_streams_larger_than_their_credit(void **state)
{
    (void)state;
    struct peer p;
    struct sink sink = {0};
    struct error err = {0};
    peer_open(&p, &zygote, NULL, NULL);
    buf_init(&sink.bytes, 0);
    sink.link = p.link;
    uint32_t id = link_stream_new(p.link);
    assert_int_equal(link_stream_open_receive(p.link, id, &sink_ops, &sink, &err), 0);
    char source[512];
    snprintf(source, sizeof source,
             "T.natives.streamSend(%u); const big = new Uint8Array(3 << 20).fill(7); const kept = "
             "T.natives.streamWrite(%u, big);"
             " const writable = new Promise((r) => { T.on.streamWritable = r; });"
             " writable.then((id) => { T.natives.streamWrite(id, new Uint8Array([8])); "
             "T.natives.streamEnd(id); }); kept > 0",
             id, id);
    assert_string_equal(peer_eval(&p, 0, source), "true");
    peer_pump_until(&p, &sink.ended);
    assert_int_equal(sink.bytes.len, (3 << 20) + 1);
    assert_int_equal(sink.bytes.data[0], 7);
    assert_int_equal(sink.bytes.data[3 << 20], 8);
    buf_free(&sink.bytes);
    peer_close(&p);
}

static void receives_streams(void **state)
{
    (void)state;
    struct peer p;
    struct sink reset = {0};
    struct error err = {0};
    peer_open(&p, &zygote, NULL, NULL);
    uint32_t id = link_stream_new(p.link);
    char source[512];
    assert_int_equal(link_stream_open_send(p.link, id, &source_ops, &reset, &err), 0);
    snprintf(source, sizeof source,
             "T.natives.streamReceive(%u); T.total = 0;"
             " T.on.streamData = (id, b) => { T.total += b.byteLength; T.natives.streamConsumed(id, "
             "b.byteLength); }; 1",
             id);
    assert_string_equal(peer_eval(&p, 0, source), "1");
    static uint8_t bytes[64 << 10];
    size_t sent = 0;
    while (sent < 1u << 20) {
        size_t room = link_stream_writable(p.link, id), n = room < sizeof bytes ? room : sizeof bytes;
        if (n == 0) {
            peer_pump_for(&p, 1);
            continue;
        }
        assert_int_equal(link_stream_write(p.link, id, bytes, n), 0);
        sent += n;
    }
    link_stream_end(p.link, id);
    snprintf(source, sizeof source, "T.total + ' ' + JSON.stringify(T.events.at(-1))");
    char expected[64];
    snprintf(expected, sizeof expected, "%zu [\"streamEnd\",%u]", sent, id);
    assert_string_equal(peer_eval(&p, 0, source), expected);
    assert_string_equal(peer_eval(&p, 0, "String(T.natives.streamReceive(T.natives.streamNew()))"),
                        "undefined");
    assert_string_equal(peer_eval(&p, 0, "try { T.natives.streamReceive(1001) } catch (e) { e.code }"),
                        "PROTOCOL");
    peer_close(&p);
}

static void channels_carry_whole_messages(void **state)
{
    (void)state;
    struct peer p;
    struct sink sink = {0};
    struct error err = {0};
    peer_open(&p, &zygote, NULL, NULL);
    buf_init(&sink.bytes, 0);
    sink.link = p.link;
    uint32_t in = link_stream_new(p.link), out = link_stream_new(p.link);
    assert_int_equal(link_stream_open_send(p.link, in, &source_ops, &sink, &err), 0);
    assert_int_equal(link_stream_open_receive(p.link, out, &sink_ops, &sink, &err), 0);
    char source[512];
    snprintf(source, sizeof source,
             "T.channel = T.natives.channelOpen(%u, %u); T.got = []; T.on.channelMessage = (c, m) => { "
             "T.got.push(m.byteLength); }; 1",
             in, out);
    assert_string_equal(peer_eval(&p, 0, source), "1");
    static const uint8_t wire[] = {3, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0, 2, 0};
    assert_int_equal(link_stream_write(p.link, in, wire, sizeof wire), 0);
    assert_string_equal(peer_eval(&p, 0, "T.got.join()"), "3,0");
    static const uint8_t rest[] = {0, 0, 'x', 'y'};
    assert_int_equal(link_stream_write(p.link, in, rest, sizeof rest), 0);
    assert_string_equal(peer_eval(&p, 0, "T.got.join()"), "3,0,2");
    assert_string_equal(peer_eval(&p, 0,
                                  "T.natives.channelSend(T.channel, new Uint8Array([1, 2])); "
                                  "T.natives.channelClose(T.channel, ''); 1"),
                        "1");
    peer_pump_until(&p, &sink.ended);
    peer_close(&p);
    buf_free(&sink.bytes);
}

static void a_message_that_is_too_large_closes_its_channel(void **state)
{
    (void)state;
    struct peer p;
    struct sink sink = {0};
    struct error err = {0};
    peer_open(&p, &zygote, NULL, NULL);
    buf_init(&sink.bytes, 0);
    sink.link = p.link;
    uint32_t in = link_stream_new(p.link), out = link_stream_new(p.link);
    assert_int_equal(link_stream_open_send(p.link, in, &source_ops, &sink, &err), 0);
    assert_int_equal(link_stream_open_receive(p.link, out, &sink_ops, &sink, &err), 0);
    char source[128];
    snprintf(source, sizeof source, "T.channel = T.natives.channelOpen(%u, %u); 1", in, out);
    assert_string_equal(peer_eval(&p, 0, source), "1");
    static const uint8_t wire[] = {1, 0, 0x10, 0x02}; /* 33 MiB and one byte */
    assert_int_equal(link_stream_write(p.link, in, wire, sizeof wire), 0);
    assert_string_equal(peer_eval(&p, 0, "JSON.stringify(T.events)"),
                        "[[\"channelClosed\",1,\"a message on the channel is too large\"]]");
    assert_string_equal(
        peer_eval(
            &p, 0,
            "try { T.natives.channelSend(T.channel, new Uint8Array(2)); 'ignored' } catch (e) { e.name }"),
        "ignored");
    buf_free(&sink.bytes);
    peer_close(&p);
}

static void never_answered(void *user, const struct error *err, struct cbor_reader value)
{
    (void)user;
    (void)err;
    (void)value;
    fail_msg("a cancelled call was answered");
}

static void cancellation_reaches_the_library(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(peer_eval(&p, 0, "T.on.fetch = (id) => { T.open = id; }; 1"), "1");
    uint32_t call = link_call(p.link, 0, "fetch", NULL, 0, never_answered, NULL);
    assert_true(call != 0);
    link_cancel(p.link, call);
    assert_string_equal(peer_eval(&p, 0, "JSON.stringify(T.events) + T.open"), "[[\"cancelled\",2]]2");
    assert_string_equal(peer_eval(&p, 0, "T.natives.respond(T.open, 200, '', '', null); 'answered'"),
                        "answered");
    assert_string_equal(
        peer_eval(&p, 0, "try { T.natives.respond(T.open, 200, '', '', null) } catch (e) { e.code }"),
        "WRONG_STATE");
    peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_the_daemon),
        cmocka_unit_test(synchronous_calls_let_other_events_wait),
        cmocka_unit_test(sends_streams_larger_than_their_credit),
        cmocka_unit_test(receives_streams),
        cmocka_unit_test(channels_carry_whole_messages),
        cmocka_unit_test(a_message_that_is_too_large_closes_its_channel),
        cmocka_unit_test(cancellation_reaches_the_library),
    };
    return cmocka_run_group_tests(tests, open_zygote, close_zygote);
}
