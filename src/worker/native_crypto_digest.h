/* Hashes, HMAC and the functions that derive keys with them. */
#ifndef CLOISTER_WORKER_NATIVE_CRYPTO_DIGEST_H
#define CLOISTER_WORKER_NATIVE_CRYPTO_DIGEST_H

#include "worker/native_crypto_key.h"

/* The values are those of js/src/crypto/natives.d.ts. */
enum crypto_hash {
    CRYPTO_MD5 = 0,
    CRYPTO_SHA1 = 1,
    CRYPTO_SHA224 = 2,
    CRYPTO_SHA256 = 3,
    CRYPTO_SHA384 = 4,
    CRYPTO_SHA512 = 5,
};
#define CRYPTO_HASHES 6

#define CRYPTO_DERIVE_MAX (1u << 20) /* bytes that one call of HKDF, PBKDF2 or scrypt makes */
/* Rounds of PBKDF2 that one call runs in all its blocks: it cannot be interrupted, so it must end within
 * seconds. */
#define CRYPTO_PBKDF2_ROUNDS_MAX 10000000u
#define CRYPTO_SCRYPT_MEMORY_MAX (64u << 20)

/* Finds the implementations, so that no later call looks for them: once in a process, before anything else of
 * this file. NULL-safe: where libcrypto lacks one, its use fails. */
void crypto_digest_init(void);
/* NULL: libcrypto has no such hash. Static. */
const EVP_MD *crypto_md(enum crypto_hash hash);
size_t crypto_hash_bytes(enum crypto_hash hash);

/* A hash or an HMAC in the making. */
struct crypto_digest;

/* key NULL: a plain hash. */
struct crypto_digest *crypto_digest_new(enum crypto_hash hash, const struct crypto_bytes *key,
                                        struct error *err);
struct crypto_digest *crypto_digest_copy(const struct crypto_digest *digest, struct error *err);
int crypto_digest_update(struct crypto_digest *digest, const uint8_t *data, size_t size, struct error *err);
/* Ends it: what comes later fails with ERROR_STATE. `out` has room for EVP_MAX_MD_SIZE; returns the bytes
 * used. */
int crypto_digest_finish(struct crypto_digest *digest, uint8_t *out, struct error *err);
void crypto_digest_free(struct crypto_digest *digest);

int crypto_hash(enum crypto_hash hash, const uint8_t *data, size_t size, uint8_t *out, struct error *err);
int crypto_hmac(enum crypto_hash hash, struct crypto_bytes key, const uint8_t *data, size_t size,
                uint8_t *out, struct error *err);

int crypto_hkdf(enum crypto_hash hash, struct crypto_bytes secret, struct crypto_bytes salt,
                struct crypto_bytes info, size_t size, struct crypto_buffer *out, struct error *err);
int crypto_pbkdf2(enum crypto_hash hash, struct crypto_bytes password, struct crypto_bytes salt,
                  uint32_t rounds, size_t size, struct crypto_buffer *out, struct error *err);
/* n is a power of two; the memory is 128 * n * r bytes and more. */
int crypto_scrypt(struct crypto_bytes password, struct crypto_bytes salt, uint64_t n, uint64_t r, uint64_t p,
                  uint64_t memory, size_t size, struct crypto_buffer *out, struct error *err);

#endif
