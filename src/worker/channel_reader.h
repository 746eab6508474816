/* Cuts the bytes of a channel into messages: each a 32-bit little-endian length and that many bytes.
 * UNTRUSTED INPUT. */
#ifndef CLOISTER_WORKER_CHANNEL_READER_H
#define CLOISTER_WORKER_CHANNEL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel_reader {
    uint8_t header[4];
    size_t header_len;
    uint8_t *message; /* being put together */
    size_t len, size, cap;
    bool broken; /* a length above CHANNEL_MESSAGE_MAX, or no memory: nothing more is read */
};

/* Takes bytes off *data. True: a message is complete; its memory (malloc'ed, even when empty) is the
 * caller's. */
bool channel_reader_take(struct channel_reader *r, const uint8_t **data, size_t *len, uint8_t **ret_message,
                         size_t *ret_len);
/* Whether nothing of a message has arrived. */
static inline bool channel_reader_at_boundary(const struct channel_reader *r)
{
    return r->header_len == 0;
}
void channel_reader_free(struct channel_reader *r);

#endif
