#include "worker/native_crypto_sign.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <string.h>

static bool fits(const struct crypto_key *key, enum crypto_scheme scheme)
{
    enum crypto_kind kind = crypto_key_kind(key);
    switch (scheme) {
    case CRYPTO_RSA_PKCS1:
    case CRYPTO_RSA_PSS:
        return kind == CRYPTO_RSA;
    case CRYPTO_ECDSA:
        return crypto_kind_field(kind) != 0;
    case CRYPTO_EDDSA:
        return kind == CRYPTO_ED25519;
    }
    return false;
}

static EVP_MD_CTX *start(const struct crypto_key *key, bool sign, enum crypto_scheme scheme,
                         enum crypto_hash hash, uint32_t salt)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *pctx = NULL; /* owned by ctx */
    const EVP_MD *md = scheme == CRYPTO_EDDSA ? NULL : crypto_md(hash);
    EVP_PKEY *pkey = crypto_key_pkey(key);
    bool ok = ctx && (sign ? EVP_DigestSignInit(ctx, &pctx, md, NULL, pkey)
                           : EVP_DigestVerifyInit(ctx, &pctx, md, NULL, pkey)) == 1;
    if (ok && scheme == CRYPTO_RSA_PKCS1)
        ok = EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PADDING) == 1;
    if (ok && scheme == CRYPTO_RSA_PSS)
        ok = EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING) == 1 &&
             EVP_PKEY_CTX_set_rsa_pss_saltlen(pctx, (int)salt) == 1;
    if (ok)
        return ctx;
    EVP_MD_CTX_free(ctx);
    return NULL;
}

/* A salt that no modulus has room for, which libcrypto's special negative numbers must not be made of. */
static bool salt_fits(const struct crypto_key *key, enum crypto_hash hash, uint32_t salt)
{
    uint64_t bytes = (crypto_key_bits(key) + 6) / 8;
    return (uint64_t)salt + crypto_hash_bytes(hash) + 2 <= bytes;
}

static int der_to_pair(struct crypto_buffer *out, size_t field, struct error *err)
{
    const unsigned char *at = out->data;
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &at, (long)out->size);
    struct crypto_buffer pair = {NULL, 0};
    bool ok = signature && crypto_buffer_alloc(&pair, 2 * field, err) &&
              BN_bn2binpad(ECDSA_SIG_get0_r(signature), pair.data, (int)field) >= 0 &&
              BN_bn2binpad(ECDSA_SIG_get0_s(signature), pair.data + field, (int)field) >= 0;
    ECDSA_SIG_free(signature);
    crypto_buffer_free(out);
    *out = pair;
    if (ok)
        return 0;
    crypto_buffer_free(out);
    return crypto_failed(err, ERROR_INTERNAL, "the signature cannot be made");
}

int crypto_sign(const struct crypto_key *key, enum crypto_scheme scheme, enum crypto_hash hash, uint32_t salt,
                struct crypto_bytes data, struct crypto_buffer *out, struct error *err)
{
    if (!fits(key, scheme) || !crypto_key_is_private(key))
        return error_set(err, ERROR_INVALID, "the key cannot sign that way");
    if (scheme == CRYPTO_RSA_PSS && !salt_fits(key, hash, salt))
        return error_set(err, ERROR_INTERNAL, "the salt is too long for the key");
    size_t size = 0;
    EVP_MD_CTX *ctx = start(key, true, scheme, hash, salt);
    bool ok = ctx && EVP_DigestSign(ctx, NULL, &size, data.data, data.size) == 1 &&
              crypto_buffer_alloc(out, size, err);
    if (ok && EVP_DigestSign(ctx, out->data, &size, data.data, data.size) != 1) {
        crypto_buffer_free(out);
        ok = false;
    }
    EVP_MD_CTX_free(ctx);
    if (!ok)
        return crypto_failed(err, ERROR_INTERNAL, "the signature cannot be made");
    out->size = size;
    return scheme == CRYPTO_ECDSA ? der_to_pair(out, crypto_kind_field(crypto_key_kind(key)), err) : 0;
}

/* The points whose order divides 8, and the encodings of them that are not canonical: a signature under such
 * a key, or with such an R, proves nothing, and the specification has it refused. */
static bool is_small_order(const uint8_t *point)
{
    static const uint8_t small[][32] = {
        {0},
        {1},
        {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
         0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
        {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
         0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
    };
    uint8_t y[32];
    memcpy(y, point, 32);
    y[31] &= 0x7f; /* the sign of x */
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (memcmp(y, small[i], 32) == 0)
            return true;
    /* p-1, p and p+1 */
    bool top = y[31] == 0x7f;
    for (size_t i = 1; i < 31; i++)
        top = top && y[i] == 0xff;
    return top && y[0] >= 0xec && y[0] <= 0xee;
}

static int verify_bytes(const struct crypto_key *key, enum crypto_scheme scheme, enum crypto_hash hash,
                        uint32_t salt, struct crypto_bytes signature, struct crypto_bytes data,
                        struct error *err)
{
    EVP_MD_CTX *ctx = start(key, false, scheme, hash, salt);
    if (!ctx)
        return crypto_failed(err, ERROR_INTERNAL, "the signature cannot be checked");
    int result = EVP_DigestVerify(ctx, signature.data, signature.size, data.data, data.size);
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return result == 1;
}

static int verify_pair(const struct crypto_key *key, enum crypto_hash hash, struct crypto_bytes signature,
                       struct crypto_bytes data, struct error *err)
{
    size_t field = crypto_kind_field(crypto_key_kind(key));
    if (signature.size != 2 * field)
        return 0;
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature.data, (int)field, NULL),
           *s = BN_bin2bn(signature.data + field, (int)field, NULL);
    unsigned char *der = NULL;
    int size = -1;
    if (pair && r && s && ECDSA_SIG_set0(pair, r, s) == 1) {
        r = s = NULL; /* the pair's now */
        size = i2d_ECDSA_SIG(pair, &der);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    if (size <= 0)
        return error_oom(err);
    int result =
        verify_bytes(key, CRYPTO_ECDSA, hash, 0, (struct crypto_bytes){der, (size_t)size}, data, err);
    OPENSSL_free(der);
    return result;
}

int crypto_verify(const struct crypto_key *key, enum crypto_scheme scheme, enum crypto_hash hash,
                  uint32_t salt, struct crypto_bytes signature, struct crypto_bytes data, struct error *err)
{
    if (!fits(key, scheme))
        return error_set(err, ERROR_INVALID, "the key cannot check such signatures");
    if (scheme == CRYPTO_ECDSA)
        return verify_pair(key, hash, signature, data, err);
    if (scheme == CRYPTO_RSA_PSS && !salt_fits(key, hash, salt))
        return 0;
    if (scheme == CRYPTO_EDDSA) {
        uint8_t public[32];
        size_t size = sizeof public;
        if (signature.size != 64 || EVP_PKEY_get_raw_public_key(crypto_key_pkey(key), public, &size) != 1)
            return 0;
        if (is_small_order(public) || is_small_order(signature.data))
            return 0;
    }
    return verify_bytes(key, scheme, hash, salt, signature, data, err);
}

int crypto_rsa_oaep(bool encrypt, const struct crypto_key *key, enum crypto_hash hash,
                    struct crypto_bytes label, struct crypto_bytes data, struct crypto_buffer *out,
                    struct error *err)
{
    if (crypto_key_kind(key) != CRYPTO_RSA || (!encrypt && !crypto_key_is_private(key)))
        return error_set(err, ERROR_INVALID, "not a key for RSA-OAEP");
    if (label.size > CRYPTO_KEY_BYTES_MAX)
        return error_set(err, ERROR_LIMIT, "a label of more than %u bytes", CRYPTO_KEY_BYTES_MAX);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, crypto_key_pkey(key), NULL);
    bool ok = ctx && (encrypt ? EVP_PKEY_encrypt_init(ctx) : EVP_PKEY_decrypt_init(ctx)) == 1 &&
              EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING) == 1 &&
              EVP_PKEY_CTX_set_rsa_oaep_md(ctx, crypto_md(hash)) == 1 &&
              EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, crypto_md(hash)) == 1;
    if (ok && label.size) {
        void *copy = OPENSSL_memdup(label.data, label.size);
        ok = copy && EVP_PKEY_CTX_set0_rsa_oaep_label(ctx, copy, (int)label.size) == 1;
        if (!ok)
            OPENSSL_free(copy);
    }
    size_t size = 0;
    ok = ok &&
         (encrypt ? EVP_PKEY_encrypt(ctx, NULL, &size, data.data, data.size)
                  : EVP_PKEY_decrypt(ctx, NULL, &size, data.data, data.size)) == 1 &&
         crypto_buffer_alloc(out, size, err);
    if (ok && (encrypt ? EVP_PKEY_encrypt(ctx, out->data, &size, data.data, data.size)
                       : EVP_PKEY_decrypt(ctx, out->data, &size, data.data, data.size)) != 1) {
        crypto_buffer_free(out);
        ok = false;
    }
    EVP_PKEY_CTX_free(ctx);
    ERR_clear_error();
    if (!ok)
        return error_set(err, ERROR_INTERNAL, "the operation failed");
    out->size = size;
    return 0;
}

int crypto_agree(const struct crypto_key *own, const struct crypto_key *peer, struct crypto_buffer *out,
                 struct error *err)
{
    enum crypto_kind kind = crypto_key_kind(own);
    if (kind != crypto_key_kind(peer) || !crypto_key_is_private(own) ||
        (kind != CRYPTO_X25519 && crypto_kind_field(kind) == 0))
        return error_set(err, ERROR_INVALID, "the keys do not fit together");
    size_t size = 0;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, crypto_key_pkey(own), NULL);
    bool ok = ctx && EVP_PKEY_derive_init(ctx) == 1 &&
              EVP_PKEY_derive_set_peer(ctx, crypto_key_pkey(peer)) == 1 &&
              EVP_PKEY_derive(ctx, NULL, &size) == 1 && crypto_buffer_alloc(out, size, err);
    if (ok && EVP_PKEY_derive(ctx, out->data, &size) != 1) {
        crypto_buffer_free(out);
        ok = false;
    }
    EVP_PKEY_CTX_free(ctx);
    ERR_clear_error();
    if (!ok)
        return error_set(err, ERROR_INTERNAL, "the keys cannot agree");
    out->size = size;
    return 0;
}
