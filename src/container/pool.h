/* Containers made ahead of time, so that a start does not wait for what is the same every time.
 *
 * Two grades. A *blank* has its namespaces and a stage root and knows no image. A *warm* one also has its
 * root, of the image that was started last (twice in a row), and only waits for its main process. Nothing
 * that ran before is ever in either: both are as fresh as one made now. */
#ifndef CLOISTER_CONTAINER_POOL_H
#define CLOISTER_CONTAINER_POOL_H

#include "container/engine.h"

struct start_copy;

struct pool {
    struct engine *engine;
    unsigned target, making;
    unsigned blanks, warm;    /* ready */
    struct container *ready;  /* by `next` */
    struct start_copy *image; /* the root that warm ones have; NULL: none yet */
    int *holds;               /* shared locks on its layers, so that nobody removes them */
    size_t hold_count;
    struct start_copy *last; /* the root of the last start */
    uv_timer_t timer;
};

void pool_init(struct pool *p, struct engine *e, unsigned target);
/* Starts filling, soon. */
void pool_poke(struct pool *p);
/* One that can become what `spec` says, taken out of the pool; NULL when there is none. */
struct container *pool_take(struct pool *p, const struct start_spec *spec);
/* Notes what was started, to decide what to keep warm. */
void pool_learn(struct pool *p, const struct start_spec *spec);
/* A member died by itself. */
void pool_forget(struct pool *p, struct container *c);
/* Hands all members back to the engine's list, for the end. */
void pool_empty(struct pool *p);

#endif
