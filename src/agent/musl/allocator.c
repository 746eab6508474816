/* Linked with --wrap=malloc and --wrap=free. */
#include "agent/musl/allocator.h"

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

/* Only sizes that musl serves from its own groups: calloc() takes larger ones, which it maps singly, for
 * zeroed. */
#define KEEP_MIN (16u << 10)
#define KEEP_MAX (96u << 10)
#define KEEP_COUNT 40 /* the link's pending output of 1 MiB, in pieces of 32 KiB, and some */

void *__real_malloc(size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void __wrap_free(void *p);

struct kept {
    struct kept *next;
    size_t size;
};

static struct kept *kept;
static unsigned kept_count;

void *__wrap_malloc(size_t size)
{
    if (size >= KEEP_MIN && size <= KEEP_MAX)
        for (struct kept **at = &kept; *at; at = &(*at)->next)
            if ((*at)->size >= size && (*at)->size <= 2 * size) {
                struct kept *k = *at;
                *at = k->next;
                kept_count--;
                return k;
            }
    return __real_malloc(size);
}

void __wrap_free(void *p)
{
    size_t size = p ? malloc_usable_size(p) : 0;
    if (size < KEEP_MIN || size > KEEP_MAX || kept_count >= KEEP_COUNT) {
        __real_free(p);
        return;
    }
    struct kept *k = p;
    *k = (struct kept){kept, size};
    kept = k;
    kept_count++;
}

void allocator_trim(void)
{
    while (kept) {
        struct kept *k = kept;
        kept = k->next;
        __real_free(k);
    }
    kept_count = 0;
}
