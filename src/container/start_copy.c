/* A start_spec that outlives its caller: every string and array in one list of allocations. */
#include "container/container_internal.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    struct piece *next;
    /* the bytes follow */
};

struct start_copy {
    struct start_spec spec;
    struct piece *pieces;
    bool failed;
};

static void *take(struct start_copy *s, size_t size)
{
    struct piece *p = malloc(sizeof *p + size);
    if (!p) {
        s->failed = true;
        return NULL;
    }
    p->next = s->pieces;
    s->pieces = p;
    return p + 1;
}

static const char *copy_text(struct start_copy *s, const char *text)
{
    if (!text)
        return NULL;
    char *to = take(s, strlen(text) + 1);
    return to ? strcpy(to, text) : NULL;
}

/* `count` strings, or up to NULL when `count` is SIZE_MAX; the copy is NULL-terminated. */
static const char *const *copy_list(struct start_copy *s, const char *const *list, size_t count)
{
    if (!list)
        return NULL;
    size_t n = 0;
    while (n < count && list[n])
        n++;
    const char **to = take(s, (n + 1) * sizeof *to);
    for (size_t i = 0; to && i < n; i++)
        to[i] = copy_text(s, list[i]);
    if (to)
        to[n] = NULL;
    return to;
}

static const struct root_mount *copy_mounts(struct start_copy *s, const struct root_mount *mounts,
                                            size_t count)
{
    struct root_mount *to = count ? take(s, count * sizeof *to) : NULL;
    for (size_t i = 0; to && i < count; i++) {
        to[i].target = copy_text(s, mounts[i].target);
        to[i].layers = copy_list(s, mounts[i].layers, mounts[i].layer_count);
        to[i].layer_count = mounts[i].layer_count;
    }
    return to;
}

struct start_copy *start_copy_new(const struct start_spec *spec)
{
    struct start_copy *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->spec = *spec;
    s->spec.layers = copy_list(s, spec->layers, spec->layer_count);
    s->spec.mounts = copy_mounts(s, spec->mounts, spec->mount_count);
    s->spec.hostname = copy_text(s, spec->hostname);
    s->spec.main.argv = copy_list(s, spec->main.argv, SIZE_MAX);
    s->spec.main.env = copy_list(s, spec->main.env, SIZE_MAX);
    s->spec.main.cwd = copy_text(s, spec->main.cwd);
    s->spec.main.user = copy_text(s, spec->main.user);
    if (s->failed) {
        start_copy_free(s);
        return NULL;
    }
    return s;
}

void start_copy_free(struct start_copy *s)
{
    if (!s)
        return;
    while (s->pieces) {
        struct piece *next = s->pieces->next;
        free(s->pieces);
        s->pieces = next;
    }
    free(s);
}

const struct start_spec *start_copy_spec(const struct start_copy *s)
{
    return &s->spec;
}
