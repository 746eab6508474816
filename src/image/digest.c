#include "image/digest.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int digest_parse(const char *text, const char *what, struct digest *ret, struct error *err)
{
    bool sha512 = !strncmp(text, "sha512:", 7);
    if (!sha512 && strncmp(text, "sha256:", 7) != 0)
        return error_set(err, ERROR_INVALID, "%s \"%.40s\" is neither a sha256 nor a sha512 digest", what,
                         text);
    size_t want = sha512 ? 128 : 64;
    if (strlen(text + 7) != want || strspn(text + 7, "0123456789abcdef") != want)
        return error_set(err, ERROR_INVALID, "%s \"%.40s\" does not have %zu lower-case hex digits", what,
                         text, want);
    snprintf(ret->text, sizeof ret->text, "%s", text);
    ret->hex = ret->text + 7;
    ret->sha512 = sha512;
    return 0;
}

void hasher_init(struct hasher *h, bool with256, bool with512)
{
    h->with256 = with256;
    h->with512 = with512;
    sha256_init(&h->c256);
    sha512_init(&h->c512);
}

void hasher_update(struct hasher *h, const void *data, size_t len)
{
    if (h->with256)
        sha256_update(&h->c256, len, data);
    if (h->with512)
        sha512_update(&h->c512, len, data);
}

static void to_hex(const uint8_t *raw, size_t n, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[raw[i] >> 4];
        ret[2 * i + 1] = digits[raw[i] & 15];
    }
    ret[2 * n] = '\0';
}

void hasher_finish(struct hasher *h, char ret256[65], char ret512[129])
{
    uint8_t raw[SHA512_DIGEST_SIZE];
    ret256[0] = ret512[0] = '\0';
    if (h->with256) {
        sha256_digest(&h->c256, SHA256_DIGEST_SIZE, raw);
        to_hex(raw, SHA256_DIGEST_SIZE, ret256);
    }
    if (h->with512) {
        sha512_digest(&h->c512, SHA512_DIGEST_SIZE, raw);
        to_hex(raw, SHA512_DIGEST_SIZE, ret512);
    }
}

void digest_sha256_hex(const void *data, size_t len, char ret[65])
{
    struct sha256_ctx c;
    uint8_t raw[SHA256_DIGEST_SIZE];
    sha256_init(&c);
    sha256_update(&c, len, data);
    sha256_digest(&c, sizeof raw, raw);
    to_hex(raw, sizeof raw, ret);
}

bool digest_matches(const struct digest *d, const void *data, size_t len)
{
    struct hasher h;
    char h256[65], h512[129];
    hasher_init(&h, !d->sha512, d->sha512);
    hasher_update(&h, data, len);
    hasher_finish(&h, h256, h512);
    return !strcmp(d->hex, d->sha512 ? h512 : h256);
}
