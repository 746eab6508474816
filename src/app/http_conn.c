#include "app/http_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE (64u << 10)
#define IDLE_MS 75000u
#define HEAD_MS 30000u
#define BODY_MS 60000u
/* Of a body whose request was answered before it was read: so much is read to keep the connection. */
#define DISCARD_MAX ((uint64_t)1 << 20)

static struct http_handler *handler(struct http_conn *c)
{
    return &c->server->config.handler;
}

/* ---- callbacks of the parser: UNTRUSTED INPUT ---- */

static int on_begin(http_parser *p)
{
    struct http_conn *c = p->data;
    http_head_begin(c);
    http_conn_wait(c, HEAD_MS);
    return 0;
}

static int on_head(http_parser *p)
{
    struct http_conn *c = p->data;
    struct http_request r;
    unsigned status = http_head_check(c, &r);
    p->upgrade = 0; /* the parser must not stop: whether there is an upgrade is the Worker's decision */
    c->message_done = c->answered = false;
    c->discarded = 0;
    c->open = true;
    c->exchange = NULL;
    if (status) {
        c->close_after = true;
        http_conn_text(c, status, http_status_str((enum http_status)status));
        return 0;
    }
    http_conn_wait(c, r.body == HTTP_BODY_NONE ? 0 : BODY_MS);
    void *exchange = handler(c)->request(handler(c)->user, c, &r);
    if (c->open)
        c->exchange = exchange;
    return 0;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
    struct http_conn *c = p->data;
    http_conn_wait(c, BODY_MS);
    if (c->open) {
        handler(c)->body(c->exchange, (const uint8_t *)at, len);
        return 0;
    }
    c->discarded += len;
    if (c->discarded > DISCARD_MAX)
        c->closing = true;
    return 0;
}

static int on_complete(http_parser *p)
{
    struct http_conn *c = p->data;
    c->message_done = true;
    http_conn_wait(c, 0);
    http_parser_pause(p, 1);
    if (c->open)
        handler(c)->body_end(c->exchange);
    return 0;
}

const http_parser_settings http_settings = {
    .on_message_begin = on_begin,
    .on_url = http_head_target,
    .on_header_field = http_head_field,
    .on_header_value = http_head_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

/* ---- reading ---- */

static void refuse(struct http_conn *c, enum http_errno why)
{
    if (c->closing)
        return; /* refused already: by its head */
    if (c->open && c->answered) {
        http_conn_close(c);
        return;
    }
    if (c->open) { /* in its body */
        void *exchange = c->exchange;
        c->open = false;
        c->exchange = NULL;
        if (exchange)
            handler(c)->gone(exchange);
    }
    c->paused = false;
    c->open = true;
    c->answered = false;
    c->close_after = true;
    c->parser.method = HTTP_GET;
    http_conn_text(c,
                   why == HPE_HEADER_OVERFLOW  ? 431
                   : why == HPE_INVALID_METHOD ? 501
                                               : 400,
                   why == HPE_HEADER_OVERFLOW  ? "Request Header Fields Too Large"
                   : why == HPE_INVALID_METHOD ? "Not Implemented"
                                               : "Bad Request");
}

/* The next message has to wait: for the answer to this one, and until the client has taken most of what there
 * is for it, so that one that asks and asks without reading stands still. */
static bool must_wait(const struct http_conn *c)
{
    return c->message_done && (c->open || http_conn_pending(c) >= HTTP_OUTPUT_FULL);
}

/* May the next message begin? */
static void turn_over(struct http_conn *c)
{
    if (!c->message_done || must_wait(c) || c->closing || c->dead)
        return;
    c->message_done = false;
    c->framing = (struct http_framing){0};
    http_parser_pause(&c->parser, 0);
    http_conn_wait(c, IDLE_MS);
}

/* How many of these bytes may go to the parser. */
static size_t check_framing(struct http_conn *c, const char *data, size_t len, enum http_framing_fault *fault)
{
    struct http_framing *f = &c->framing;
    size_t seen = c->ahead;
    if (f->phase == FRAMING_HEAD)
        return seen + http_framing_head(f, data + seen, len - seen, fault);
    if (c->parser.flags & F_CHUNKED)
        return seen + http_framing_chunks(f, data + seen, len - seen, fault);
    return len;
}

/* Parses as far as it may. Returns the bytes taken. */
static size_t parse(struct http_conn *c, const uint8_t *data, size_t len)
{
    size_t taken = 0;
    c->executing = true;
    while (taken < len && !c->dead && !c->closing && !c->paused && !c->raw && !must_wait(c)) {
        turn_over(c);
        enum http_framing_fault fault = HTTP_FRAMING_OK;
        size_t ready = check_framing(c, (const char *)data + taken, len - taken, &fault),
               n = ready ? http_parser_execute(&c->parser, &http_settings, (const char *)data + taken, ready)
                         : 0;
        enum http_errno e = HTTP_PARSER_ERRNO(&c->parser);
        taken += n;
        c->ahead = ready - n;
        if (c->dead)
            break;
        if (e == HPE_PAUSED) {
            if (!c->message_done)
                http_parser_pause(&c->parser, 0); /* http_conn_pause(): see the loop's condition */
        } else if (e != HPE_OK) {
            refuse(c, e);
            taken = len;
        } else if (fault) {
            refuse(c, fault == HTTP_FRAMING_TOO_LARGE ? HPE_HEADER_OVERFLOW : HPE_INVALID_HEADER_TOKEN);
            taken = len;
        }
    }
    c->executing = false;
    if (c->closing)
        taken = len;
    return taken;
}

static void take(struct http_conn *c, const uint8_t *data, size_t len)
{
    size_t n = c->raw ? 0 : parse(c, data, len);
    if (c->dead)
        return;
    if (c->raw && !c->paused && n < len) {
        handler(c)->raw(c->exchange, data + n, len - n);
        n = len;
    }
    if (!c->dead && n < len && buf_append(&c->in, data + n, len - n) < 0)
        http_conn_close(c);
}

/* Goes on with what was read before. */
static void take_rest(struct http_conn *c)
{
    if (c->executing || c->in.len == 0 || c->dead)
        return;
    struct buf rest = c->in;
    buf_init(&c->in, rest.max);
    take(c, rest.data, rest.len);
    buf_free(&rest);
    if (!c->dead)
        http_conn_account(c);
}

void http_conn_readable(struct http_conn *c)
{
    uint8_t *buffer = c->server->buffer;
    ssize_t n = read(c->fd, buffer, READ_SIZE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        http_conn_close(c);
        return;
    }
    if (c->closing)
        return; /* nobody wants it */
    take(c, buffer, (size_t)n);
    if (c->dead)
        return;
    turn_over(c);
    http_conn_account(c);
    http_conn_watch(c);
}

void http_conn_pause(struct http_conn *c)
{
    if (c->paused || c->dead)
        return;
    c->paused = true;
    http_conn_wait(c, 0);
    if (c->executing)
        http_parser_pause(&c->parser, 1);
    http_conn_watch(c);
}

void http_conn_resume(struct http_conn *c)
{
    if (!c->paused || c->dead)
        return;
    c->paused = false;
    if (!c->message_done && !c->raw)
        http_conn_wait(c, BODY_MS);
    take_rest(c);
    if (!c->dead)
        http_conn_watch(c);
}

/* ---- writing ---- */

void http_conn_write(struct http_conn *c, const void *data, size_t len)
{
    if (c->dead || len == 0 || (c->no_body && !c->raw))
        return;
    if (c->known_length && !c->raw) {
        if (len > c->left_out)
            len = (size_t)c->left_out;
        c->left_out -= len;
    }
    if (c->chunked && !c->raw)
        buf_printf(&c->out, "%zx\r\n", len);
    buf_append(&c->out, data, len);
    if (c->chunked && !c->raw)
        buf_append(&c->out, "\r\n", 2);
    /* A failed buffer closes the connection when it is flushed: not here, since that ends the exchange whose
     * owner is at work. */
    if (http_conn_pending(c) >= HTTP_OUTPUT_FULL)
        c->was_full = true;
    http_conn_account(c);
    http_conn_dirty(c);
}

size_t http_conn_pending(const struct http_conn *c)
{
    return c->out.len - c->out_start;
}

void http_conn_end(struct http_conn *c)
{
    if (c->dead || !c->open)
        return;
    if (c->known_length && c->left_out > 0 && !c->no_body) {
        http_conn_abort(c); /* less came than was said */
        return;
    }
    if (c->chunked && !c->raw && buf_append(&c->out, "0\r\n\r\n", 5) < 0) {
        http_conn_abort(c);
        return;
    }
    c->open = false;
    c->exchange = NULL;
    c->chunked = c->known_length = false;
    if (c->close_after || c->raw)
        c->closing = true;
    http_conn_dirty(c);
    if (c->executing)
        return;
    if (c->paused) {
        http_conn_resume(c); /* to its end, or to DISCARD_MAX */
        return;
    }
    turn_over(c);
    take_rest(c);
    if (!c->dead)
        http_conn_watch(c);
}

void http_conn_abort(struct http_conn *c)
{
    if (c->dead)
        return;
    c->open = false;
    c->exchange = NULL;
    c->closing = true;
    http_conn_dirty(c);
}

void http_conn_text(struct http_conn *c, unsigned status, const char *text)
{
    static const char headers[] = "content-type\ntext/plain;charset=utf-8\n";
    size_t len = strlen(text);
    http_conn_head(c, status, NULL, headers, sizeof headers - 1, len, NULL);
    http_conn_write(c, text, len);
    http_conn_end(c);
}

void http_conn_upgrade(struct http_conn *c)
{
    c->raw = true;
    http_conn_wait(c, 0);
    if (!c->executing)
        take_rest(c);
    if (!c->dead)
        http_conn_watch(c);
}

void http_conn_drained(struct http_conn *c)
{
    if (c->was_full && http_conn_pending(c) <= HTTP_OUTPUT_FULL / 2) {
        c->was_full = false;
        if (c->open && c->exchange)
            handler(c)->room(c->exchange);
        if (!c->dead && c->message_done && !c->open) { /* what waited in must_wait() */
            turn_over(c);
            take_rest(c);
        }
    }
}

const char *http_conn_peer(struct http_conn *c, char *to, size_t cap)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    to[0] = '\0';
    if (getpeername(c->fd, (struct sockaddr *)&a, &len) < 0)
        return to;
    if (a.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&a)->sin_addr, to, (socklen_t)cap);
    else if (a.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)&a)->sin6_addr, to, (socklen_t)cap);
    return to;
}
