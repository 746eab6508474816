/* The agent's event loop: one epoll set, timers, nothing else. Sources and timers are embedded in what they
 * serve; the loop never owns memory. */
#ifndef CLOISTER_AGENT_LOOP_H
#define CLOISTER_AGENT_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define LOOP_BATCH 64

struct loop;

struct source {
    struct loop *loop; /* NULL: not watched */
    int fd;            /* owned by whoever embeds this */
    uint32_t events;
    void (*ready)(struct source *s, uint32_t events);
};

struct timer {
    struct timer *next;
    uint64_t due_ns; /* 0: not armed */
    void (*fire)(struct timer *t);
};

struct loop {
    int epoll_fd;
    bool stop;
    bool idle; /* the last turn found nothing at all to do */
    int batch_len;
    struct epoll_event batch[LOOP_BATCH];
    struct timer *timers; /* ordered by due_ns */
};

int loop_init(struct loop *l); /* -1 with errno */
/* Waits once and runs what is due. `max_wait_ms` -1: until something happens. */
int loop_turn(struct loop *l, int max_wait_ms);

/* Watches `fd`; hang-up and error are always reported, even with events 0. */
int source_watch(struct loop *l, struct source *s, int fd, uint32_t events,
                 void (*ready)(struct source *s, uint32_t events));
void source_set(struct source *s, uint32_t events);
/* Takes the descriptor out of the set (it would report hang-up for ever) and puts it back. */
void source_pause(struct source *s);
void source_resume(struct loop *l, struct source *s, uint32_t events);
/* Stops watching; events already fetched for it are dropped. Safe on a source never watched. */
void source_forget(struct source *s);

void timer_arm(struct loop *l, struct timer *t, uint64_t delay_ms, void (*fire)(struct timer *t));
void timer_cancel(struct loop *l, struct timer *t);

#endif
