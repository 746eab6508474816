#include "worker/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode_to(char *to, const uint8_t *bytes, size_t len)
{
    char *p = to;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t v = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (left > 2 ? bytes[i + 2] : 0u);
        *p++ = alphabet[v >> 18];
        *p++ = alphabet[v >> 12 & 63];
        *p++ = left > 1 ? alphabet[v >> 6 & 63] : '=';
        *p++ = left > 2 ? alphabet[v & 63] : '=';
    }
    return (size_t)(p - to);
}

static int digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
}

static size_t without_spaces(uint8_t *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        if (!is_space(text[i]))
            text[n++] = text[i];
    return n;
}

bool base64_decode_in_place(uint8_t *text, size_t len, size_t *ret_len)
{
    len = without_spaces(text, len);
    if (len % 4 == 0 && len > 0 && text[len - 1] == '=')
        len -= text[len - 2] == '=' ? 2 : 1;
    if (len % 4 == 1)
        return false;
    size_t n = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < len; i++) {
        int d = digit(text[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 == 3) {
            text[n++] = (uint8_t)(bits >> 16);
            text[n++] = (uint8_t)(bits >> 8);
            text[n++] = (uint8_t)bits;
            bits = 0;
        }
    }
    if (len % 4 == 2)
        text[n++] = (uint8_t)(bits >> 4);
    if (len % 4 == 3) {
        text[n++] = (uint8_t)(bits >> 10);
        text[n++] = (uint8_t)(bits >> 2);
    }
    *ret_len = n;
    return true;
}
