/* UNTRUSTED INPUT: everything in this file is about bytes that a guest says are a key. */
#include "worker/native_crypto_der.h"
#include "worker/native_crypto_key_internal.h"

#include <string.h>

static const uint8_t oid_rsa[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01};
static const uint8_t oid_ec[] = {0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01};
static const uint8_t oid_x25519[] = {0x2b, 0x65, 0x6e};
static const uint8_t oid_ed25519[] = {0x2b, 0x65, 0x70};

static struct crypto_bytes bytes_of(struct der der)
{
    return (struct crypto_bytes){der.at, der.left};
}

static bool curve_is(struct der *in, const struct crypto_curve *curve)
{
    struct der oid;
    return der_take(in, DER_OID, &oid) && der_equals(&oid, curve->oid, curve->oid_size);
}

/* Takes an AlgorithmIdentifier: is it that of `kind`? */
static bool take_algorithm(struct der *in, enum crypto_kind kind)
{
    struct der algorithm, oid, null;
    if (!der_take(in, DER_SEQUENCE, &algorithm) || !der_take(&algorithm, DER_OID, &oid))
        return false;
    const struct crypto_curve *curve = crypto_curve_of(kind);
    if (curve)
        return der_equals(&oid, oid_ec, sizeof oid_ec) && curve_is(&algorithm, curve) && algorithm.left == 0;
    if (kind == CRYPTO_RSA) {
        if (!der_equals(&oid, oid_rsa, sizeof oid_rsa))
            return false;
        if (algorithm.left > 0 && (!der_take(&algorithm, DER_NULL, &null) || null.left != 0))
            return false;
        return algorithm.left == 0;
    }
    if (algorithm.left != 0)
        return false;
    return kind == CRYPTO_ED25519 ? der_equals(&oid, oid_ed25519, sizeof oid_ed25519)
                                  : der_equals(&oid, oid_x25519, sizeof oid_x25519);
}

static struct crypto_key *malformed(struct error *err, const char *what)
{
    error_set(err, ERROR_INVALID, "%s", what);
    return NULL;
}

static struct crypto_key *import_spki(enum crypto_kind kind, struct der in, struct error *err)
{
    struct der info, bits;
    if (!der_take(&in, DER_SEQUENCE, &info) || in.left != 0)
        return malformed(err, "not a SubjectPublicKeyInfo");
    if (!take_algorithm(&info, kind))
        return malformed(err, "the SubjectPublicKeyInfo is of another algorithm");
    if (!der_take_bits(&info, &bits) || info.left != 0)
        return malformed(err, "the SubjectPublicKeyInfo holds no key");

    struct crypto_bytes none = {NULL, 0};
    if (crypto_curve_of(kind))
        return crypto_ec_new(kind, bytes_of(bits), none, err);
    if (kind != CRYPTO_RSA)
        return crypto_okp_new(kind, bytes_of(bits), none, err);
    struct der sequence, n, e;
    if (!der_take(&bits, DER_SEQUENCE, &sequence) || bits.left != 0 || !der_take_unsigned(&sequence, &n) ||
        !der_take_unsigned(&sequence, &e) || sequence.left != 0)
        return malformed(err, "not an RSAPublicKey");
    struct crypto_bytes parts[CRYPTO_PARTS_MAX] = {bytes_of(n), bytes_of(e)};
    return crypto_rsa_new(parts, err);
}

static struct crypto_key *import_rsa_private(struct der in, struct error *err)
{
    struct der sequence, version;
    struct crypto_bytes parts[CRYPTO_PARTS_MAX];
    if (!der_take(&in, DER_SEQUENCE, &sequence) || in.left != 0 || !der_take_unsigned(&sequence, &version))
        return malformed(err, "not an RSAPrivateKey");
    if (version.left != 0)
        return malformed(err, "an RSAPrivateKey with more than two primes");
    for (size_t i = 0; i < CRYPTO_PARTS_MAX; i++) {
        struct der number;
        if (!der_take_unsigned(&sequence, &number))
            return malformed(err, "not an RSAPrivateKey");
        parts[i] = bytes_of(number);
    }
    if (sequence.left != 0)
        return malformed(err, "not an RSAPrivateKey");
    return crypto_rsa_new(parts, err);
}

static struct crypto_key *import_ec_private(enum crypto_kind kind, struct der in, struct error *err)
{
    const struct crypto_curve *curve = crypto_curve_of(kind);
    struct der sequence, version, d, tagged, point = {NULL, 0};
    if (!der_take(&in, DER_SEQUENCE, &sequence) || in.left != 0 || !der_take_unsigned(&sequence, &version) ||
        !der_equals(&version, "\1", 1) || !der_take(&sequence, DER_OCTET_STRING, &d))
        return malformed(err, "not an ECPrivateKey");
    if (der_is_next(&sequence, DER_CONTEXT_0) &&
        (!der_take(&sequence, DER_CONTEXT_0, &tagged) || !curve_is(&tagged, curve) || tagged.left != 0))
        return malformed(err, "the ECPrivateKey is of another curve");
    if (der_is_next(&sequence, DER_CONTEXT_1) &&
        (!der_take(&sequence, DER_CONTEXT_1, &tagged) || !der_take_bits(&tagged, &point) || tagged.left != 0))
        return malformed(err, "not an ECPrivateKey");
    if (sequence.left != 0)
        return malformed(err, "not an ECPrivateKey");
    return crypto_ec_new(kind, bytes_of(point), bytes_of(d), err);
}

static struct crypto_key *import_pkcs8(enum crypto_kind kind, struct der in, struct error *err)
{
    struct der info, version, octets, inner;
    if (!der_take(&in, DER_SEQUENCE, &info) || in.left != 0 || !der_take_unsigned(&info, &version) ||
        version.left > 1 || (version.left == 1 && version.at[0] != 1))
        return malformed(err, "not a PrivateKeyInfo");
    if (!take_algorithm(&info, kind))
        return malformed(err, "the PrivateKeyInfo is of another algorithm");
    if (!der_take(&info, DER_OCTET_STRING, &octets))
        return malformed(err, "the PrivateKeyInfo holds no key");
    while (info.left > 0) /* attributes, and a public key in version 2: of no use here */
        if (!der_skip(&info))
            return malformed(err, "not a PrivateKeyInfo");
    if (kind == CRYPTO_RSA)
        return import_rsa_private(octets, err);
    if (crypto_curve_of(kind))
        return import_ec_private(kind, octets, err);
    if (!der_take(&octets, DER_OCTET_STRING, &inner) || octets.left != 0)
        return malformed(err, "not a CurvePrivateKey");
    return crypto_okp_new(kind, (struct crypto_bytes){NULL, 0}, bytes_of(inner), err);
}

struct crypto_key *crypto_key_import(enum crypto_format format, enum crypto_kind kind, const uint8_t *data,
                                     size_t size, struct error *err)
{
    struct crypto_bytes none = {NULL, 0};
    if (size > CRYPTO_KEY_BYTES_MAX)
        return malformed(err, "longer than any key");
    if (kind == CRYPTO_SECRET)
        return malformed(err, "a secret has no such format");
    switch (format) {
    case CRYPTO_SPKI:
        return import_spki(kind, (struct der){data, size}, err);
    case CRYPTO_PKCS8:
        return import_pkcs8(kind, (struct der){data, size}, err);
    case CRYPTO_RAW:
        break;
    }
    if (kind == CRYPTO_RSA)
        return malformed(err, "an RSA key has no raw format");
    if (crypto_curve_of(kind))
        return crypto_ec_new(kind, (struct crypto_bytes){data, size}, none, err);
    return crypto_okp_new(kind, (struct crypto_bytes){data, size}, none, err);
}

static struct crypto_key *ec_from_parts(enum crypto_kind kind, const struct crypto_bytes parts[3],
                                        struct error *err)
{
    size_t field = crypto_kind_field(kind);
    uint8_t point[1 + 2 * 66] = {4};
    if (!parts[0].data || !parts[1].data)
        return malformed(err, "the public key is missing");
    if (parts[0].size != field || parts[1].size != field)
        return malformed(err, "a coordinate has the wrong length");
    if (parts[2].data && parts[2].size != field)
        return malformed(err, "the private key has the wrong length");
    memcpy(point + 1, parts[0].data, field);
    memcpy(point + 1 + field, parts[1].data, field);
    return crypto_ec_new(kind, (struct crypto_bytes){point, 1 + 2 * field}, parts[2], err);
}

struct crypto_key *crypto_key_from_parts(enum crypto_kind kind, const struct crypto_bytes *parts,
                                         size_t count, struct error *err)
{
    struct crypto_bytes all[CRYPTO_PARTS_MAX] = {0};
    for (size_t i = 0; i < count && i < CRYPTO_PARTS_MAX; i++) {
        if (parts[i].size > CRYPTO_KEY_BYTES_MAX)
            return malformed(err, "longer than any key");
        all[i] = parts[i];
    }
    if (kind == CRYPTO_SECRET)
        return malformed(err, "a secret has no parts");
    if (kind == CRYPTO_RSA)
        return crypto_rsa_new(all, err);
    if (crypto_curve_of(kind))
        return ec_from_parts(kind, all, err);
    if (!all[0].data)
        return malformed(err, "the public key is missing");
    return crypto_okp_new(kind, all[0], all[1], err);
}
