#include "worker/value.h"

#include "base/buf.h"
#include "worker/unicode.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_TEXT 1024

static JSObjectRef error_constructor, type_error_constructor, range_error_constructor;

static JSObjectRef keep_global(JSContextRef ctx, const char *name)
{
    JSObjectRef found = value_get_object(ctx, JSContextGetGlobalObject(ctx), name);
    JSValueProtect(ctx, found);
    return found;
}

void value_init(JSContextRef ctx)
{
    error_constructor = keep_global(ctx, "Error");
    type_error_constructor = keep_global(ctx, "TypeError");
    range_error_constructor = keep_global(ctx, "RangeError");
}

static JSObjectRef make_error(JSContextRef ctx, JSObjectRef constructor, const char *message)
{
    JSValueRef argument = value_text(ctx, message), ignored = NULL;
    return JSObjectCallAsConstructor(ctx, constructor, 1, &argument, &ignored);
}

static void throw_formatted(JSContextRef ctx, JSValueRef *exception, JSObjectRef constructor, const char *fmt,
                            va_list ap)
{
    char message[512];
    vsnprintf(message, sizeof message, fmt, ap);
    *exception = make_error(ctx, constructor, message);
}

JSValueRef value_throw_type(JSContextRef ctx, JSValueRef *exception, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    throw_formatted(ctx, exception, type_error_constructor, fmt, ap);
    va_end(ap);
    return NULL;
}

JSValueRef value_throw_range(JSContextRef ctx, JSValueRef *exception, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    throw_formatted(ctx, exception, range_error_constructor, fmt, ap);
    va_end(ap);
    return NULL;
}

JSValueRef value_throw_code(JSContextRef ctx, JSValueRef *exception, const char *code, const char *message)
{
    JSObjectRef error = make_error(ctx, error_constructor, message);
    if (error)
        value_set(ctx, error, "code", value_text(ctx, code));
    *exception = error;
    return NULL;
}

JSValueRef value_throw_error(JSContextRef ctx, JSValueRef *exception, const struct error *err)
{
    return value_throw_code(ctx, exception, error_code(err), err->message);
}

JSValueRef value_text(JSContextRef ctx, const char *text)
{
    return value_text_n(ctx, (const uint8_t *)text, strlen(text));
}

/* The engine makes an 8-bit string of ASCII text only when it comes as a C string. */
static JSStringRef ascii_string(const uint8_t *bytes, size_t len)
{
    char small[SMALL_TEXT], *copy = len < sizeof small ? small : malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, bytes, len);
    copy[len] = 0;
    JSStringRef string = JSStringCreateWithUTF8CString(copy);
    if (copy != small)
        free(copy);
    return string;
}

static JSStringRef wide_string(const uint8_t *bytes, size_t len)
{
    JSChar *units = malloc((len + 1) * sizeof *units); /* never more units than bytes */
    if (!units)
        return NULL;
    JSStringRef string =
        JSStringCreateWithCharacters(units, unicode_utf16_from_utf8(units, bytes, len, NULL));
    free(units);
    return string;
}

JSValueRef value_text_n(JSContextRef ctx, const uint8_t *bytes, size_t len)
{
    JSStringRef string = unicode_is_plain(bytes, len) ? ascii_string(bytes, len) : wide_string(bytes, len);
    if (!string)
        return JSValueMakeUndefined(ctx);
    JSValueRef v = JSValueMakeString(ctx, string);
    JSStringRelease(string);
    return v;
}

static void free_bytes(void *bytes, void *context)
{
    (void)context;
    free(bytes);
}

JSValueRef value_buffer_take(JSContextRef ctx, void *bytes, size_t len, JSValueRef *exception)
{
    return JSObjectMakeArrayBufferWithBytesNoCopy(ctx, bytes, len, free_bytes, NULL, exception);
}

JSValueRef value_buffer(JSContextRef ctx, const void *bytes, size_t len, JSValueRef *exception)
{
    void *copy = malloc(len ? len : 1);
    if (!copy)
        return value_throw_range(ctx, exception, "Out of memory");
    if (len)
        memcpy(copy, bytes, len);
    return value_buffer_take(ctx, copy, len, exception);
}

/* The engine's own conversion is quick for 8-bit strings, but ends without a word at a lone surrogate: its
 * result is taken only when it is ASCII and therefore whole. */
static char *text_of(JSStringRef string, size_t *ret_len)
{
    size_t count = JSStringGetLength(string);
    char *text = malloc(count + 1);
    if (!text)
        return NULL;
    size_t written = JSStringGetUTF8CString(string, text, count + 1);
    if (written == count + 1 && unicode_is_ascii((const uint8_t *)text, count)) {
        *ret_len = count;
        return text;
    }
    free(text);
    const JSChar *units = JSStringGetCharactersPtr(string);
    text = units ? malloc(3 * count + 1) : NULL;
    if (!text)
        return NULL;
    *ret_len = unicode_utf8_from_utf16((uint8_t *)text, units, count);
    text[*ret_len] = 0;
    return text;
}

char *value_dup_text(JSContextRef ctx, JSValueRef v, size_t *ret_len, JSValueRef *exception)
{
    size_t ignored;
    if (!v || !JSValueIsString(ctx, v)) {
        value_throw_type(ctx, exception, "a string is expected");
        return NULL;
    }
    JSStringRef string = JSValueToStringCopy(ctx, v, exception);
    if (!string)
        return NULL;
    char *text = text_of(string, ret_len ? ret_len : &ignored);
    JSStringRelease(string);
    if (!text)
        value_throw_range(ctx, exception, "Out of memory");
    return text;
}

bool value_bytes(JSContextRef ctx, JSValueRef v, const uint8_t **ret, size_t *ret_len, JSValueRef *exception)
{
    static const uint8_t none[1];
    if (!v || JSValueGetTypedArrayType(ctx, v, exception) != kJSTypedArrayTypeUint8Array) {
        value_throw_type(ctx, exception, "a Uint8Array is expected");
        return false;
    }
    JSObjectRef array = (JSObjectRef)v;
    size_t len = JSObjectGetTypedArrayByteLength(ctx, array, exception);
    const uint8_t *bytes = len ? JSObjectGetTypedArrayBytesPtr(ctx, array, exception) : none;
    if (!bytes) {
        if (!*exception)
            value_throw_type(ctx, exception, "the buffer is detached");
        return false;
    }
    /* The pointer is that of the buffer's beginning. */
    *ret = len ? bytes + JSObjectGetTypedArrayByteOffset(ctx, array, exception) : bytes;
    *ret_len = len;
    return true;
}

bool value_uint(JSContextRef ctx, JSValueRef v, uint64_t max, uint64_t *ret, JSValueRef *exception)
{
    double number = v && JSValueIsNumber(ctx, v) ? JSValueToNumber(ctx, v, exception) : NAN;
    if (!(number >= 0 && number <= (double)max && number == floor(number))) {
        value_throw_type(ctx, exception, "a whole number from 0 to %llu is expected",
                         (unsigned long long)max);
        return false;
    }
    *ret = (uint64_t)number;
    return true;
}

JSObjectRef value_get_object(JSContextRef ctx, JSObjectRef object, const char *name)
{
    JSValueRef exception = NULL;
    JSStringRef key = JSStringCreateWithUTF8CString(name);
    JSValueRef v = JSObjectGetProperty(ctx, object, key, &exception);
    JSStringRelease(key);
    if (exception || !v || !JSValueIsObject(ctx, v))
        return NULL;
    return JSValueToObject(ctx, v, NULL);
}

bool value_set(JSContextRef ctx, JSObjectRef object, const char *name, JSValueRef v)
{
    JSValueRef exception = NULL;
    JSStringRef key = JSStringCreateWithUTF8CString(name);
    JSObjectSetProperty(ctx, object, key, v, kJSPropertyAttributeNone, &exception);
    JSStringRelease(key);
    return !exception;
}

static void describe_property(JSContextRef ctx, JSObjectRef object, const char *name, const char *before,
                              struct buf *out)
{
    JSValueRef exception = NULL;
    JSStringRef key = JSStringCreateWithUTF8CString(name);
    JSValueRef v = JSObjectGetProperty(ctx, object, key, &exception);
    JSStringRelease(key);
    if (exception || !v || JSValueIsUndefined(ctx, v))
        return;
    JSStringRef string = JSValueToStringCopy(ctx, v, &exception);
    if (!string)
        return;
    size_t len;
    char *text = text_of(string, &len);
    if (text && len)
        buf_printf(out, "%s%s", before, text);
    free(text);
    JSStringRelease(string);
}

char *value_describe(JSContextRef ctx, JSValueRef thrown)
{
    struct buf out;
    buf_init(&out, 64 << 10);
    JSValueRef exception = NULL;
    JSStringRef string = JSValueToStringCopy(ctx, thrown, &exception);
    if (string) {
        size_t len;
        char *text = text_of(string, &len);
        if (text)
            buf_append_str(&out, text);
        free(text);
        JSStringRelease(string);
    } else {
        buf_append_str(&out, "a value that cannot be shown");
    }
    if (JSValueIsObject(ctx, thrown)) {
        JSObjectRef object = JSValueToObject(ctx, thrown, NULL);
        describe_property(ctx, object, "sourceURL", "\n    at ", &out);
        describe_property(ctx, object, "line", ":", &out);
        describe_property(ctx, object, "stack", "\n", &out);
    }
    char *result = buf_str(&out) ? strdup(buf_str(&out)) : NULL;
    buf_free(&out);
    return result;
}
