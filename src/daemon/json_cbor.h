/* A CBOR value of a worker as JSON, so that what it asks for is read by the same strict readers as what API
 * clients ask for. */
#ifndef CLOISTER_DAEMON_JSON_CBOR_H
#define CLOISTER_DAEMON_JSON_CBOR_H

#include "base/error.h"
#include "link/cbor.h"

#include <jansson.h>

#define JSON_CBOR_MAX_DEPTH 8u

/* Texts, numbers, booleans, null, lists, and maps with text keys, none of which may occur twice; anything
 * else is refused. The caller owns the result; NULL on failure. UNTRUSTED INPUT. */
json_t *json_from_cbor(struct cbor_reader *r, struct error *err);

#endif
