#include "worker/native_crypto_key_internal.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

static const struct crypto_curve curves[] = {
    {"prime256v1", NID_X9_62_prime256v1, 32, {0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07}, 8},
    {"secp384r1", NID_secp384r1, 48, {0x2b, 0x81, 0x04, 0x00, 0x22}, 5},
    {"secp521r1", NID_secp521r1, 66, {0x2b, 0x81, 0x04, 0x00, 0x23}, 5},
};

const struct crypto_curve *crypto_curve_of(enum crypto_kind kind)
{
    return kind >= CRYPTO_P256 && kind <= CRYPTO_P521 ? &curves[kind - CRYPTO_P256] : NULL;
}

size_t crypto_kind_field(enum crypto_kind kind)
{
    const struct crypto_curve *curve = crypto_curve_of(kind);
    return curve ? curve->field : 0;
}

int crypto_failed(struct error *err, enum error_kind kind, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    if (reason)
        return error_set(err, kind, "%s: %s", what, reason);
    return error_set(err, kind, "%s", what);
}

bool crypto_buffer_alloc(struct crypto_buffer *buffer, size_t size, struct error *err)
{
    buffer->data = malloc(size ? size : 1);
    buffer->size = size;
    if (!buffer->data)
        error_oom(err);
    return buffer->data != NULL;
}

void crypto_buffer_free(struct crypto_buffer *buffer)
{
    if (buffer->data)
        OPENSSL_cleanse(buffer->data, buffer->size);
    free(buffer->data);
    *buffer = (struct crypto_buffer){NULL, 0};
}

struct crypto_key *crypto_key_wrap(enum crypto_kind kind, bool is_private, EVP_PKEY *pkey, struct error *err)
{
    struct crypto_key *key = calloc(1, sizeof *key);
    if (!key) {
        EVP_PKEY_free(pkey);
        error_oom(err);
        return NULL;
    }
    key->kind = kind;
    key->is_private = is_private;
    key->pkey = pkey;
    return key;
}

struct crypto_key *crypto_key_secret(const uint8_t *data, size_t size, struct error *err)
{
    if (size > CRYPTO_KEY_BYTES_MAX) {
        error_set(err, ERROR_LIMIT, "a key of %zu bytes is longer than %u", size, CRYPTO_KEY_BYTES_MAX);
        return NULL;
    }
    struct crypto_key *key = crypto_key_wrap(CRYPTO_SECRET, true, NULL, err);
    if (!key)
        return NULL;
    if (!crypto_buffer_alloc(&key->secret, size, err)) {
        crypto_key_free(key);
        return NULL;
    }
    if (size)
        memcpy(key->secret.data, data, size);
    return key;
}

void crypto_key_free(struct crypto_key *key)
{
    if (!key)
        return;
    EVP_PKEY_free(key->pkey);
    crypto_buffer_free(&key->secret);
    free(key);
}

static EVP_PKEY *generate(enum crypto_kind kind, uint32_t bits, uint64_t exponent, struct error *err)
{
    const struct crypto_curve *curve = crypto_curve_of(kind);
    const char *type = kind == CRYPTO_RSA       ? "RSA"
                       : curve                  ? "EC"
                       : kind == CRYPTO_ED25519 ? "ED25519"
                                                : "X25519";
    OSSL_PARAM params[3];
    size_t count = 0;
    char group[16];
    if (kind == CRYPTO_RSA) {
        params[count++] = OSSL_PARAM_construct_uint32(OSSL_PKEY_PARAM_RSA_BITS, &bits);
        params[count++] = OSSL_PARAM_construct_uint64(OSSL_PKEY_PARAM_RSA_E, &exponent);
    } else if (curve) {
        strcpy(group, curve->name);
        params[count++] = OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0);
    }
    params[count] = OSSL_PARAM_construct_end();

    EVP_PKEY *pkey = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (!ctx || EVP_PKEY_keygen_init(ctx) <= 0 || EVP_PKEY_CTX_set_params(ctx, params) <= 0 ||
        EVP_PKEY_generate(ctx, &pkey) <= 0) {
        crypto_failed(err, ERROR_INTERNAL, "the key cannot be generated");
        pkey = NULL;
    }
    EVP_PKEY_CTX_free(ctx);
    return pkey;
}

struct crypto_key *crypto_key_generate(enum crypto_kind kind, uint32_t bits, uint64_t exponent,
                                       struct error *err)
{
    if (kind == CRYPTO_SECRET) {
        error_set(err, ERROR_UNSUPPORTED, "secrets are made of random bytes");
        return NULL;
    }
    if (kind == CRYPTO_RSA) {
        if (bits < CRYPTO_RSA_BITS_MIN || bits > CRYPTO_RSA_BITS_MAX || bits % 8 != 0) {
            error_set(err, ERROR_LIMIT, "modulusLength must be a multiple of 8 from %u to %u",
                      CRYPTO_RSA_BITS_MIN, CRYPTO_RSA_BITS_MAX);
            return NULL;
        }
        if (exponent < 3 || exponent % 2 == 0) {
            error_set(err, ERROR_LIMIT, "publicExponent must be odd and at least 3");
            return NULL;
        }
    }
    EVP_PKEY *pkey = generate(kind, bits, exponent, err);
    return pkey ? crypto_key_wrap(kind, true, pkey, err) : NULL;
}

struct crypto_key *crypto_key_public(const struct crypto_key *key, struct error *err)
{
    struct crypto_buffer parts[CRYPTO_PARTS_MAX] = {0};
    struct crypto_bytes public_parts[CRYPTO_PARTS_MAX] = {0};
    int count = crypto_key_parts(key, parts, err);
    if (count < 0)
        return NULL;
    size_t kept = key->kind == CRYPTO_RSA || crypto_curve_of(key->kind) ? 2 : 1;
    for (size_t i = 0; i < kept; i++)
        public_parts[i] = (struct crypto_bytes){parts[i].data, parts[i].size};
    struct crypto_key *made = crypto_key_from_parts(key->kind, public_parts, (size_t)count, err);
    for (size_t i = 0; i < CRYPTO_PARTS_MAX; i++)
        crypto_buffer_free(&parts[i]);
    return made;
}

enum crypto_kind crypto_key_kind(const struct crypto_key *key)
{
    return key->kind;
}

bool crypto_key_is_private(const struct crypto_key *key)
{
    return key->is_private;
}

uint32_t crypto_key_bits(const struct crypto_key *key)
{
    if (key->kind == CRYPTO_SECRET)
        return (uint32_t)key->secret.size * 8;
    int bits = EVP_PKEY_get_bits(key->pkey);
    return bits > 0 ? (uint32_t)bits : 0;
}

struct crypto_bytes crypto_key_bytes(const struct crypto_key *key)
{
    if (key->kind != CRYPTO_SECRET)
        return (struct crypto_bytes){(const uint8_t *)"", 0};
    return (struct crypto_bytes){key->secret.data, key->secret.size};
}

EVP_PKEY *crypto_key_pkey(const struct crypto_key *key)
{
    return key->pkey;
}
