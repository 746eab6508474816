#include "agent/loop.h"

#include "base/clock.h"

#include <errno.h>
#include <stddef.h>

int loop_init(struct loop *l)
{
    *l = (struct loop){.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    return l->epoll_fd < 0 ? -1 : 0;
}

static int wait_ms(const struct loop *l, int max_wait_ms)
{
    if (!l->timers)
        return max_wait_ms;
    uint64_t now = clock_monotonic_ns();
    uint64_t due = l->timers->due_ns;
    uint64_t ms = due <= now ? 0 : (due - now + 999999) / 1000000;
    if (max_wait_ms >= 0 && ms > (uint64_t)max_wait_ms)
        return max_wait_ms;
    return ms > 60000 ? 60000 : (int)ms;
}

static void fire_timers(struct loop *l)
{
    uint64_t now = clock_monotonic_ns();
    while (l->timers && l->timers->due_ns <= now) {
        struct timer *t = l->timers;
        l->timers = t->next;
        t->next = NULL;
        t->due_ns = 0;
        t->fire(t);
        l->idle = false;
    }
}

int loop_turn(struct loop *l, int max_wait_ms)
{
    int n = epoll_wait(l->epoll_fd, l->batch, LOOP_BATCH, wait_ms(l, max_wait_ms));
    if (n < 0)
        return errno == EINTR ? 0 : -1;
    l->batch_len = n;
    l->idle = n == 0;
    for (int i = 0; i < n && !l->stop; i++) {
        struct source *s = l->batch[i].data.ptr;
        if (s)
            s->ready(s, l->batch[i].events);
    }
    l->batch_len = 0;
    if (l->timers && !l->stop)
        fire_timers(l);
    return 0;
}

int source_watch(struct loop *l, struct source *s, int fd, uint32_t events,
                 void (*ready)(struct source *s, uint32_t events))
{
    s->fd = fd;
    s->ready = ready;
    s->events = events;
    struct epoll_event ev = {.events = events, .data.ptr = s};
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return -1;
    s->loop = l;
    return 0;
}

void source_set(struct source *s, uint32_t events)
{
    if (!s->loop || s->events == events)
        return;
    struct epoll_event ev = {.events = events, .data.ptr = s};
    if (epoll_ctl(s->loop->epoll_fd, EPOLL_CTL_MOD, s->fd, &ev) == 0)
        s->events = events;
}

void source_forget(struct source *s)
{
    if (!s->loop)
        return;
    epoll_ctl(s->loop->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
    for (int i = 0; i < s->loop->batch_len; i++)
        if (s->loop->batch[i].data.ptr == s)
            s->loop->batch[i].data.ptr = NULL;
    s->loop = NULL;
}

void source_pause(struct source *s)
{
    source_forget(s);
}

void source_resume(struct loop *l, struct source *s, uint32_t events)
{
    if (s->loop)
        source_set(s, events);
    else
        source_watch(l, s, s->fd, events, s->ready);
}

void timer_arm(struct loop *l, struct timer *t, uint64_t delay_ms, void (*fire)(struct timer *t))
{
    timer_cancel(l, t);
    t->fire = fire;
    t->due_ns = clock_monotonic_ns() + delay_ms * 1000000u;
    struct timer **at = &l->timers;
    while (*at && (*at)->due_ns <= t->due_ns)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
}

void timer_cancel(struct loop *l, struct timer *t)
{
    if (!t->due_ns)
        return;
    for (struct timer **at = &l->timers; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    t->next = NULL;
    t->due_ns = 0;
}
