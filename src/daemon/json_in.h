/* Strict reading of JSON that callers send. UNTRUSTED INPUT. Every refusal names the field and what was
 * expected.
 *
 * In the getters `at` is the object's own path ("" for the body, "instance." below it), so that errors say
 * "instance.vcpu". A field that is absent leaves *ret alone and is no error. null is a wrong type. */
#ifndef CLOISTER_DAEMON_JSON_IN_H
#define CLOISTER_DAEMON_JSON_IN_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_IN_MAX_DEPTH 32
/* Numbers that every JSON reader holds exactly. */
#define JSON_IN_MAX_INT ((int64_t)1 << 53)

/* Parses one object. Duplicate keys, nesting over JSON_IN_MAX_DEPTH and anything after the object are
 * refused. NULL on failure. */
json_t *json_in_parse(const void *text, size_t len, struct error *err);

/* Refuses keys that are not among `known` (NULL-terminated). */
int json_in_known(const json_t *o, const char *at, const char *const *known, struct error *err);
/* A string without NUL, at most `max` bytes; borrowed from `o`. */
int json_in_string(const json_t *o, const char *at, const char *key, size_t max, const char **ret,
                   struct error *err);
/* Any text, NUL included. */
int json_in_text(const json_t *o, const char *at, const char *key, const char **ret, size_t *ret_len,
                 struct error *err);
int json_in_bool(const json_t *o, const char *at, const char *key, bool *ret, struct error *err);
int json_in_int(const json_t *o, const char *at, const char *key, int64_t min, int64_t max, int64_t *ret,
                struct error *err);
/* One of a NULL-terminated list of words; *ret is its index. */
int json_in_word(const json_t *o, const char *at, const char *key, const char *const *words, int *ret,
                 struct error *err);
int json_in_object(const json_t *o, const char *at, const char *key, const json_t **ret, struct error *err);
int json_in_array(const json_t *o, const char *at, const char *key, size_t max, const json_t **ret,
                  struct error *err);
/* An array of strings without NUL, together at most max_bytes: a malloc'ed, NULL-terminated vector of
 * borrowed strings. */
int json_in_strv(const json_t *o, const char *at, const char *key, size_t max_count, size_t max_bytes,
                 const char ***ret, struct error *err);

#endif
