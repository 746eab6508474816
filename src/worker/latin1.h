/* Strings of the engine that have one byte a character. The C API makes such strings only character by
 * character out of UTF-8, and gives their bytes only through conversions (2 ms a megabyte each way); here
 * they are copied. */
#ifndef CLOISTER_WORKER_LATIN1_H
#define CLOISTER_WORKER_LATIN1_H

#include "worker/engine_api.h"

#include <stddef.h>
#include <stdint.h>

/* Finds out whether the engine has its strings where this file expects them. Once, before the others. */
void latin1_init(void);
/* A string of these characters (U+0000 to U+00FF), the caller's. NULL: this engine offers no such way (or
 * memory is short): use the API's. */
JSStringRef latin1_string(const uint8_t *bytes, size_t len);
/* The characters of a string, as long as the string lives. NULL: it is empty or has two bytes a character, or
 * nobody knows: use the API's functions. */
const uint8_t *latin1_bytes(JSStringRef string);

#endif
