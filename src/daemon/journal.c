#include "daemon/journal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t tail_start(const struct journal *j)
{
    return j->total - j->ring_len;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

void journal_init(struct journal *j, size_t head_max, size_t tail_max)
{
    memset(j, 0, sizeof *j);
    j->head_max = head_max;
    j->tail_max = tail_max;
}

void journal_free(struct journal *j)
{
    free(j->head);
    free(j->ring);
    memset(j, 0, sizeof *j);
}

/* Bytes that went into the head (fewer when memory is short: the rest goes on to the tail, and the head is
 * closed). */
static size_t head_put(struct journal *j, const uint8_t *data, size_t len)
{
    size_t n = min_size(len, j->head_max - j->head_len);
    if (n > j->head_size - j->head_len) {
        size_t want = j->head_size ? j->head_size * 2 : 256;
        while (want < j->head_len + n)
            want *= 2;
        want = min_size(want, j->head_max);
        uint8_t *grown = realloc(j->head, want);
        if (!grown) {
            j->head_max = j->head_len;
            return 0;
        }
        j->head = grown;
        j->head_size = want;
    }
    if (n)
        memcpy(j->head + j->head_len, data, n);
    j->head_len += n;
    return n;
}

/* Gives the ring room for `need` bytes, up to what memory allows. */
static void ring_grow(struct journal *j, size_t need)
{
    if (need <= j->ring_size)
        return;
    size_t want = j->ring_size ? j->ring_size : 4096;
    while (want < need)
        want *= 2;
    uint8_t *grown = malloc(want);
    if (!grown)
        return;
    size_t first = min_size(j->ring_len, j->ring_size - j->ring_at);
    if (j->ring_len) {
        memcpy(grown, j->ring + j->ring_at, first);
        memcpy(grown + first, j->ring, j->ring_len - first);
    }
    free(j->ring);
    j->ring = grown;
    j->ring_size = want;
    j->ring_at = 0;
}

/* Forgets the oldest `n` bytes of the ring; `start` is the cursor of its first byte. */
static void ring_forget(struct journal *j, size_t n, uint64_t start)
{
    if (n == 0)
        return;
    uint64_t end = start + n, unread = start > j->floor ? start : j->floor;
    if (end > unread)
        j->dropped += end - unread;
    j->ring_len -= n;
    j->ring_at = j->ring_len ? (j->ring_at + n) % j->ring_size : 0;
}

/* How much of the tail a stream in this mode may hold. */
static size_t tail_limit(const struct journal *j, bool block, uint64_t start, size_t len)
{
    if (!block)
        return j->tail_max;
    uint64_t end = start + j->ring_len + len, keep_from = j->floor > start ? j->floor : start;
    uint64_t unread = end > keep_from ? end - keep_from : 0;
    size_t limit = unread > j->tail_max ? (size_t)unread : j->tail_max;
    return min_size(limit, j->tail_max + JOURNAL_SLACK);
}

static void ring_put(struct journal *j, const uint8_t *data, size_t len, bool block)
{
    uint64_t start = j->total - len - j->ring_len; /* total counts `len` already */
    size_t limit = tail_limit(j, block, start, len);
    ring_grow(j, min_size(j->ring_len + len, limit));
    limit = min_size(limit, j->ring_size);
    size_t over = j->ring_len + len > limit ? j->ring_len + len - limit : 0;
    size_t old = min_size(over, j->ring_len);
    ring_forget(j, old, start);
    size_t skipped = over - old; /* the front of `data` itself does not fit */
    if (skipped) {
        uint64_t at = start + old, end = at + skipped, unread = at > j->floor ? at : j->floor;
        j->dropped += end > unread ? end - unread : 0;
        data += skipped;
        len -= skipped;
    }
    if (len == 0)
        return;
    size_t to = (j->ring_at + j->ring_len) % j->ring_size, first = min_size(len, j->ring_size - to);
    memcpy(j->ring + to, data, first);
    memcpy(j->ring, data + first, len - first);
    j->ring_len += len;
}

/* Bytes to acknowledge: all but those that stand unread beyond the tail's bound. */
static size_t acknowledge(struct journal *j, bool block)
{
    size_t withheld = 0;
    if (block) {
        uint64_t from = j->floor > tail_start(j) ? j->floor : tail_start(j);
        uint64_t unread = j->total > from ? j->total - from : 0;
        if (unread > j->tail_max)
            withheld = min_size(j->unacked, (size_t)(unread - j->tail_max));
    }
    size_t n = j->unacked - withheld;
    j->unacked = withheld;
    return n;
}

size_t journal_append(struct journal *j, const void *data, size_t len, bool block)
{
    const uint8_t *p = data;
    j->total += len;
    j->unacked += len;
    size_t n = j->ring_len == 0 && j->total - len == j->head_len ? head_put(j, p, len) : 0;
    if (n < len)
        ring_put(j, p + n, len - n, block);
    return acknowledge(j, block);
}

size_t journal_read_to(struct journal *j, uint64_t floor, bool block)
{
    j->floor = floor < j->total ? floor : j->total;
    size_t limit = tail_limit(j, block, tail_start(j), 0);
    if (j->ring_len > limit)
        ring_forget(j, j->ring_len - limit, tail_start(j));
    return acknowledge(j, block);
}

size_t journal_peek(const struct journal *j, uint64_t *cursor, const uint8_t **ret, uint64_t *ret_lost)
{
    *ret_lost = 0;
    if (*cursor >= j->total)
        return 0;
    if (*cursor < j->head_len) {
        *ret = j->head + *cursor;
        return j->head_len - (size_t)*cursor;
    }
    uint64_t start = tail_start(j);
    if (*cursor < start) {
        *ret_lost = start - *cursor;
        *cursor = start;
    }
    size_t skip = (size_t)(*cursor - start);
    if (skip >= j->ring_len)
        return 0;
    size_t at = (j->ring_at + skip) % j->ring_size;
    *ret = j->ring + at;
    return min_size(j->ring_len - skip, j->ring_size - at);
}

size_t journal_copy(const struct journal *j, uint64_t cursor, void *to, size_t len)
{
    size_t done = 0;
    while (done < len) {
        const uint8_t *p = NULL;
        uint64_t lost, at = cursor + done;
        size_t n = journal_peek(j, &at, &p, &lost);
        if (n == 0 || lost)
            break;
        n = min_size(n, len - done);
        memcpy((uint8_t *)to + done, p, n);
        done += n;
    }
    return done;
}

size_t journal_memory(const struct journal *j)
{
    return j->head_size + j->ring_size;
}
