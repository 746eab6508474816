/* The answer of a Worker, on its way to the client. UNTRUSTED INPUT: the process may have been taken over. */
#include "app/header.h"
#include "app/ingress_internal.h"
#include "app/websocket.h"
#include "link/cbor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void exchange_fail(struct exchange *x, unsigned status, const struct error *err)
{
    char text[700];
    struct ingress *i = x->ingress;
    struct http_conn *c = x->conn;
    if (status >= 500 && i->config.failed)
        i->config.failed(i->config.user, x->method, x->url, err);
    if (status >= 500 && i->config.verbose)
        snprintf(text, sizeof text, "%s\n", err->message);
    else
        snprintf(text, sizeof text, "%s\n",
                 status == 404   ? "Not Found"
                 : status == 503 ? "Service Unavailable"
                                 : "Internal Server Error");
    exchange_free(x);
    http_conn_text(c, status, text);
}

/* ---- a body that comes as a stream ---- */

static void on_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct exchange *x = user;
    http_conn_write(x->conn, data, len);
    if (http_conn_pending(x->conn) < HTTP_OUTPUT_FULL)
        link_stream_consumed(x->link, stream, len);
    else
        x->unconsumed += len;
}

static void on_end(void *user, uint32_t stream)
{
    struct exchange *x = user;
    struct http_conn *c = x->conn;
    x->down = 0;
    exchange_free(x);
    http_conn_end(c);
}

static void on_reset(void *user, uint32_t stream, const struct error *why)
{
    struct exchange *x = user;
    struct http_conn *c = x->conn;
    x->down = 0;
    if (x->ingress->config.failed)
        x->ingress->config.failed(x->ingress->config.user, x->method, x->url, why);
    exchange_free(x);
    http_conn_abort(c);
}

static const struct link_stream_ops down_ops = {.data = on_data, .end = on_end, .reset = on_reset};

/* ---- the head ---- */

struct answer {
    uint64_t status;
    char reason[128];
    const char *headers;
    size_t headers_len;
    bool inline_body, stream_body;
    const uint8_t *body;
    size_t body_len;
    uint64_t stream;
    bool ws;
    uint64_t ws_in, ws_out;
};

static int read_body(const struct cbor_reader *map, struct answer *a, struct error *err)
{
    struct cbor_reader r, again;
    struct cbor_item it;
    if (!cbor_map_find(map, "body", &r))
        return 0;
    again = r;
    if (cbor_next(&r, &it) < 0)
        return error_set(err, ERROR_PROTOCOL, "the Worker answered with a malformed body");
    if (it.type == CBOR_NULL || it.type == CBOR_UNDEFINED)
        return 0;
    if (it.type == CBOR_UINT && it.u64 > 0 && it.u64 <= UINT32_MAX) {
        a->stream_body = true;
        a->stream = it.u64;
        return 0;
    }
    if (cbor_get_bytes(&again, &a->body, &a->body_len) < 0)
        return error_set(err, ERROR_PROTOCOL,
                         "the Worker answered with a body that is neither bytes nor a stream");
    a->inline_body = true;
    return 0;
}

static int read_answer(const struct cbor_reader *map, struct answer *a, struct error *err)
{
    struct cbor_reader r;
    const uint8_t *headers = (const uint8_t *)"";
    if (cbor_map_uint(map, "status", 599, 0, &a->status) < 0 || (a->status < 200 && a->status != 101))
        return error_set(err, ERROR_PROTOCOL, "the Worker answered with a status that is none");
    if (cbor_map_find(map, "statusText", &r) && cbor_get_string(&r, a->reason, sizeof a->reason) < 0)
        a->reason[0] = '\0';
    if (cbor_map_find(map, "headers", &r) && cbor_get_bytes(&r, &headers, &a->headers_len) < 0)
        return error_set(err, ERROR_PROTOCOL, "the Worker answered with headers that are no text");
    a->headers = (const char *)headers;
    if (cbor_map_find(map, "ws", &r)) {
        a->ws = cbor_map_uint(&r, "in", UINT32_MAX, 0, &a->ws_in) == 0 &&
                cbor_map_uint(&r, "out", UINT32_MAX, 0, &a->ws_out) == 0 && a->ws_in && a->ws_out;
        if (!a->ws)
            return error_set(err, ERROR_PROTOCOL, "the Worker answered with a WebSocket without streams");
    }
    if (a->ws != (a->status == 101))
        return error_set(err, ERROR_PROTOCOL, "the Worker answered with %s",
                         a->ws ? "a WebSocket, but not with status 101"
                               : "status 101, but without a WebSocket");
    return read_body(map, a, err);
}

/* An answer that says how long it is may be so far ahead of its client: most come at once, without waiting
 * for credit. */
#define WIDE_WINDOW (1u << 20)
/* Of all answers together; those that come when it is used up have the usual window. */
#define WIDE_BUDGET ((size_t)64 << 20)

static void widen(struct exchange *x, uint64_t length)
{
    struct ingress *i = x->ingress;
    if (length == HTTP_LENGTH_UNKNOWN || length <= LINK_STREAM_WINDOW)
        return;
    uint32_t more = (length < WIDE_WINDOW ? (uint32_t)length : WIDE_WINDOW) - LINK_STREAM_WINDOW;
    if (i->wide + more > WIDE_BUDGET)
        return;
    x->wide = more;
    i->wide += more;
    link_stream_widen(x->link, x->down, more);
}

/* The length that the Worker announces for a stream. */
static uint64_t announced(const struct answer *a)
{
    size_t n;
    uint64_t v = 0;
    const char *text = header_find(a->headers, a->headers_len, "content-length", &n);
    if (!text || n == 0 || n > 18)
        return HTTP_LENGTH_UNKNOWN;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return HTTP_LENGTH_UNKNOWN;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    return v;
}

/* Like read_answer(), the caller has nothing of the Worker's streams opened when this fails. */
static int send_stream(struct exchange *x, const struct answer *a, struct error *err)
{
    if (link_stream_open_receive(x->link, (uint32_t)a->stream, &down_ops, x, err) < 0)
        return -1;
    x->down = (uint32_t)a->stream;
    uint64_t length = announced(a);
    widen(x, length);
    return http_conn_head(x->conn, (unsigned)a->status, a->reason, a->headers, a->headers_len, length, err);
}

static int send_whole(struct exchange *x, const struct answer *a, struct error *err)
{
    struct http_conn *c = x->conn;
    uint64_t length = a->body_len, said = announced(a);
    if (x->head_request && !a->inline_body && said != HTTP_LENGTH_UNKNOWN)
        length = said;
    if (http_conn_head(c, (unsigned)a->status, a->reason, a->headers, a->headers_len, length, err) < 0)
        return -1;
    http_conn_write(c, a->body, a->body_len);
    exchange_free(x);
    http_conn_end(c);
    return 0;
}

/* ---- upgrades ---- */

static void client_write(void *conn, const void *data, size_t len)
{
    http_conn_write(conn, data, len);
}

static bool client_full(const void *conn)
{
    return http_conn_pending(conn) >= HTTP_OUTPUT_FULL;
}

static void client_pause(void *conn)
{
    http_conn_pause(conn);
}

static void client_resume(void *conn)
{
    http_conn_resume(conn);
}

static void client_end(void *conn)
{
    http_conn_end(conn);
}

static void client_abort(void *conn)
{
    http_conn_abort(conn);
}

static void client_holds(void *conn, size_t bytes)
{
    http_conn_hold(conn, bytes);
}

static const struct websocket_peer client = {.name = "client",
                                             .write = client_write,
                                             .full = client_full,
                                             .pause = client_pause,
                                             .holds = client_holds,
                                             .resume = client_resume,
                                             .end = client_end,
                                             .abort = client_abort};

static void on_websocket_over(void *user)
{
    struct exchange *x = user;
    x->websocket = NULL;
    exchange_free(x);
}

static bool is_handshake(const char *name, size_t len)
{
    static const char *const names[] = {"sec-websocket-accept", "sec-websocket-extensions", "upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncasecmp(names[i], name, len) == 0)
            return true;
    return false;
}

/* The Worker's headers without those of the handshake, which are ours, and then ours. */
static void put_handshake(struct buf *b, const struct answer *a, const char *key)
{
    char accept[32];
    const char *p = a->headers, *end = a->headers + a->headers_len;
    while (p < end) {
        const char *value = memchr(p, '\n', (size_t)(end - p));
        const char *stop = value ? memchr(value + 1, '\n', (size_t)(end - value - 1)) : NULL;
        const char *next = stop ? stop + 1 : end;
        if (!value || !is_handshake(p, (size_t)(value - p)))
            buf_append(b, p, (size_t)(next - p)); /* what is malformed is refused later */
        p = next;
    }
    if (b->len > 0 && b->data[b->len - 1] != '\n')
        buf_append_str(b, "\n");
    websocket_accept_key(key, accept);
    buf_printf(b, "upgrade\nwebsocket\nsec-websocket-accept\n%s\n", accept);
}

static int send_upgrade(struct exchange *x, const struct answer *a, struct error *err)
{
    struct buf b;
    int r = -1;
    if (!x->ws_key[0])
        return error_set(err, ERROR_PROTOCOL,
                         "the Worker answered with status 101 to a request that asks for no WebSocket");
    buf_init(&b, HTTP_MAX_HEAD);
    put_handshake(&b, a, x->ws_key);
    if (b.failed)
        error_set(err, ERROR_LIMIT, "the Worker's headers are larger than %u bytes", HTTP_MAX_HEAD);
    else if (http_conn_head(x->conn, 101, "Switching Protocols", (const char *)b.data, b.len, 0, err) == 0)
        r = 0;
    buf_free(&b);
    if (r < 0)
        return -1;
    x->websocket = websocket_start(&client, x->conn, x->link, (uint32_t)a->ws_in, (uint32_t)a->ws_out, NULL,
                                   on_websocket_over, x, err);
    if (x->websocket) {
        http_conn_upgrade(x->conn);
        return 0;
    }
    struct http_conn *c = x->conn; /* the 101 is out already */
    if (x->ingress->config.failed)
        x->ingress->config.failed(x->ingress->config.user, x->method, x->url, err);
    exchange_free(x);
    http_conn_abort(c);
    return 0;
}

void exchange_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct exchange *x = user;
    struct answer a = {0};
    struct error why = {0};
    x->call = 0;
    if (err) {
        exchange_fail(x, 500, err);
        return;
    }
    int r = read_answer(&value, &a, &why);
    if (r == 0)
        r = a.ws            ? send_upgrade(x, &a, &why)
            : a.stream_body ? send_stream(x, &a, &why)
                            : send_whole(x, &a, &why);
    if (r < 0)
        exchange_fail(x, 502, &why);
}
