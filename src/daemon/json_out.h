/* Writes JSON straight into a buffer. Commas are placed by looking at the last byte written, so values are
 * written in order without a context object. Failures stick to the buffer (base/buf.h). */
#ifndef CLOISTER_DAEMON_JSON_OUT_H
#define CLOISTER_DAEMON_JSON_OUT_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void json_open(struct buf *b, char bracket);  /* '{' or '[', as a value or as the next array element */
void json_close(struct buf *b, char bracket); /* '}' or ']' */
void json_key(struct buf *b, const char *key);
void json_comma(struct buf *b); /* before an array element */

/* A quoted string of any bytes: each byte that is no well-formed UTF-8 becomes U+FFFD. UNTRUSTED INPUT. */
void json_text(struct buf *b, const void *data, size_t len);
void json_base64(struct buf *b, const void *data, size_t len);

void json_put_str(struct buf *b, const char *key, const char *value); /* NULL: null */
void json_put_u64(struct buf *b, const char *key, uint64_t value);
void json_put_i64(struct buf *b, const char *key, int64_t value);
void json_put_bool(struct buf *b, const char *key, bool value);
/* Thousandths as a decimal number: 250 is 0.25. */
void json_put_milli(struct buf *b, const char *key, uint64_t value);
void json_put_strv(struct buf *b, const char *key, char *const *strv); /* NULL-terminated; NULL: [] */
/* {"code", "message", "field"?} */
void json_put_error(struct buf *b, const char *key, const struct error *err);

/* Length of the well-formed UTF-8 sequence at p, 0 when there is none. */
size_t utf8_step(const uint8_t *p, size_t len);

#endif
