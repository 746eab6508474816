#include "app/compile_cache.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u
#define ENTRY_COST 256u /* what an entry takes besides its code, roughly */

struct entry {
    struct entry *next_in_bucket;
    struct entry *newer, *older;
    struct compile_key key;
    struct code *code;
};

struct compile_cache {
    size_t max, used;
    struct entry *newest, *oldest;
    struct entry *buckets[BUCKETS];
};

struct compile_cache *compile_cache_new(size_t max_bytes)
{
    struct compile_cache *c = calloc(1, sizeof *c);
    if (c)
        c->max = max_bytes;
    return c;
}

static struct entry **place(struct compile_cache *c, const struct compile_key *key)
{
    uint32_t hash;
    memcpy(&hash, key->bytes, sizeof hash); /* a cryptographic hash: nobody chooses buckets */
    struct entry **p = &c->buckets[hash % BUCKETS];
    while (*p && memcmp(&(*p)->key, key, sizeof *key) != 0)
        p = &(*p)->next_in_bucket;
    return p;
}

static void unchain(struct compile_cache *c, struct entry *e)
{
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void chain(struct compile_cache *c, struct entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

static void drop(struct compile_cache *c, struct entry *e)
{
    *place(c, &e->key) = e->next_in_bucket;
    unchain(c, e);
    c->used -= e->code->len + ENTRY_COST;
    code_unref(e->code);
    free(e);
}

void compile_cache_free(struct compile_cache *c)
{
    if (!c)
        return;
    while (c->oldest)
        drop(c, c->oldest);
    free(c);
}

static void add(struct sha256 *s, const void *bytes, size_t len)
{
    uint64_t length = len; /* with its length, so that no two lists of parts look the same */
    sha256_add(s, &length, sizeof length);
    sha256_add(s, bytes, len);
}

void compile_key(struct compile_key *ret, const struct module *m)
{
    struct sha256 s;
    const char *type = module_type_name(m->type);
    sha256_begin(&s);
    add(&s, type, strlen(type));
    add(&s, m->name, strlen(m->name));
    add(&s, m->code->bytes, m->code->len);
    sha256_end(&s, ret->bytes);
}

struct code *compile_cache_get(struct compile_cache *c, const struct compile_key *key)
{
    struct entry *e = *place(c, key);
    if (!e)
        return NULL;
    unchain(c, e);
    chain(c, e);
    return code_ref(e->code);
}

void compile_cache_put(struct compile_cache *c, const struct compile_key *key, struct code *code)
{
    struct entry **p = place(c, key);
    size_t cost = code->len + ENTRY_COST;
    if (*p || cost > c->max / 4)
        return;
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        return; /* the next one compiles again */
    e->key = *key;
    e->code = code_ref(code);
    *p = e;
    chain(c, e);
    c->used += cost;
    while (c->used > c->max)
        drop(c, c->oldest);
}
