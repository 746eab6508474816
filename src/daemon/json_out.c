#include "daemon/json_out.h"

#include <string.h>

void json_comma(struct buf *b)
{
    uint8_t last = b->len ? b->data[b->len - 1] : '[';
    if (last != '{' && last != '[' && last != ':' && last != ',' && last != '\n')
        buf_append(b, ",", 1);
}

void json_open(struct buf *b, char bracket)
{
    json_comma(b);
    buf_append(b, &bracket, 1);
}

void json_close(struct buf *b, char bracket)
{
    buf_append(b, &bracket, 1);
}

void json_key(struct buf *b, const char *key)
{
    json_comma(b);
    buf_append(b, "\"", 1);
    buf_append_str(b, key); /* keys are ours: nothing to escape */
    buf_append(b, "\":", 2);
}

size_t utf8_step(const uint8_t *p, size_t len)
{
    uint8_t c = p[0];
    if (c < 0x80)
        return 1;
    size_t need = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    if (c < 0xc2 || c > 0xf4 || len <= need)
        return 0;
    uint8_t lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    uint8_t hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i <= need; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return need + 1;
}

static void put_escape(struct buf *b, uint8_t c)
{
    static const char hex[] = "0123456789abcdef";
    static const char *const names = "\bb\tt\nn\ff\rr\"\"\\\\";
    for (const char *p = names; *p; p += 2)
        if ((uint8_t)*p == c) {
            buf_append(b, (char[]){'\\', p[1]}, 2);
            return;
        }
    buf_append(b, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

void json_text(struct buf *b, const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t run = 0;
    buf_append(b, "\"", 1);
    for (size_t i = 0; i < len;) {
        uint8_t c = p[i];
        size_t n = c < 0x80 ? 1 : utf8_step(p + i, len - i);
        if (n > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            i += n;
            continue;
        }
        buf_append(b, p + run, i - run);
        if (n == 0)
            buf_append(b, "\xef\xbf\xbd", 3);
        else
            put_escape(b, c);
        run = ++i;
    }
    buf_append(b, p + run, len - run);
    buf_append(b, "\"", 1);
}

void json_base64(struct buf *b, const void *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = data;
    size_t out = (len + 2) / 3 * 4;
    uint8_t *to = buf_reserve(b, out + 2);
    if (!to)
        return;
    *to++ = '"';
    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i;
        uint32_t v =
            (uint32_t)p[i] << 16 | (have > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (have > 2 ? p[i + 2] : 0u);
        *to++ = (uint8_t)digits[v >> 18];
        *to++ = (uint8_t)digits[v >> 12 & 63];
        *to++ = have > 1 ? (uint8_t)digits[v >> 6 & 63] : '=';
        *to++ = have > 2 ? (uint8_t)digits[v & 63] : '=';
    }
    *to = '"';
    buf_commit(b, out + 2);
}

void json_put_str(struct buf *b, const char *key, const char *value)
{
    json_key(b, key);
    if (value)
        json_text(b, value, strlen(value));
    else
        buf_append(b, "null", 4);
}

void json_put_u64(struct buf *b, const char *key, uint64_t value)
{
    json_key(b, key);
    buf_printf(b, "%llu", (unsigned long long)value);
}

void json_put_i64(struct buf *b, const char *key, int64_t value)
{
    json_key(b, key);
    buf_printf(b, "%lld", (long long)value);
}

void json_put_bool(struct buf *b, const char *key, bool value)
{
    json_key(b, key);
    buf_append_str(b, value ? "true" : "false");
}

void json_put_milli(struct buf *b, const char *key, uint64_t value)
{
    json_key(b, key);
    buf_printf(b, "%llu", (unsigned long long)(value / 1000));
    if (value % 1000)
        buf_printf(b, ".%03u", (unsigned)(value % 1000));
}

void json_put_strv(struct buf *b, const char *key, char *const *strv)
{
    json_key(b, key);
    json_open(b, '[');
    for (; strv && *strv; strv++) {
        json_comma(b);
        json_text(b, *strv, strlen(*strv));
    }
    json_close(b, ']');
}

void json_put_error(struct buf *b, const char *key, const struct error *err)
{
    json_key(b, key);
    json_open(b, '{');
    json_put_str(b, "code", error_code(err));
    json_put_str(b, "message", err->message);
    if (err->field[0])
        json_put_str(b, "field", err->field);
    json_close(b, '}');
}
