/* What was compiled, by the SHA-256 of what it was compiled from; the least recently used goes first. */
#ifndef CLOISTER_APP_COMPILE_CACHE_H
#define CLOISTER_APP_COMPILE_CACHE_H

#include "app/module.h"
#include "base/sha256.h"

#include <stdbool.h>

struct compile_cache;

struct compile_key {
    uint8_t bytes[SHA256_BYTES];
};

struct compile_cache *compile_cache_new(size_t max_bytes);
void compile_cache_free(struct compile_cache *c);
void compile_key(struct compile_key *ret, const struct module *m);
/* A reference for the caller; NULL: not there. */
struct code *compile_cache_get(struct compile_cache *c, const struct compile_key *key);
/* Takes a reference of its own. What is larger than a quarter of the cache is not kept. */
void compile_cache_put(struct compile_cache *c, const struct compile_key *key, struct code *code);

#endif
