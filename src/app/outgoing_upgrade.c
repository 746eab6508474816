/* fetch() with an Upgrade, and new WebSocket(): the handshake with the server, then websocket.c between its
 * connection and the worker's streams. A server that answers with something else has its answer passed on; it
 * is not followed when it is a redirect. UNTRUSTED INPUT on both sides. */
#include "app/handshake.h"
#include "app/outgoing_dial.h"
#include "app/outgoing_headers.h"
#include "app/wire.h"
#include "base/parse.h"
#include "link/cbor.h"
#include "link/idtable.h"

#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define URL_MAX (64u << 10)
#define HEADERS_MAX (128u << 10)
#define ANSWER_MS 30000u
#define CLOSE_MS 10000u

struct upgrade {
    struct outgoing_socket socket;
    struct link *link;
    struct link_call *call; /* not answered yet */
    struct outgoing_dial *dial;
    struct wire *wire;
    struct websocket *websocket; /* then it has everything */
    bool secure;
    char *host, *url, *offered;
    struct buf request;
    struct handshake handshake;
    uint32_t down;   /* the body of an ordinary answer; 0: none (any more) */
    struct buf held; /* of it, what has no credit yet */
};

/* ---- the end ---- */

static void upgrade_free(struct upgrade *u, const struct error *why)
{
    outgoing_socket_remove(&u->socket);
    dial_cancel(u->dial);
    wire_close(u->wire);
    if (u->down)
        link_stream_reset(u->link, u->down, why);
    if (u->call)
        link_throw(u->call, why);
    handshake_free(&u->handshake);
    buf_free(&u->request);
    buf_free(&u->held);
    free(u->host);
    free(u->url);
    free(u->offered);
    free(u);
}

static void on_kill(struct outgoing_socket *s)
{
    struct upgrade *u = container_of(s, struct upgrade, socket);
    struct error why = {0};
    error_set(&why, ERROR_GONE, "the connection was broken off");
    if (u->websocket)
        websocket_gone(u->websocket);
    upgrade_free(u, &why);
}

static void on_cancel(void *user)
{
    struct upgrade *u = user;
    on_kill(&u->socket);
}

/* ---- the WebSocket's connection ---- */

static void peer_write(void *conn, const void *data, size_t len)
{
    struct upgrade *u = conn;
    wire_write(u->wire, data, len);
}

static bool peer_full(const void *conn)
{
    const struct upgrade *u = conn;
    return wire_pending(u->wire) >= WIRE_FULL;
}

static void peer_pause(void *conn)
{
    struct upgrade *u = conn;
    wire_pause(u->wire);
}

static void peer_resume(void *conn)
{
    struct upgrade *u = conn;
    wire_resume(u->wire);
}

static void peer_closing(void *conn)
{
    struct upgrade *u = conn;
    wire_expect(u->wire, CLOSE_MS, "the server did not answer the close");
}

static void peer_close(void *conn)
{
    struct error why = {0};
    upgrade_free(conn, &why);
}

static void on_websocket_over(void *user)
{
    struct upgrade *u = user;
    u->websocket = NULL;
}

static const struct websocket_peer server = {.is_server = true,
                                             .name = "server",
                                             .write = peer_write,
                                             .full = peer_full,
                                             .pause = peer_pause,
                                             .resume = peer_resume,
                                             .closing = peer_closing,
                                             .end = peer_close,
                                             .abort = peer_close};

/* ---- the answer ---- */

static void put_text(struct buf *b, const struct buf *text)
{
    const uint8_t *data = text->data ? text->data : (const uint8_t *)"";
    if (utf8_valid(data, text->len))
        cbor_put_text_n(b, (const char *)data, text->len);
    else
        cbor_put_bytes(b, data, text->len);
}

/* `in`, `out`: of a WebSocket; or the stream of a body; 0: none. */
static void answer(struct upgrade *u, uint32_t in, uint32_t out, uint32_t body)
{
    const struct handshake *h = &u->handshake;
    struct link_call *call = u->call;
    struct buf b;
    buf_init(&b, HANDSHAKE_MAX_HEAD * 2 + URL_MAX);
    cbor_put_map(&b, in || body ? 5 : 4);
    cbor_put_text(&b, "status");
    cbor_put_uint(&b, h->status);
    cbor_put_text(&b, "statusText");
    put_text(&b, &h->reason);
    cbor_put_text(&b, "headers");
    put_text(&b, &h->headers);
    cbor_put_text(&b, "url");
    cbor_put_string(&b, u->url);
    if (in) {
        cbor_put_text(&b, "ws");
        cbor_put_map(&b, 2);
        cbor_put_text(&b, "in");
        cbor_put_uint(&b, in);
        cbor_put_text(&b, "out");
        cbor_put_uint(&b, out);
    } else if (body) {
        cbor_put_text(&b, "body");
        cbor_put_uint(&b, body);
    }
    u->call = NULL;
    link_return(call, b.data, b.len);
    buf_free(&b);
}

static void send_held(struct upgrade *u)
{
    struct error why = {0};
    size_t room = u->down ? link_stream_writable(u->link, u->down) : 0,
           n = u->held.len < room ? u->held.len : room;
    if (n > 0 && link_stream_write(u->link, u->down, u->held.data, n) == 0)
        buf_consume(&u->held, n);
    if (u->held.len > 0) {
        wire_pause(u->wire);
        return;
    }
    if (u->handshake.phase != HANDSHAKE_DONE) {
        wire_resume(u->wire);
        return;
    }
    if (u->down)
        link_stream_end(u->link, u->down);
    u->down = 0;
    upgrade_free(u, &why);
}

static void on_down_writable(void *user, uint32_t stream)
{
    send_held(user);
}

static void on_down_reset(void *user, uint32_t stream, const struct error *why)
{
    struct upgrade *u = user;
    u->down = 0;
    upgrade_free(u, why); /* the worker wants no more */
}

static void on_body(void *user, const uint8_t *data, size_t len)
{
    struct upgrade *u = user;
    buf_append(&u->held, data, len); /* one piece of the wire's at most: then it is paused */
}

static int begin_body(struct upgrade *u, struct error *err)
{
    static const struct link_stream_ops ops = {.writable = on_down_writable, .reset = on_down_reset};
    uint32_t down = link_stream_new(u->link);
    if (link_stream_open_send(u->link, down, &ops, u, err) < 0)
        return -1;
    u->down = down;
    answer(u, 0, 0, down);
    return 0;
}

static int begin_websocket(struct upgrade *u, struct error *err)
{
    uint32_t in = link_stream_new(u->link), out = link_stream_new(u->link);
    struct outgoing_user *user = u->socket.user;
    u->websocket = websocket_start(&server, u, u->link, in, out, &user->held, on_websocket_over, u, err);
    if (!u->websocket)
        return -1;
    answer(u, in, out, 0);
    return 0;
}

/* ---- from the server ---- */

static void read_answer(struct upgrade *u, const uint8_t *data, size_t len)
{
    struct error err = {0};
    bool in_head = u->handshake.phase == HANDSHAKE_HEAD;
    ssize_t n = handshake_feed(&u->handshake, data, len, &err);
    if (n >= 0 && in_head && u->handshake.phase != HANDSHAKE_HEAD) {
        wire_expect(u->wire, 0, NULL);
        if (u->handshake.phase == HANDSHAKE_UPGRADED) {
            if (begin_websocket(u, &err) == 0) {
                if ((size_t)n < len)
                    websocket_raw(u->websocket, data + n, len - (size_t)n);
                return;
            }
            n = -1;
        } else if (begin_body(u, &err) < 0) {
            n = -1;
        } else if (u->handshake.phase == HANDSHAKE_BODY && (size_t)n < len &&
                   handshake_feed(&u->handshake, data + n, len - (size_t)n, &err) < 0) {
            n = -1;
        }
    }
    if (n < 0)
        upgrade_free(u, &err);
    else if (u->handshake.phase != HANDSHAKE_HEAD)
        send_held(u);
}

static void on_data(void *user, const uint8_t *data, size_t len)
{
    struct upgrade *u = user;
    if (u->websocket)
        websocket_raw(u->websocket, data, len);
    else
        read_answer(u, data, len);
}

static void on_end(void *user)
{
    struct upgrade *u = user;
    if (u->websocket)
        on_kill(&u->socket);
    else if (u->handshake.phase != HANDSHAKE_DONE)
        read_answer(u, NULL, 0);
}

static void on_room(void *user)
{
    struct upgrade *u = user;
    if (u->websocket)
        websocket_room(u->websocket);
}

static void on_failed(void *user, const struct error *why)
{
    struct upgrade *u = user;
    if (u->websocket)
        websocket_gone(u->websocket);
    upgrade_free(u, why);
}

/* ---- to the server ---- */

static void send_request(struct upgrade *u)
{
    wire_write(u->wire, u->request.data, u->request.len);
    buf_free(&u->request);
    buf_init(&u->request, 0);
    wire_expect(u->wire, ANSWER_MS, "WebSocket handshake: the server did not answer in time");
}

static void on_secure(void *user)
{
    send_request(user);
}

static void on_dialled(void *owner, int fd, const struct error *err)
{
    static const struct wire_ops ops = {
        .secure = on_secure, .data = on_data, .end = on_end, .room = on_room, .failed = on_failed};
    struct upgrade *u = owner;
    struct outgoing *o = u->socket.user->outgoing;
    struct error why = {0};
    u->dial = NULL;
    if (!err) {
        u->wire = wire_open(o->loop, fd, &ops, u, &why);
        SSL_CTX *tls = u->wire && u->secure ? outgoing_tls(o, &why) : NULL;
        if (!u->wire || (u->secure && (!tls || wire_secure(u->wire, tls, u->host, "http/1.1",
                                                           (uint64_t)CONNECT_SECONDS * 1000, &why) < 0)))
            err = &why;
    }
    if (err)
        upgrade_free(u, err);
    else if (!u->secure)
        send_request(u);
}

/* ---- the request: UNTRUSTED INPUT ---- */

static int add_header(void *user, const char *name, const char *value, struct error *err)
{
    struct upgrade *u = user;
    static const char prefix[] = "sec-websocket-";
    if (strcasecmp(name, "sec-websocket-protocol") == 0) {
        if (u->offered)
            return error_field(err, "headers", "headers: \"%.64s\" is there twice", name);
        u->offered = strdup(value);
        if (!u->offered)
            return error_oom(err);
    } else if (header_is_ours(name) || strncasecmp(name, prefix, sizeof prefix - 1) == 0) {
        return 0;
    }
    return buf_printf(&u->request, "%s: %s\r\n", name, value) < 0 ? error_oom(err) : 0;
}

/* Nothing that would end a line or a word. */
static bool is_plain(const char *s)
{
    for (const unsigned char *p = (const unsigned char *)s; *p; p++)
        if (*p <= 32 || *p >= 127)
            return false;
    return true;
}

struct address {
    char *host, *port, *path, *query;
};

static void address_free(struct address *a)
{
    curl_free(a->host);
    curl_free(a->port);
    curl_free(a->path);
    curl_free(a->query);
}

static int parse_address(const char *url, struct address *a)
{
    CURLU *parsed = curl_url();
    bool ok = parsed && curl_url_set(parsed, CURLUPART_URL, url, CURLU_PATH_AS_IS) == CURLUE_OK &&
              curl_url_get(parsed, CURLUPART_HOST, &a->host, 0) == CURLUE_OK &&
              curl_url_get(parsed, CURLUPART_PORT, &a->port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              curl_url_get(parsed, CURLUPART_PATH, &a->path, 0) == CURLUE_OK;
    if (ok)
        curl_url_get(parsed, CURLUPART_QUERY, &a->query, 0);
    curl_url_cleanup(parsed);
    return ok && is_plain(a->host) && is_plain(a->path) && (!a->query || is_plain(a->query)) ? 0 : -1;
}

static void make_key(char key[32])
{
    uint8_t raw[16];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        abort();
    base64_encode_raw(key, sizeof raw, raw);
    key[BASE64_ENCODE_RAW_LENGTH(sizeof raw)] = '\0';
}

static int write_request(struct upgrade *u, const struct address *a, const char *headers, struct error *err)
{
    char key[32];
    bool usual = strcmp(a->port, u->secure ? "443" : "80") == 0;
    make_key(key);
    buf_printf(&u->request,
               "GET %s%s%s HTTP/1.1\r\nHost: %s%s%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
               a->path, a->query ? "?" : "", a->query ? a->query : "", a->host, usual ? "" : ":",
               usual ? "" : a->port, key);
    if (headers_each(headers, strlen(headers), add_header, u, err) < 0)
        return -1;
    if (buf_append(&u->request, "\r\n", 2) < 0)
        return error_oom(err);
    return handshake_init(&u->handshake, key, u->offered, err);
}

/* With the address read: the request, and the connection. */
static int start(struct upgrade *u, const struct address *a, const char *headers, struct error *err)
{
    uint64_t port = 0;
    size_t len = strlen(a->host);
    bool six = len > 2 && a->host[0] == '[' && a->host[len - 1] == ']';
    if (parse_u64(a->port, "url", 1, 65535, &port, err) < 0 || write_request(u, a, headers, err) < 0)
        return -1;
    u->handshake.body = on_body;
    u->handshake.user = u;
    u->host = six ? strndup(a->host + 1, len - 2) : strdup(a->host);
    if (!u->host)
        return error_oom(err);
    u->dial = dial_start(u->socket.user, u->host, (unsigned)port, on_dialled, u, err);
    return u->dial ? 0 : -1;
}

static int begin(struct upgrade *u, const struct cbor_reader *args, struct error *err)
{
    struct address a = {0};
    char *method = cbor_map_dup(args, "method", 64), *headers = cbor_map_dup(args, "headers", HEADERS_MAX);
    int r = -1;
    u->url = cbor_map_dup(args, "url", URL_MAX);
    if (!method || strcmp(method, "GET") != 0)
        error_field(err, "method", "method: a WebSocket is asked for with GET");
    else if (!u->url)
        error_field(err, "url", "url: an address of at most %u bytes is expected", URL_MAX);
    else if (strncasecmp(u->url, "http://", 7) != 0 && strncasecmp(u->url, "https://", 8) != 0)
        error_set(err, ERROR_DENIED, "fetch: only http: and https: addresses can be fetched, not %.200s",
                  u->url);
    else if (parse_address(u->url, &a) < 0)
        error_field(err, "url", "url: %.200s is no address", u->url);
    else {
        u->secure = strncasecmp(u->url, "https://", 8) == 0;
        r = start(u, &a, headers ? headers : "", err);
    }
    address_free(&a);
    free(method);
    free(headers);
    return r;
}

void outgoing_upgrade(struct outgoing_user *user, struct link_call *call, struct cbor_reader args)
{
    struct error err = {0};
    struct upgrade *u = calloc(1, sizeof *u);
    if (!u || outgoing_socket_add(user, &u->socket, on_kill, &err) < 0) {
        if (!err.kind)
            error_oom(&err);
        free(u);
        link_throw(call, &err);
        return;
    }
    u->link = link_call_link(call);
    u->call = call;
    buf_init(&u->request, HEADERS_MAX * 2 + URL_MAX * 4);
    buf_init(&u->held, 256u << 10);
    if (begin(u, &args, &err) < 0)
        upgrade_free(u, &err);
    else
        link_call_on_cancel(call, on_cancel, u);
}
