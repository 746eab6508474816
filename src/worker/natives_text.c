/* Text, bytes and random numbers. */
#include "worker/base64.h"
#include "worker/latin1.h"
#include "worker/natives.h"
#include "worker/unicode.h"
#include "worker/value.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

NATIVE(utf8_encode)
{
    size_t len;
    char *text = value_dup_text(ctx, native_arg(0), &len, exception);
    if (!text)
        return NULL;
    /* The buffer was made for the worst case. */
    char *exact = realloc(text, len ? len : 1);
    if (exact)
        text = exact;
    return value_buffer_take(ctx, text, len, exception);
}

NATIVE(utf8_encode_into)
{
    uint8_t *to;
    size_t room, len;
    if (!value_bytes_writable(ctx, native_arg(1), &to, &room, exception))
        return NULL;
    if (value_copy_ascii(ctx, native_arg(0), to, room, &len))
        return JSValueMakeNumber(ctx, (double)len);
    char *text = value_dup_text(ctx, native_arg(0), &len, exception);
    if (!text)
        return NULL;
    if (len <= room)
        memcpy(to, text, len);
    free(text);
    return JSValueMakeNumber(ctx, len <= room ? (double)len : -1);
}

/* The part [start, end) of a Uint8Array, arguments 0 to 2. */
static bool get_part(JSContextRef ctx, size_t argc, const JSValueRef argv[], const uint8_t **ret,
                     size_t *ret_len, JSValueRef *exception)
{
    const uint8_t *bytes;
    size_t len;
    uint64_t start, end;
    if (!value_bytes(ctx, native_arg(0), &bytes, &len, exception) ||
        !value_uint(ctx, native_arg(2), len, &end, exception) ||
        !value_uint(ctx, native_arg(1), end, &start, exception))
        return false;
    *ret = bytes + start;
    *ret_len = end - start;
    return true;
}

/* The units are malloc'ed and given away: two copies are made of them, one after the other. */
static JSValueRef make_wide(JSContextRef ctx, JSChar *units, size_t count)
{
    JSStringRef string = JSStringCreateWithCharacters(units, count);
    free(units);
    JSValueRef v = JSValueMakeString(ctx, string);
    JSStringRelease(string);
    return v;
}

NATIVE(utf8_decode)
{
    const uint8_t *bytes;
    size_t len;
    if (!get_part(ctx, argc, argv, &bytes, &len, exception))
        return NULL;
    if (unicode_is_ascii(bytes, len))
        return value_text_n(ctx, bytes, len);
    JSChar *units = malloc((len + 1) * sizeof *units);
    if (!units)
        return value_throw_range(ctx, exception, "Out of memory");
    bool malformed, fatal = argc > 3 && JSValueToBoolean(ctx, argv[3]);
    size_t count = unicode_utf16_from_utf8(units, bytes, len, &malformed);
    if (!malformed || !fatal)
        return make_wide(ctx, units, count);
    free(units);
    return value_throw_type(ctx, exception, "The encoded data was not valid UTF-8");
}

NATIVE(latin1_decode)
{
    const uint8_t *bytes;
    size_t len;
    if (!get_part(ctx, argc, argv, &bytes, &len, exception))
        return NULL;
    JSStringRef narrow = latin1_string(bytes, len);
    if (narrow) {
        JSValueRef made = JSValueMakeString(ctx, narrow);
        JSStringRelease(narrow);
        return made;
    }
    if (unicode_is_plain(bytes, len))
        return value_text_n(ctx, bytes, len);
    JSChar *units = malloc((len + 1) * sizeof *units);
    if (!units)
        return value_throw_range(ctx, exception, "Out of memory");
    for (size_t i = 0; i < len; i++)
        units[i] = bytes[i];
    return make_wide(ctx, units, len);
}

static uint8_t *latin1_from(JSContextRef ctx, JSStringRef string, JSValueRef *exception)
{
    size_t len = JSStringGetLength(string);
    const JSChar *units = JSStringGetCharactersPtr(string);
    uint8_t *bytes = units ? malloc(len ? len : 1) : NULL;
    if (!bytes) {
        value_throw_range(ctx, exception, "Out of memory");
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        if (units[i] > 255) {
            free(bytes);
            value_throw_range(ctx, exception, "a character is above U+00FF");
            return NULL;
        }
        bytes[i] = (uint8_t)units[i];
    }
    return bytes;
}

NATIVE(latin1_encode)
{
    if (argc < 1 || !JSValueIsString(ctx, argv[0]))
        return value_throw_type(ctx, exception, "a string is expected");
    JSStringRef string = JSValueToStringCopy(ctx, argv[0], exception);
    if (!string)
        return NULL;
    uint8_t *bytes = latin1_from(ctx, string, exception);
    JSValueRef v = bytes ? value_buffer_take(ctx, bytes, JSStringGetLength(string), exception) : NULL;
    JSStringRelease(string);
    return v;
}

NATIVE(base64_encode)
{
    const uint8_t *bytes;
    size_t len;
    if (!value_bytes(ctx, native_arg(0), &bytes, &len, exception))
        return NULL;
    char *text = malloc(base64_encoded_size(len) + 1);
    if (!text)
        return value_throw_range(ctx, exception, "Out of memory");
    text[base64_encode_to(text, bytes, len)] = 0;
    JSValueRef v = value_text(ctx, text);
    free(text);
    return v;
}

NATIVE(base64_decode)
{
    size_t len, out_len;
    char *text = value_dup_text(ctx, native_arg(0), &len, exception);
    if (!text)
        return NULL;
    if (!base64_decode_in_place((uint8_t *)text, len, &out_len)) {
        free(text);
        return value_throw_type(ctx, exception, "the text is not correctly encoded base64");
    }
    return value_buffer_take(ctx, text, out_len, exception);
}

NATIVE(random_fill)
{
    uint8_t *to;
    size_t len;
    if (!value_bytes_writable(ctx, native_arg(0), &to, &len, exception))
        return NULL;
    for (size_t done = 0; done < len;) {
        ssize_t n = getrandom(to + done, len - done, 0);
        if (n < 0)
            return value_throw_code(ctx, exception, "EIO", "the kernel gives no random numbers");
        done += (size_t)n;
    }
    return JSValueMakeUndefined(ctx);
}

void natives_text(JSContextRef ctx, JSObjectRef natives)
{
    static const struct native list[] = {
        {"utf8Encode", utf8_encode},     {"utf8EncodeInto", utf8_encode_into},
        {"utf8Decode", utf8_decode},     {"latin1Decode", latin1_decode},
        {"latin1Encode", latin1_encode}, {"base64Encode", base64_encode},
        {"base64Decode", base64_decode}, {"random", random_fill},
    };
    natives_add(ctx, natives, list, sizeof list / sizeof *list);
}
