/* Arguments and results of the crypto and compression natives.
 *
 * The accessors check: an argument that is not what it must be makes the call fail with a TypeError (a
 * RangeError for numbers), and everything after yields zeros. A native reads its arguments, returns if
 * `failed`, and only then works. No accessor runs JavaScript, so bytes that one of them gave stay valid until
 * the native makes an object. */
#ifndef CLOISTER_WORKER_NATIVE_ARGS_H
#define CLOISTER_WORKER_NATIVE_ARGS_H

#include "worker/native_crypto_key.h"
#include "worker/natives.h"

struct native_args {
    JSContextRef ctx;
    size_t count;
    const JSValueRef *values;
    JSValueRef *exception;
    bool failed;
};

/* Declares `args` at the head of a NATIVE(). */
#define NATIVE_ARGS struct native_args args = {ctx, argc, argv, exception, false}

/* An absent argument, null and undefined. */
bool native_absent(const struct native_args *args, size_t i);
/* A Uint8Array's bytes; data is never NULL. */
struct crypto_bytes native_bytes(struct native_args *args, size_t i);
/* The same; data is NULL when it is absent. */
struct crypto_bytes native_bytes_or_none(struct native_args *args, size_t i);
/* A whole number from 0 to max (at most 2^53). */
uint64_t native_uint(struct native_args *args, size_t i, uint64_t max);
bool native_bool(struct native_args *args, size_t i);
/* What native_wrap() put into an object of that class; NULL after a failure. */
void *native_unwrap(struct native_args *args, size_t i, JSClassRef class);

/* Results. Each returns a value to give back, or NULL with the exception set. */
/* An ArrayBuffer that owns the buffer's memory from now on; result below 0: throws err instead. */
JSValueRef native_give(struct native_args *args, int result, struct crypto_buffer *buffer,
                       const struct error *err);
/* An object of `class`, which finalizes what it holds. thing NULL: throws err. */
JSValueRef native_wrap(struct native_args *args, JSClassRef class, void *thing, const struct error *err);

#endif
