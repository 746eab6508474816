#include "worker/channel_reader.h"

#include "link/worker_protocol.h"

#include <stdlib.h>
#include <string.h>

/* Memory follows what has really come, not what a header promises. */
#define FIRST_ROOM ((size_t)256 << 10)

static bool begin(struct channel_reader *r)
{
    r->size = (size_t)r->header[0] | (size_t)r->header[1] << 8 | (size_t)r->header[2] << 16 |
              (size_t)r->header[3] << 24;
    r->len = 0;
    r->cap = r->size < FIRST_ROOM ? r->size : FIRST_ROOM;
    r->message = r->size <= CHANNEL_MESSAGE_MAX ? malloc(r->cap ? r->cap : 1) : NULL;
    r->broken = !r->message;
    return !r->broken;
}

static bool grow(struct channel_reader *r, size_t need)
{
    if (need <= r->cap)
        return true;
    size_t cap = 2 * r->cap > need ? 2 * r->cap : need;
    uint8_t *message = realloc(r->message, cap < r->size ? cap : r->size);
    if (!message) {
        r->broken = true;
        return false;
    }
    r->message = message;
    r->cap = cap < r->size ? cap : r->size;
    return true;
}

static void take_header(struct channel_reader *r, const uint8_t **data, size_t *len)
{
    while (r->header_len < sizeof r->header && *len > 0) {
        r->header[r->header_len++] = *(*data)++;
        --*len;
    }
}

bool channel_reader_take(struct channel_reader *r, const uint8_t **data, size_t *len, uint8_t **ret_message,
                         size_t *ret_len)
{
    if (r->broken)
        return false;
    if (!r->message) {
        take_header(r, data, len);
        if (r->header_len < sizeof r->header || !begin(r))
            return false;
    }
    size_t n = *len < r->size - r->len ? *len : r->size - r->len;
    if (!grow(r, r->len + n))
        return false;
    if (n)
        memcpy(r->message + r->len, *data, n);
    *data += n;
    *len -= n;
    r->len += n;
    if (r->len < r->size)
        return false;
    *ret_message = r->message;
    *ret_len = r->size;
    *r = (struct channel_reader){0};
    return true;
}

void channel_reader_free(struct channel_reader *r)
{
    free(r->message);
    *r = (struct channel_reader){0};
}
