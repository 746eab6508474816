#include "app/websocket.h"

#include "base/buf.h"
#include "base/parse.h"

#include <endian.h>
#include <nettle/base64.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#define HEAD 5u /* kind and length, on the link */
enum kind { KIND_TEXT = 1, KIND_BINARY = 2, KIND_CLOSE = 8 };

struct websocket {
    const struct websocket_peer *peer;
    void *conn;                        /* NULL: the peer's side is over */
    struct websocket_account *account; /* NULL: none */
    size_t counted;                    /* there */
    size_t receiving;                  /* bytes of a message that wslay has gathered */
    bool in_control;                   /* the frame that comes is none of a message */
    struct link *link;
    uint32_t in, out; /* 0: that direction is over */
    wslay_event_context_ptr wslay;
    const uint8_t *input; /* what wslay is being fed */
    size_t input_len;
    struct buf to_worker; /* has no credit yet */
    struct buf from_worker;
    size_t unconsumed;
    bool close_received, close_sent, busy;
    bool broken; /* what wslay lets pass */
    void (*over)(void *user);
    void *user;
};

void websocket_accept_key(const char *key, char to[32])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455, 1.3 */
    uint8_t digest[SHA1_DIGEST_SIZE];
    struct sha1_ctx s;
    sha1_init(&s);
    sha1_update(&s, strlen(key), (const uint8_t *)key);
    sha1_update(&s, sizeof guid - 1, (const uint8_t *)guid);
    sha1_digest(&s, sizeof digest, digest);
    base64_encode_raw(to, sizeof digest, digest);
    to[BASE64_ENCODE_RAW_LENGTH(sizeof digest)] = '\0';
}

bool websocket_code_ok(unsigned code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}

/* ---- the end ---- */

static void free_if_over(struct websocket *w)
{
    if (w->conn || w->in || w->out || w->busy)
        return;
    if (w->account)
        w->account->held -= w->counted;
    wslay_event_context_free(w->wslay);
    buf_free(&w->to_worker);
    buf_free(&w->from_worker);
    free(w);
}

static void drop_streams(struct websocket *w, const char *text)
{
    struct error why = {0};
    error_set(&why, ERROR_GONE, "%s", text);
    if (w->in)
        link_stream_reset(w->link, w->in, &why);
    if (w->out)
        link_stream_reset(w->link, w->out, &why);
    w->in = w->out = 0;
}

/* Ends the peer's side: in order when both closes have passed. */
static void let_go(struct websocket *w, bool in_order)
{
    void *c = w->conn;
    if (!c)
        return;
    w->conn = NULL;
    w->over(w->user);
    if (in_order)
        w->peer->end(c);
    else
        w->peer->abort(c);
}

void websocket_gone(struct websocket *w)
{
    char text[64];
    w->conn = NULL;
    snprintf(text, sizeof text, "the %s has left", w->peer->name);
    drop_streams(w, text);
    free_if_over(w);
}

static void fail(struct websocket *w, const char *text)
{
    drop_streams(w, text);
    let_go(w, false);
}

static void fail_protocol(struct websocket *w)
{
    char text[64];
    snprintf(text, sizeof text, "the %s broke the WebSocket protocol", w->peer->name);
    fail(w, text);
}

/* Counts what is held now. False: it is too much, and this WebSocket is over. */
static bool count_held(struct websocket *w)
{
    size_t now = w->conn ? w->receiving + w->to_worker.len + w->from_worker.len : 0;
    if (w->conn && w->peer->holds)
        w->peer->holds(w->conn, now);
    if (!w->account)
        return true;
    w->account->held += now - w->counted;
    w->counted = now;
    if (w->account->held <= w->account->max)
        return true;
    fail(w, "the messages of this Worker's WebSockets that are on their way take too much memory");
    return false;
}

static void check_closed(struct websocket *w)
{
    if (w->close_received && w->close_sent)
        let_go(w, true);
}

/* ---- to the peer ---- */

static ssize_t on_wslay_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                             void *user)
{
    struct websocket *w = user;
    if (w->conn)
        w->peer->write(w->conn, data, len);
    return (ssize_t)len;
}

static int on_wslay_mask(wslay_event_context_ptr ctx, uint8_t *to, size_t len, void *user)
{
    return getrandom(to, len, 0) == (ssize_t)len ? 0 : -1;
}

static void pump(struct websocket *w)
{
    if (w->conn && wslay_event_send(w->wslay) < 0)
        fail(w, "the WebSocket broke");
    if (!wslay_event_get_close_sent(w->wslay) || w->close_sent)
        return;
    w->close_sent = true;
    if (w->conn && !w->close_received && w->peer->closing)
        w->peer->closing(w->conn);
}

/* UNTRUSTED INPUT. False: it is malformed. */
static bool close_from_worker(struct websocket *w, const uint8_t *data, size_t len)
{
    uint16_t code = 0;
    if (len == 1 || len > 125)
        return false;
    if (len >= 2) {
        memcpy(&code, data, 2);
        code = le16toh(code);
        if (!websocket_code_ok(code) || !utf8_valid(data + 2, len - 2))
            return false;
    }
    wslay_event_queue_close(w->wslay, code, len > 2 ? data + 2 : NULL, len > 2 ? len - 2 : 0);
    pump(w);
    return true;
}

static bool message_from_worker(struct websocket *w, unsigned kind, const uint8_t *data, size_t len)
{
    if (kind == KIND_CLOSE)
        return close_from_worker(w, data, len);
    if (kind != KIND_TEXT && kind != KIND_BINARY)
        return false;
    if (kind == KIND_TEXT && !utf8_valid(data, len))
        return false;
    struct wslay_event_msg msg = {
        .opcode = kind == KIND_TEXT ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, .msg = data, .msg_length = len};
    wslay_event_queue_msg(w->wslay, &msg); /* refused after a close, as it should be */
    pump(w);
    return true;
}

/* Whole messages at the start of `data`: bytes taken, or -1. UNTRUSTED INPUT */
static ssize_t take_messages(struct websocket *w, const uint8_t *data, size_t len)
{
    size_t at = 0;
    while (len - at >= HEAD) {
        uint32_t n;
        memcpy(&n, data + at + 1, sizeof n);
        n = le32toh(n);
        if (n > WEBSOCKET_MESSAGE_MAX)
            return -1;
        if (len - at - HEAD < n)
            break;
        if (!message_from_worker(w, data[at], data + at + HEAD, n))
            return -1;
        at += HEAD + n;
    }
    return (ssize_t)at;
}

static void on_out_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct websocket *w = user;
    w->busy = true;
    ssize_t taken = 0;
    if (w->conn && w->from_worker.len == 0)
        taken = take_messages(w, data, len);
    if (w->conn && taken >= 0 && (size_t)taken < len) {
        if (buf_append(&w->from_worker, data + taken, len - (size_t)taken) < 0) {
            taken = -1;
        } else {
            taken = take_messages(w, w->from_worker.data, w->from_worker.len);
            if (taken > 0)
                buf_consume(&w->from_worker, (size_t)taken);
        }
    }
    if (taken < 0) {
        fail(w, "the Worker sent a malformed WebSocket message");
    } else if (!w->conn || !w->peer->full(w->conn)) {
        link_stream_consumed(w->link, stream, len);
    } else {
        w->unconsumed += len;
    }
    if (w->conn && count_held(w))
        check_closed(w);
    w->busy = false;
    free_if_over(w);
}

void websocket_room(struct websocket *w)
{
    size_t n = w->unconsumed;
    w->unconsumed = 0;
    if (w->out)
        link_stream_consumed(w->link, w->out, n);
}

static void on_out_end(void *user, uint32_t stream)
{
    struct websocket *w = user;
    w->out = 0;
    /* Without a close before it: gone. */
    if (w->conn && !w->close_sent && !w->close_received)
        fail(w, "the Worker ended the WebSocket");
    free_if_over(w);
}

static void on_out_reset(void *user, uint32_t stream, const struct error *why)
{
    struct websocket *w = user;
    w->out = 0;
    fail(w, why->message);
    free_if_over(w);
}

/* ---- to the Worker ---- */

static void send_held(struct websocket *w)
{
    size_t sent = 0;
    while (w->in && sent < w->to_worker.len) {
        size_t room = link_stream_writable(w->link, w->in), left = w->to_worker.len - sent,
               n = left < room ? left : room;
        if (n == 0 || link_stream_write(w->link, w->in, w->to_worker.data + sent, n) < 0)
            break;
        sent += n;
    }
    buf_consume(&w->to_worker, sent);
    if (w->to_worker.len == 0 && w->in && w->close_received) {
        link_stream_end(w->link, w->in);
        w->in = 0;
    }
}

static void on_in_writable(void *user, uint32_t stream)
{
    struct websocket *w = user;
    send_held(w);
    count_held(w);
    if (w->to_worker.len == 0 && w->conn)
        w->peer->resume(w->conn);
    else
        free_if_over(w);
}

static void on_in_reset(void *user, uint32_t stream, const struct error *why)
{
    struct websocket *w = user;
    w->in = 0;
    fail(w, why->message);
    free_if_over(w);
}

static void send_message(struct websocket *w, enum kind kind, const uint8_t *data, size_t len)
{
    uint8_t head[HEAD] = {(uint8_t)kind};
    uint32_t n = htole32((uint32_t)len);
    memcpy(head + 1, &n, sizeof n);
    buf_append(&w->to_worker, head, sizeof head);
    buf_append(&w->to_worker, data, len);
}

static void on_wslay_frame(wslay_event_context_ptr ctx, const struct wslay_event_on_frame_recv_start_arg *arg,
                           void *user)
{
    struct websocket *w = user;
    w->in_control = wslay_is_ctrl_frame(arg->opcode);
}

static void on_wslay_chunk(wslay_event_context_ptr ctx, const struct wslay_event_on_frame_recv_chunk_arg *arg,
                           void *user)
{
    struct websocket *w = user;
    if (!w->in_control)
        w->receiving += arg->data_length;
}

/* UNTRUSTED INPUT: a whole message of the peer. */
static void on_wslay_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                             void *user)
{
    struct websocket *w = user;
    if (!wslay_is_ctrl_frame(arg->opcode))
        w->receiving = 0;
    if (arg->opcode == WSLAY_CONNECTION_CLOSE) {
        uint8_t payload[128];
        size_t len = 0;
        w->close_received = true;
        w->broken = arg->msg_length == 1;                     /* half a code */
        if (arg->msg_length >= 2 && arg->msg_length <= 125) { /* the code is the network's order there */
            memcpy(payload, arg->msg, arg->msg_length);
            payload[0] = arg->msg[1];
            payload[1] = arg->msg[0];
            len = arg->msg_length;
        }
        send_message(w, KIND_CLOSE, payload, len);
    } else if (arg->opcode == WSLAY_TEXT_FRAME || arg->opcode == WSLAY_BINARY_FRAME) {
        send_message(w, arg->opcode == WSLAY_TEXT_FRAME ? KIND_TEXT : KIND_BINARY, arg->msg, arg->msg_length);
    }
}

static ssize_t on_wslay_recv(wslay_event_context_ptr ctx, uint8_t *to, size_t cap, int flags, void *user)
{
    struct websocket *w = user;
    size_t n = w->input_len < cap ? w->input_len : cap;
    if (n == 0) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(to, w->input, n);
    w->input += n;
    w->input_len -= n;
    return (ssize_t)n;
}

void websocket_raw(struct websocket *w, const uint8_t *data, size_t len)
{
    w->busy = true;
    w->input = data;
    w->input_len = len;
    if (wslay_event_recv(w->wslay) < 0 || w->broken || w->to_worker.failed) {
        fail_protocol(w);
    } else {
        pump(w); /* pongs, and the answer to a close */
        send_held(w);
        if (w->conn && w->to_worker.len > 0)
            w->peer->pause(w->conn);
        if (!wslay_event_get_read_enabled(w->wslay) && !w->close_received && w->close_sent)
            fail_protocol(w); /* wslay has told it why */
        if (count_held(w))
            check_closed(w);
    }
    w->input = NULL;
    w->busy = false;
    free_if_over(w);
}

static int open_wslay(struct websocket *w)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = on_wslay_recv,
                                                           .send_callback = on_wslay_send,
                                                           .genmask_callback = on_wslay_mask,
                                                           .on_frame_recv_start_callback = on_wslay_frame,
                                                           .on_frame_recv_chunk_callback = on_wslay_chunk,
                                                           .on_msg_recv_callback = on_wslay_message};
    int r = w->peer->is_server ? wslay_event_context_client_init(&w->wslay, &callbacks, w)
                               : wslay_event_context_server_init(&w->wslay, &callbacks, w);
    if (r == 0)
        wslay_event_config_set_max_recv_msg_length(w->wslay, WEBSOCKET_MESSAGE_MAX);
    return r;
}

struct websocket *websocket_start(const struct websocket_peer *peer, void *conn, struct link *l, uint32_t in,
                                  uint32_t out, struct websocket_account *account, void (*over)(void *user),
                                  void *user, struct error *err)
{
    static const struct link_stream_ops in_ops = {.writable = on_in_writable, .reset = on_in_reset};
    static const struct link_stream_ops out_ops = {
        .data = on_out_data, .end = on_out_end, .reset = on_out_reset};
    struct websocket *w = calloc(1, sizeof *w);
    if (w)
        w->peer = peer;
    if (!w || open_wslay(w) != 0) {
        free(w);
        error_oom(err);
        return NULL;
    }
    buf_init(&w->to_worker, WEBSOCKET_MESSAGE_MAX + (1u << 20));
    buf_init(&w->from_worker, WEBSOCKET_MESSAGE_MAX + LINK_STREAM_WINDOW + HEAD);
    w->link = l;
    w->account = account;
    w->over = over;
    w->user = user;
    if (link_stream_open_send(l, in, &in_ops, w, err) < 0)
        goto fail;
    w->in = in;
    if (link_stream_open_receive(l, out, &out_ops, w, err) < 0)
        goto fail;
    w->out = out;
    w->conn = conn;
    return w;
fail:
    drop_streams(w, "the WebSocket could not be opened");
    wslay_event_context_free(w->wslay);
    free(w);
    return NULL;
}
