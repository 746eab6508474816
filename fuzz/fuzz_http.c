/* What a client sends to the HTTP server, in pieces of the size that the first byte says, to a handler that
 * answers some requests at once, some at their end, and upgrades some. Only the socket's writing side is
 * missing. */
#include "app/http_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define PIECE_MAX 4096u

static uint8_t buffer[64u << 10];
static int exchange_mark;
static unsigned open_exchanges;

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* ---- in the place of http_server.c ---- */

void http_conn_close(struct http_conn *c)
{
    if (c->dead)
        return;
    c->dead = true;
    if (c->open && c->exchange)
        c->server->config.handler.gone(c->exchange);
    c->open = false;
}

void http_conn_dirty(struct http_conn *c)
{
}

void http_conn_watch(struct http_conn *c)
{
}

void http_conn_account(struct http_conn *c)
{
}

void http_conn_wait(struct http_conn *c, uint64_t ms)
{
}

const char *http_server_date(struct http_server *s)
{
    return "Thu, 01 Jan 1970 00:00:00 GMT";
}

/* ---- the handler ---- */

static struct http_conn *conn;

static void *on_request(void *user, struct http_conn *c, const struct http_request *r)
{
    struct error err = {0};
    check(r->method[0] && strlen(r->headers) == r->headers_len && r->headers_len <= HTTP_MAX_HEAD + 1 &&
          strlen(r->target) <= HTTP_MAX_TARGET && !strpbrk(r->target, "\r\n") && !strchr(r->headers, '\r'));
    check(r->headers_len == 0 || r->headers[r->headers_len - 1] == '\n');
    if (r->target[1] == 'n') {
        http_conn_text(c, 404, "no\n");
        return NULL;
    }
    if (r->upgrade && r->target[1] == 'u') {
        check(http_conn_head(c, 101, NULL, "upgrade\nx\n", 10, 0, &err) == 0);
        http_conn_upgrade(c);
    }
    if (r->target[1] == 'p')
        http_conn_pause(c);
    open_exchanges++;
    return &exchange_mark;
}

static void on_body(void *exchange, const uint8_t *data, size_t len)
{
    check(exchange == &exchange_mark && len > 0);
}

/* Echoes the request's own headers: what a client sends must not become malformed. */
static void on_body_end(void *exchange)
{
    struct error err = {0};
    check(exchange == &exchange_mark);
    if (conn->raw)
        return;
    open_exchanges--;
    if (http_conn_head(conn, 200, NULL, (const char *)conn->head.data, conn->head.len, HTTP_LENGTH_UNKNOWN,
                       &err) < 0) {
        check(err.message[0] != '\0');
        http_conn_text(conn, 500, "malformed\n");
        return;
    }
    http_conn_write(conn, "body", 4);
    http_conn_end(conn);
}

static void on_gone(void *exchange)
{
    open_exchanges--;
}

static void on_room(void *exchange)
{
}

static void on_raw(void *exchange, const uint8_t *data, size_t len)
{
    check(exchange == &exchange_mark && len > 0);
}

static void end_it(struct http_conn *c)
{
    if (c->paused)
        http_conn_resume(c);
    http_conn_close(c);
    check(open_exchanges == 0);
    buf_free(&c->in);
    buf_free(&c->out);
    buf_free(&c->target);
    buf_free(&c->head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct http_server server = {
        .buffer = buffer,
        .config.handler = {on_request, on_body, on_body_end, on_gone, on_room, on_raw, NULL}};
    struct http_conn c = {.server = &server};
    int pair[2];
    if (len < 1 || len > 1u << 20)
        return 0;
    size_t piece = data[0] == 255 ? PIECE_MAX : data[0] + 1u;
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    conn = &c;
    open_exchanges = 0;
    c.fd = pair[0];
    buf_init(&c.in, (size_t)1 << 20);
    buf_init(&c.out, (size_t)64 << 20);
    buf_init(&c.target, HTTP_MAX_TARGET);
    buf_init(&c.head, HTTP_MAX_HEAD);
    http_parser_init(&c.parser, HTTP_REQUEST);
    c.parser.data = &c;
    for (size_t at = 1; at < len && !c.dead && !c.closing; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        check(write(pair[1], data + at, n) == (ssize_t)n);
        http_conn_readable(&c);
        if (c.paused && !c.dead)
            http_conn_resume(&c);
    }
    end_it(&c);
    close(pair[0]);
    close(pair[1]);
    return 0;
}
