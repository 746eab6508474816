#include "worker/outflow.h"

#include "link/link.h"
#include "worker/worker.h"

#include <stdlib.h>
#include <string.h>

#define JOINED_MAX (32u << 10) /* head and body of a message up to this size share a frame */
#define LEAST ((size_t)4096)
#define LARGE ((size_t)1 << 20)

void outflow_free(struct outflow *o)
{
    free(o->kept);
    *o = (struct outflow){.stream = o->stream};
}

static int keep(struct outflow *o, const void *data, size_t len)
{
    if (o->cap - o->end < len && o->start > 0) {
        memmove(o->kept, o->kept + o->start, o->end - o->start);
        o->end -= o->start;
        o->start = 0;
    }
    if (o->cap - o->end < len) {
        /* Of a large message several copies exist already: it takes little more than it needs. */
        size_t need = o->end + len, cap = o->cap < LARGE ? 2 * o->cap : o->cap + o->cap / 4;
        if (cap < need)
            cap = need < LEAST ? LEAST : need;
        uint8_t *kept = realloc(o->kept, cap);
        if (!kept)
            return -1;
        o->kept = kept;
        o->cap = cap;
    }
    memcpy(o->kept + o->end, data, len);
    o->end += len;
    return 0;
}

/* Bytes sent. */
static size_t send_now(struct outflow *o, const uint8_t *data, size_t len)
{
    size_t room = link_stream_writable(worker.link, o->stream);
    size_t n = len < room ? len : room;
    return n > 0 && link_stream_write(worker.link, o->stream, data, n) == 0 ? n : 0;
}

static int send_or_keep(struct outflow *o, const uint8_t *data, size_t len)
{
    size_t sent = outflow_waiting(o) ? 0 : send_now(o, data, len);
    return sent < len ? keep(o, data + sent, len - sent) : 0;
}

int outflow_write(struct outflow *o, const void *head, size_t head_len, const void *body, size_t len)
{
    uint8_t joined[JOINED_MAX];
    if (head_len == 0)
        return send_or_keep(o, body, len);
    if (head_len + len <= sizeof joined) {
        memcpy(joined, head, head_len);
        if (len)
            memcpy(joined + head_len, body, len);
        return send_or_keep(o, joined, head_len + len);
    }
    return send_or_keep(o, head, head_len) < 0 ? -1 : send_or_keep(o, body, len);
}

void outflow_end(struct outflow *o)
{
    o->ending = true;
    outflow_pump(o);
}

bool outflow_pump(struct outflow *o)
{
    while (outflow_waiting(o)) {
        size_t sent = send_now(o, o->kept + o->start, outflow_waiting(o));
        if (sent == 0)
            return false;
        o->start += sent;
    }
    /* A large answer must not keep its memory for good. */
    free(o->kept);
    o->kept = NULL;
    o->start = o->end = o->cap = 0;
    if (o->ending)
        link_stream_end(worker.link, o->stream);
    return true;
}
