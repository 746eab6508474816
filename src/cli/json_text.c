#include "cli/json_text.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/message.h"

#include <string.h>

static char *base64(const uint8_t *p, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((len + 2) / 3 * 4 + 1), *to = text;
    for (size_t i = 0; text && i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t v = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
        *to++ = digits[v >> 18];
        *to++ = digits[v >> 12 & 63];
        *to++ = n > 1 ? digits[v >> 6 & 63] : '=';
        *to++ = n > 2 ? digits[v & 63] : '=';
    }
    if (text)
        *to = '\0';
    return text;
}

/* Length of the text in `b`, less a character that the cut has halved; 0 with *ret_binary when it is none. */
static size_t text_length(const struct buf *b, bool cut, bool *ret_binary)
{
    size_t len = cut ? utf8_whole_prefix(b->data, b->len) : b->len;
    if (len && !utf8_valid(b->data, len))
        *ret_binary = true;
    return len;
}

static void add_stream(json_t *to, const char *name, const struct buf *b, uint64_t bytes, size_t text_len,
                       bool binary)
{
    char key[32];
    bool cut = bytes > b->len;
    if (binary) {
        cleanup_free char *text = base64(b->data, b->len);
        json_object_set_new(to, name, text ? json_string(text) : json_null());
    } else {
        json_object_set_new(to, name, json_stringn(b->data ? (const char *)b->data : "", text_len));
    }
    snprintf(key, sizeof key, "%sTruncated", name);
    json_object_set_new(to, key, json_boolean(cut));
    snprintf(key, sizeof key, "%sBytes", name);
    json_object_set_new(to, key, json_integer((json_int_t)bytes));
}

void json_text_output(json_t *to, const struct buf *out, uint64_t out_bytes, const struct buf *err,
                      uint64_t err_bytes)
{
    bool binary = false;
    size_t out_len = text_length(out, out_bytes > out->len, &binary);
    size_t err_len = text_length(err, err_bytes > err->len, &binary);
    add_stream(to, "stdout", out, out_bytes, out_len, binary);
    add_stream(to, "stderr", err, err_bytes, err_len, binary);
    json_object_set_new(to, "encoding", json_string(binary ? "base64" : "utf-8"));
}

void json_text_error(const struct error *err)
{
    /* A message may hold bytes of a file name that are no UTF-8: those are shown as '?'. */
    char text[sizeof err->message];
    snprintf(text, sizeof text, "%s", err->message);
    for (size_t i = 0; !utf8_valid(text, strlen(text)) && text[i]; i++)
        if ((unsigned char)text[i] >= 0x80)
            text[i] = '?';
    json_t *e = json_pack("{s:s, s:s}", "code", error_code(err), "message", text);
    if (e && err->field[0])
        json_object_set_new(e, "field", json_string(err->field));
    json_text_print(json_pack("{s:o}", "error", e));
}

int json_text_print(json_t *j)
{
    int failed = !j || json_dumpf(j, stdout, JSON_COMPACT) < 0;
    json_decref(j);
    putchar('\n');
    return !stdout_complete() || failed ? -1 : 0;
}
