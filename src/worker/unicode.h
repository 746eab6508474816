/* UTF-8 and UTF-16, by the rules of the Encoding standard: each maximal part of a malformed sequence becomes
 * one U+FFFD. */
#ifndef CLOISTER_WORKER_UNICODE_H
#define CLOISTER_WORKER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ASCII without NUL: what a C string can carry unchanged. */
bool unicode_is_plain(const uint8_t *bytes, size_t len);
bool unicode_is_ascii(const uint8_t *bytes, size_t len);
/* `to` has room for `len` units. Units written; *ret_malformed (may be NULL) says whether anything was
 * replaced. */
size_t unicode_utf16_from_utf8(uint16_t *to, const uint8_t *bytes, size_t len, bool *ret_malformed);
/* `to` has room for 3 * `len` bytes. Bytes written; lone surrogates become U+FFFD. */
size_t unicode_utf8_from_utf16(uint8_t *to, const uint16_t *units, size_t len);

#endif
