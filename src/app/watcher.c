#include "app/watcher.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS 20u
#define REST_TICKS 5u             /* a process that rests is looked at each so many ticks */
#define STEP ((uint64_t)1 << 20)  /* growing by less in a look is resting */
#define NEAR ((uint64_t)16 << 20) /* so near its limit a process is looked at every tick */

struct watch {
    struct watch *next, *prev;
    int fd; /* its /proc/PID/statm */
    uint64_t max, last;
    uint32_t wait; /* ticks until the next look */
    void (*over)(void *user);
    void *user;
};

struct watcher {
    uv_timer_t timer;
    struct watch *first;
    struct watch *next; /* the one that on_tick() comes to next */
    uint64_t page;
};

/* Anonymous memory. Memory that is shared without a file counts as a file's here; workers cannot make any
 * (seccomp). */
static bool resident(int fd, uint64_t page, uint64_t *ret)
{
    char text[128];
    unsigned long long size, all, shared;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = '\0';
    if (sscanf(text, "%llu %llu %llu", &size, &all, &shared) != 3)
        return false;
    *ret = all > shared ? (all - shared) * page : 0;
    return true;
}

static int open_statm(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

uint64_t watcher_resident(pid_t pid)
{
    uint64_t bytes = 0;
    int fd = open_statm(pid);
    if (fd < 0)
        return 0;
    resident(fd, (uint64_t)sysconf(_SC_PAGESIZE), &bytes);
    close(fd);
    return bytes;
}

static void look(struct watcher *s, struct watch *w)
{
    uint64_t now;
    if (w->wait > 0) {
        w->wait--;
        return;
    }
    if (!resident(w->fd, s->page, &now))
        return; /* it has ended; its link tells */
    if (now > w->max) {
        w->over(w->user);
        return;
    }
    bool rests = now < w->last + STEP && now + NEAR < w->max;
    w->wait = rests ? REST_TICKS - 1 : 0;
    w->last = now;
}

static void on_tick(uv_timer_t *t)
{
    struct watcher *s = t->data;
    for (struct watch *w = s->first; w; w = s->next) {
        s->next = w->next; /* watcher_remove() moves it on */
        look(s, w);
    }
    s->next = NULL;
    if (!s->first)
        uv_timer_stop(t);
}

struct watcher *watcher_new(uv_loop_t *loop)
{
    struct watcher *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->page = (uint64_t)sysconf(_SC_PAGESIZE);
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    return s;
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void watcher_free(struct watcher *s)
{
    if (s)
        uv_close((uv_handle_t *)&s->timer, on_closed);
}

struct watch *watcher_add(struct watcher *s, pid_t pid, uint64_t max_bytes, void (*over)(void *user),
                          void *user)
{
    struct watch *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    *w = (struct watch){.fd = open_statm(pid), .max = max_bytes, .over = over, .user = user};
    if (w->fd < 0) {
        free(w);
        return NULL;
    }
    w->next = s->first;
    if (w->next)
        w->next->prev = w;
    s->first = w;
    if (!w->next)
        uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
    return w;
}

void watcher_remove(struct watcher *s, struct watch *w)
{
    if (!w)
        return;
    if (s->next == w)
        s->next = w->next;
    *(w->prev ? &w->prev->next : &s->first) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    close(w->fd);
    free(w);
}
