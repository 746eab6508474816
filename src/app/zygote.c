#include "app/zygote.h"

#include "app/watcher.h"
#include "app/worker_groups.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths.h"
#include "link/idtable.h"
#include "worker/zygote_client.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KINDS 2
/* Between two starts of a zygote that dies: doubled each time up to the maximum, and reset by the first
 * child. */
#define RESTART_MIN_MS 100u
#define RESTART_MAX_MS 10000u
#define RESERVE_LEAST 2u
#define REFILL_MS 20u

enum stage { STAGE_ASKED, STAGE_RESERVE, STAGE_TAKEN };

struct child {
    struct idnode node;
    enum zygote_child_kind kind;
    enum stage stage;
    struct zygote_child is;
    struct worker_group *group; /* NULL: none */
    bool ended;
    int status;
    zygote_exit_fn fn; /* NULL: nobody watches */
    void *user;
};

struct waiter {
    struct waiter *next;
    enum zygote_child_kind kind;
    zygote_child_fn fn;
    void *user;
};

struct zygote {
    uv_loop_t *loop;
    char *program;
    unsigned reserve[KINDS];
    struct worker_groups *groups; /* NULL: none */
    unsigned extra;               /* workers in reserve beyond that, after a burst */
    bool burst;                   /* since the last look */
    uv_timer_t shrink, pace;
    int open_timers; /* while closing */
    int control;     /* -1: it is not up */
    pid_t pid;
    bool closing;
    uint64_t restart_ms;
    uv_poll_t *poll; /* of `control`; libuv's until it is closed */
    uv_timer_t restart;
    struct idtable children;
    struct waiter *waiters;
    uint32_t next_id;
    unsigned asked[KINDS], ready[KINDS];
};

static struct child *child_of(struct idnode *n)
{
    return (struct child *)(void *)((char *)n - offsetof(struct child, node));
}

static void free_child(struct zygote *z, struct child *c)
{
    idtable_remove(&z->children, &c->node);
    if (c->is.fd >= 0)
        close(c->is.fd);
    if (c->is.pidfd >= 0)
        close(c->is.pidfd);
    worker_group_give_back(c->group);
    free(c);
}

/* ---- asking ---- */

/* A worker without a group is better than none, since the watcher looks after it too. */
static int ask_in_group(struct zygote *z, struct child *c, int link_fd, struct error *err)
{
    int fds[WORKER_GROUP_FDS], count = 0;
    struct error why = {0};
    c->group = z->groups ? worker_group_take(z->groups) : NULL;
    if (c->group && c->kind == ZYGOTE_COMPILER)
        worker_group_limit(c->group, ZYGOTE_COMPILER_WALL);
    if (c->group)
        count = worker_group_open(c->group, fds, &why);
    if (count < 0) {
        log_warn("%s", why.message);
        worker_group_give_back(c->group);
        c->group = NULL;
        count = 0;
    }
    int r = zygote_fork(z->control, c->is.id, c->kind, link_fd, fds, (size_t)count, err);
    while (count > 0)
        close(fds[--count]);
    return r;
}

static int ask(struct zygote *z, enum zygote_child_kind kind, struct error *err)
{
    int ends[2];
    struct child *c = calloc(1, sizeof *c);
    if (!c)
        return error_oom(err);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        free(c);
        return error_system(err, errno, "cannot create a worker's link");
    }
    fd_set_nonblock(ends[0], true);
    do
        z->next_id++;
    while (z->next_id == 0 || idtable_find(&z->children, z->next_id));
    c->kind = kind;
    c->is = (struct zygote_child){.id = z->next_id, .pid = -1, .fd = ends[0], .pidfd = -1};
    int r = ask_in_group(z, c, ends[1], err);
    close(ends[1]);
    if (r < 0) {
        close(ends[0]);
        worker_group_give_back(c->group);
        free(c);
        return -1;
    }
    idtable_add(&z->children, &c->node, c->is.id);
    z->asked[kind]++;
    return 0;
}

static unsigned waiting(const struct zygote *z, enum zygote_child_kind kind)
{
    unsigned n = 0;
    for (const struct waiter *w = z->waiters; w; w = w->next)
        n += w->kind == kind;
    return n;
}

static void on_pace(uv_timer_t *t);

static unsigned reserve_of(const struct zygote *z, unsigned kind)
{
    return z->reserve[kind] + (kind == ZYGOTE_WORKER ? z->extra : 0);
}

static bool ask_for(struct zygote *z, enum zygote_child_kind kind)
{
    struct error err = {0};
    if (ask(z, kind, &err) == 0)
        return true;
    if (err.kind != ERROR_SYSTEM || err.errnum != EAGAIN)
        log_warn("%s", err.message);
    return false;
}

/* Brings the reserve to its size: at once what is waited for and the least, the rest one by one, since a
 * child that warms itself takes the processor from those that were just taken. What cannot be asked for at
 * once is asked for at the next occasion. */
static void refill(struct zygote *z)
{
    bool more = false;
    if (z->control < 0)
        return;
    for (unsigned k = 0; k < KINDS; k++) {
        enum zygote_child_kind kind = (enum zygote_child_kind)k;
        unsigned want = reserve_of(z, kind) + waiting(z, kind),
                 least = (want < RESERVE_LEAST ? want : RESERVE_LEAST) + waiting(z, kind);
        while (z->asked[k] + z->ready[k] < least)
            if (!ask_for(z, kind))
                return;
        more |= z->asked[k] + z->ready[k] < want;
    }
    if (more && !uv_is_active((uv_handle_t *)&z->pace))
        uv_timer_start(&z->pace, on_pace, REFILL_MS, 0);
}

static void on_pace(uv_timer_t *t)
{
    struct zygote *z = t->data;
    for (unsigned k = 0; k < KINDS; k++)
        if (z->control >= 0 && z->asked[k] + z->ready[k] < reserve_of(z, k))
            ask_for(z, (enum zygote_child_kind)k);
    refill(z);
}

/* ---- hearing ---- */

static struct waiter *next_waiter(struct zygote *z, enum zygote_child_kind kind)
{
    for (struct waiter **p = &z->waiters; *p; p = &(*p)->next)
        if ((*p)->kind == kind) {
            struct waiter *w = *p;
            *p = w->next;
            return w;
        }
    return NULL;
}

static void hand_over(struct child *c, struct zygote_child *ret)
{
    c->stage = STAGE_TAKEN;
    c->is.baseline = c->is.pid > 0 ? watcher_resident(c->is.pid) : 0;
    *ret = c->is;
    c->is.fd = c->is.pidfd = -1;
}

static void on_forked(struct zygote *z, struct child *c, int pidfd)
{
    c->is.pidfd = pidfd;
    c->is.pid = zygote_host_pid(pidfd);
    z->asked[c->kind]--;
    z->restart_ms = RESTART_MIN_MS;
    struct waiter *w = next_waiter(z, c->kind);
    if (!w) {
        c->stage = STAGE_RESERVE;
        z->ready[c->kind]++;
        return;
    }
    struct zygote_child child;
    hand_over(c, &child);
    w->fn(w->user, &child, NULL);
    free(w);
}

static void on_failed(struct zygote *z, struct child *c, int errnum)
{
    struct error err = {0};
    struct waiter *w = next_waiter(z, c->kind);
    z->asked[c->kind]--;
    free_child(z, c);
    error_system(&err, errnum, "the zygote cannot fork");
    if (!w) {
        log_warn("worker zygote: %s", err.message);
        return;
    }
    w->fn(w->user, NULL, &err);
    free(w);
}

static void on_child_ended(struct zygote *z, struct child *c, int status)
{
    c->ended = true;
    c->status = status;
    if (c->stage == STAGE_RESERVE) {
        log_warn("a worker process in reserve has ended (status %d)", status);
        z->ready[c->kind]--;
        free_child(z, c);
    } else if (c->stage == STAGE_ASKED) {
        z->asked[c->kind]--;
        free_child(z, c);
    } else if (c->fn) {
        zygote_exit_fn fn = c->fn;
        c->fn = NULL;
        fn(c->user, status);
    }
}

static void on_gone(struct zygote *z, const struct error *why);

static void on_message(struct zygote *z, const struct zygote_message *m, int pidfd)
{
    struct idnode *n = idtable_find(&z->children, m->id);
    struct child *c = n ? child_of(n) : NULL;
    if (!c) {
        if (pidfd >= 0)
            close(pidfd);
    } else if (m->type == ZYGOTE_FORKED) {
        on_forked(z, c, pidfd);
    } else if (m->type == ZYGOTE_FAILED) {
        on_failed(z, c, m->error);
    } else if (m->type == ZYGOTE_ENDED) {
        on_child_ended(z, c, m->status);
    }
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct zygote *z = p->data;
    struct error err = {0};
    struct zygote_message m;
    int pidfd, r;
    while (z->control >= 0 && (r = zygote_receive(z->control, &m, &pidfd, &err)) != 0) {
        if (r < 0) {
            on_gone(z, &err);
            return;
        }
        on_message(z, &m, pidfd);
    }
    refill(z);
}

/* ---- the reserve ---- */

/* The one that was forked first: it is the warmest. */
static struct child *in_reserve(struct zygote *z, enum zygote_child_kind kind)
{
    struct child *oldest = NULL;
    for (struct idnode *n = z->ready[kind] ? z->children.first : NULL; n; n = n->next)
        if (child_of(n)->stage == STAGE_RESERVE && child_of(n)->kind == kind)
            oldest = child_of(n); /* newest first */
    return oldest;
}

static void grow(struct zygote *z)
{
    unsigned most =
        z->reserve[ZYGOTE_WORKER] < ZYGOTE_RESERVE_MAX ? ZYGOTE_RESERVE_MAX - z->reserve[ZYGOTE_WORKER] : 0;
    z->burst = true;
    z->extra = z->extra + z->reserve[ZYGOTE_WORKER] < most ? z->extra + z->reserve[ZYGOTE_WORKER] : most;
}

static void drop_to(struct zygote *z, unsigned extra)
{
    z->extra = extra;
    while (z->ready[ZYGOTE_WORKER] > reserve_of(z, ZYGOTE_WORKER)) {
        z->ready[ZYGOTE_WORKER]--;
        free_child(z, in_reserve(z, ZYGOTE_WORKER)); /* it ends when its link does */
    }
}

static void on_shrink(uv_timer_t *t)
{
    struct zygote *z = t->data;
    bool burst = z->burst;
    z->burst = false;
    if (!burst && z->extra > 0)
        drop_to(z, z->extra / 2);
}

void zygote_shrink(struct zygote *z)
{
    drop_to(z, 0);
}

/* ---- its life ---- */

static int launch(struct zygote *z, struct error *err)
{
    uv_poll_t *poll = malloc(sizeof *poll);
    if (!poll)
        return error_oom(err);
    if (zygote_spawn(z->program, &z->control, &z->pid, err) < 0) {
        free(poll);
        z->control = -1;
        return -1;
    }
    uv_poll_init(z->loop, poll, z->control);
    poll->data = z;
    z->poll = poll;
    uv_poll_start(poll, UV_READABLE, on_readable);
    refill(z);
    return 0;
}

static void on_poll_closed(uv_handle_t *h)
{
    free(h);
}

static void put_down(struct zygote *z)
{
    if (z->poll) {
        uv_poll_stop(z->poll);
        uv_close((uv_handle_t *)z->poll, on_poll_closed);
    }
    z->poll = NULL;
    if (z->control >= 0)
        close(z->control);
    z->control = -1;
    if (z->pid > 0) {
        kill(z->pid, SIGKILL);
        waitpid(z->pid, NULL, 0);
    }
    z->pid = -1;
}

static void fail_waiters(struct zygote *z, const struct error *why)
{
    struct waiter *w = z->waiters;
    z->waiters = NULL;
    while (w) {
        struct waiter *next = w->next;
        w->fn(w->user, NULL, why);
        free(w);
        w = next;
    }
}

/* Its children end with it. */
static void end_children(struct zygote *z)
{
    for (struct idnode *n = z->children.first; n;) {
        struct child *c = child_of(n);
        n = n->next;
        if (c->stage == STAGE_TAKEN)
            continue;
        free_child(z, c);
    }
    memset(z->asked, 0, sizeof z->asked);
    memset(z->ready, 0, sizeof z->ready);
    /* Whoever hears of an end may give up others: start over after each. */
    for (struct idnode *n = z->children.first; n;) {
        struct child *c = child_of(n);
        n = n->next;
        if (c->ended)
            continue;
        on_child_ended(z, c, SIGKILL);
        n = z->children.first;
    }
}

static void on_restart(uv_timer_t *t)
{
    struct zygote *z = t->data;
    struct error err = {0};
    if (launch(z, &err) == 0)
        return;
    log_error("cannot start the worker zygote: %s", err.message);
    on_gone(z, &err);
}

static void on_gone(struct zygote *z, const struct error *why)
{
    struct error err = *why;
    put_down(z);
    if (z->closing)
        return;
    log_error("the worker zygote has ended; starting it anew in %llu ms", (unsigned long long)z->restart_ms);
    uv_timer_start(&z->restart, on_restart, z->restart_ms, 0);
    z->restart_ms = z->restart_ms * 2 < RESTART_MAX_MS ? z->restart_ms * 2 : RESTART_MAX_MS;
    end_children(z);
    fail_waiters(z, &err);
}

int zygote_open(struct zygote **ret, const struct zygote_config *config, struct error *err)
{
    struct zygote *z = calloc(1, sizeof *z);
    if (!z)
        return error_oom(err);
    z->loop = config->loop;
    z->groups = config->groups;
    z->control = -1;
    z->pid = -1;
    z->restart_ms = RESTART_MIN_MS;
    z->reserve[ZYGOTE_WORKER] = config->reserve ? config->reserve : ZYGOTE_RESERVE;
    z->reserve[ZYGOTE_COMPILER] = ZYGOTE_COMPILER_RESERVE;
    if (config->program)
        z->program = strdup(config->program);
    else if (paths_helper("cloister-worker", &z->program, err) < 0)
        goto fail;
    if (!z->program) {
        error_oom(err);
        goto fail;
    }
    uv_timer_init(z->loop, &z->restart);
    uv_timer_init(z->loop, &z->shrink);
    uv_timer_init(z->loop, &z->pace);
    z->restart.data = z->shrink.data = z->pace.data = z;
    if (launch(z, err) < 0) {
        zygote_close(z);
        return -1;
    }
    uv_timer_start(&z->shrink, on_shrink, ZYGOTE_RESERVE_SHRINK_MS, ZYGOTE_RESERVE_SHRINK_MS);
    uv_unref((uv_handle_t *)&z->shrink);
    *ret = z;
    return 0;
fail:
    free(z->program);
    free(z);
    return -1;
}

static void on_closed(uv_handle_t *h)
{
    struct zygote *z = h->data;
    if (--z->open_timers == 0)
        free(z);
}

void zygote_close(struct zygote *z)
{
    if (!z)
        return;
    z->closing = true;
    put_down(z);
    while (z->waiters) {
        struct waiter *w = z->waiters;
        z->waiters = w->next;
        free(w);
    }
    while (z->children.first)
        free_child(z, child_of(z->children.first));
    free(z->program);
    z->open_timers = 3;
    uv_close((uv_handle_t *)&z->restart, on_closed);
    uv_close((uv_handle_t *)&z->shrink, on_closed);
    uv_close((uv_handle_t *)&z->pace, on_closed);
}

/* ---- children ---- */

bool zygote_take(struct zygote *z, enum zygote_child_kind kind, struct zygote_child *ret, zygote_child_fn fn,
                 void *user)
{
    struct child *c = in_reserve(z, kind);
    if (c) {
        z->ready[kind]--;
        if (kind == ZYGOTE_WORKER && z->ready[kind] == 0)
            grow(z);
        hand_over(c, ret);
        refill(z);
        return true;
    }
    struct waiter *w = malloc(sizeof *w), **end = &z->waiters;
    if (!w) {
        log_error("out of memory: a worker waits in vain");
        return false;
    }
    *w = (struct waiter){.kind = kind, .fn = fn, .user = user};
    while (*end)
        end = &(*end)->next;
    *end = w;
    refill(z);
    return false;
}

void zygote_forget(struct zygote *z, void *user)
{
    for (struct waiter **p = &z->waiters; *p;) {
        struct waiter *w = *p;
        if (w->user != user) {
            p = &w->next;
            continue;
        }
        *p = w->next;
        free(w);
    }
}

void zygote_watch(struct zygote *z, uint32_t id, zygote_exit_fn fn, void *user)
{
    struct idnode *n = idtable_find(&z->children, id);
    if (!n || child_of(n)->ended) {
        fn(user, n ? child_of(n)->status : SIGKILL);
        return;
    }
    child_of(n)->fn = fn;
    child_of(n)->user = user;
}

void zygote_unwatch(struct zygote *z, uint32_t id)
{
    struct idnode *n = idtable_find(&z->children, id);
    if (n)
        free_child(z, child_of(n));
}

struct worker_group *zygote_group(struct zygote *z, uint32_t id)
{
    struct idnode *n = idtable_find(&z->children, id);
    return n ? child_of(n)->group : NULL;
}
