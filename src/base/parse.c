#include "base/parse.h"

#include <limits.h>
#include <string.h>

static int digits(const char **p, uint64_t *ret)
{
    uint64_t v = 0;
    if (**p < '0' || **p > '9')
        return -1;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(**p - '0'), &v))
            return -1;
    }
    *ret = v;
    return 0;
}

/* Reads "12" or "12.34": value = whole + frac / scale, with at most 6 fractional digits. */
static int decimal(const char **p, uint64_t *whole, uint64_t *frac, uint64_t *scale)
{
    *frac = 0;
    *scale = 1;
    if (digits(p, whole) < 0)
        return -1;
    if (**p != '.')
        return 0;
    const char *start = ++*p;
    if (digits(p, frac) < 0 || *p - start > 6)
        return -1;
    for (const char *q = start; q < *p; q++)
        *scale *= 10;
    return 0;
}

/* whole.frac times unit, rounded down; fails on overflow. */
static int scaled(uint64_t whole, uint64_t frac, uint64_t scale, uint64_t unit, uint64_t *ret)
{
    uint64_t a, b;
    if (__builtin_mul_overflow(whole, unit, &a) || __builtin_mul_overflow(frac, unit, &b) ||
        __builtin_add_overflow(a, b / scale, &a))
        return -1;
    *ret = a;
    return 0;
}

int parse_u64(const char *text, const char *field, uint64_t min, uint64_t max, uint64_t *ret,
              struct error *err)
{
    uint64_t v;
    const char *p = text;
    if (digits(&p, &v) < 0 || *p)
        return error_field(err, field, "%s: expected a whole number, got \"%s\"", field, text);
    if (v < min || v > max)
        return error_field(err, field, "%s: expected %llu to %llu, got %llu", field, (unsigned long long)min,
                           (unsigned long long)max, (unsigned long long)v);
    *ret = v;
    return 0;
}

int parse_size(const char *text, const char *field, uint64_t *ret_bytes, struct error *err)
{
    static const char units[] = "KMGT";
    uint64_t whole, frac, scale, unit = 1;
    const char *p = text;
    if (decimal(&p, &whole, &frac, &scale) < 0)
        goto bad;
    const char *u = *p ? strchr(units, *p >= 'a' && *p <= 'z' ? *p - 32 : *p) : NULL;
    if (u) {
        unit = 1ull << (10 * (u - units + 1));
        p++;
        if (*p == 'i')
            p++;
    }
    if (*p == 'B' || *p == 'b')
        p++;
    if (*p || scaled(whole, frac, scale, unit, ret_bytes) < 0)
        goto bad;
    return 0;
bad:
    return error_field(err, field, "%s: expected a size such as 512M or 2G, got \"%s\"", field, text);
}

int parse_duration(const char *text, const char *field, uint64_t *ret_ms, struct error *err)
{
    static const struct {
        const char *suffix;
        uint64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    uint64_t whole, frac, scale;
    const char *p = text;
    if (decimal(&p, &whole, &frac, &scale) == 0)
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcmp(p, units[i].suffix) == 0 && scaled(whole, frac, scale, units[i].ms, ret_ms) == 0)
                return 0;
    return error_field(err, field, "%s: expected a duration such as 500ms, 30s or 5m, got \"%s\"", field,
                       text);
}

int parse_cpus(const char *text, const char *field, uint32_t *ret_milli, struct error *err)
{
    uint64_t whole, frac, scale, v;
    const char *p = text;
    if (decimal(&p, &whole, &frac, &scale) < 0 || *p || scaled(whole, frac, scale, 1000, &v) < 0)
        return error_field(err, field, "%s: expected a number of CPUs such as 0.5 or 2, got \"%s\"", field,
                           text);
    if (v < 10 || v > 1024000)
        return error_field(err, field, "%s: expected 0.01 to 1024 CPUs, got \"%s\"", field, text);
    *ret_milli = (uint32_t)v;
    return 0;
}

int parse_name(const char *text, const char *field, struct error *err)
{
    size_t len = strnlen(text, 64);
    bool ok = len >= 1 && len <= 63;
    for (size_t i = 0; ok && i < len; i++) {
        char c = text[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        ok = alnum || (i > 0 && (c == '.' || c == '_' || c == '-'));
    }
    if (!ok)
        return error_field(
            err, field,
            "%s: a name is 1 to 63 of a-z, 0-9, '.', '_' and '-', starting with a letter or a digit", field);
    return 0;
}

int parse_env(const char *entry, const char *field, struct error *err)
{
    const char *eq = strchr(entry, '=');
    if (!eq)
        return error_field(err, field, "%s: expected KEY=VALUE, got \"%.64s\"", field, entry);
    if (eq == entry)
        return error_field(err, field, "%s: the name before '=' is empty", field);
    return 0;
}

/* Length of the well-formed sequence at p, 0 if malformed, -1 if it is cut short by the end. */
static int utf8_sequence(const uint8_t *p, size_t len)
{
    uint8_t c = p[0], lo = 0x80, hi = 0xbf;
    int need;
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        need = 1;
    else if (c >= 0xe0 && c <= 0xef)
        need = 2;
    else if (c >= 0xf0 && c <= 0xf4)
        need = 3;
    else
        return 0;
    if (c == 0xe0)
        lo = 0xa0;
    else if (c == 0xed)
        hi = 0x9f;
    else if (c == 0xf0)
        lo = 0x90;
    else if (c == 0xf4)
        hi = 0x8f;
    for (int i = 1; i <= need; i++, lo = 0x80, hi = 0xbf) {
        if ((size_t)i >= len)
            return -1;
        if (p[i] < lo || p[i] > hi)
            return 0;
    }
    return need + 1;
}

bool utf8_valid(const void *data, size_t len)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < len;) {
        int n = utf8_sequence(p + i, len - i);
        if (n <= 0)
            return false;
        i += (size_t)n;
    }
    return true;
}

size_t utf8_whole_prefix(const void *data, size_t len)
{
    const uint8_t *p = data;
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        uint8_t c = p[len - back];
        if (c < 0x80)
            break;
        if (c >= 0xc0)
            return utf8_sequence(p + len - back, back) < 0 ? len - back : len;
    }
    return len;
}
