/* From numbers to keys: what a guest gives must fit together before libcrypto works with it. */
#include "worker/native_crypto_key_internal.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <string.h>

enum { RSA_N, RSA_E, RSA_D, RSA_P, RSA_Q, RSA_DP, RSA_DQ, RSA_QI };

static const char *const rsa_names[CRYPTO_PARTS_MAX] = {
    OSSL_PKEY_PARAM_RSA_N,         OSSL_PKEY_PARAM_RSA_E,
    OSSL_PKEY_PARAM_RSA_D,         OSSL_PKEY_PARAM_RSA_FACTOR1,
    OSSL_PKEY_PARAM_RSA_FACTOR2,   OSSL_PKEY_PARAM_RSA_EXPONENT1,
    OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1,
};

static EVP_PKEY *from_data(const char *type, int selection, OSSL_PARAM_BLD *build)
{
    EVP_PKEY *pkey = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (!params || !ctx || EVP_PKEY_fromdata_init(ctx) <= 0 ||
        EVP_PKEY_fromdata(ctx, &pkey, selection, params) <= 0)
        pkey = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return pkey;
}

/* Is a*b = 1 modulo m-1 (an exponent and its inverse modulo a prime)? */
static bool is_inverse_below(const BIGNUM *a, const BIGNUM *b, const BIGNUM *m, BN_CTX *ctx)
{
    BN_CTX_start(ctx);
    BIGNUM *below = BN_CTX_get(ctx), *product = BN_CTX_get(ctx);
    bool yes = product && BN_sub(below, m, BN_value_one()) && !BN_is_zero(below) &&
               BN_mod_mul(product, a, b, below, ctx) && BN_is_one(product);
    BN_CTX_end(ctx);
    return yes;
}

/* Do the numbers of a private key belong together? Primes are not tested for being prime: whoever gives
 * others has a key that does not work, and operations take no longer with it. */
static bool rsa_consistent(BIGNUM *const part[CRYPTO_PARTS_MAX], BN_CTX *ctx)
{
    if (BN_cmp(part[RSA_D], part[RSA_N]) >= 0 || !BN_is_odd(part[RSA_P]) || !BN_is_odd(part[RSA_Q]) ||
        BN_cmp(part[RSA_DP], part[RSA_P]) >= 0 || BN_cmp(part[RSA_DQ], part[RSA_Q]) >= 0 ||
        BN_cmp(part[RSA_QI], part[RSA_P]) >= 0)
        return false;
    BN_CTX_start(ctx);
    BIGNUM *product = BN_CTX_get(ctx);
    bool yes = product && BN_mul(product, part[RSA_P], part[RSA_Q], ctx) &&
               BN_cmp(product, part[RSA_N]) == 0 &&
               is_inverse_below(part[RSA_E], part[RSA_D], part[RSA_P], ctx) &&
               is_inverse_below(part[RSA_E], part[RSA_D], part[RSA_Q], ctx) &&
               is_inverse_below(part[RSA_E], part[RSA_DP], part[RSA_P], ctx) &&
               is_inverse_below(part[RSA_E], part[RSA_DQ], part[RSA_Q], ctx) &&
               BN_mod_mul(product, part[RSA_Q], part[RSA_QI], part[RSA_P], ctx) && BN_is_one(product);
    BN_CTX_end(ctx);
    return yes;
}

struct crypto_key *crypto_rsa_new(const struct crypto_bytes parts[CRYPTO_PARTS_MAX], struct error *err)
{
    struct crypto_key *key = NULL;
    BIGNUM *number[CRYPTO_PARTS_MAX] = {NULL};
    bool is_private = parts[RSA_D].data != NULL;
    size_t count = is_private ? CRYPTO_PARTS_MAX : 2;
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].data) {
            error_set(err, ERROR_INVALID, "the RSA key lacks one of its numbers");
            return NULL;
        }
        if (parts[i].size > CRYPTO_RSA_BITS_MAX / 8) {
            error_set(err, ERROR_INVALID, "an RSA key of more than %u bits", CRYPTO_RSA_BITS_MAX);
            return NULL;
        }
    }
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    BN_CTX *ctx = BN_CTX_secure_new();
    bool ok = build && ctx;
    for (size_t i = 0; ok && i < count; i++) {
        /* Secure: the flag makes libcrypto wipe the copies that it makes on the way. */
        number[i] = i >= RSA_D ? BN_secure_new() : BN_new();
        ok = number[i] && BN_bin2bn(parts[i].data, (int)parts[i].size, number[i]) &&
             OSSL_PARAM_BLD_push_BN(build, rsa_names[i], number[i]);
    }
    if (!ok) {
        error_oom(err);
        goto out;
    }
    if ((uint32_t)BN_num_bits(number[RSA_N]) < CRYPTO_RSA_BITS_MIN || !BN_is_odd(number[RSA_N]) ||
        !BN_is_odd(number[RSA_E]) || BN_is_one(number[RSA_E]) || BN_num_bits(number[RSA_E]) > 64) {
        error_set(err, ERROR_INVALID, "the modulus or the exponent of the RSA key is out of range");
        goto out;
    }
    if (is_private && !rsa_consistent(number, ctx)) {
        error_set(err, ERROR_INVALID, "the numbers of the RSA key do not belong together");
        goto out;
    }
    EVP_PKEY *pkey = from_data("RSA", is_private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, build);
    if (pkey)
        key = crypto_key_wrap(CRYPTO_RSA, is_private, pkey, err);
    else
        crypto_failed(err, ERROR_INVALID, "not an RSA key");
out:
    for (size_t i = 0; i < count; i++)
        BN_clear_free(number[i]);
    BN_CTX_free(ctx);
    OSSL_PARAM_BLD_free(build);
    ERR_clear_error();
    return key;
}

/* The public point of the private key `d`, when the key is in range. */
static bool ec_public_of(const EC_GROUP *group, const BIGNUM *d, EC_POINT *point, BN_CTX *ctx)
{
    return !BN_is_zero(d) && BN_cmp(d, EC_GROUP_get0_order(group)) < 0 &&
           EC_POINT_mul(group, point, d, NULL, NULL, ctx) == 1;
}

/* What is checked: the point is on the curve and not at infinity, d is in range, both belong together. */
static bool ec_check(const EC_GROUP *group, struct crypto_bytes encoded, const BIGNUM *d, EC_POINT *point,
                     BN_CTX *ctx)
{
    if (!d)
        return EC_POINT_oct2point(group, point, encoded.data, encoded.size, ctx) == 1 &&
               EC_POINT_is_at_infinity(group, point) == 0;
    if (!ec_public_of(group, d, point, ctx))
        return false;
    if (!encoded.data)
        return true;
    EC_POINT *given = EC_POINT_new(group);
    bool same = given && EC_POINT_oct2point(group, given, encoded.data, encoded.size, ctx) == 1 &&
                EC_POINT_cmp(group, given, point, ctx) == 0;
    EC_POINT_free(given);
    return same;
}

struct crypto_key *crypto_ec_new(enum crypto_kind kind, struct crypto_bytes encoded, struct crypto_bytes d,
                                 struct error *err)
{
    const struct crypto_curve *curve = crypto_curve_of(kind);
    struct crypto_key *key = NULL;
    uint8_t plain[1 + 2 * 66];
    if ((encoded.data && encoded.size > sizeof plain) || (d.data && d.size != curve->field)) {
        error_set(err, ERROR_INVALID, "the key has the wrong length for its curve");
        return NULL;
    }
    /* 6 and 7 are the hybrid forms, which nobody may use. */
    if (encoded.data && (encoded.size == 0 || encoded.data[0] < 2 || encoded.data[0] > 4)) {
        error_set(err, ERROR_INVALID, "not a point of the curve");
        return NULL;
    }
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    BN_CTX *ctx = BN_CTX_secure_new();
    EC_GROUP *group = EC_GROUP_new_by_curve_name(curve->nid);
    EC_POINT *point = group ? EC_POINT_new(group) : NULL;
    BIGNUM *number = d.data ? BN_secure_new() : NULL;
    if (!build || !ctx || !point || (d.data && (!number || !BN_bin2bn(d.data, (int)d.size, number)))) {
        error_oom(err);
        goto out;
    }
    if (!ec_check(group, encoded, number, point, ctx)) {
        error_set(err, ERROR_INVALID, number ? "not a key of the curve" : "not a point of the curve");
        goto out;
    }
    size_t size = EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, plain, sizeof plain, ctx);
    if (size == 0 || !OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, curve->name, 0) ||
        !OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, plain, size) ||
        /* Padded to the field, so that its length tells nothing and the export has it. */
        (number && !OSSL_PARAM_BLD_push_BN_pad(build, OSSL_PKEY_PARAM_PRIV_KEY, number, curve->field))) {
        error_oom(err);
        goto out;
    }
    EVP_PKEY *pkey = from_data("EC", number ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, build);
    if (pkey)
        key = crypto_key_wrap(kind, number != NULL, pkey, err);
    else
        crypto_failed(err, ERROR_INVALID, "not a key of the curve");
out:
    BN_clear_free(number);
    EC_POINT_clear_free(point);
    EC_GROUP_free(group);
    BN_CTX_free(ctx);
    OSSL_PARAM_BLD_free(build);
    ERR_clear_error();
    return key;
}

struct crypto_key *crypto_okp_new(enum crypto_kind kind, struct crypto_bytes x, struct crypto_bytes d,
                                  struct error *err)
{
    int type = kind == CRYPTO_ED25519 ? EVP_PKEY_ED25519 : EVP_PKEY_X25519;
    if ((x.data && x.size != 32) || (d.data && d.size != 32)) {
        error_set(err, ERROR_INVALID, "the key must have 32 bytes");
        return NULL;
    }
    EVP_PKEY *pkey = d.data ? EVP_PKEY_new_raw_private_key(type, NULL, d.data, d.size)
                            : EVP_PKEY_new_raw_public_key(type, NULL, x.data, x.size);
    if (!pkey) {
        crypto_failed(err, ERROR_INVALID, "not a key of the curve");
        return NULL;
    }
    uint8_t computed[32];
    size_t size = sizeof computed;
    if (d.data && x.data &&
        (EVP_PKEY_get_raw_public_key(pkey, computed, &size) != 1 ||
         memcmp(computed, x.data, sizeof computed) != 0)) {
        EVP_PKEY_free(pkey);
        error_set(err, ERROR_INVALID, "the public and the private key do not belong together");
        return NULL;
    }
    return crypto_key_wrap(kind, d.data != NULL, pkey, err);
}
