#include "worker/latin1.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* How the engine keeps a string (WTF::StringImpl), and what the C API hands out (OpaqueJSString). */
struct engine_string {
    uint32_t references, length;
    const uint8_t *characters;
    uint32_t flags;
};
struct api_string {
    uint32_t references;
    const struct engine_string *string;
};
#define ONE_BYTE_CHARACTERS 4u

/* What is returned by reference in C++ is so in C when it is large; the callee writes the first field only.
 */
struct made {
    JSStringRef string;
    void *unused[3];
};

static void (*make_string)(void **to, const uint8_t *bytes,
                           size_t len);         /* WTF::String(std::span<const LChar>) */
static struct made (*wrap_string)(void **from); /* OpaqueJSString::tryCreate(WTF::String &&), takes it over */
static bool can_make, can_read;

static JSStringRef make(const uint8_t *bytes, size_t len, bool *ret_taken)
{
    void *string = NULL;
    make_string(&string, bytes, len);
    struct made made = wrap_string(&string);
    *ret_taken = string == NULL;
    return made.string;
}

static const struct engine_string *inside(JSStringRef string)
{
    return ((const struct api_string *)(const void *)string)->string;
}

static bool find_functions(void)
{
    *(void **)&make_string = dlsym(RTLD_DEFAULT, "_ZN3WTF6StringC1ESt4spanIKhLm18446744073709551615EE");
    *(void **)&wrap_string = dlsym(RTLD_DEFAULT, "_ZN14OpaqueJSString9tryCreateEON3WTF6StringE");
    return make_string && wrap_string;
}

/* Whether the fields tell of these two strings what the API does. */
static bool layout_fits(void)
{
    static const char text[] = "one byte each";
    static const JSChar units[] = {0x416, 'w', 'i', 'd', 'e'};
    const size_t len = sizeof text - 1, count = sizeof units / sizeof *units;
    JSStringRef narrow = JSStringCreateWithUTF8CString(text),
                wide = JSStringCreateWithCharacters(units, count);
    const struct engine_string *n = inside(narrow), *w = inside(wide);
    bool fits = n && w && n->length == len && w->length == count && (n->flags & ONE_BYTE_CHARACTERS) &&
                !(w->flags & ONE_BYTE_CHARACTERS) && memcmp(n->characters, text, len) == 0 &&
                memcmp(w->characters, units, sizeof units) == 0;
    JSStringRelease(narrow);
    JSStringRelease(wide);
    return fits;
}

static bool making_works(void)
{
    static const uint8_t bytes[] = {'a', 0, 0x7f, 0x80, 0xe9, 0xff};
    bool taken;
    JSStringRef string = make(bytes, sizeof bytes, &taken);
    if (!string)
        return false;
    const JSChar *units = JSStringGetCharactersPtr(string);
    bool works = taken && JSStringGetLength(string) == sizeof bytes;
    for (size_t i = 0; works && i < sizeof bytes; i++)
        works = units[i] == bytes[i];
    JSStringRelease(string);
    return works;
}

void latin1_init(void)
{
    can_read = layout_fits();
    can_make = find_functions() && making_works();
}

JSStringRef latin1_string(const uint8_t *bytes, size_t len)
{
    bool taken;
    return can_make && len > 0 && len <= INT32_MAX ? make(bytes, len, &taken) : NULL;
}

const uint8_t *latin1_bytes(JSStringRef string)
{
    const struct engine_string *s = can_read ? inside(string) : NULL;
    return s && (s->flags & ONE_BYTE_CHARACTERS) && s->length > 0 ? s->characters : NULL;
}
