/* Keys of the crypto natives: imported from what a guest gives, generated, and exported again.
 *
 * Errors tell apart whose fault it is: ERROR_INVALID means that the bytes are no such key, ERROR_UNSUPPORTED
 * that the kind of key is not offered, everything else that the operation failed. Secrets are wiped when they
 * are freed. */
#ifndef CLOISTER_WORKER_NATIVE_CRYPTO_KEY_H
#define CLOISTER_WORKER_NATIVE_CRYPTO_KEY_H

#include "base/error.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values are those of js/src/crypto/natives.d.ts. */
enum crypto_kind {
    CRYPTO_SECRET = 0, /* bytes: AES, HMAC, HKDF, PBKDF2 */
    CRYPTO_RSA = 1,
    CRYPTO_P256 = 2,
    CRYPTO_P384 = 3,
    CRYPTO_P521 = 4,
    CRYPTO_ED25519 = 5,
    CRYPTO_X25519 = 6,
};
#define CRYPTO_KINDS 7

enum crypto_format {
    CRYPTO_RAW = 0,
    CRYPTO_SPKI = 1,
    CRYPTO_PKCS8 = 2,
};

#define CRYPTO_KEY_BYTES_MAX (64u << 10) /* of an encoded key, and of a secret */
#define CRYPTO_RSA_BITS_MIN 512u         /* what libcrypto generates and signs with */
#define CRYPTO_RSA_BITS_MAX                                                                                  \
    8192u /* an operation takes time with the cube of it, and cannot be interrupted                          \
           */

/* The numbers of a JSON Web Key, in this order; absent ones have data NULL.
 * RSA: n e d p q dp dq qi. EC: x y d. Ed25519, X25519: x d. */
#define CRYPTO_PARTS_MAX 8

struct crypto_bytes {
    const uint8_t *data; /* NULL: absent */
    size_t size;
};

/* Bytes that the receiver owns and frees with crypto_buffer_free(). */
struct crypto_buffer {
    uint8_t *data;
    size_t size;
};

struct crypto_key;

bool crypto_buffer_alloc(struct crypto_buffer *buffer, size_t size, struct error *err);
/* Wipes and frees. */
void crypto_buffer_free(struct crypto_buffer *buffer);

struct crypto_key *crypto_key_secret(const uint8_t *data, size_t size, struct error *err);
/* RAW takes a public key of an elliptic curve (compressed points too), SPKI a public, PKCS8 a private key. */
struct crypto_key *crypto_key_import(enum crypto_format format, enum crypto_kind kind, const uint8_t *data,
                                     size_t size, struct error *err);
/* Private when `d` is there. */
struct crypto_key *crypto_key_from_parts(enum crypto_kind kind, const struct crypto_bytes *parts,
                                         size_t count, struct error *err);
/* bits and exponent are RSA's; the exponent is 3 or larger and odd. */
struct crypto_key *crypto_key_generate(enum crypto_kind kind, uint32_t bits, uint64_t exponent,
                                       struct error *err);
/* A new key that is the public half. */
struct crypto_key *crypto_key_public(const struct crypto_key *key, struct error *err);
void crypto_key_free(struct crypto_key *key);

int crypto_key_export(const struct crypto_key *key, enum crypto_format format, struct crypto_buffer *out,
                      struct error *err);
/* Fills the first parts (see above); those of a private key only where the key is one. Returns how many. */
int crypto_key_parts(const struct crypto_key *key, struct crypto_buffer parts[CRYPTO_PARTS_MAX],
                     struct error *err);

enum crypto_kind crypto_key_kind(const struct crypto_key *key);
bool crypto_key_is_private(const struct crypto_key *key);
/* Of the modulus, of the field, or of the secret. */
uint32_t crypto_key_bits(const struct crypto_key *key);
/* The secret's bytes; size 0 for other kinds. Valid while the key lives, never NULL. */
struct crypto_bytes crypto_key_bytes(const struct crypto_key *key);
/* NULL for a secret. Owned by the key. */
EVP_PKEY *crypto_key_pkey(const struct crypto_key *key);
/* Bytes of a coordinate of the curve; 0 where the kind is no NIST curve. */
size_t crypto_kind_field(enum crypto_kind kind);

/* Sets an error of the given kind with what libcrypto last complained about, and empties its queue. Returns
 * -1. */
int crypto_failed(struct error *err, enum error_kind kind, const char *what);

#endif
