#include "worker/native_args.h"

#include "worker/value.h"

bool native_absent(const struct native_args *args, size_t i)
{
    return i >= args->count || JSValueIsUndefined(args->ctx, args->values[i]) ||
           JSValueIsNull(args->ctx, args->values[i]);
}

static JSValueRef argument(const struct native_args *args, size_t i)
{
    return i < args->count ? args->values[i] : NULL;
}

struct crypto_bytes native_bytes(struct native_args *args, size_t i)
{
    static const uint8_t nothing[1];
    struct crypto_bytes bytes = {nothing, 0};
    if (!args->failed &&
        !value_bytes(args->ctx, argument(args, i), &bytes.data, &bytes.size, args->exception)) {
        args->failed = true;
        bytes = (struct crypto_bytes){nothing, 0};
    }
    return bytes;
}

struct crypto_bytes native_bytes_or_none(struct native_args *args, size_t i)
{
    if (native_absent(args, i))
        return (struct crypto_bytes){NULL, 0};
    return native_bytes(args, i);
}

uint64_t native_uint(struct native_args *args, size_t i, uint64_t max)
{
    uint64_t number = 0;
    if (!args->failed && !value_uint(args->ctx, argument(args, i), max, &number, args->exception)) {
        args->failed = true;
        number = 0;
    }
    return number;
}

bool native_bool(struct native_args *args, size_t i)
{
    return !args->failed && i < args->count && JSValueToBoolean(args->ctx, args->values[i]);
}

void *native_unwrap(struct native_args *args, size_t i, JSClassRef class)
{
    if (args->failed)
        return NULL;
    void *thing = NULL;
    if (!native_absent(args, i) && JSValueIsObjectOfClass(args->ctx, args->values[i], class))
        thing = JSObjectGetPrivate((JSObjectRef)args->values[i]);
    if (!thing) {
        args->failed = true;
        value_throw_type(args->ctx, args->exception, "a handle of another kind is expected");
    }
    return thing;
}

JSValueRef native_give(struct native_args *args, int result, struct crypto_buffer *buffer,
                       const struct error *err)
{
    if (result < 0)
        return value_throw_error(args->ctx, args->exception, err);
    struct crypto_buffer taken = *buffer;
    *buffer = (struct crypto_buffer){NULL, 0};
    return value_buffer_take(args->ctx, taken.data, taken.size, args->exception);
}

JSValueRef native_wrap(struct native_args *args, JSClassRef class, void *thing, const struct error *err)
{
    return thing ? JSObjectMake(args->ctx, class, thing) : value_throw_error(args->ctx, args->exception, err);
}
