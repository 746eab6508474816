/* The target of a request: path segments and query, percent-decoded after splitting (so that %2F stays inside
 * its segment). UNTRUSTED INPUT. */
#ifndef CLOISTER_DAEMON_URI_H
#define CLOISTER_DAEMON_URI_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define URI_MAX_LENGTH 32768u
#define URI_MAX_SEGMENTS 12
#define URI_MAX_QUERY 64

struct uri {
    char *text; /* owns what the pointers below point into */
    const char *segments[URI_MAX_SEGMENTS];
    size_t segment_count;
    struct {
        const char *key, *value;
    } query[URI_MAX_QUERY];
    size_t query_count;
};

/* Refuses NUL, broken escapes, an absolute URI, a fragment, empty segments, and too much of anything. */
int uri_parse(struct uri *ret, const char *target, struct error *err);
void uri_free(struct uri *u);

const char *uri_query(const struct uri *u, const char *key); /* NULL: absent */
/* As uri_query, strictly typed; an absent key leaves *ret alone. */
int uri_query_bool(const struct uri *u, const char *key, bool *ret, struct error *err);
int uri_query_u64(const struct uri *u, const char *key, uint64_t max, uint64_t *ret, struct error *err);

#endif
