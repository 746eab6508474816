#include "app/handshake.h"

#include "app/header.h"
#include "app/websocket.h"
#include "base/parse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_REASON ((size_t)127)

/* ---- the head, line by line ---- */

static int on_status(http_parser *p, const char *at, size_t len)
{
    struct handshake *h = p->data;
    if (h->reason.len + len <= MAX_REASON)
        buf_append(&h->reason, at, len);
    return 0;
}

static void end_value(struct handshake *h)
{
    if (!h->in_value)
        return;
    struct buf *b = &h->headers;
    while (b->len > 0 && (b->data[b->len - 1] == ' ' || b->data[b->len - 1] == '\t'))
        b->len--;
    buf_append(b, "\n", 1);
    h->in_value = false;
}

static int on_field(http_parser *p, const char *at, size_t len)
{
    struct handshake *h = p->data;
    end_value(h);
    for (size_t i = 0; i < len; i++) {
        char lower = (char)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] + 32 : at[i]);
        buf_append(&h->headers, &lower, 1);
    }
    return h->headers.failed;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
    struct handshake *h = p->data;
    if (!h->in_value)
        buf_append(&h->headers, "\n", 1);
    h->in_value = true;
    buf_append(&h->headers, at, len);
    return h->headers.failed;
}

static int on_head(http_parser *p)
{
    struct handshake *h = p->data;
    end_value(h);
    h->status = p->status_code;
    h->no_body = h->status < 200 || h->status == 204 || h->status == 304;
    h->phase = HANDSHAKE_BODY;
    p->upgrade = 0;
    return h->no_body ? 1 : 0;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
    struct handshake *h = p->data;
    if (h->body)
        h->body(h->user, (const uint8_t *)at, len);
    return 0;
}

static int on_complete(http_parser *p)
{
    struct handshake *h = p->data;
    h->phase = HANDSHAKE_DONE;
    http_parser_pause(p, 1);
    return 0;
}

static const http_parser_settings settings = {.on_status = on_status,
                                              .on_header_field = on_field,
                                              .on_header_value = on_value,
                                              .on_headers_complete = on_head,
                                              .on_body = on_body,
                                              .on_message_complete = on_complete};

/* ---- a 101 ---- */

/* How often a field came, and its value (the last). */
static unsigned find(const struct handshake *h, const char *name, const char **value, size_t *value_len)
{
    const char *p = (const char *)h->headers.data, *end = h->headers.len > 0 ? p + h->headers.len : p;
    unsigned count = 0;
    while (p < end) {
        const char *sep = memchr(p, '\n', (size_t)(end - p));
        const char *stop = sep ? memchr(sep + 1, '\n', (size_t)(end - sep - 1)) : NULL;
        if (!stop)
            break;
        if ((size_t)(sep - p) == strlen(name) && memcmp(p, name, (size_t)(sep - p)) == 0) {
            *value = sep + 1;
            *value_len = (size_t)(stop - sep - 1);
            count++;
        }
        p = stop + 1;
    }
    return count;
}

static int refuse(struct error *err, const char *what)
{
    return error_set(err, ERROR_PROTOCOL, "WebSocket handshake: %s", what);
}

static int check_upgrade(const struct handshake *h, struct error *err)
{
    const char *v = "";
    size_t n = 0;
    if (find(h, "upgrade", &v, &n) != 1 || n != 9 || strncasecmp(v, "websocket", 9) != 0)
        return refuse(err, "the server's Upgrade is not \"websocket\"");
    if (find(h, "connection", &v, &n) == 0 || !header_has_word(v, n, "upgrade", HEADER_ANY_CASE))
        return refuse(err, "the server's Connection is not \"Upgrade\"");
    if (find(h, "sec-websocket-accept", &v, &n) != 1 || n != strlen(h->accept) ||
        memcmp(v, h->accept, n) != 0)
        return refuse(err, "the server's Sec-WebSocket-Accept does not answer our key");
    if (find(h, "sec-websocket-extensions", &v, &n) > 0)
        return refuse(err, "the server uses extensions that were not offered");
    unsigned chosen = find(h, "sec-websocket-protocol", &v, &n);
    if (chosen == 0)
        return 0;
    char *name = chosen == 1 && h->offered ? strndup(v, n) : NULL;
    bool ok = name && *name && !strchr(name, ',') &&
              header_has_word(h->offered, strlen(h->offered), name, HEADER_SAME_CASE);
    free(name);
    return ok ? 0 : refuse(err, "the server chose a protocol that was not offered");
}

/* ---- both ---- */

int handshake_init(struct handshake *h, const char *key, const char *offered, struct error *err)
{
    *h = (struct handshake){0};
    buf_init(&h->headers, HANDSHAKE_MAX_HEAD);
    buf_init(&h->reason, MAX_REASON + 1);
    http_parser_init(&h->parser, HTTP_RESPONSE);
    h->parser.data = h;
    websocket_accept_key(key, h->accept);
    if (!offered)
        return 0;
    h->offered = strdup(offered);
    return h->offered ? 0 : error_oom(err);
}

void handshake_free(struct handshake *h)
{
    buf_free(&h->headers);
    buf_free(&h->reason);
    free(h->offered);
    h->offered = NULL;
}

static int end_of_head(struct handshake *h, struct error *err)
{
    if (h->status == 101) {
        if (check_upgrade(h, err) < 0)
            return -1;
        h->phase = HANDSHAKE_UPGRADED;
        return 0;
    }
    if (h->status < 200 || h->status > 599)
        return error_set(err, ERROR_PROTOCOL, "WebSocket handshake: the server answered with status %u",
                         h->status);
    if (!utf8_valid(h->reason.data, h->reason.len))
        buf_clear(&h->reason);
    return 0;
}

ssize_t handshake_feed(struct handshake *h, const uint8_t *data, size_t len, struct error *err)
{
    enum http_framing_fault fault = HTTP_FRAMING_OK;
    const char *text = (const char *)data;
    bool head = h->phase == HANDSHAKE_HEAD;
    if (h->phase == HANDSHAKE_DONE || h->phase == HANDSHAKE_UPGRADED)
        return 0;
    if (head && len == 0)
        return refuse(err, "the server closed the connection");
    size_t ready = head ? http_framing_head(&h->framing, text, len, &fault) : len;
    size_t n = ready || !head ? http_parser_execute(&h->parser, &settings, text, ready) : 0;
    enum http_errno e = HTTP_PARSER_ERRNO(&h->parser);
    if (fault || h->headers.failed || (e != HPE_OK && e != HPE_PAUSED) || (head && n != ready))
        return refuse(err, h->headers.failed || e == HPE_HEADER_OVERFLOW
                               ? "the server's answer has too large a head"
                               : "the server's answer is no HTTP");
    if (!head)
        return (ssize_t)n;
    if (h->phase == HANDSHAKE_HEAD)
        return h->framing.phase == FRAMING_HEAD_DONE ? refuse(err, "the server's answer is no HTTP")
                                                     : (ssize_t)len;
    return end_of_head(h, err) < 0 ? -1 : (ssize_t)n;
}
