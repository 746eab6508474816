/* One-shot timers by number, earliest first; equal times fire in the order they were set. */
#ifndef CLOISTER_WORKER_TIMERS_H
#define CLOISTER_WORKER_TIMERS_H

#include "link/idtable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timers {
    struct timer **heap;
    size_t count, cap;
    struct idtable by_id;
    uint64_t sequence;
};

void timers_free(struct timers *t);
/* Sets (or moves) timer `id` for `due_ns`; `owner` is given back when it fires. -1: no memory. */
int timers_set(struct timers *t, uint32_t id, uint64_t due_ns, uint32_t owner);
void timers_clear(struct timers *t, uint32_t id);
/* When the first is due; UINT64_MAX: none. */
uint64_t timers_next(const struct timers *t);
/* Takes out the first timer that is due and was set before timers_mark(); false: none. */
bool timers_take(struct timers *t, uint64_t now_ns, uint64_t mark, uint32_t *ret_id, uint32_t *ret_owner);
/* Timers set from now on do not count for timers_take() with this mark: a turn ends even when each timer sets
 * the next. */
static inline uint64_t timers_mark(const struct timers *t)
{
    return t->sequence;
}

#endif
