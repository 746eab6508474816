#include "app/worker_groups.h"

#include "app/worker.h"
#include "base/log.h"
#include "container/cgroup.h"
#include "container/engine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READY 8u       /* kept for those to come */
#define KEPT 64u       /* at most so many that are empty; others are removed */
#define STEP_MS 10u    /* one is made, and those that are left are looked at, so often while there is need */
#define PATIENCE 1000u /* steps, until a group that stays busy is left for the engine's end */
/* Charged to an empty group: what the kernel has not given back. With more it is not used again. */
#define LEFT_OVER ((uint64_t)2 << 20)

struct worker_group {
    struct worker_groups *set;
    struct worker_group *next;
    struct cgroup cgroup;
    uint64_t oom_before;
    unsigned steps; /* since it was given back */
};

struct worker_groups {
    struct engine *engine;
    struct cgroups cgroups; /* the engine's, without what workers do not need; its texts are borrowed */
    struct worker_group *ready;
    struct worker_group *left; /* their processes are about to be gone */
    unsigned ready_count;
    uint64_t next;
    uv_timer_t timer;
    bool warned;
};

static struct limits limits_for(uint64_t memory_bytes)
{
    return (struct limits){.memory_bytes = memory_bytes + WORKER_GROUP_SLACK, .pids = WORKER_GROUP_THREADS};
}

/* ---- one group ---- */

static struct worker_group *make(struct worker_groups *s)
{
    struct error err = {0};
    struct worker_group *g = calloc(1, sizeof *g);
    char name[64];
    if (!g)
        return NULL;
    g->set = s;
    snprintf(name, sizeof name, "%s.w%llu", engine_id(s->engine), (unsigned long long)++s->next);
    struct limits l = limits_for(WORKER_DEFAULT_MEMORY);
    if (cgroup_create(&s->cgroups, name, &g->cgroup, &err) == 0) {
        if (cgroup_limit(&g->cgroup, &l, &err) == 0)
            return g;
        cgroup_remove(&g->cgroup);
    }
    if (!s->warned)
        log_warn("no control group for a worker: %s", err.message);
    s->warned = true;
    free(g);
    return NULL;
}

static void drop(struct worker_group *g)
{
    if (!cgroup_remove(&g->cgroup))
        engine_cgroups_left(g->set->engine);
    free(g);
}

int worker_group_open(const struct worker_group *g, int fds[WORKER_GROUP_FDS], struct error *err)
{
    int unified, count;
    if (cgroup_open(&g->cgroup, &unified, fds, &count, err) < 0)
        return -1;
    if (unified < 0)
        return count;
    fds[count] = openat(unified, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    close(unified);
    if (fds[count] >= 0)
        return count + 1;
    error_set(err, ERROR_SYSTEM, "cannot open a worker's control group");
    while (count > 0)
        close(fds[--count]);
    return -1;
}

void worker_group_limit(struct worker_group *g, uint64_t memory_bytes)
{
    struct error err = {0};
    if (!g)
        return;
    struct limits l = limits_for(memory_bytes);
    if (cgroup_limit(&g->cgroup, &l, &err) < 0)
        log_warn("the control group of a worker: %s", err.message);
}

bool worker_group_oom(struct worker_group *g)
{
    return g && cgroup_oom_kills(&g->cgroup) > g->oom_before;
}

/* ---- the pool ---- */

static void on_step(uv_timer_t *t);

static void go_on(struct worker_groups *s)
{
    if (!uv_is_active((uv_handle_t *)&s->timer))
        uv_timer_start(&s->timer, on_step, STEP_MS, STEP_MS);
}

static void put_ready(struct worker_groups *s, struct worker_group *g)
{
    g->next = s->ready;
    s->ready = g;
    s->ready_count++;
}

/* Back to the pool, if it is as it was made. */
static void use_again(struct worker_groups *s, struct worker_group *g)
{
    struct container_usage usage = {0};
    cgroup_usage(&g->cgroup, &usage);
    if (s->ready_count >= KEPT || usage.memory_bytes > LEFT_OVER) {
        drop(g);
        return;
    }
    worker_group_limit(g, WORKER_DEFAULT_MEMORY);
    put_ready(s, g);
}

static void look_at_left(struct worker_groups *s)
{
    for (struct worker_group **p = &s->left; *p;) {
        struct worker_group *g = *p;
        bool empty = cgroup_empty(&g->cgroup);
        if (!empty && ++g->steps < PATIENCE) {
            p = &g->next;
            continue;
        }
        *p = g->next;
        if (empty)
            use_again(s, g);
        else
            drop(g);
    }
}

static void on_step(uv_timer_t *t)
{
    struct worker_groups *s = t->data;
    look_at_left(s);
    struct worker_group *g = s->ready_count < READY ? make(s) : NULL;
    if (g)
        put_ready(s, g);
    if (!s->left && (s->ready_count >= READY || s->warned))
        uv_timer_stop(t);
}

struct worker_group *worker_group_take(struct worker_groups *s)
{
    struct worker_group *g = s->ready;
    if (g) {
        s->ready = g->next;
        s->ready_count--;
    } else {
        g = make(s);
    }
    if (g) {
        g->next = NULL;
        g->steps = 0;
        g->oom_before = cgroup_oom_kills(&g->cgroup);
    }
    if (s->ready_count < READY)
        go_on(s);
    return g;
}

void worker_group_give_back(struct worker_group *g)
{
    if (!g)
        return;
    g->next = g->set->left;
    g->set->left = g;
    go_on(g->set);
}

struct worker_groups *worker_groups_open(uv_loop_t *loop, struct engine *e)
{
    const struct cgroups *all = engine_cgroups(e);
    if (!all->has[CGROUP_MEMORY])
        return NULL;
    struct worker_groups *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->engine = e;
    s->cgroups = *all;
    if (!all->v2) {
        /* Beside version 1 the unified hierarchy limits nothing, and to enter it makes the kernel wait. By
         * the processor's, all workers together would have as much as one process outside; without it the
         * scheduler gives each as much as any. */
        static const enum cgroup_controller unwanted[] = {CGROUP_UNIFIED, CGROUP_CPU};
        for (size_t i = 0; i < 2; i++) {
            s->cgroups.base[unwanted[i]] = NULL;
            s->cgroups.has[unwanted[i]] = false;
        }
    }
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    go_on(s);
    return s;
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void worker_groups_close(struct worker_groups *s)
{
    if (!s)
        return;
    while (s->left) {
        struct worker_group *g = s->left;
        s->left = g->next;
        drop(g);
    }
    while (s->ready) {
        struct worker_group *g = s->ready;
        s->ready = g->next;
        drop(g);
    }
    uv_close((uv_handle_t *)&s->timer, on_closed);
}
