#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
    memset(b, 0, sizeof *b);
    b->max = max;
}

void buf_free(struct buf *b)
{
    free(b->data);
    memset(b, 0, sizeof *b);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

uint8_t *buf_reserve(struct buf *b, size_t len)
{
    size_t max = b->max ? b->max : BUF_DEFAULT_MAX;
    if (b->failed || len > max || b->len > max - len) {
        b->failed = true;
        return NULL;
    }
    if (b->cap - b->len < len) {
        size_t want = b->cap ? b->cap * 2 : 256;
        while (want < b->len + len)
            want *= 2;
        uint8_t *grown = realloc(b->data, want);
        if (!grown) {
            b->failed = true;
            return NULL;
        }
        b->data = grown;
        b->cap = want;
    }
    return b->data + b->len;
}

void buf_commit(struct buf *b, size_t len)
{
    b->len += len;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
    if (len == 0)
        return b->failed ? -1 : 0;
    uint8_t *to = buf_reserve(b, len);
    if (!to)
        return -1;
    memcpy(to, data, len);
    b->len += len;
    return 0;
}

int buf_append_str(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    uint8_t *to = n < 0 ? NULL : buf_reserve(b, (size_t)n + 1);
    if (!to)
        return -1;
    va_start(ap, fmt);
    vsnprintf((char *)to, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t len)
{
    if (len >= b->len) {
        b->len = 0;
        return;
    }
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

const char *buf_str(struct buf *b)
{
    uint8_t *to = buf_reserve(b, 1);
    if (!to)
        return NULL;
    *to = '\0';
    return (const char *)b->data;
}
