#include "app/worker.h"

#include "app/reason.h"
#include "app/watcher.h"
#include "app/worker_groups.h"
#include "app/zygote.h"
#include "base/clock.h"
#include "base/log.h"
#include "container/transport.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* How long the zygote may take to tell why a child's link ended, before we say that nobody knows. */
#define VERDICT_MS 1000u
/* Log lines of one worker in one second; what comes above is counted and dropped. */
#define LOG_LINES_PER_SECOND 1000u

struct workers {
    uv_loop_t *loop;
    struct zygote *zygote;
    struct watcher *watcher;
    struct worker_groups *groups; /* NULL: none */
    struct transport_set transports;
    uv_idle_t reaper; /* runs while `released` is not empty */
    struct worker *released;
};

enum life {
    LIFE_WAITING, /* for a child */
    LIFE_UP,
    LIFE_ENDING, /* the stream has ended; why is not known yet */
    LIFE_ENDED,
};

struct worker {
    struct workers *set;
    struct worker_config config;
    char *name;
    enum life life;
    struct zygote_child child;
    struct transport *transport;
    struct watch *watch;
    struct worker *next_released;
    uv_timer_t *verdict; /* NULL: not running; closed and freed by libuv */
    int64_t log_second;
    uint32_t log_lines, log_dropped;
    bool silent; /* released: nobody is called any more */
    bool released;
};

/* ---- the set ---- */

int workers_open(struct workers **ret, const struct workers_config *config, struct error *err)
{
    struct workers *s = calloc(1, sizeof *s);
    if (!s)
        return error_oom(err);
    s->loop = config->loop;
    struct zygote_config zc = {.loop = config->loop, .program = config->program, .reserve = config->reserve};
    if (transport_set_init(&s->transports, config->loop, err) < 0)
        goto fail;
    uv_idle_init(s->loop, &s->reaper);
    s->reaper.data = s;
    s->watcher = watcher_new(config->loop);
    if (!s->watcher) {
        error_oom(err);
        goto fail_transports;
    }
    s->groups = config->engine ? worker_groups_open(config->loop, config->engine) : NULL;
    zc.groups = s->groups;
    if (zygote_open(&s->zygote, &zc, err) < 0)
        goto fail_groups;
    *ret = s;
    return 0;
fail_groups:
    worker_groups_close(s->groups);
    watcher_free(s->watcher);
fail_transports:
    transport_set_close(&s->transports);
fail:
    /* The handles in `s` are still known to the loop: a program whose zygote does not start ends soon. */
    return -1;
}

static void on_reaper_closed(uv_handle_t *h)
{
    free(h->data);
}

void workers_shrink(struct workers *s)
{
    zygote_shrink(s->zygote);
}

void workers_close(struct workers *s)
{
    if (!s)
        return;
    while (s->released) {
        struct worker *w = s->released;
        s->released = w->next_released;
        w->released = false;
        worker_release(w);
    }
    zygote_close(s->zygote);
    worker_groups_close(s->groups);
    watcher_free(s->watcher);
    transport_set_close(&s->transports);
    uv_close((uv_handle_t *)&s->reaper, on_reaper_closed); /* the last handle of `s` to be closed */
}

uv_loop_t *workers_loop(struct workers *s)
{
    return s->loop;
}

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *h)
{
    free(h);
}

static void stop_waiting(struct worker *w)
{
    if (w->verdict)
        uv_close((uv_handle_t *)w->verdict, on_timer_closed);
    w->verdict = NULL;
    if (w->child.id)
        zygote_unwatch(w->set->zygote, w->child.id);
    if (w->life == LIFE_WAITING)
        zygote_forget(w->set->zygote, w);
}

static void kill_process(struct worker *w)
{
    if (w->child.pidfd < 0)
        return;
    pidfd_send_signal(w->child.pidfd, SIGKILL, NULL, 0);
    close(w->child.pidfd);
    w->child.pidfd = -1;
}

static void end(struct worker *w, const struct error *why)
{
    struct error reason = *why; /* may live in the link */
    if (w->life == LIFE_ENDED)
        return;
    stop_waiting(w);
    w->life = LIFE_ENDED;
    watcher_remove(w->set->watcher, w->watch);
    w->watch = NULL;
    kill_process(w);
    if (w->transport)
        link_shutdown(transport_link(w->transport), &reason);
    if (!w->silent && w->config.ended)
        w->config.ended(w->config.user, &reason);
}

void worker_end(struct worker *w, const struct error *why)
{
    end(w, why);
}

static void on_exit_status(void *user, int status)
{
    struct worker *w = user;
    struct error why = {0};
    if (worker_group_oom(zygote_group(w->set->zygote, w->child.id)))
        reason_memory(w->config.memory_bytes, &why);
    else
        reason_from_status(status, w->config.memory_bytes, w->config.cpu_ms, &why);
    end(w, &why);
}

static void on_no_verdict(uv_timer_t *t)
{
    struct worker *w = t->data;
    struct error why = {0};
    error_set(&why, ERROR_GONE, "Worker process ended unexpectedly (it closed its link).");
    end(w, &why);
}

/* In the words of who holds the worker. */
static void blame(void *user, struct error *why)
{
    char text[320];
    snprintf(text, sizeof text, "%.300s", why->message);
    *why = (struct error){0};
    error_set(why, ERROR_GONE, "Worker process ended unexpectedly (it broke the protocol: %s).", text);
}

/* The stream is gone, or what came on it was no protocol. */
static void on_closed(void *user, const struct error *why)
{
    struct worker *w = user;
    if (w->life != LIFE_UP)
        return;
    if (why->kind == ERROR_PROTOCOL || why->kind == ERROR_LIMIT || why->kind == ERROR_INTERNAL) {
        struct error reason = *why;
        log_warn("worker %s: ended because of what it sent: %s", w->name, why->message);
        blame(NULL, &reason);
        end(w, &reason);
        return;
    }
    w->life = LIFE_ENDING;
    w->verdict = malloc(sizeof *w->verdict);
    if (!w->verdict) {
        end(w, why);
        return;
    }
    uv_timer_init(w->set->loop, w->verdict);
    w->verdict->data = w;
    uv_timer_start(w->verdict, on_no_verdict, VERDICT_MS, 0);
    zygote_watch(w->set->zygote, w->child.id, on_exit_status, w);
}

static void on_memory(void *user)
{
    struct worker *w = user;
    struct error why = {0};
    reason_memory(w->config.memory_bytes, &why);
    end(w, &why);
}

/* ---- callbacks of the link ---- */

static void on_log(void *user, int level, int64_t ms, const char *text)
{
    struct worker *w = transport_user(user);
    int64_t second = (int64_t)(clock_monotonic_ns() / 1000000000u);
    if (second != w->log_second) {
        if (w->log_dropped > 0 && !w->silent && w->config.log) {
            char note[96];
            snprintf(note, sizeof note, "(%u lines of this worker were dropped: more than %u in a second)",
                     w->log_dropped, LOG_LINES_PER_SECOND);
            w->config.log(w->config.user, 1, ms, note);
        }
        w->log_second = second;
        w->log_lines = w->log_dropped = 0;
    }
    if (w->log_lines >= LOG_LINES_PER_SECOND) {
        w->log_dropped++;
        return;
    }
    w->log_lines++;
    if (!w->silent && w->config.log)
        w->config.log(w->config.user, level, ms, text);
}

static bool on_admit(void *user, const struct link_object_ops *ops, const char *method)
{
    struct worker *w = transport_user(user);
    return w->silent || w->config.admit(w->config.user, ops, method);
}

static void on_left(void *user)
{
    struct worker *w = user;
    if (!w->silent && w->config.left)
        w->config.left(w->config.user);
}

/* ---- the start ---- */

static int attach(struct worker *w, const struct zygote_child *child, struct error *err)
{
    struct link_config lc = {.side = LINK_HOST,
                             .bootstrap = w->config.bootstrap,
                             .bootstrap_object = w->config.bootstrap_object,
                             .log = on_log,
                             .admit = w->config.admit ? on_admit : NULL,
                             .blame = blame};
    struct transport_config tc = {.set = &w->set->transports,
                                  .fd = child->fd,
                                  .link = &lc,
                                  .peer = "worker",
                                  .closed = on_closed,
                                  .keep_link = true,
                                  .left = on_left,
                                  .user = w};
    w->child = *child;
    w->transport = transport_new(&tc, err);
    if (!w->transport) {
        close(child->fd);
        kill_process(w);
        return -1;
    }
    w->life = LIFE_UP;
    if (w->config.kind == ZYGOTE_WORKER)
        worker_group_limit(zygote_group(w->set->zygote, child->id), w->config.memory_bytes);
    w->watch =
        watcher_add(w->set->watcher, child->pid, child->baseline + w->config.memory_bytes, on_memory, w);
    return 0;
}

static void on_child(void *user, const struct zygote_child *child, const struct error *err)
{
    struct worker *w = user;
    struct error why = {0};
    if (!child)
        why = *err;
    if (!child || attach(w, child, &why) < 0) {
        w->life = LIFE_UP; /* nothing waits any more */
        error_wrap(&why, "cannot start a worker");
        end(w, &why);
        return;
    }
    if (w->config.ready)
        w->config.ready(w->config.user);
}

struct worker *worker_start(struct workers *s, const struct worker_config *config)
{
    struct zygote_child child = {.fd = -1, .pidfd = -1};
    struct worker *w = calloc(1, sizeof *w);
    if (!w || !(w->name = strdup(config->name))) {
        free(w);
        return NULL;
    }
    w->set = s;
    w->config = *config;
    w->config.name = w->name;
    if (!w->config.memory_bytes)
        w->config.memory_bytes = WORKER_DEFAULT_MEMORY;
    w->child = child;
    if (!zygote_take(s->zygote, config->kind, &child, on_child, w))
        return w;
    if (attach(w, &child, NULL) == 0)
        return w;
    free(w->name);
    free(w);
    return NULL;
}

struct link *worker_link(const struct worker *w)
{
    return w->transport ? transport_link(w->transport) : NULL;
}

bool worker_alive(const struct worker *w)
{
    return w && w->life == LIFE_UP && w->transport && link_alive(transport_link(w->transport));
}

const char *worker_name(const struct worker *w)
{
    return w->name;
}

void worker_go_on(struct worker *w)
{
    if (w->transport)
        transport_go_on(w->transport);
}

void worker_flush(struct worker *w)
{
    if (w->transport)
        transport_flush(w->transport);
}

/* ---- letting go ---- */

void worker_release(struct worker *w)
{
    struct error why = {0};
    if (!w)
        return;
    w->silent = true;
    error_set(&why, ERROR_GONE, "The Worker was ended because nobody holds it any more.");
    end(w, &why);
    transport_close(w->transport);
    free(w->name);
    free(w);
}

static void on_reap(uv_idle_t *idle)
{
    struct workers *s = idle->data;
    struct worker *w = s->released;
    s->released = NULL;
    uv_idle_stop(idle);
    while (w) {
        struct worker *next = w->next_released;
        worker_release(w);
        w = next;
    }
}

void worker_release_later(struct worker *w)
{
    if (!w || w->released)
        return;
    w->silent = w->released = true;
    w->next_released = w->set->released;
    w->set->released = w;
    uv_idle_start(&w->set->reaper, on_reap);
}
