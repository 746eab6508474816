/* Strict parsers for what users and files give us. Every function refuses trailing characters, overflow and
 * empty input, and fills `err` with kind ERROR_INVALID naming `field`. */
#ifndef CLOISTER_BASE_PARSE_H
#define CLOISTER_BASE_PARSE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, within [min, max]. */
int parse_u64(const char *text, const char *field, uint64_t min, uint64_t max, uint64_t *ret,
              struct error *err);
/* Bytes: "512", "512K", "64M", "1.5G", "2T" (powers of 1024; an optional "B" or "iB" may follow). */
int parse_size(const char *text, const char *field, uint64_t *ret_bytes, struct error *err);
/* Milliseconds: "250ms", "30s", "5m", "2h", "1d"; a bare number means seconds; fractions allowed. */
int parse_duration(const char *text, const char *field, uint64_t *ret_ms, struct error *err);
/* CPUs: "1", "0.5", "1.25"; result in thousandths of a CPU, 10 to 1024000. */
int parse_cpus(const char *text, const char *field, uint32_t *ret_milli, struct error *err);
/* A container, snapshot or alias name: 1 to 63 of [a-z0-9._-], starting with a letter or digit. Capital
 * letters are refused, so that two names never differ only in case (names become host names). */
int parse_name(const char *text, const char *field, struct error *err);
/* An environment entry "KEY=VALUE": key not empty and without NUL; the part before the first '=' is the key.
 */
int parse_env(const char *entry, const char *field, struct error *err);
/* True when the bytes are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool utf8_valid(const void *data, size_t len);
/* Longest prefix of data that does not end inside a UTF-8 sequence (at most 3 bytes shorter than len). */
size_t utf8_whole_prefix(const void *data, size_t len);

#endif
