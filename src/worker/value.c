#include "worker/value.h"

#include "base/buf.h"
#include "worker/latin1.h"
#include "worker/unicode.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_TEXT 1024
#define KEPT_COPIES 8

static JSObjectRef error_constructor, type_error_constructor, range_error_constructor;

static JSObjectRef keep_global(JSContextRef ctx, const char *name)
{
    JSObjectRef found = value_get_object(ctx, JSContextGetGlobalObject(ctx), name);
    JSValueProtect(ctx, found);
    return found;
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

static JSStringRef ascii_string(const uint8_t *bytes, size_t len)
{
    JSStringRef string = latin1_string(bytes, len);
    if (string)
        return string;
    /* The API makes an 8-bit string of ASCII text only when it comes as a C string. */
    if (!unicode_is_plain(bytes, len))
        return NULL;
    char small[SMALL_TEXT], *copy = len < sizeof small ? small : malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, bytes, len);
    copy[len] = 0;
    string = JSStringCreateWithUTF8CString(copy);
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
    JSStringRef string = unicode_is_ascii(bytes, len) ? ascii_string(bytes, len) : NULL;
    if (!string)
        string = wide_string(bytes, len);
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

/* Each character above U+007F becomes two bytes. */
static char *text_of_latin1(const uint8_t *bytes, size_t count, size_t *ret_len)
{
    size_t high = 0, n = 0;
    bool ascii = unicode_is_ascii(bytes, count); /* eight at a time; most text is */
    for (size_t i = 0; !ascii && i < count; i++)
        high += bytes[i] >> 7;
    char *text = malloc(count + high + 1);
    if (!text)
        return NULL;
    if (!high)
        memcpy(text, bytes, count);
    for (size_t i = 0; high && i < count; i++) {
        if (bytes[i] < 0x80) {
            text[n++] = (char)bytes[i];
        } else {
            text[n++] = (char)(0xc0 | bytes[i] >> 6);
            text[n++] = (char)(0x80 | (bytes[i] & 0x3f));
        }
    }
    *ret_len = count + high;
    text[*ret_len] = 0;
    return text;
}

/* The engine's own conversion ends without a word at a lone surrogate: its result is taken only when it is
 * ASCII and therefore whole. */
static char *text_of(JSStringRef string, size_t *ret_len)
{
    size_t count = JSStringGetLength(string);
    const uint8_t *narrow = latin1_bytes(string);
    if (narrow)
        return text_of_latin1(narrow, count, ret_len);
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

bool value_copy_ascii(JSContextRef ctx, JSValueRef v, uint8_t *to, size_t room, size_t *ret_len)
{
    JSStringRef string = v && JSValueIsString(ctx, v) ? JSValueToStringCopy(ctx, v, NULL) : NULL;
    const uint8_t *narrow = string ? latin1_bytes(string) : NULL;
    bool fits =
        narrow && (*ret_len = JSStringGetLength(string)) <= room && unicode_is_ascii(narrow, *ret_len);
    if (fits)
        memcpy(to, narrow, *ret_len);
    if (string)
        JSStringRelease(string);
    return fits;
}

/* Where the engine keeps a typed array's address and length. Its C API has a way to ask for the address, but
 * that pins the buffer: it can never be transferred again, which code that was handed the array would see. So
 * the address is read where the engine has it, after value_init() has made sure of the place; an engine that
 * has it elsewhere gets copies made in JavaScript. */
struct array_view {
    void *cell[2];
    uint8_t *bytes;
    size_t len;
};

static bool layout_known;
static JSObjectRef copy_function;

/* Whether the view's fields tell what the API tells of this array, whose bytes are 1, 2, 3... */
static bool layout_fits(JSContextRef ctx, const char *source, size_t len)
{
    JSValueRef exception = NULL;
    JSStringRef string = JSStringCreateWithUTF8CString(source);
    JSValueRef v = JSEvaluateScript(ctx, string, NULL, NULL, 1, &exception);
    JSStringRelease(string);
    if (exception || JSValueGetTypedArrayType(ctx, v, NULL) != kJSTypedArrayTypeUint8Array)
        return false;
    const struct array_view *view = (const struct array_view *)(const void *)v;
    if (view->len != len || view->len != JSObjectGetTypedArrayByteLength(ctx, (JSObjectRef)v, NULL))
        return false;
    for (size_t i = 0; i < len; i++)
        if (view->bytes[i] != (uint8_t)(i + 1))
            return false;
    JSObjectGetTypedArrayBytesPtr(ctx, (JSObjectRef)v, NULL); /* makes a buffer of an array that had none */
    return view->len == len && view->bytes[0] == 1;
}

static void learn_layout(JSContextRef ctx)
{
    static const char copy[] = "(function (set, Uint8Array, lengthOf) { return function (from) {"
                               "const to = new Uint8Array(lengthOf(from)); set(to, from); return to; } })"
                               "(Function.prototype.call.bind(Uint8Array.prototype.set), Uint8Array,"
                               " Function.prototype.call.bind(Object.getOwnPropertyDescriptor("
                               "Object.getPrototypeOf(Uint8Array.prototype), 'length').get))";
    JSStringRef string = JSStringCreateWithUTF8CString(copy);
    copy_function = JSValueToObject(ctx, JSEvaluateScript(ctx, string, NULL, NULL, 1, NULL), NULL);
    JSStringRelease(string);
    JSValueProtect(ctx, copy_function);
    layout_known =
        layout_fits(ctx, "new Uint8Array([1, 2, 3])", 3) &&
        layout_fits(ctx, "new Uint8Array(new Uint8Array([9, 9, 1, 2, 3, 4, 9]).buffer, 2, 4)", 4) &&
        layout_fits(ctx, "Uint8Array.from({length: 5000}, (v, i) => i + 1)", 5000);
}

void value_init(JSContextRef ctx)
{
    error_constructor = keep_global(ctx, "Error");
    type_error_constructor = keep_global(ctx, "TypeError");
    range_error_constructor = keep_global(ctx, "RangeError");
    learn_layout(ctx);
    latin1_init();
}

/* The slow way: a copy that nobody else sees, whose buffer may be pinned. A native takes at most KEPT_COPIES
 * arrays. */
static const uint8_t *bytes_of_copy(JSContextRef ctx, JSObjectRef array, JSValueRef *exception)
{
    static JSValueRef kept[KEPT_COPIES];
    static unsigned next;
    JSValueRef argument = array;
    JSValueRef copy = JSObjectCallAsFunction(ctx, copy_function, NULL, 1, &argument, exception);
    if (*exception)
        return NULL;
    if (kept[next])
        JSValueUnprotect(ctx, kept[next]);
    JSValueProtect(ctx, copy);
    kept[next] = copy;
    next = (next + 1) % KEPT_COPIES;
    return JSObjectGetTypedArrayBytesPtr(ctx, (JSObjectRef)copy, exception);
}

/* The slow way of those that write: the array's buffer stays pinned. */
static uint8_t *pinned_bytes(JSContextRef ctx, JSObjectRef array, JSValueRef *exception)
{
    uint8_t *bytes = JSObjectGetTypedArrayBytesPtr(ctx, array, exception);
    return bytes ? bytes + JSObjectGetTypedArrayByteOffset(ctx, array, exception) : NULL;
}

static bool get_bytes(JSContextRef ctx, JSValueRef v, bool writable, const uint8_t **ret, size_t *ret_len,
                      JSValueRef *exception)
{
    static const uint8_t none[1];
    if (!v || JSValueGetTypedArrayType(ctx, v, exception) != kJSTypedArrayTypeUint8Array) {
        value_throw_type(ctx, exception, "a Uint8Array is expected");
        return false;
    }
    size_t len = JSObjectGetTypedArrayByteLength(ctx, (JSObjectRef)v, exception);
    const struct array_view *view = (const struct array_view *)(const void *)v;
    const uint8_t *bytes = none;
    if (len > 0 && layout_known && view->len == len)
        bytes = view->bytes;
    else if (len > 0) /* also some arrays over resizable buffers */
        bytes = writable ? pinned_bytes(ctx, (JSObjectRef)v, exception)
                         : bytes_of_copy(ctx, (JSObjectRef)v, exception);
    if (!bytes)
        return false;
    *ret = bytes;
    *ret_len = len;
    return true;
}

bool value_bytes(JSContextRef ctx, JSValueRef v, const uint8_t **ret, size_t *ret_len, JSValueRef *exception)
{
    return get_bytes(ctx, v, false, ret, ret_len, exception);
}

bool value_bytes_writable(JSContextRef ctx, JSValueRef v, uint8_t **ret, size_t *ret_len,
                          JSValueRef *exception)
{
    return get_bytes(ctx, v, true, (const uint8_t **)ret, ret_len, exception);
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
