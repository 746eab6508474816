#include "daemon/alarm.h"

#include "base/log.h"

#include <stdlib.h>

struct alarm {
    uv_timer_t timer;
    void (*ring)(void *user);
    void *user;
};

static void on_timer(uv_timer_t *t)
{
    struct alarm *a = t->data;
    a->ring(a->user);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void alarm_set(struct alarm **slot, uv_loop_t *loop, uint64_t ms, void (*ring)(void *user), void *user)
{
    struct alarm *a = *slot;
    if (!a) {
        a = *slot = calloc(1, sizeof *a);
        if (!a) {
            log_error("out of memory: a timer of %llu ms is lost", (unsigned long long)ms);
            return;
        }
        uv_timer_init(loop, &a->timer);
        a->timer.data = a;
    }
    a->ring = ring;
    a->user = user;
    uv_timer_start(&a->timer, on_timer, ms, 0);
}

void alarm_stop(struct alarm *a)
{
    if (a)
        uv_timer_stop(&a->timer);
}

void alarm_drop(struct alarm **slot)
{
    if (*slot)
        uv_close((uv_handle_t *)&(*slot)->timer, on_closed);
    *slot = NULL;
}
