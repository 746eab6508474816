/* What asymmetric keys do: signatures, RSA-OAEP, agreement. Whether a key is of the right kind and private is
 * checked here (ERROR_INVALID); which algorithm a key may be used with is the library's business. */
#ifndef CLOISTER_WORKER_NATIVE_CRYPTO_SIGN_H
#define CLOISTER_WORKER_NATIVE_CRYPTO_SIGN_H

#include "worker/native_crypto_digest.h"

/* The values are those of js/src/crypto/natives.d.ts. */
enum crypto_scheme {
    CRYPTO_RSA_PKCS1 = 0,
    CRYPTO_RSA_PSS = 1,
    CRYPTO_ECDSA = 2, /* signatures are r and s, each as long as the field (IEEE P1363) */
    CRYPTO_EDDSA = 3, /* the hash does not matter */
};

/* salt: bytes, for PSS. */
int crypto_sign(const struct crypto_key *key, enum crypto_scheme scheme, enum crypto_hash hash, uint32_t salt,
                struct crypto_bytes data, struct crypto_buffer *out, struct error *err);
/* 1: the signature is good; 0: it is not. */
int crypto_verify(const struct crypto_key *key, enum crypto_scheme scheme, enum crypto_hash hash,
                  uint32_t salt, struct crypto_bytes signature, struct crypto_bytes data, struct error *err);
int crypto_rsa_oaep(bool encrypt, const struct crypto_key *key, enum crypto_hash hash,
                    struct crypto_bytes label, struct crypto_bytes data, struct crypto_buffer *out,
                    struct error *err);
/* The shared secret, as long as the field. */
int crypto_agree(const struct crypto_key *own, const struct crypto_key *peer, struct crypto_buffer *out,
                 struct error *err);

#endif
