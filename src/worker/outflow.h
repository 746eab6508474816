/* What is to be sent on one stream of the link, as its credit allows. Takes everything and keeps what cannot
 * go yet. */
#ifndef CLOISTER_WORKER_OUTFLOW_H
#define CLOISTER_WORKER_OUTFLOW_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct outflow {
    uint32_t stream;
    uint8_t *kept; /* what waits: kept[start, end) */
    size_t start, end, cap;
    bool ending; /* END once nothing waits */
};

void outflow_free(struct outflow *o);
/* Sends or keeps `head` and then `body`. -1: no memory (nothing was taken). */
int outflow_write(struct outflow *o, const void *head, size_t head_len, const void *body, size_t len);
void outflow_end(struct outflow *o);
/* Sends of what waits as much as may go now. True when nothing waits any more. */
bool outflow_pump(struct outflow *o);
static inline size_t outflow_waiting(const struct outflow *o)
{
    return o->end - o->start;
}

#endif
