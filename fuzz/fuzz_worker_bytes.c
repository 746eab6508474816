/* What reaches the C side of a worker from others: the bytes of a channel, in pieces, and text in UTF-8 and
 * base64. The first byte chooses, the second is the size of the pieces. */
#include "worker/base64.h"
#include "worker/channel_reader.h"
#include "worker/unicode.h"

#include "base/parse.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* The messages, however the bytes are cut, are what the lengths say. */
static void read_channel(const uint8_t *data, size_t len, size_t piece)
{
    struct channel_reader r = {0};
    size_t taken = 0, at = 0;
    for (size_t from = 0; from < len; from += piece) {
        const uint8_t *p = data + from;
        size_t left = len - from < piece ? len - from : piece, message_len;
        uint8_t *message;
        while (channel_reader_take(&r, &p, &left, &message, &message_len)) {
            check(at + 4 + message_len <= len);
            check(memcmp(message, data + at + 4, message_len) == 0);
            at += 4 + message_len;
            taken++;
            free(message);
        }
        check(r.broken || left == 0);
    }
    check(taken <= len / 4);
    channel_reader_free(&r);
}

static void convert_text(const uint8_t *data, size_t len)
{
    bool malformed;
    uint16_t *units = malloc((len + 1) * sizeof *units);
    size_t count = unicode_utf16_from_utf8(units, data, len, &malformed);
    check(count <= len && malformed == !utf8_valid(data, len));
    uint8_t *back = malloc(3 * count + 1);
    size_t back_len = unicode_utf8_from_utf16(back, units, count);
    check(utf8_valid(back, back_len));
    check(malformed || (back_len == len && memcmp(back, data, len) == 0));
    check(!unicode_is_plain(data, len) || unicode_is_ascii(data, len));
    free(back);
    /* any units, lone surrogates among them */
    back = malloc(3 * (len / 2) + 1);
    memcpy(units, data, len / 2 * 2);
    check(utf8_valid(back, unicode_utf8_from_utf16(back, units, len / 2)));
    free(back);
    free(units);
}

static void convert_base64(const uint8_t *data, size_t len)
{
    char *text = malloc(base64_encoded_size(len) + 1);
    size_t text_len = base64_encode_to(text, data, len), out_len;
    check(text_len == base64_encoded_size(len));
    check(base64_decode_in_place((uint8_t *)text, text_len, &out_len));
    check(out_len == len && memcmp(text, data, len) == 0);
    free(text);
    uint8_t *raw = malloc(len + 1);
    memcpy(raw, data, len);
    check(!base64_decode_in_place(raw, len, &out_len) || out_len <= len);
    free(raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 2)
        return 0;
    /* a copy of exactly this size, so that a read beyond it is seen */
    size_t body_len = len - 2;
    uint8_t *body = malloc(body_len + !body_len);
    memcpy(body, data + 2, body_len);
    if (data[0] % 3 == 0)
        read_channel(body, body_len, data[1] + 1u);
    else if (data[0] % 3 == 1)
        convert_text(body, body_len);
    else
        convert_base64(body, body_len);
    free(body);
    return 0;
}
