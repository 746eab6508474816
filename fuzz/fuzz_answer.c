/* A Worker's answer to a request, on its way to a client, and the WebSocket that may follow: the input's
 * first byte chooses the request; a record (kind, two bytes of length, bytes) is the answer's CBOR first,
 * then what the Worker sends on the stream of the body or of the WebSocket, and what the client sends. */
#include "app/http_internal.h"
#include "app/ingress_internal.h"
#include "app/websocket.h"
#include "link/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct http_server server;
static struct http_conn conn;
static struct exchange *exchange;
static bool over;

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* ---- in the place of http_conn.c and http_server.c ---- */

void http_conn_dirty(struct http_conn *c)
{
}

const char *http_server_date(struct http_server *s)
{
    return "Thu, 01 Jan 1970 00:00:00 GMT";
}

void http_conn_write(struct http_conn *c, const void *data, size_t len)
{
    volatile uint8_t sum = 0;
    check(!over && c->answered);
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
}

size_t http_conn_pending(const struct http_conn *c)
{
    return 0;
}

void http_conn_end(struct http_conn *c)
{
    check(!over && c->answered);
    over = true;
}

void http_conn_abort(struct http_conn *c)
{
    check(!over);
    over = true;
}

void http_conn_text(struct http_conn *c, unsigned status, const char *text)
{
    check(!over && !c->answered && status >= 400 && text[0]);
    over = true;
}

void http_conn_upgrade(struct http_conn *c)
{
    check(!over && c->answered);
    c->raw = true;
}

void http_conn_pause(struct http_conn *c)
{
    check(!over);
}

void http_conn_hold(struct http_conn *c, size_t bytes)
{
    check(!over && bytes <= 3 * WEBSOCKET_MESSAGE_MAX);
}

void http_conn_resume(struct http_conn *c)
{
    check(!over);
}

/* ---- in the place of ingress.c ---- */

void exchange_free(struct exchange *x)
{
    check(x == exchange);
    if (x->down)
        link_stream_reset(x->link, x->down, NULL);
    free(x);
    exchange = NULL;
}

/* ---- the Worker ---- */

/* A frame of DATA, END or RESET on the stream `id`, if the link lives. */
static void say(struct link *l, enum frame_kind kind, uint32_t id, const uint8_t *body, size_t len)
{
    uint8_t head[FRAME_HEADER_SIZE];
    frame_header_write(head, kind, id, (uint32_t)len);
    if (link_alive(l) && link_receive(l, head, sizeof head, NULL) == 0 && len > 0)
        link_receive(l, body, len, NULL);
}

static void after(struct link *l, uint8_t kind, const uint8_t *data, size_t len)
{
    /* The streams' numbers are the Worker's choice: these are those of the seeds. */
    static const uint32_t streams[] = {1, 3, 5};
    uint32_t id = streams[kind / 4 % 3];
    if (kind % 4 == 0)
        say(l, FRAME_DATA, id, data, len);
    else if (kind % 4 == 1)
        say(l, FRAME_END, id, NULL, 0);
    else if (kind % 4 == 2 && exchange && exchange->websocket && !over)
        websocket_raw(exchange->websocket, data, len);
    else if (exchange && exchange->websocket)
        websocket_room(exchange->websocket);
}

static void answer(const uint8_t *data, size_t len)
{
    struct cbor_reader r;
    cbor_reader_init(&r, data, len);
    exchange_answer(exchange, NULL, r);
}

/* The client leaves, if it is there. */
static void leave(void)
{
    if (!exchange)
        return;
    if (exchange->websocket)
        websocket_gone(exchange->websocket);
    exchange_free(exchange);
}

static void begin(struct ingress *i, struct link *l, uint8_t setup)
{
    over = false;
    conn = (struct http_conn){.server = &server, .parser.http_major = 1, .parser.http_minor = setup & 1};
    conn.parser.method = setup & 2 ? HTTP_HEAD : HTTP_GET;
    buf_init(&conn.out, (size_t)64 << 20);
    exchange = calloc(1, sizeof *exchange);
    check(exchange);
    *exchange = (struct exchange){.ingress = i, .conn = &conn, .link = l, .head_request = setup & 2};
    if (setup & 4)
        strcpy(exchange->ws_key, "dGhlIHNhbXBsZSBub25jZQ==");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ingress i = {0};
    bool first = true;
    if (len < 1)
        return 0;
    struct link *l = link_new(&(struct link_config){.side = LINK_HOST});
    check(l);
    begin(&i, l, data[0]);
    for (size_t at = 1; at + 3 <= len;) {
        size_t n = data[at + 1] | (size_t)data[at + 2] << 8;
        n = n < len - at - 3 ? n : len - at - 3;
        if (!first) {
            after(l, data[at], data + at + 3, n);
        } else if (!cbor_well_formed(data + at + 3, n)) {
            break; /* the link lets nothing else through */
        } else {
            answer(data + at + 3, n);
            first = false;
        }
        at += 3 + n;
    }
    leave();
    link_free(l);
    buf_free(&conn.out);
    return 0;
}
