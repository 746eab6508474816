/* Raw frames for tests that play a peer, honest or not. */
#ifndef CLOISTER_TESTS_UNIT_LINK_TESTING_H
#define CLOISTER_TESTS_UNIT_LINK_TESTING_H

#include "link/frame.h"
#include "link/link.h"
#include "testing.h"

#include <string.h>

static inline void put_frame(struct buf *b, unsigned kind, uint32_t id, const void *body, size_t len)
{
    uint8_t head[FRAME_HEADER_SIZE];
    frame_header_write(head, kind, id, (uint32_t)len);
    buf_append(b, head, sizeof head);
    buf_append(b, body, len);
}

static inline void put_u32_frame(struct buf *b, unsigned kind, uint32_t id, uint32_t v)
{
    const uint8_t le[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    put_frame(b, kind, id, le, sizeof le);
}

static inline void put_call_frame(struct buf *b, uint32_t id, uint32_t target, const char *method)
{
    struct buf body;
    buf_init(&body, 0);
    cbor_put_array(&body, 3);
    cbor_put_uint(&body, target);
    cbor_put_text(&body, method);
    cbor_put_null(&body);
    put_frame(b, FRAME_CALL, id, body.data, body.len);
    buf_free(&body);
}

/* Moves all pending output to the end of `to`. */
static inline void take_output(struct link *l, struct buf *to)
{
    struct iovec iov[4];
    int n;
    while ((n = link_output(l, iov, 4)) > 0)
        for (int i = 0; i < n; i++) {
            buf_append(to, iov[i].iov_base, iov[i].iov_len);
            link_sent(l, iov[i].iov_len);
        }
}

/* Carries bytes between the two until both are silent. */
static inline void pump(struct link *a, struct link *b)
{
    struct buf wire;
    buf_init(&wire, 0);
    for (;;) {
        take_output(a, &wire);
        if (wire.len > 0)
            assert_int_equal(link_receive(b, wire.data, wire.len, NULL), 0);
        size_t moved = wire.len;
        buf_clear(&wire);
        take_output(b, &wire);
        if (wire.len > 0)
            assert_int_equal(link_receive(a, wire.data, wire.len, NULL), 0);
        if (moved + wire.len == 0)
            break;
        buf_clear(&wire);
    }
    buf_free(&wire);
}

#endif
