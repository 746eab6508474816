/* The bounded memory of one output stream: its first bytes (the head) and its last ones (the tail), addressed
 * by byte cursors that count from the start of the stream. What lies between and did not fit is gone, and
 * counted.
 *
 * Backpressure. The owner acknowledges bytes to the producer as journal_append() and journal_read_to() tell
 * it. In blocking mode nothing is lost before it has been read: bytes that do not fit are kept too but not
 * acknowledged, which stops the producer (it never has more than its credit outstanding, so this is bounded).
 * Otherwise everything is acknowledged. */
#ifndef CLOISTER_DAEMON_JOURNAL_H
#define CLOISTER_DAEMON_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Unacknowledged bytes held beyond the tail's bound at most; more than the credit of any producer. */
#define JOURNAL_SLACK ((size_t)1 << 20)

struct journal {
    uint8_t *head;
    size_t head_len, head_size, head_max;
    uint8_t *ring; /* the tail */
    size_t ring_at, ring_len, ring_size, tail_max;
    uint64_t total;   /* bytes ever appended: the cursor of the stream's end */
    uint64_t floor;   /* every byte before it has been read by whoever counts */
    uint64_t dropped; /* bytes lost before they were read */
    size_t unacked;
    bool ended;
};

void journal_init(struct journal *j, size_t head_max, size_t tail_max);
void journal_free(struct journal *j);

/* Takes `len` bytes; returns how many to acknowledge now. UNTRUSTED INPUT. */
size_t journal_append(struct journal *j, const void *data, size_t len, bool block);
/* Says that everything before `floor` has been read, and whether the stream blocks from now on. Returns how
 * many bytes to acknowledge now. A floor lower than the present one protects nothing that is already gone. */
size_t journal_read_to(struct journal *j, uint64_t floor, bool block);

/* Bytes kept at *cursor: returns how many lie there contiguously and points *ret at them (valid until the
 * next append), 0 at the end. When *cursor points at lost bytes it is moved behind them and *ret_lost says
 * over how many. */
size_t journal_peek(const struct journal *j, uint64_t *cursor, const uint8_t **ret, uint64_t *ret_lost);
/* Copies up to `len` bytes from `cursor` on, across the head and the ring's seam, never across lost bytes. */
size_t journal_copy(const struct journal *j, uint64_t cursor, void *to, size_t len);
size_t journal_memory(const struct journal *j);

#endif
