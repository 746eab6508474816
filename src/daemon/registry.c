#include "daemon/registry.h"

#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Containers that were started without a name and have stopped are remembered, but not for ever. */
#define MAX_STOPPED_UNNAMED 256u
#define BUCKETS 4096u

struct slot {
    struct slot *next;
    struct cell *cell;
};

struct registry {
    struct daemon *daemon;
    struct list cells; /* in order of creation */
    struct slot *buckets[BUCKETS];
    unsigned count;
};

static unsigned hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h % BUCKETS;
}

struct registry *registry_new(struct daemon *d)
{
    struct registry *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->daemon = d;
    list_init(&r->cells);
    return r;
}

static void take_out(struct registry *r, struct cell *c)
{
    struct slot **at = &r->buckets[hash(c->name)];
    while (*at && (*at)->cell != c)
        at = &(*at)->next;
    if (!*at)
        return;
    struct slot *s = *at;
    *at = s->next;
    free(s);
    list_del(&c->link);
    r->count--;
    c->forgotten = true;
    cell_unref(c);
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    list_each(it, tmp, &r->cells) take_out(r, list_entry(it, struct cell, link));
    free(r);
}

struct cell *registry_find(struct registry *r, const char *name)
{
    for (struct slot *s = r->buckets[hash(name)]; s; s = s->next)
        if (strcmp(s->cell->name, name) == 0)
            return s->cell;
    return NULL;
}

void registry_adopt(struct registry *r, struct cell *c)
{
    struct slot *s = calloc(1, sizeof *s), **bucket = &r->buckets[hash(c->name)];
    if (!s) {
        cell_unref(c);
        return;
    }
    s->cell = c;
    s->next = *bucket;
    *bucket = s;
    list_append(&r->cells, &c->link);
    r->count++;
}

static void prune_unnamed(struct registry *r)
{
    unsigned stopped = 0;
    for (struct list *it = r->cells.prev, *before; it != &r->cells; it = before) {
        struct cell *c = list_entry(it, struct cell, link);
        before = it->prev;
        if (c->auto_named && c->state == CELL_STOPPED && c->refs == 1 && ++stopped > MAX_STOPPED_UNNAMED)
            registry_forget(r, c);
    }
}

int registry_add(struct registry *r, const char *name, struct cell **ret, struct error *err)
{
    char random_name[33];
    if (name && registry_find(r, name))
        return error_set(
            err, ERROR_EXISTS,
            "a container named %s exists; start it with POST /v1/containers/%s/start, or DELETE it first",
            name, name);
    if (!name) {
        uint8_t bytes[16];
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
            return error_set(err, ERROR_INTERNAL, "no random numbers");
        for (size_t i = 0; i < sizeof bytes; i++)
            sprintf(random_name + 2 * i, "%02x", bytes[i]);
        prune_unnamed(r);
    }
    if (r->count >= r->daemon->config.max_containers)
        return error_set(err, ERROR_LIMIT,
                         "%u containers are known, the most that maxContainers allows; DELETE some",
                         r->count);
    struct cell *c = cell_new(r->daemon, name ? name : random_name);
    if (!c)
        return error_oom(err);
    c->auto_named = !name;
    cell_ref(c);
    registry_adopt(r, c);
    if (c->refs == 1) {
        cell_unref(c);
        return error_oom(err);
    }
    cell_unref(c);
    *ret = c;
    return 0;
}

void registry_forget(struct registry *r, struct cell *c)
{
    if (c->forgotten)
        return;
    state_delete(r->daemon->state_db, c);
    take_out(r, c);
}

void registry_each(struct registry *r, bool (*visit)(void *user, struct cell *c), void *user)
{
    list_each(it, tmp, &r->cells) if (!visit(user, list_entry(it, struct cell, link))) return;
}
