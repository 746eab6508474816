#include "worker/timers.h"

#include <stdlib.h>

struct timer {
    struct idnode node;
    uint64_t due, sequence;
    uint32_t owner;
    size_t place; /* in the heap */
};

static bool before(const struct timer *a, const struct timer *b)
{
    return a->due != b->due ? a->due < b->due : a->sequence < b->sequence;
}

static void put(struct timers *t, size_t place, struct timer *timer)
{
    t->heap[place] = timer;
    timer->place = place;
}

static void sift_up(struct timers *t, struct timer *timer)
{
    size_t i = timer->place;
    for (; i > 0 && before(timer, t->heap[(i - 1) / 2]); i = (i - 1) / 2)
        put(t, i, t->heap[(i - 1) / 2]);
    put(t, i, timer);
}

static void sift_down(struct timers *t, struct timer *timer)
{
    size_t i = timer->place;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < t->count && before(t->heap[child + 1], t->heap[child]))
            child++;
        if (child >= t->count || !before(t->heap[child], timer))
            break;
        put(t, i, t->heap[child]);
        i = child;
    }
    put(t, i, timer);
}

static void take_out(struct timers *t, struct timer *timer)
{
    size_t place = timer->place;
    struct timer *last = t->heap[--t->count];
    idtable_remove(&t->by_id, &timer->node);
    if (last == timer)
        return;
    put(t, place, last);
    sift_up(t, last);
    sift_down(t, last);
}

void timers_free(struct timers *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->heap[i]);
    free(t->heap);
    idtable_free(&t->by_id);
    *t = (struct timers){0};
}

static bool make_room(struct timers *t)
{
    if (t->count < t->cap)
        return true;
    size_t cap = t->cap ? 2 * t->cap : 16;
    struct timer **heap = realloc(t->heap, cap * sizeof *heap);
    if (!heap)
        return false;
    t->heap = heap;
    t->cap = cap;
    return true;
}

int timers_set(struct timers *t, uint32_t id, uint64_t due_ns, uint32_t owner)
{
    timers_clear(t, id);
    struct timer *timer = make_room(t) ? malloc(sizeof *timer) : NULL;
    if (!timer)
        return -1;
    *timer = (struct timer){.due = due_ns, .sequence = t->sequence++, .owner = owner, .place = t->count};
    t->heap[t->count++] = timer;
    idtable_add(&t->by_id, &timer->node, id);
    sift_up(t, timer);
    return 0;
}

void timers_clear(struct timers *t, uint32_t id)
{
    struct idnode *node = idtable_find(&t->by_id, id);
    if (!node)
        return;
    struct timer *timer = container_of(node, struct timer, node);
    take_out(t, timer);
    free(timer);
}

uint64_t timers_next(const struct timers *t)
{
    return t->count ? t->heap[0]->due : UINT64_MAX;
}

bool timers_take(struct timers *t, uint64_t now_ns, uint64_t mark, uint32_t *ret_id, uint32_t *ret_owner)
{
    if (!t->count || t->heap[0]->due > now_ns || t->heap[0]->sequence >= mark)
        return false;
    struct timer *timer = t->heap[0];
    *ret_id = timer->node.id;
    *ret_owner = timer->owner;
    take_out(t, timer);
    free(timer);
    return true;
}
