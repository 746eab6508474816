#include "base/ustar.h"

#include <stdio.h>
#include <string.h>

unsigned ustar_padding(uint64_t size)
{
    return (unsigned)(-size % USTAR_BLOCK);
}

/* ---- writing ---- */

void ustar_put_number(char *field, size_t width, uint64_t value)
{
    char text[24];
    bool fits = value >> (3 * (width - 1)) == 0;
    snprintf(text, sizeof text, "%0*llo", (int)width - 1, fits ? (unsigned long long)value : 0);
    memcpy(field, text, width);
}

void ustar_put_text(char *field, size_t width, const char *text)
{
    memcpy(field, text, strnlen(text, width));
}

void ustar_init(struct ustar *h, const char *name, char type, uint64_t size)
{
    *h = (struct ustar){.type = type, .magic = "ustar", .version = {'0', '0'}};
    ustar_put_text(h->name, sizeof h->name, name);
    ustar_put_number(h->mode, sizeof h->mode, 0644);
    ustar_put_number(h->uid, sizeof h->uid, 0);
    ustar_put_number(h->gid, sizeof h->gid, 0);
    ustar_put_number(h->size, sizeof h->size, size);
    ustar_put_number(h->mtime, sizeof h->mtime, 0);
}

/* The sum of all bytes, those of the checksum taken as spaces. */
static void sums(const struct ustar *h, unsigned *ret, int *ret_signed)
{
    const uint8_t *block = (const uint8_t *)h;
    size_t from = offsetof(struct ustar, checksum), to = from + sizeof h->checksum;
    *ret = 0;
    *ret_signed = 0;
    for (size_t i = 0; i < USTAR_BLOCK; i++) {
        uint8_t c = i >= from && i < to ? ' ' : block[i];
        *ret += c;
        *ret_signed += (int8_t)c;
    }
}

void ustar_seal(struct ustar *h)
{
    unsigned sum;
    int unused;
    sums(h, &sum, &unused);
    ustar_put_number(h->checksum, 7, sum);
    h->checksum[7] = ' ';
}

/* "<length> key=value\n", where the length counts itself. */
void pax_put(struct buf *b, const char *key, const void *value, size_t len)
{
    size_t rest = strlen(key) + len + 3, whole = rest + 1; /* ' ', '=', '\n' */
    char digits[24];
    while ((size_t)snprintf(digits, sizeof digits, "%zu", whole) + rest != whole)
        whole = rest + strlen(digits);
    buf_append_str(b, digits);
    buf_append_str(b, " ");
    buf_append_str(b, key);
    buf_append_str(b, "=");
    buf_append(b, value, len);
    buf_append_str(b, "\n");
}

void pax_put_text(struct buf *b, const char *key, const char *value)
{
    pax_put(b, key, value, strlen(value));
}

void pax_put_number(struct buf *b, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    pax_put_text(b, key, text);
}

void pax_put_time(struct buf *b, const char *key, const struct timespec *value)
{
    /* A negative time is written as its distance from zero: -0.25 is second -1, nanosecond 750000000. */
    long long seconds = value->tv_sec;
    long nanoseconds = value->tv_nsec;
    const char *sign = "";
    if (seconds < 0) {
        sign = "-";
        seconds = nanoseconds ? -(seconds + 1) : -seconds;
        nanoseconds = nanoseconds ? 1000000000 - nanoseconds : 0;
    }
    char text[48];
    snprintf(text, sizeof text, "%s%lld.%09ld", sign, seconds, nanoseconds);
    pax_put_text(b, key, text);
}

void pax_put_header(struct buf *b, const struct buf *records)
{
    static const char zeros[USTAR_BLOCK];
    struct ustar h;
    if (records->failed)
        b->failed = true;
    if (records->len == 0)
        return;
    ustar_init(&h, "PaxHeaders/x", 'x', records->len);
    ustar_seal(&h);
    buf_append(b, &h, sizeof h);
    buf_append(b, records->data, records->len);
    buf_append(b, zeros, ustar_padding(records->len));
}

/* ---- reading ---- */

bool ustar_is_empty(const struct ustar *h)
{
    const uint8_t *block = (const uint8_t *)h;
    for (size_t i = 0; i < USTAR_BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

bool ustar_is_sealed(const struct ustar *h)
{
    uint64_t stated;
    unsigned sum;
    int signed_sum;
    if (!ustar_number(h->checksum, sizeof h->checksum, &stated))
        return false;
    sums(h, &sum, &signed_sum);
    return stated == sum || (signed_sum >= 0 && stated == (uint64_t)signed_sum);
}

static bool base256(const uint8_t *p, size_t width, uint64_t *ret)
{
    uint64_t v = 0;
    if (p[0] != 0x80)
        return false; /* negative or absurdly large */
    for (size_t i = 1; i < width; i++) {
        if (v >> 55)
            return false;
        v = v << 8 | p[i];
    }
    *ret = v;
    return true;
}

bool ustar_number(const char *field, size_t width, uint64_t *ret)
{
    uint64_t v = 0;
    size_t i = 0;
    if ((uint8_t)field[0] & 0x80)
        return base256((const uint8_t *)field, width, ret);
    while (i < width && field[i] == ' ')
        i++;
    for (; i < width && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(field[i] - '0'); /* 12 digits at most: no overflow */
    for (; i < width; i++)
        if (field[i] != ' ' && field[i] != '\0')
            return false;
    *ret = v;
    return true;
}

size_t ustar_name(const struct ustar *h, char ret[USTAR_NAME_MAX])
{
    size_t len = 0;
    if (memcmp(h->magic, "ustar", sizeof "ustar") == 0 && h->prefix[0]) {
        len = strnlen(h->prefix, sizeof h->prefix);
        memcpy(ret, h->prefix, len);
        ret[len++] = '/';
    }
    size_t name = strnlen(h->name, sizeof h->name);
    memcpy(ret + len, h->name, name);
    ret[len + name] = '\0';
    return len + name;
}

static bool decimal(const char *p, size_t len, uint64_t *ret)
{
    uint64_t v = 0;
    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    *ret = v;
    return true;
}

int pax_next(const char **p, size_t *left, struct pax_record *ret)
{
    uint64_t len;
    if (*left == 0)
        return 0;
    const char *space = memchr(*p, ' ', *left < 20 ? *left : 20);
    if (!space || !decimal(*p, (size_t)(space - *p), &len) || len > *left || len < (size_t)(space - *p) + 3 ||
        (*p)[len - 1] != '\n')
        return -1;
    const char *key = space + 1, *end = *p + len - 1;
    const char *equals = memchr(key, '=', (size_t)(end - key));
    if (!equals)
        return -1;
    *ret = (struct pax_record){key, equals + 1, (size_t)(equals - key), (size_t)(end - equals - 1)};
    *p += len;
    *left -= (size_t)len;
    return 1;
}

bool pax_key_is(const struct pax_record *r, const char *key)
{
    return r->key_len == strlen(key) && memcmp(r->key, key, r->key_len) == 0;
}

bool pax_number(const struct pax_record *r, uint64_t *ret)
{
    return decimal(r->value, r->len, ret);
}

bool pax_time(const struct pax_record *r, struct timespec *ret)
{
    const char *p = r->value;
    size_t len = r->len;
    bool negative = len > 0 && *p == '-';
    if (negative)
        p++, len--;
    const char *dot = memchr(p, '.', len);
    size_t whole = dot ? (size_t)(dot - p) : len;
    uint64_t seconds;
    long nanoseconds = 0;
    if (!decimal(p, whole, &seconds) || seconds > USTAR_MAX_SECONDS)
        return false;
    long unit = 100000000;
    for (size_t i = whole + 1; i < len; i++, unit /= 10) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        nanoseconds += (p[i] - '0') * unit;
    }
    ret->tv_sec = negative ? -(time_t)seconds : (time_t)seconds;
    ret->tv_nsec = nanoseconds;
    if (negative && nanoseconds) {
        ret->tv_sec--;
        ret->tv_nsec = 1000000000 - nanoseconds;
    }
    return true;
}
