/* Compiles modules to what a worker evaluates (js/compiler/README.md), in a worker process of role compiler
 * that is started ahead and stays: it only parses sources, and never evaluates one. Batches are compiled one
 * after the other; one that ends the process, takes too long or is cancelled costs the process, and the next
 * begins in a new one. Results are kept by the hash of everything they depend on. */
#ifndef CLOISTER_APP_COMPILE_H
#define CLOISTER_APP_COMPILE_H

#include "app/module.h"
#include "app/worker.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct compiler;
struct compile_batch;

#define COMPILE_WALL_MS 30000u /* of one batch, from when it is sent; the machine may be busy */
#define COMPILE_MEMORY ((uint64_t)512 << 20)
#define COMPILE_CACHE_BYTES ((size_t)64 << 20)

/* err NULL: the modules' code has been replaced by what came of it. */
typedef void (*compile_done_fn)(void *user, const struct error *err);

struct compiler *compiler_new(struct workers *workers, size_t cache_bytes); /* NULL: no memory */
void compiler_free(struct compiler *c); /* no batch runs; not from a callback */
/* Compiles those of `m` that are code; `m` is the caller's and must stay until `done`. 1: everything came
 * from the cache, `done` is not called; 0: `done` is called later, once; -1: error. */
int compile(struct compiler *c, struct modules *m, compile_done_fn done, void *user,
            struct compile_batch **ret, struct error *err);
void compile_cancel(struct compile_batch *b); /* `done` is not called; from anywhere. NULL is fine */

#endif
