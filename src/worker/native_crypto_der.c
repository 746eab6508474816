#include "worker/native_crypto_der.h"

#include <string.h>

bool der_is_next(const struct der *in, enum der_tag tag)
{
    return in->left > 0 && in->at[0] == (uint8_t)tag;
}

/* UNTRUSTED INPUT: `in` is what a guest gave as a key. */
static bool take_any(struct der *in, struct der *content)
{
    if (in->left < 2 || (in->at[0] & 0x1f) == 0x1f)
        return false;
    const uint8_t *at = in->at + 1;
    size_t left = in->left - 1;
    size_t length = *at++;
    left--;
    if (length >= 0x80) {
        size_t count = length & 0x7f;
        if (count == 0 || count > 3 || count > left || at[0] == 0)
            return false;
        length = 0;
        for (size_t i = 0; i < count; i++)
            length = length << 8 | at[i];
        if (length < 0x80)
            return false;
        at += count;
        left -= count;
    }
    if (length > left)
        return false;
    *content = (struct der){at, length};
    *in = (struct der){at + length, left - length};
    return true;
}

bool der_take(struct der *in, enum der_tag tag, struct der *content)
{
    return der_is_next(in, tag) && take_any(in, content);
}

bool der_take_unsigned(struct der *in, struct der *magnitude)
{
    struct der content;
    if (!der_take(in, DER_INTEGER, &content) || content.left == 0 || content.at[0] & 0x80)
        return false;
    if (content.at[0] == 0) {
        if (content.left > 1 && !(content.at[1] & 0x80))
            return false; /* not the shortest form */
        content.at++;
        content.left--;
    }
    *magnitude = content;
    return true;
}

bool der_take_bits(struct der *in, struct der *content)
{
    if (!der_take(in, DER_BIT_STRING, content) || content->left == 0 || content->at[0] != 0)
        return false;
    content->at++;
    content->left--;
    return true;
}

bool der_skip(struct der *in)
{
    struct der content;
    return take_any(in, &content);
}

bool der_equals(const struct der *content, const void *bytes, size_t size)
{
    return content->left == size && memcmp(content->at, bytes, size) == 0;
}
