/* A reader for the little DER that keys are made of (SubjectPublicKeyInfo, PrivateKeyInfo and what they
 * hold).
 *
 * Strict: definite lengths in their shortest form, one-byte tags, contents that end where they say. It never
 * allocates; what it hands out points into the input. */
#ifndef CLOISTER_WORKER_NATIVE_CRYPTO_DER_H
#define CLOISTER_WORKER_NATIVE_CRYPTO_DER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum der_tag {
    DER_INTEGER = 0x02,
    DER_BIT_STRING = 0x03,
    DER_OCTET_STRING = 0x04,
    DER_NULL = 0x05,
    DER_OID = 0x06,
    DER_SEQUENCE = 0x30,
    DER_CONTEXT_0 = 0xa0, /* constructed */
    DER_CONTEXT_1 = 0xa1,
};

struct der {
    const uint8_t *at;
    size_t left;
};

/* Takes the next element, which must have `tag`; `content` becomes what is in it. False: it is not there, or
 * is malformed; `in` is then undefined. */
bool der_take(struct der *in, enum der_tag tag, struct der *content);
/* Is the next element's tag this one? */
bool der_is_next(const struct der *in, enum der_tag tag);
/* The same for an INTEGER that is not negative: `magnitude` is without leading zeros (empty for 0). */
bool der_take_unsigned(struct der *in, struct der *magnitude);
/* The same for a BIT STRING of whole bytes. */
bool der_take_bits(struct der *in, struct der *content);
/* Passes over the next element, whatever it is. */
bool der_skip(struct der *in);
bool der_equals(const struct der *content, const void *bytes, size_t size);

#endif
