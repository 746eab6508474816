/* An intrusive doubly linked ring. A node that is on no list points at itself, so list_del() may be repeated.
 */
#ifndef CLOISTER_DAEMON_LIST_H
#define CLOISTER_DAEMON_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_append(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_del(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

#define list_entry(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))
/* `it` may be taken off the list, no other node may. */
#define list_each(it, tmp, head)                                                                             \
    for (struct list *it = (head)->next, *tmp = it->next; it != (head); it = tmp, tmp = it->next)

#endif
