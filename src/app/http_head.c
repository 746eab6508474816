#include "app/http_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- of requests: UNTRUSTED INPUT ---- */

void http_head_begin(struct http_conn *c)
{
    buf_clear(&c->target);
    buf_clear(&c->head);
    c->in_value = c->bad_head = false;
    c->lengths = c->codings = c->hosts = 0;
}

int http_head_target(http_parser *p, const char *at, size_t len)
{
    struct http_conn *c = p->data;
    if (buf_append(&c->target, at, len) < 0)
        c->bad_head = true;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)at[i] <= 0x20 || (unsigned char)at[i] >= 0x7f)
            c->bad_head = true; /* what is not ASCII comes percent-encoded */
    return 0;
}

/* The name that was read last, without its end; counts those that must not be there twice. */
static void count_name(struct http_conn *c)
{
    const char *text = (const char *)c->head.data;
    size_t len = c->head.len, start = len;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    const char *name = text + start;
    size_t n = len - start;
    c->lengths += n == 14 && memcmp(name, "content-length", n) == 0;
    c->codings += n == 17 && memcmp(name, "transfer-encoding", n) == 0;
    c->hosts += n == 4 && memcmp(name, "host", n) == 0;
}

int http_head_field(http_parser *p, const char *at, size_t len)
{
    struct http_conn *c = p->data;
    if (c->in_value)
        buf_append(&c->head, "\n", 1);
    c->in_value = false;
    uint8_t *to = buf_reserve(&c->head, len);
    if (memchr(at, ' ', len))
        c->bad_head = true; /* before the colon: the library takes it for a part of the name */
    for (size_t i = 0; to && i < len; i++)
        to[i] = (uint8_t)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] + 32 : at[i]);
    if (to)
        buf_commit(&c->head, len);
    return 0;
}

int http_head_value(http_parser *p, const char *at, size_t len)
{
    struct http_conn *c = p->data;
    if (!c->in_value) {
        if (!c->head.failed)
            count_name(c);
        buf_append(&c->head, "\n", 1);
    }
    c->in_value = true;
    buf_append(&c->head, at, len);
    if (memchr(at, '\n', len) || memchr(at, '\r', len) || memchr(at, 0, len))
        c->bad_head = true;
    return 0;
}

/* "chunked" and nothing else is what is understood. */
static bool coding_ok(const char *headers)
{
    static const char name[] = "transfer-encoding\n";
    const char *p = headers;
    while (p && strncmp(p, name, sizeof name - 1) != 0) {
        p = strchr(p, '\n');
        p = p ? strchr(p + 1, '\n') : NULL;
        p = p ? p + 1 : NULL;
    }
    if (!p)
        return false;
    p += sizeof name - 1;
    size_t n = strcspn(p, "\n");
    while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
        n--;
    return n == 7 && strncasecmp(p, "chunked", 7) == 0;
}

unsigned http_head_check(struct http_conn *c, struct http_request *ret)
{
    http_parser *p = &c->parser;
    if (c->in_value)
        buf_append(&c->head, "\n", 1);
    const char *target = buf_str(&c->target), *headers = buf_str(&c->head);
    if (c->target.failed)
        return 414;
    if (c->head.failed)
        return 431;
    /* Whatever could be read in two ways is refused, although nobody reads it after us. */
    if (c->bad_head || !target || !headers || c->lengths > 1 || c->codings > 1 ||
        (c->lengths && c->codings) || c->hosts > 1 || (c->hosts == 0 && p->http_minor > 0) ||
        p->method == HTTP_CONNECT)
        return 400;
    if (p->http_major != 1)
        return 505;
    if (c->codings && (!(p->flags & F_CHUNKED) || p->http_minor == 0 || !coding_ok(headers)))
        return 501;
    *ret = (struct http_request){.method = http_method_str((enum http_method)p->method),
                                 .target = target,
                                 .headers = headers,
                                 .headers_len = c->head.len};
    if (p->flags & F_CHUNKED) {
        ret->body = HTTP_BODY_CHUNKED;
    } else if (c->lengths && p->content_length > 0) {
        ret->body = HTTP_BODY_LENGTH;
        ret->length = p->content_length;
    }
    ret->upgrade = p->upgrade && ret->body == HTTP_BODY_NONE;
    return 0;
}

/* ---- of answers ---- */

static bool is_name(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') ||
              (s[i] && strchr("!#$%&'*+-.^_`|~", s[i]))))
            return false;
    return len > 0;
}

/* Fields that belong to the connection, or that are written here. */
static bool is_ours(const char *s, size_t len, bool upgrade)
{
    static const char *const names[] = {
        "connection",       "keep-alive", "transfer-encoding", "content-length",
        "proxy-connection", "te",         "trailer",           "date"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncasecmp(names[i], s, len) == 0)
            return true;
    return len == 7 && !upgrade && strncasecmp(s, "upgrade", len) == 0;
}

/* UNTRUSTED INPUT: from a Worker. */
static int put_headers(struct buf *b, const char *headers, size_t len, bool upgrade, struct error *err)
{
    const char *p = headers, *end = headers + len;
    while (p < end) {
        const char *name = p, *colon = memchr(p, '\n', (size_t)(end - p));
        const char *value = colon ? colon + 1 : end;
        const char *stop = colon ? memchr(value, '\n', (size_t)(end - value)) : NULL;
        if (colon && !stop)
            stop = end;
        if (!colon || !is_name(name, (size_t)(colon - name)) || memchr(value, '\r', (size_t)(stop - value)) ||
            memchr(value, 0, (size_t)(stop - value)))
            return error_set(err, ERROR_PROTOCOL, "the Worker answered with a malformed header");
        if (!is_ours(name, (size_t)(colon - name), upgrade)) {
            buf_append(b, name, (size_t)(colon - name));
            buf_append(b, ": ", 2);
            buf_append(b, value, (size_t)(stop - value));
            buf_append(b, "\r\n", 2);
        }
        p = stop < end ? stop + 1 : end;
    }
    return 0;
}

static const char *reason_of(unsigned status)
{
    switch (status) {
#define XX(num, name, string)                                                                                \
    case num:                                                                                                \
        return #string;
        HTTP_STATUS_MAP(XX)
#undef XX
    default:
        return "Status";
    }
}

static bool is_line(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    return true;
}

int http_conn_head(struct http_conn *c, unsigned status, const char *reason, const char *headers,
                   size_t headers_len, uint64_t length, struct error *err)
{
    struct buf *b = &c->out;
    size_t before = b->len;
    bool head = c->parser.method == HTTP_HEAD, upgrade = status == 101;
    if (c->dead)
        return 0;
    if (!reason || !*reason || !is_line(reason))
        reason = reason_of(status);
    buf_printf(b, "HTTP/1.1 %u %s\r\n", status, reason);
    if (put_headers(b, headers, headers_len, upgrade, err) < 0) {
        b->len = before;
        return -1;
    }
    c->no_body = head || upgrade || status == 204 || status == 304;
    c->known_length = length != HTTP_LENGTH_UNKNOWN;
    c->left_out = c->known_length ? length : 0;
    c->chunked = !c->no_body && !c->known_length && c->parser.http_minor > 0;
    if (!http_should_keep_alive(&c->parser) || (!c->no_body && !c->known_length && !c->chunked))
        c->close_after = true;
    if (!upgrade) {
        if (c->known_length && status != 204 && (status != 304 || length > 0))
            buf_printf(b, "content-length: %llu\r\n", (unsigned long long)length);
        else if (c->chunked || (head && !c->known_length))
            buf_append_str(b, "transfer-encoding: chunked\r\n");
        if (c->close_after)
            buf_append_str(b, "connection: close\r\n");
        else if (c->parser.http_minor == 0)
            buf_append_str(b, "connection: keep-alive\r\n");
    } else {
        buf_append_str(b, "connection: upgrade\r\n");
    }
    buf_printf(b, "date: %s\r\n\r\n", http_server_date(c->server));
    c->answered = true;
    http_conn_dirty(c);
    return 0;
}
