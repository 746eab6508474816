/* Reading call arguments: CBOR maps with a fixed set of keys. UNTRUSTED INPUT only in the sense that the host
 * may be newer or wrong; refusals name the field. */
#ifndef CLOISTER_AGENT_ARGS_H
#define CLOISTER_AGENT_ARGS_H

#include "base/error.h"
#include "link/cbor.h"

/* `args` must be a map with no other keys than `allowed` (NULL-terminated). */
int args_check(const struct cbor_reader *args, const char *const *allowed, struct error *err);
/* The getters leave *ret alone and return 0 when the key is absent; 1 when it was there; -1 when it is wrong.
 */
int args_uint(const struct cbor_reader *args, const char *key, uint64_t min, uint64_t max, uint64_t *ret,
              struct error *err);
int args_bool(const struct cbor_reader *args, const char *key, bool *ret, struct error *err);
/* Allocated text without NUL bytes. */
int args_text(const struct cbor_reader *args, const char *key, size_t max, char **ret, struct error *err);
/* An absolute path shorter than AGENT_MAX_PATH; absent is an error. */
int args_path(const struct cbor_reader *args, const char *key, char **ret, struct error *err);
int args_missing(const char *key, struct error *err);

#endif
