/* A hash map from 32-bit numbers to nodes embedded in the caller's structs, which are also on a list. Adding
 * never fails: without memory to grow the chains only get longer. Numbers may be chosen by a hostile peer;
 * the cost of collisions is bounded by the limits that the link puts on each map. */
#ifndef CLOISTER_LINK_IDTABLE_H
#define CLOISTER_LINK_IDTABLE_H

#include <stddef.h>
#include <stdint.h>

struct idnode {
    uint32_t id;
    struct idnode *chain;
    struct idnode *prev, *next;
};

struct idtable {
    struct idnode **buckets; /* NULL: everything is in `only` */
    struct idnode *only;
    uint32_t bits; /* 1 << bits buckets */
    uint32_t count;
    struct idnode *first; /* newest first */
};

/* A zeroed map is empty. idtable_free() frees the buckets; the nodes are the caller's. */
void idtable_free(struct idtable *m);
void idtable_add(struct idtable *m, struct idnode *node, uint32_t id); /* `id` must not be in the map */
void idtable_remove(struct idtable *m, struct idnode *node);
struct idnode *idtable_find(const struct idtable *m, uint32_t id);

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#endif
