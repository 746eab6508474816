#include "container/pool.h"

#include "base/log.h"
#include "container/container_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* How long after a start the pool is filled again: bursts of starts come first. */
#define POOL_DELAY_MS 5

static bool same_root(const struct start_copy *copy, const struct start_spec *spec)
{
    const struct start_spec *a = copy ? start_copy_spec(copy) : NULL;
    if (!a || a->layer_count != spec->layer_count || a->host_usr != spec->host_usr)
        return false;
    for (size_t i = 0; i < a->layer_count; i++)
        if (strcmp(a->layers[i], spec->layers[i]) != 0)
            return false;
    return true;
}

/* What cannot be changed once the agent has built the root and locked itself in. */
static bool fits_warm(const struct engine *e, const struct start_spec *spec)
{
    const struct limits *l = &spec->limits;
    bool memory_inside = !e->cgroups.has[CGROUP_MEMORY], pids_inside = !e->cgroups.has[CGROUP_PIDS];
    return spec->mount_count == 0 && !spec->hold &&
           (!l->open_files || l->open_files == LIMIT_DEFAULT_OPEN_FILES) &&
           (!memory_inside || !l->memory_bytes || l->memory_bytes == LIMIT_DEFAULT_MEMORY) &&
           (!pids_inside || !l->pids || l->pids == LIMIT_DEFAULT_PIDS) && e->backend->can_adjust(e, l);
}

static void add(struct pool *p, struct container *c)
{
    container_list_remove(c);
    c->next = p->ready;
    p->ready = c;
    *(c->state == CONTAINER_WARM ? &p->warm : &p->blanks) += 1;
}

static void drop_out(struct pool *p, struct container **at)
{
    struct container *c = *at;
    *at = c->next;
    c->next = NULL;
    *(c->state == CONTAINER_WARM ? &p->warm : &p->blanks) -= 1;
    container_list_add(c);
}

static void member_made(struct container *c, const struct error *err)
{
    struct pool *p = &c->engine->pool;
    p->making--;
    if (err) {
        log_warn("cannot keep a container ready: %s", err->message);
        return;
    }
    /* The image may have changed while this one was being made. */
    if (c->state == CONTAINER_WARM && !same_root(p->image, start_copy_spec(c->spec))) {
        container_destroy(c, NULL);
        return;
    }
    add(p, c);
    pool_poke(p);
}

static void blank_made(struct container *c, const struct error *err)
{
    struct pool *p = &c->engine->pool;
    /* A few stay blank, for other images. */
    if (!err && p->image && p->blanks > p->target / 4 && container_warm_up(c, p->image, member_made) == 0)
        return;
    member_made(c, err);
}

static void on_timer(uv_timer_t *t)
{
    struct pool *p = t->data;
    struct container *c;
    struct error err = {0};
    if (p->blanks + p->warm + p->making >= p->target)
        return;
    if (container_blank_new(p->engine, blank_made, &c, &err) < 0) {
        log_warn("cannot keep a container ready: %s", err.message);
        return;
    }
    p->making++;
}

void pool_init(struct pool *p, struct engine *e, unsigned target)
{
    memset(p, 0, sizeof *p);
    p->engine = e;
    p->target = target;
    uv_timer_init(e->loop, &p->timer);
    p->timer.data = p;
}

void pool_poke(struct pool *p)
{
    if (!p->engine->closing && p->blanks + p->warm + p->making < p->target &&
        !uv_is_active((uv_handle_t *)&p->timer))
        uv_timer_start(&p->timer, on_timer, POOL_DELAY_MS, 0);
}

struct container *pool_take(struct pool *p, const struct start_spec *spec)
{
    bool warm = same_root(p->image, spec) && fits_warm(p->engine, spec);
    struct container **blank = NULL;
    for (struct container **at = &p->ready; *at; at = &(*at)->next) {
        struct container *c = *at;
        if (warm && c->state == CONTAINER_WARM) {
            drop_out(p, at);
            return c;
        }
        if (c->state == CONTAINER_BLANK && !blank)
            blank = at;
    }
    if (!blank)
        return NULL;
    struct container *c = *blank;
    drop_out(p, blank);
    return c;
}

static void release_image(struct pool *p)
{
    for (size_t i = 0; i < p->hold_count; i++)
        close(p->holds[i]);
    free(p->holds);
    p->holds = NULL;
    p->hold_count = 0;
    start_copy_free(p->image);
    p->image = NULL;
}

/* Layers are .../<layer>/fs; whoever would remove one takes the lock of .../<layer> exclusively. */
static int hold_layer(const char *layer)
{
    char dir[4096];
    const char *slash = strrchr(layer, '/');
    size_t len = slash ? (size_t)(slash - layer) : 0;
    if (len == 0 || len >= sizeof dir)
        return -1;
    memcpy(dir, layer, len);
    dir[len] = '\0';
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && access(layer, F_OK) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool hold_image(struct pool *p, const struct start_spec *spec)
{
    p->holds = calloc(spec->layer_count, sizeof *p->holds);
    for (; p->holds && p->hold_count < spec->layer_count; p->hold_count++) {
        p->holds[p->hold_count] = hold_layer(spec->layers[p->hold_count]);
        if (p->holds[p->hold_count] < 0)
            return false;
    }
    return p->holds != NULL;
}

/* Warm ones of another image make room; they cost as little as they were worth. */
static void evict_warm(struct pool *p)
{
    for (struct container **at = &p->ready; *at;) {
        struct container *c = *at;
        if (c->state != CONTAINER_WARM) {
            at = &c->next;
            continue;
        }
        drop_out(p, at);
        container_destroy(c, NULL);
    }
}

void pool_learn(struct pool *p, const struct start_spec *spec)
{
    struct start_spec root = {
        .layers = spec->layers, .layer_count = spec->layer_count, .host_usr = spec->host_usr};
    if (p->target == 0 || same_root(p->image, spec))
        return;
    if (same_root(p->last, spec)) { /* twice in a row */
        evict_warm(p);
        release_image(p);
        if (hold_image(p, &root))
            p->image = start_copy_new(&root);
        if (!p->image)
            release_image(p);
        return;
    }
    start_copy_free(p->last);
    p->last = start_copy_new(&root);
}

void pool_forget(struct pool *p, struct container *c)
{
    for (struct container **at = &p->ready; *at; at = &(*at)->next)
        if (*at == c) {
            drop_out(p, at);
            return;
        }
}

void pool_empty(struct pool *p)
{
    while (p->ready)
        drop_out(p, &p->ready);
    release_image(p);
    start_copy_free(p->last);
    p->last = NULL;
}
