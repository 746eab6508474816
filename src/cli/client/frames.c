#include "cli/client/frames.h"

#include <string.h>

#define EVENT_MAX ((size_t)64 << 10)

void frames_init(struct frames *f)
{
    *f = (struct frames){0};
    buf_init(&f->event, EVENT_MAX + 1);
}

void frames_free(struct frames *f)
{
    buf_free(&f->event);
}

static int on_header(struct frames *f, struct error *err)
{
    const uint8_t *h = f->header;
    f->left = (uint32_t)h[4] | (uint32_t)h[5] << 8 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 24;
    if (h[0] < FRAME_STDOUT || h[0] > FRAME_EVENT || (h[0] == FRAME_EVENT && f->left > EVENT_MAX))
        return error_set(err, ERROR_PROTOCOL, "the daemon's output stream is malformed");
    buf_clear(&f->event);
    uint64_t cursor = 0;
    for (int i = 7; i >= 0; i--)
        cursor = cursor << 8 | h[8 + i];
    if (h[0] != FRAME_EVENT)
        f->cursors[h[0] - 1] = cursor + f->left;
    return 0;
}

static int on_body(struct frames *f, const uint8_t *data, size_t len, struct error *err)
{
    f->left -= (uint32_t)len;
    if (f->header[0] != FRAME_EVENT)
        return len ? f->on_output(f->user, f->header[0], data, len, err) : 0;
    if (buf_append(&f->event, data, len) < 0)
        return error_oom(err);
    return f->left ? 0 : f->on_event(f->user, (const char *)f->event.data, f->event.len, err);
}

int frames_feed(struct frames *f, const void *data, size_t len, struct error *err)
{
    const uint8_t *p = data;
    while (len > 0) {
        if (f->have < sizeof f->header) {
            size_t n = sizeof f->header - f->have;
            n = n < len ? n : len;
            memcpy(f->header + f->have, p, n);
            f->have += n;
            p += n;
            len -= n;
            if (f->have == sizeof f->header && on_header(f, err) < 0)
                return -1;
        }
        if (f->have < sizeof f->header)
            return 0;
        size_t n = f->left < len ? f->left : len;
        if (on_body(f, p, n, err) < 0)
            return -1;
        p += n;
        len -= n;
        if (f->left == 0)
            f->have = 0;
    }
    return 0;
}

size_t frames_output_left(const struct frames *f)
{
    return f->have == sizeof f->header && f->header[0] != FRAME_EVENT ? f->left : 0;
}

void frames_skip(struct frames *f, size_t n)
{
    f->left -= (uint32_t)n;
    if (f->left == 0)
        f->have = 0;
}
