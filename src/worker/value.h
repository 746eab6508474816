/* Between C and JavaScript values. Whatever can throw takes the engine's `exception` pointer, as natives get
 * it; on failure it is set and the function says so. Strings and bytes that are returned belong to the caller
 * unless said otherwise. */
#ifndef CLOISTER_WORKER_VALUE_H
#define CLOISTER_WORKER_VALUE_H

#include "base/error.h"
#include "worker/engine_api.h"

#include <stddef.h>
#include <stdint.h>

/* Saves the constructors of errors; before any guest code runs. */
void value_init(JSContextRef ctx);

/* Throwing. All return NULL, so that natives can `return value_throw_type(...)`. */
JSValueRef value_throw_type(JSContextRef ctx, JSValueRef *exception, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
JSValueRef value_throw_range(JSContextRef ctx, JSValueRef *exception, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* An Error whose property `code` is set. */
JSValueRef value_throw_code(JSContextRef ctx, JSValueRef *exception, const char *code, const char *message);
JSValueRef value_throw_error(JSContextRef ctx, JSValueRef *exception, const struct error *err);

/* A string from UTF-8 (malformed parts become U+FFFD). */
JSValueRef value_text(JSContextRef ctx, const char *text);
JSValueRef value_text_n(JSContextRef ctx, const uint8_t *bytes, size_t len);
/* A fresh ArrayBuffer with a copy of the bytes, or one that takes over malloc'ed bytes. NULL: thrown. */
JSValueRef value_buffer(JSContextRef ctx, const void *bytes, size_t len, JSValueRef *exception);
JSValueRef value_buffer_take(JSContextRef ctx, void *bytes, size_t len, JSValueRef *exception);

/* UTF-8 of a string (lone surrogates become U+FFFD), NUL-terminated; NULL when it was no string (TypeError)
 * or memory is short. */
char *value_dup_text(JSContextRef ctx, JSValueRef v, size_t *ret_len, JSValueRef *exception);
/* The same in `to`, without a copy on the way. False: it is no string of ASCII that fits, or nobody knows. */
bool value_copy_ascii(JSContextRef ctx, JSValueRef v, uint8_t *to, size_t room, size_t *ret_len);
/* The bytes of a Uint8Array, to read until JavaScript runs again (they may be a copy); or to write, in place.
 */
bool value_bytes(JSContextRef ctx, JSValueRef v, const uint8_t **ret, size_t *ret_len, JSValueRef *exception);
bool value_bytes_writable(JSContextRef ctx, JSValueRef v, uint8_t **ret, size_t *ret_len,
                          JSValueRef *exception);
/* A whole number of [0, max]. */
bool value_uint(JSContextRef ctx, JSValueRef v, uint64_t max, uint64_t *ret, JSValueRef *exception);

/* Properties by name; NULL or false when it threw or is absent. */
JSObjectRef value_get_object(JSContextRef ctx, JSObjectRef object, const char *name);
bool value_set(JSContextRef ctx, JSObjectRef object, const char *name, JSValueRef v);
/* A one-line description of a thrown value with its stack, for logs of our own. Runs guest code (toString).
 */
char *value_describe(JSContextRef ctx, JSValueRef thrown);

#endif
