/* Between JavaScript and the crypto files: arguments in, results out. UNTRUSTED INPUT: the library checks
 * what it passes, but a program may have got hold of it, so nothing here relies on that. */
#include "worker/native_args.h"
#include "worker/native_crypto_cipher.h"
#include "worker/native_crypto_random.h"
#include "worker/native_crypto_sign.h"
#include "worker/natives.h"
#include "worker/value.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

/* Belong to the process; made before the first fork. */
static JSClassRef key_class, digest_class;

static void key_finalize(JSObjectRef object)
{
    crypto_key_free(JSObjectGetPrivate(object));
}

static void digest_finalize(JSObjectRef object)
{
    crypto_digest_free(JSObjectGetPrivate(object));
}

static enum crypto_hash arg_hash(struct native_args *args, size_t i)
{
    return (enum crypto_hash)native_uint(args, i, CRYPTO_HASHES - 1);
}

static enum crypto_kind arg_kind(struct native_args *args, size_t i)
{
    return (enum crypto_kind)native_uint(args, i, CRYPTO_KINDS - 1);
}

static const struct crypto_key *arg_key(struct native_args *args, size_t i)
{
    return native_unwrap(args, i, key_class);
}

/* The bytes of a secret: raw, or held by a key. */
static struct crypto_bytes arg_secret(struct native_args *args, size_t i)
{
    if (!args->failed && !native_absent(args, i) &&
        JSValueIsObjectOfClass(args->ctx, args->values[i], key_class))
        return crypto_key_bytes(JSObjectGetPrivate((JSObjectRef)args->values[i]));
    return native_bytes(args, i);
}

/* A digest that is `size` bytes, or below 0 when there is none. */
static JSValueRef give_digest(struct native_args *args, int size, const uint8_t *digest,
                              const struct error *err)
{
    return size < 0 ? value_throw_error(args->ctx, args->exception, err)
                    : value_buffer(args->ctx, digest, (size_t)size, args->exception);
}

/* ---- hashes */

NATIVE(js_hash)
{
    NATIVE_ARGS;
    struct error err = {0};
    enum crypto_hash hash = arg_hash(&args, 0);
    struct crypto_bytes data = native_bytes(&args, 1);
    if (args.failed)
        return NULL;
    uint8_t out[EVP_MAX_MD_SIZE];
    int size = crypto_hash(hash, data.data, data.size, out, &err);
    return give_digest(&args, size, out, &err);
}

NATIVE(js_hmac)
{
    NATIVE_ARGS;
    struct error err = {0};
    enum crypto_hash hash = arg_hash(&args, 0);
    struct crypto_bytes key = arg_secret(&args, 1), data = native_bytes(&args, 2);
    if (args.failed)
        return NULL;
    uint8_t out[EVP_MAX_MD_SIZE];
    int size = crypto_hmac(hash, key, data.data, data.size, out, &err);
    return give_digest(&args, size, out, &err);
}

NATIVE(js_digest_new)
{
    NATIVE_ARGS;
    struct error err = {0};
    enum crypto_hash hash = arg_hash(&args, 0);
    bool keyed = !native_absent(&args, 1);
    struct crypto_bytes key = {NULL, 0};
    if (keyed)
        key = arg_secret(&args, 1);
    if (args.failed)
        return NULL;
    return native_wrap(&args, digest_class, crypto_digest_new(hash, keyed ? &key : NULL, &err), &err);
}

NATIVE(js_digest_copy)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_digest *digest = native_unwrap(&args, 0, digest_class);
    if (args.failed)
        return NULL;
    return native_wrap(&args, digest_class, crypto_digest_copy(digest, &err), &err);
}

NATIVE(js_digest_update)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_digest *digest = native_unwrap(&args, 0, digest_class);
    struct crypto_bytes data = native_bytes(&args, 1);
    if (args.failed)
        return NULL;
    if (crypto_digest_update(digest, data.data, data.size, &err) < 0)
        return value_throw_error(ctx, exception, &err);
    return JSValueMakeUndefined(ctx);
}

NATIVE(js_digest_finish)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_digest *digest = native_unwrap(&args, 0, digest_class);
    if (args.failed)
        return NULL;
    uint8_t out[EVP_MAX_MD_SIZE];
    int size = crypto_digest_finish(digest, out, &err);
    return give_digest(&args, size, out, &err);
}

NATIVE(js_equal)
{
    NATIVE_ARGS;
    struct crypto_bytes a = arg_secret(&args, 0), b = arg_secret(&args, 1);
    if (args.failed)
        return NULL;
    return JSValueMakeBoolean(ctx, a.size == b.size && CRYPTO_memcmp(a.data, b.data, a.size) == 0);
}

/* ---- derivation */

NATIVE(js_hkdf)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    enum crypto_hash hash = arg_hash(&args, 0);
    struct crypto_bytes secret = arg_secret(&args, 1), salt = native_bytes(&args, 2),
                        info = native_bytes(&args, 3);
    size_t size = native_uint(&args, 4, CRYPTO_DERIVE_MAX);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_hkdf(hash, secret, salt, info, size, &out, &err), &out, &err);
}

NATIVE(js_pbkdf2)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    enum crypto_hash hash = arg_hash(&args, 0);
    struct crypto_bytes password = arg_secret(&args, 1), salt = native_bytes(&args, 2);
    uint32_t rounds = (uint32_t)native_uint(&args, 3, UINT32_MAX);
    size_t size = native_uint(&args, 4, CRYPTO_DERIVE_MAX);
    if (args.failed)
        return NULL;
    if (password.size > CRYPTO_DATA_MAX || salt.size > CRYPTO_DATA_MAX)
        return value_throw_range(ctx, exception, "too many bytes");
    return native_give(&args, crypto_pbkdf2(hash, password, salt, rounds, size, &out, &err), &out, &err);
}

NATIVE(js_scrypt)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    struct crypto_bytes password = arg_secret(&args, 0), salt = native_bytes(&args, 1);
    uint64_t n = native_uint(&args, 2, UINT32_MAX), r = native_uint(&args, 3, UINT32_MAX);
    uint64_t p = native_uint(&args, 4, UINT32_MAX), memory = native_uint(&args, 5, UINT32_MAX);
    size_t size = native_uint(&args, 6, CRYPTO_DERIVE_MAX);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_scrypt(password, salt, n, r, p, memory, size, &out, &err), &out, &err);
}

/* ---- AES */

NATIVE(js_aes_cbc)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    bool encrypt = native_bool(&args, 0);
    struct crypto_bytes key = arg_secret(&args, 1), iv = native_bytes(&args, 2),
                        data = native_bytes(&args, 3);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_aes_cbc(encrypt, key, iv, data, &out, &err), &out, &err);
}

NATIVE(js_aes_ctr)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    struct crypto_bytes key = arg_secret(&args, 0), counter = native_bytes(&args, 1);
    uint32_t bits = (uint32_t)native_uint(&args, 2, 128);
    struct crypto_bytes data = native_bytes(&args, 3);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_aes_ctr(key, counter, bits, data, &out, &err), &out, &err);
}

NATIVE(js_aes_gcm)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    bool encrypt = native_bool(&args, 0);
    struct crypto_bytes key = arg_secret(&args, 1), iv = native_bytes(&args, 2),
                        extra = native_bytes(&args, 3);
    size_t tag_size = native_uint(&args, 4, 16);
    struct crypto_bytes data = native_bytes(&args, 5);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_aes_gcm(encrypt, key, iv, extra, tag_size, data, &out, &err), &out,
                       &err);
}

NATIVE(js_aes_kw)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    bool wrap = native_bool(&args, 0);
    struct crypto_bytes key = arg_secret(&args, 1), data = native_bytes(&args, 2);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_aes_kw(wrap, key, data, &out, &err), &out, &err);
}

/* ---- keys */

NATIVE(js_secret)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_bytes data = native_bytes(&args, 0);
    if (args.failed)
        return NULL;
    return native_wrap(&args, key_class, crypto_key_secret(data.data, data.size, &err), &err);
}

NATIVE(js_key_import)
{
    NATIVE_ARGS;
    struct error err = {0};
    enum crypto_format format = (enum crypto_format)native_uint(&args, 0, CRYPTO_PKCS8);
    enum crypto_kind kind = arg_kind(&args, 1);
    struct crypto_bytes data = native_bytes(&args, 2);
    if (args.failed)
        return NULL;
    return native_wrap(&args, key_class, crypto_key_import(format, kind, data.data, data.size, &err), &err);
}

NATIVE(js_key_from_parts)
{
    NATIVE_ARGS;
    struct error err = {0};
    enum crypto_kind kind = arg_kind(&args, 0);
    struct crypto_bytes parts[CRYPTO_PARTS_MAX];
    for (size_t i = 0; i < CRYPTO_PARTS_MAX; i++)
        parts[i] = native_bytes_or_none(&args, 1 + i);
    if (args.failed)
        return NULL;
    return native_wrap(&args, key_class, crypto_key_from_parts(kind, parts, CRYPTO_PARTS_MAX, &err), &err);
}

NATIVE(js_key_generate)
{
    NATIVE_ARGS;
    struct error err = {0};
    enum crypto_kind kind = arg_kind(&args, 0);
    uint32_t bits = 0;
    uint64_t exponent = 0;
    if (kind == CRYPTO_RSA) {
        bits = (uint32_t)native_uint(&args, 1, UINT32_MAX);
        exponent = native_uint(&args, 2, UINT32_MAX);
    }
    if (args.failed)
        return NULL;
    return native_wrap(&args, key_class, crypto_key_generate(kind, bits, exponent, &err), &err);
}

NATIVE(js_key_public)
{
    NATIVE_ARGS;
    struct error err = {0};
    const struct crypto_key *key = arg_key(&args, 0);
    if (args.failed)
        return NULL;
    return native_wrap(&args, key_class, crypto_key_public(key, &err), &err);
}

NATIVE(js_key_export)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    enum crypto_format format = (enum crypto_format)native_uint(&args, 0, CRYPTO_PKCS8);
    const struct crypto_key *key = arg_key(&args, 1);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_key_export(key, format, &out, &err), &out, &err);
}

NATIVE(js_key_parts)
{
    NATIVE_ARGS;
    struct error err = {0};
    const struct crypto_key *key = arg_key(&args, 0);
    if (args.failed)
        return NULL;
    struct crypto_buffer parts[CRYPTO_PARTS_MAX];
    int count = crypto_key_parts(key, parts, &err);
    if (count < 0)
        return value_throw_error(ctx, exception, &err);
    JSObjectRef array = JSObjectMakeArray(ctx, 0, NULL, exception);
    for (int i = 0; i < count; i++) {
        JSValueRef part = native_give(&args, 0, &parts[i], &err);
        if (array)
            JSObjectSetPropertyAtIndex(ctx, array, (unsigned)i, part, NULL);
    }
    return array;
}

NATIVE(js_key_bits)
{
    NATIVE_ARGS;
    const struct crypto_key *key = arg_key(&args, 0);
    if (args.failed)
        return NULL;
    return JSValueMakeNumber(ctx, crypto_key_bits(key));
}

/* ---- what asymmetric keys do */

NATIVE(js_sign)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    const struct crypto_key *key = arg_key(&args, 0);
    enum crypto_scheme scheme = (enum crypto_scheme)native_uint(&args, 1, CRYPTO_EDDSA);
    enum crypto_hash hash = arg_hash(&args, 2);
    uint32_t salt = (uint32_t)native_uint(&args, 3, UINT32_MAX);
    struct crypto_bytes data = native_bytes(&args, 4);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_sign(key, scheme, hash, salt, data, &out, &err), &out, &err);
}

NATIVE(js_verify)
{
    NATIVE_ARGS;
    struct error err = {0};
    const struct crypto_key *key = arg_key(&args, 0);
    enum crypto_scheme scheme = (enum crypto_scheme)native_uint(&args, 1, CRYPTO_EDDSA);
    enum crypto_hash hash = arg_hash(&args, 2);
    uint32_t salt = (uint32_t)native_uint(&args, 3, UINT32_MAX);
    struct crypto_bytes signature = native_bytes(&args, 4), data = native_bytes(&args, 5);
    if (args.failed)
        return NULL;
    int good = crypto_verify(key, scheme, hash, salt, signature, data, &err);
    return good < 0 ? value_throw_error(ctx, exception, &err) : JSValueMakeBoolean(ctx, good == 1);
}

NATIVE(js_rsa_oaep)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    bool encrypt = native_bool(&args, 0);
    const struct crypto_key *key = arg_key(&args, 1);
    enum crypto_hash hash = arg_hash(&args, 2);
    struct crypto_bytes label = native_bytes(&args, 3), data = native_bytes(&args, 4);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_rsa_oaep(encrypt, key, hash, label, data, &out, &err), &out, &err);
}

NATIVE(js_agree)
{
    NATIVE_ARGS;
    struct error err = {0};
    struct crypto_buffer out;
    const struct crypto_key *own = arg_key(&args, 0), *peer = arg_key(&args, 1);
    if (args.failed)
        return NULL;
    return native_give(&args, crypto_agree(own, peer, &out, &err), &out, &err);
}

static const struct native entries[] = {
    {"hash", js_hash},
    {"hmac", js_hmac},
    {"digestNew", js_digest_new},
    {"digestCopy", js_digest_copy},
    {"digestUpdate", js_digest_update},
    {"digestFinish", js_digest_finish},
    {"equal", js_equal},
    {"hkdf", js_hkdf},
    {"pbkdf2", js_pbkdf2},
    {"scrypt", js_scrypt},
    {"aesCbc", js_aes_cbc},
    {"aesCtr", js_aes_ctr},
    {"aesGcm", js_aes_gcm},
    {"aesKw", js_aes_kw},
    {"secret", js_secret},
    {"keyImport", js_key_import},
    {"keyFromParts", js_key_from_parts},
    {"keyGenerate", js_key_generate},
    {"keyPublic", js_key_public},
    {"keyExport", js_key_export},
    {"keyParts", js_key_parts},
    {"keyBits", js_key_bits},
    {"sign", js_sign},
    {"verify", js_verify},
    {"rsaOaep", js_rsa_oaep},
    {"agree", js_agree},
};

static void init_process(void)
{
    JSClassDefinition key = {.className = "CryptoKeyHandle",
                             .attributes = kJSClassAttributeNoAutomaticPrototype,
                             .finalize = key_finalize};
    JSClassDefinition digest = {.className = "CryptoDigestHandle",
                                .attributes = kJSClassAttributeNoAutomaticPrototype,
                                .finalize = digest_finalize};
    /* The jail has no files, and a configuration must not change what algorithms do. */
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1 ||
        !crypto_random_init()) {
        fprintf(stderr, "cloister-worker: libcrypto cannot be initialised\n");
        abort();
    }
    crypto_digest_init();
    crypto_cipher_init();
    key_class = JSClassCreate(&key);
    digest_class = JSClassCreate(&digest);
}

void natives_crypto(JSContextRef ctx, JSObjectRef natives)
{
    if (!key_class)
        init_process();
    JSObjectRef crypto = JSObjectMake(ctx, NULL, NULL);
    natives_add(ctx, crypto, entries, sizeof entries / sizeof *entries);
    value_set(ctx, natives, "crypto", crypto);
}
