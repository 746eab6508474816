/* Pending output: a list of chunks that frames are copied into, back to back, once. */
#include "link/link_internal.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* With the headers of chunk and allocator these make 2 KiB and 32 KiB. */
#define CHUNK_SMALL (2048u - sizeof(struct chunk) - 16)
#define CHUNK_LARGE (32768u - sizeof(struct chunk) - 16)

/* Makes room for `len` bytes at the tail: all of it or nothing. */
static int reserve(struct output *out, size_t len)
{
    size_t room = out->tail ? out->tail->cap - out->tail->end : 0;
    struct chunk *first = NULL, **end = &first;
    while (room < len) {
        uint32_t cap = len - room > CHUNK_SMALL || out->tail ? CHUNK_LARGE : CHUNK_SMALL;
        struct chunk *c = malloc(sizeof *c + cap);
        if (!c) {
            while ((c = first)) {
                first = c->next;
                free(c);
            }
            return -1;
        }
        *c = (struct chunk){.cap = cap};
        *end = c;
        end = &c->next;
        room += cap;
    }
    if (out->tail)
        out->tail->next = first;
    else
        out->head = out->tail = first;
    return 0;
}

/* There is room: reserve() has made it. */
static void copy_in(struct output *out, const void *data, size_t len)
{
    const uint8_t *p = data;
    struct chunk *c = out->tail;
    while (c && len > 0) {
        size_t n = c->cap - c->end < len ? c->cap - c->end : len;
        if (n == 0) {
            c = out->tail = c->next;
            continue;
        }
        memcpy(c->data + c->end, p, n);
        c->end += (uint32_t)n;
        out->pending += n;
        p += n;
        len -= n;
    }
}

int link_put_frame(struct link *l, enum frame_kind kind, uint32_t id, const void *head, size_t head_len,
                   const void *body, size_t len)
{
    struct output *out = &l->out;
    uint8_t header[FRAME_HEADER_SIZE];
    if (!l->alive)
        return -1;
    size_t total = sizeof header + head_len + len;
    if (out->pending + total > l->config.max_output + LINK_OUTPUT_SLACK) {
        struct error err;
        error_set(&err, ERROR_LIMIT, "the peer of the link does not read: %zu bytes are waiting for it",
                  out->pending);
        link_give_up(l, &err);
        return -1;
    }
    if (reserve(out, total) < 0) {
        link_out_of_memory(l);
        return -1;
    }
    bool was_empty = out->pending == 0;
    frame_header_write(header, kind, id, (uint32_t)(head_len + len));
    copy_in(out, header, sizeof header);
    copy_in(out, head, head_len);
    copy_in(out, body, len);
    if (was_empty && l->config.want_write)
        l->config.want_write(l->config.user);
    return 0;
}

int link_put_u32_frame(struct link *l, enum frame_kind kind, uint32_t id, uint32_t value)
{
    uint32_t le = htole32(value);
    return link_put_frame(l, kind, id, &le, sizeof le, NULL, 0);
}

void link_output_discard(struct link *l)
{
    struct chunk *c;
    while ((c = l->out.head)) {
        l->out.head = c->next;
        free(c);
    }
    l->out = (struct output){0};
}

int link_output(struct link *l, struct iovec *iov, int max)
{
    int n = 0;
    for (struct chunk *c = l->out.head; c && n < max; c = c->next)
        if (c->end > c->start)
            iov[n++] = (struct iovec){.iov_base = c->data + c->start, .iov_len = c->end - c->start};
    return n;
}

void link_sent(struct link *l, size_t n)
{
    struct output *out = &l->out;
    while (n > 0 && out->head) {
        struct chunk *c = out->head;
        size_t take = c->end - c->start < n ? c->end - c->start : n;
        c->start += (uint32_t)take;
        out->pending -= take;
        n -= take;
        if (c->start < c->end)
            break;
        out->head = c->next;
        if (!out->head)
            out->tail = NULL;
        free(c);
    }
    if (out->was_full && out->pending <= l->config.max_output / 2) {
        out->was_full = false;
        link_streams_wake(l);
    }
}

bool link_output_full(const struct link *l)
{
    return l->out.pending >= l->config.max_output;
}
