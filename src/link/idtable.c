#include "link/idtable.h"

#include <stdlib.h>
#include <string.h>

#define IDTABLE_FIRST_BITS 3u
#define IDTABLE_MAX_BITS 20u

static struct idnode **bucket_of(const struct idtable *m, uint32_t id)
{
    if (!m->buckets)
        return (struct idnode **)&m->only;
    return &m->buckets[(uint32_t)(id * 0x9e3779b1u) >> (32 - m->bits)];
}

/* Rebuilds the chains over 1 << bits buckets, or leaves them as they are when there is no memory. */
static void rehash(struct idtable *m, uint32_t bits)
{
    struct idnode **buckets = calloc((size_t)1 << bits, sizeof *buckets);
    if (!buckets)
        return;
    free(m->buckets);
    m->buckets = buckets;
    m->bits = bits;
    m->only = NULL;
    for (struct idnode *n = m->first; n; n = n->next) {
        struct idnode **to = bucket_of(m, n->id);
        n->chain = *to;
        *to = n;
    }
}

void idtable_free(struct idtable *m)
{
    free(m->buckets);
    memset(m, 0, sizeof *m);
}

void idtable_add(struct idtable *m, struct idnode *node, uint32_t id)
{
    if (!m->buckets && m->count >= 4)
        rehash(m, IDTABLE_FIRST_BITS);
    else if (m->buckets && m->count >= (1u << m->bits) && m->bits < IDTABLE_MAX_BITS)
        rehash(m, m->bits + 1);
    struct idnode **to = bucket_of(m, id);
    *node = (struct idnode){.id = id, .chain = *to, .next = m->first};
    *to = node;
    if (m->first)
        m->first->prev = node;
    m->first = node;
    m->count++;
}

void idtable_remove(struct idtable *m, struct idnode *node)
{
    struct idnode **at = bucket_of(m, node->id);
    while (*at != node)
        at = &(*at)->chain;
    *at = node->chain;
    if (node->prev)
        node->prev->next = node->next;
    else
        m->first = node->next;
    if (node->next)
        node->next->prev = node->prev;
    if (--m->count == 0)
        idtable_free(m); /* an idle link holds no buckets */
    else if (m->bits > IDTABLE_FIRST_BITS && m->count < (1u << m->bits) / 8)
        rehash(m, m->bits - 1);
}

struct idnode *idtable_find(const struct idtable *m, uint32_t id)
{
    struct idnode *n = *bucket_of(m, id);
    while (n && n->id != id)
        n = n->chain;
    return n;
}
