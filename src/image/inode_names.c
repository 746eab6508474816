#include "image/inode_names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct inode_name {
    dev_t dev;
    ino_t ino;
    char *path; /* NULL: free */
};

static struct inode_name *slot_of(const struct inode_names *n, dev_t dev, ino_t ino)
{
    size_t i = (size_t)(((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15u >> 20) & (n->size - 1);
    while (n->slots[i].path && (n->slots[i].ino != ino || n->slots[i].dev != dev))
        i = (i + 1) & (n->size - 1);
    return &n->slots[i];
}

const char *inode_names_find(const struct inode_names *n, dev_t dev, ino_t ino)
{
    return n->size ? slot_of(n, dev, ino)->path : NULL;
}

static int grow(struct inode_names *n, struct error *err)
{
    struct inode_names bigger = {.size = n->size ? n->size * 2 : 256, .used = n->used};
    bigger.slots = calloc(bigger.size, sizeof *bigger.slots);
    if (!bigger.slots)
        return error_oom(err);
    for (size_t i = 0; i < n->size; i++)
        if (n->slots[i].path)
            *slot_of(&bigger, n->slots[i].dev, n->slots[i].ino) = n->slots[i];
    free(n->slots);
    *n = bigger;
    return 0;
}

int inode_names_add(struct inode_names *n, dev_t dev, ino_t ino, const char *path, struct error *err)
{
    if ((n->used + 1) * 4 > n->size * 3 && grow(n, err) < 0)
        return -1;
    struct inode_name *s = slot_of(n, dev, ino);
    char *copy = strdup(path);
    if (!copy)
        return error_oom(err);
    n->used += s->path == NULL;
    free(s->path);
    *s = (struct inode_name){dev, ino, copy};
    return 0;
}

void inode_names_free(struct inode_names *n)
{
    for (size_t i = 0; i < n->size; i++)
        free(n->slots[i].path);
    free(n->slots);
    *n = (struct inode_names){0};
}
