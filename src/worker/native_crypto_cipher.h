/* AES in the modes of WebCrypto. A key is 16, 24 or 32 bytes; other lengths are ERROR_INVALID. */
#ifndef CLOISTER_WORKER_NATIVE_CRYPTO_CIPHER_H
#define CLOISTER_WORKER_NATIVE_CRYPTO_CIPHER_H

#include "worker/native_crypto_key.h"

#define CRYPTO_DATA_MAX (256u << 20) /* bytes that one call works on */

/* As crypto_digest_init(). */
void crypto_cipher_init(void);

/* PKCS#7 padding; iv is 16 bytes. */
int crypto_aes_cbc(bool encrypt, struct crypto_bytes key, struct crypto_bytes iv, struct crypto_bytes data,
                   struct crypto_buffer *out, struct error *err);
/* counter is 16 bytes, of which the last `bits` (1 to 128) count and wrap. Both directions are the same. */
int crypto_aes_ctr(struct crypto_bytes key, struct crypto_bytes counter, uint32_t bits,
                   struct crypto_bytes data, struct crypto_buffer *out, struct error *err);
/* The tag (4, 8 or 12 to 16 bytes) follows the data. */
int crypto_aes_gcm(bool encrypt, struct crypto_bytes key, struct crypto_bytes iv, struct crypto_bytes extra,
                   size_t tag_size, struct crypto_bytes data, struct crypto_buffer *out, struct error *err);
/* RFC 3394. */
int crypto_aes_kw(bool wrap, struct crypto_bytes key, struct crypto_bytes data, struct crypto_buffer *out,
                  struct error *err);

#endif
