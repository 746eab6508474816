#include "worker/unicode.h"

#include <string.h>

bool unicode_is_plain(const uint8_t *bytes, size_t len)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t v;
        memcpy(&v, bytes + i, 8);
        /* a high bit, or a borrow out of a zero byte */
        if ((v | (v - ones)) & highs)
            return false;
    }
    for (; i < len; i++)
        if (bytes[i] == 0 || bytes[i] >= 0x80)
            return false;
    return true;
}

bool unicode_is_ascii(const uint8_t *bytes, size_t len)
{
    uint64_t all = 0;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t v;
        memcpy(&v, bytes + i, 8);
        all |= v;
    }
    for (; i < len; i++)
        all |= bytes[i];
    return !(all & 0x8080808080808080u);
}

struct lead {
    unsigned extra;          /* continuation bytes that follow */
    uint8_t lowest, highest; /* of the first of them */
    uint32_t bits;
};

static struct lead lead_of(uint8_t b)
{
    if (b >= 0xc2 && b <= 0xdf)
        return (struct lead){1, 0x80, 0xbf, b & 0x1fu};
    if (b >= 0xe0 && b <= 0xef)
        return (struct lead){2, b == 0xe0 ? 0xa0 : 0x80, b == 0xed ? 0x9f : 0xbf, b & 0x0fu};
    if (b >= 0xf0 && b <= 0xf4)
        return (struct lead){3, b == 0xf0 ? 0x90 : 0x80, b == 0xf4 ? 0x8f : 0xbf, b & 0x07u};
    return (struct lead){0};
}

/* One character that is not ASCII. Bytes used (at least 1); *ret is U+FFFD when they are malformed. */
static size_t decode_one(const uint8_t *p, size_t len, uint32_t *ret, bool *malformed)
{
    struct lead lead = lead_of(*p);
    size_t used = 1;
    uint32_t c = lead.bits;
    for (unsigned i = 0; i < lead.extra; i++, used++) {
        uint8_t low = i ? 0x80 : lead.lowest, high = i ? 0xbf : lead.highest;
        if (used == len || p[used] < low || p[used] > high)
            break;
        c = c << 6 | (p[used] & 0x3fu);
    }
    if (lead.extra == 0 || used != lead.extra + 1) {
        *malformed = true;
        c = 0xfffd;
    }
    *ret = c;
    return used;
}

size_t unicode_utf16_from_utf8(uint16_t *to, const uint8_t *bytes, size_t len, bool *ret_malformed)
{
    bool malformed = false;
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        if (bytes[i] < 0x80) {
            to[n++] = bytes[i++];
            continue;
        }
        uint32_t c;
        i += decode_one(bytes + i, len - i, &c, &malformed);
        if (c >= 0x10000) {
            to[n++] = (uint16_t)(0xd7c0 + (c >> 10));
            to[n++] = (uint16_t)(0xdc00 | (c & 0x3ff));
        } else {
            to[n++] = (uint16_t)c;
        }
    }
    if (ret_malformed)
        *ret_malformed = malformed;
    return n;
}

static size_t put_utf8(uint8_t *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (uint8_t)(0xc0 | c >> 6);
        to[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (uint8_t)(0xe0 | c >> 12);
        to[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        to[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (uint8_t)(0xf0 | c >> 18);
    to[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    to[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    to[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

size_t unicode_utf8_from_utf16(uint8_t *to, const uint16_t *units, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t c = units[i];
        if (c >= 0xd800 && c <= 0xdbff && i + 1 < len && units[i + 1] >= 0xdc00 && units[i + 1] <= 0xdfff)
            c = 0x10000 + ((c - 0xd800) << 10 | (units[++i] - 0xdc00u));
        else if (c >= 0xd800 && c <= 0xdfff)
            c = 0xfffd;
        n += put_utf8(to + n, c);
    }
    return n;
}
