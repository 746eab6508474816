/* Digests as OCI writes them: "sha256:<hex>" or "sha512:<hex>". */
#ifndef CLOISTER_IMAGE_DIGEST_H
#define CLOISTER_IMAGE_DIGEST_H

#include "base/error.h"

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>

#define DIGEST_TEXT_MAX (7 + 128 + 1)

/* A digest as text, checked: algorithm known, right number of lower-case hex digits. */
struct digest {
    char text[DIGEST_TEXT_MAX]; /* "" when none */
    const char *hex;            /* inside text */
    bool sha512;
};
int digest_parse(const char *text, const char *what, struct digest *ret, struct error *err);

/* Hashes in one or both algorithms. */
struct hasher {
    bool with256, with512;
    struct sha256_ctx c256;
    struct sha512_ctx c512;
};
void hasher_init(struct hasher *h, bool with256, bool with512);
void hasher_update(struct hasher *h, const void *data, size_t len);
/* Fills those wanted; the others become "". */
void hasher_finish(struct hasher *h, char ret256[65], char ret512[129]);

void digest_sha256_hex(const void *data, size_t len, char ret[65]);
/* Whether the bytes have this digest. */
bool digest_matches(const struct digest *d, const void *data, size_t len);

#endif
