#include "app/schedule.h"

#include "app/cron.h"
#include "app/host.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MINUTE 60000

struct entry {
    struct schedule *schedule;
    struct cron cron;
    char *text;
    struct alarm_call *call; /* the run that is under way; NULL: none */
};

struct schedule {
    uv_timer_t timer;
    struct host *host;
    struct entry *entries;
    size_t count;
    int64_t done; /* the last minute that was looked at */
    void (*failed)(void *user, const char *cron, const struct error *err);
    void *user;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on_done(void *user, const struct error *err)
{
    struct entry *e = user;
    e->call = NULL;
    if (err)
        e->schedule->failed(e->schedule->user, e->text, err);
}

static void run(struct entry *e, int64_t minute)
{
    struct error err = {0};
    if (e->call)
        error_set(&err, ERROR_STATE, "its last run has not ended; this minute is left out");
    else if (!(e->call = host_call_scheduled(e->schedule->host, e->text, minute, on_done, e)))
        error_oom(&err);
    if (err.kind)
        e->schedule->failed(e->schedule->user, e->text, &err);
}

static void on_timer(uv_timer_t *t)
{
    struct schedule *s = t->data;
    int64_t now = now_ms(), minute = now - now % MINUTE;
    /* The clock may have been set back, and the timer may come a little early. */
    if (minute > s->done || minute < s->done - MINUTE) {
        s->done = minute;
        for (size_t i = 0; i < s->count; i++)
            if (cron_matches(&s->entries[i].cron, minute))
                run(&s->entries[i], minute);
    }
    uv_timer_start(t, on_timer, (uint64_t)(MINUTE - now % MINUTE), 0);
}

static void on_closed(uv_handle_t *h)
{
    struct schedule *s = h->data;
    for (size_t i = 0; i < s->count; i++)
        free(s->entries[i].text);
    free(s->entries);
    free(s);
}

struct schedule *schedule_open(uv_loop_t *loop, struct host *h, char *const *crons,
                               void (*failed)(void *user, const char *cron, const struct error *err),
                               void *user, struct error *err)
{
    size_t count = 0;
    while (crons[count])
        count++;
    if (count == 0)
        return NULL;
    struct schedule *s = calloc(1, sizeof *s);
    struct entry *entries = calloc(count, sizeof *entries);
    if (!s || !entries) {
        free(s);
        free(entries);
        error_oom(err);
        return NULL;
    }
    *s = (struct schedule){.host = h, .entries = entries, .failed = failed, .user = user};
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    for (size_t i = 0; i < count; i++) {
        struct entry *e = &s->entries[s->count++];
        e->schedule = s;
        if (cron_parse(&e->cron, crons[i], err) == 0 && !(e->text = strdup(crons[i])))
            error_oom(err);
        if (!e->text) {
            schedule_close(s);
            return NULL;
        }
    }
    int64_t now = now_ms();
    s->done = now - now % MINUTE;
    uv_timer_start(&s->timer, on_timer, (uint64_t)(MINUTE - now % MINUTE), 0);
    return s;
}

void schedule_close(struct schedule *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        host_cancel_alarm(s->entries[i].call);
    uv_close((uv_handle_t *)&s->timer, on_closed);
}
