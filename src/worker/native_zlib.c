#include "worker/native_args.h"
#include "worker/native_zlib_stream.h"
#include "worker/natives.h"
#include "worker/value.h"

/* Exported by JavaScriptCore and declared in no public header: tells the collector of memory that an object
 * holds outside its heap. Without it a program could make streams faster than they are collected. */
void JSReportExtraMemoryCost(JSContextRef ctx, size_t size);

static JSClassRef stream_class; /* belongs to the process */

static void stream_finalize(JSObjectRef object)
{
    zlib_stream_free(JSObjectGetPrivate(object));
}

/* zlib.open(compress, format, level) */
NATIVE(js_open)
{
    NATIVE_ARGS;
    struct error err = {0};
    bool compress = native_bool(&args, 0);
    enum zlib_format format = (enum zlib_format)native_uint(&args, 1, ZLIB_DEFLATE_RAW);
    int level = native_absent(&args, 2) ? -1 : (int)native_uint(&args, 2, 9);
    if (args.failed)
        return NULL;
    JSValueRef made = native_wrap(&args, stream_class, zlib_stream_new(compress, format, level, &err), &err);
    JSReportExtraMemoryCost(ctx, ZLIB_STREAM_COST);
    return made;
}

/* zlib.push(stream, bytes) */
NATIVE(js_push)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct zlib_stream *stream = native_unwrap(&args, 0, stream_class);
    struct crypto_bytes data = native_bytes(&args, 1);
    if (args.failed)
        return NULL;
    if (zlib_stream_push(stream, data.data, data.size, &err) < 0)
        return value_throw_error(ctx, exception, &err);
    return JSValueMakeUndefined(ctx);
}

/* zlib.pull(stream, finish) -> ArrayBuffer or null */
NATIVE(js_pull)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    struct zlib_stream *stream = native_unwrap(&args, 0, stream_class);
    bool finish = native_bool(&args, 1);
    if (args.failed)
        return NULL;
    int result = zlib_stream_pull(stream, finish, &out, &err);
    return result == 0 ? JSValueMakeNull(ctx) : native_give(&args, result, &out, &err);
}

/* zlib.close(stream): its memory is free at once; the handle is good for nothing afterwards. */
NATIVE(js_close)
{
    NATIVE_ARGS;
    struct zlib_stream *stream = native_unwrap(&args, 0, stream_class);
    if (!args.failed) {
        JSObjectSetPrivate((JSObjectRef)argv[0], NULL);
        zlib_stream_free(stream);
    }
    return JSValueMakeUndefined(ctx);
}

static const struct native entries[] = {
    {"open", js_open}, {"push", js_push}, {"pull", js_pull}, {"close", js_close}};

void natives_zlib(JSContextRef ctx, JSObjectRef natives)
{
    if (!stream_class) {
        JSClassDefinition definition = {.className = "CompressionHandle",
                                        .attributes = kJSClassAttributeNoAutomaticPrototype,
                                        .finalize = stream_finalize};
        stream_class = JSClassCreate(&definition);
    }
    JSObjectRef zlib = JSObjectMake(ctx, NULL, NULL);
    natives_add(ctx, zlib, entries, sizeof entries / sizeof *entries);
    value_set(ctx, natives, "zlib", zlib);
}
