#include "worker/native_crypto_key_internal.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <string.h>

static const char *const rsa_names[CRYPTO_PARTS_MAX] = {
    OSSL_PKEY_PARAM_RSA_N,         OSSL_PKEY_PARAM_RSA_E,
    OSSL_PKEY_PARAM_RSA_D,         OSSL_PKEY_PARAM_RSA_FACTOR1,
    OSSL_PKEY_PARAM_RSA_FACTOR2,   OSSL_PKEY_PARAM_RSA_EXPONENT1,
    OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1,
};

/* Moves what libcrypto encoded into memory that the receiver can free. */
static int adopt(unsigned char *encoded, int size, struct crypto_buffer *out, struct error *err)
{
    if (size <= 0)
        return crypto_failed(err, ERROR_INTERNAL, "the key cannot be exported");
    int result = -1;
    if (crypto_buffer_alloc(out, (size_t)size, err)) {
        memcpy(out->data, encoded, (size_t)size);
        result = 0;
    }
    OPENSSL_clear_free(encoded, (size_t)size);
    return result;
}

static int export_pkcs8(const struct crypto_key *key, struct crypto_buffer *out, struct error *err)
{
    unsigned char *encoded = NULL;
    PKCS8_PRIV_KEY_INFO *info = EVP_PKEY2PKCS8(key->pkey);
    int size = info ? i2d_PKCS8_PRIV_KEY_INFO(info, &encoded) : -1;
    int result = adopt(encoded, size, out, err);
    PKCS8_PRIV_KEY_INFO_free(info);
    return result;
}

/* The uncompressed point. */
static int ec_point(const struct crypto_key *key, uint8_t point[1 + 2 * 66], struct error *err)
{
    size_t size = 0, expected = 1 + 2 * crypto_kind_field(key->kind);
    if (EVP_PKEY_get_octet_string_param(key->pkey, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * 66, &size) != 1 ||
        size != expected || point[0] != 4)
        return crypto_failed(err, ERROR_INTERNAL, "the key cannot be exported");
    return 0;
}

static int export_raw(const struct crypto_key *key, struct crypto_buffer *out, struct error *err)
{
    if (crypto_curve_of(key->kind)) {
        uint8_t point[1 + 2 * 66];
        if (ec_point(key, point, err) < 0 ||
            !crypto_buffer_alloc(out, 1 + 2 * crypto_kind_field(key->kind), err))
            return -1;
        memcpy(out->data, point, out->size);
        return 0;
    }
    if (!crypto_buffer_alloc(out, 32, err))
        return -1;
    size_t size = 32;
    if (EVP_PKEY_get_raw_public_key(key->pkey, out->data, &size) != 1 || size != 32) {
        crypto_buffer_free(out);
        return crypto_failed(err, ERROR_INTERNAL, "the key cannot be exported");
    }
    return 0;
}

int crypto_key_export(const struct crypto_key *key, enum crypto_format format, struct crypto_buffer *out,
                      struct error *err)
{
    if (key->kind == CRYPTO_SECRET) {
        if (format != CRYPTO_RAW)
            return error_set(err, ERROR_INVALID, "a secret has no such format");
        if (!crypto_buffer_alloc(out, key->secret.size, err))
            return -1;
        memcpy(out->data, key->secret.data, key->secret.size);
        return 0;
    }
    if (format == CRYPTO_PKCS8)
        return key->is_private ? export_pkcs8(key, out, err)
                               : error_set(err, ERROR_INVALID, "a public key has no such format");
    if (format == CRYPTO_RAW) {
        if (key->kind == CRYPTO_RSA)
            return error_set(err, ERROR_INVALID, "an RSA key has no raw format");
        return export_raw(key, out, err);
    }
    unsigned char *encoded = NULL;
    int size = i2d_PUBKEY(key->pkey, &encoded);
    return adopt(encoded, size, out, err);
}

/* pad: bytes, 0 for the shortest form. */
static bool export_number(const struct crypto_key *key, const char *name, size_t pad,
                          struct crypto_buffer *out, struct error *err)
{
    BIGNUM *number = NULL;
    if (EVP_PKEY_get_bn_param(key->pkey, name, &number) != 1) {
        crypto_failed(err, ERROR_INTERNAL, "the key cannot be exported");
        return false;
    }
    size_t size = pad ? pad : (size_t)BN_num_bytes(number);
    bool ok = crypto_buffer_alloc(out, size, err);
    if (ok && BN_bn2binpad(number, out->data, (int)size) < 0) {
        crypto_failed(err, ERROR_INTERNAL, "the key cannot be exported");
        ok = false;
    }
    BN_clear_free(number);
    return ok;
}

static int rsa_parts(const struct crypto_key *key, struct crypto_buffer *parts, struct error *err)
{
    int count = key->is_private ? CRYPTO_PARTS_MAX : 2;
    for (int i = 0; i < count; i++)
        if (!export_number(key, rsa_names[i], 0, &parts[i], err))
            return -1;
    return count;
}

static int ec_parts(const struct crypto_key *key, struct crypto_buffer *parts, struct error *err)
{
    size_t field = crypto_kind_field(key->kind);
    uint8_t point[1 + 2 * 66];
    if (ec_point(key, point, err) < 0 || !crypto_buffer_alloc(&parts[0], field, err) ||
        !crypto_buffer_alloc(&parts[1], field, err))
        return -1;
    memcpy(parts[0].data, point + 1, field);
    memcpy(parts[1].data, point + 1 + field, field);
    if (!key->is_private)
        return 2;
    return export_number(key, OSSL_PKEY_PARAM_PRIV_KEY, field, &parts[2], err) ? 3 : -1;
}

static int okp_parts(const struct crypto_key *key, struct crypto_buffer *parts, struct error *err)
{
    if (export_raw(key, &parts[0], err) < 0)
        return -1;
    if (!key->is_private)
        return 1;
    size_t size = 32;
    if (!crypto_buffer_alloc(&parts[1], size, err))
        return -1;
    if (EVP_PKEY_get_raw_private_key(key->pkey, parts[1].data, &size) != 1 || size != 32)
        return crypto_failed(err, ERROR_INTERNAL, "the key cannot be exported");
    return 2;
}

int crypto_key_parts(const struct crypto_key *key, struct crypto_buffer parts[CRYPTO_PARTS_MAX],
                     struct error *err)
{
    memset(parts, 0, CRYPTO_PARTS_MAX * sizeof *parts);
    int count = key->kind == CRYPTO_SECRET        ? error_set(err, ERROR_INVALID, "a secret has no parts")
                : key->kind == CRYPTO_RSA         ? rsa_parts(key, parts, err)
                : crypto_curve_of(key->kind) != 0 ? ec_parts(key, parts, err)
                                                  : okp_parts(key, parts, err);
    if (count < 0)
        for (size_t i = 0; i < CRYPTO_PARTS_MAX; i++)
            crypto_buffer_free(&parts[i]);
    return count;
}
