#include "worker/native_crypto_digest.h"

#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

struct crypto_digest {
    enum crypto_hash hash;
    EVP_MD_CTX *md; /* one of the two; both NULL: finished */
    EVP_MAC_CTX *mac;
};

static const char *const hash_names[CRYPTO_HASHES] = {"MD5",      "SHA1",     "SHA2-224",
                                                      "SHA2-256", "SHA2-384", "SHA2-512"};
static const uint8_t hash_sizes[CRYPTO_HASHES] = {16, 20, 28, 32, 48, 64};

/* Belongs to the process: looking an algorithm up costs more than hashing a small message. Written once,
 * before the zygote forks. */
static struct {
    EVP_MD *md[CRYPTO_HASHES];
    EVP_MAC *hmac;
} found;

void crypto_digest_init(void)
{
    if (found.hmac)
        return;
    for (size_t i = 0; i < CRYPTO_HASHES; i++)
        found.md[i] = EVP_MD_fetch(NULL, hash_names[i], NULL);
    found.hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    ERR_clear_error();
}

const EVP_MD *crypto_md(enum crypto_hash hash)
{
    return found.md[hash];
}

size_t crypto_hash_bytes(enum crypto_hash hash)
{
    return hash_sizes[hash];
}

static EVP_MAC_CTX *hmac_new(enum crypto_hash hash, struct crypto_bytes key)
{
    char name[16];
    strcpy(name, hash_names[hash]);
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                           OSSL_PARAM_construct_end()};
    EVP_MAC_CTX *mac = found.hmac ? EVP_MAC_CTX_new(found.hmac) : NULL;
    /* A key of no bytes is a key: only a NULL pointer means none. */
    const uint8_t *data = key.size ? key.data : (const uint8_t *)"";
    if (mac && EVP_MAC_init(mac, data, key.size, params) == 1)
        return mac;
    EVP_MAC_CTX_free(mac);
    return NULL;
}

struct crypto_digest *crypto_digest_new(enum crypto_hash hash, const struct crypto_bytes *key,
                                        struct error *err)
{
    struct crypto_digest *digest = calloc(1, sizeof *digest);
    if (!digest) {
        error_oom(err);
        return NULL;
    }
    digest->hash = hash;
    if (key)
        digest->mac = hmac_new(hash, *key);
    else
        digest->md = EVP_MD_CTX_new();
    if (key ? digest->mac != NULL : digest->md && EVP_DigestInit_ex2(digest->md, found.md[hash], NULL) == 1)
        return digest;
    crypto_digest_free(digest);
    crypto_failed(err, ERROR_INTERNAL, "the hash cannot be started");
    return NULL;
}

struct crypto_digest *crypto_digest_copy(const struct crypto_digest *digest, struct error *err)
{
    struct crypto_digest *copy = calloc(1, sizeof *copy);
    if (!copy) {
        error_oom(err);
        return NULL;
    }
    copy->hash = digest->hash;
    if (digest->mac)
        copy->mac = EVP_MAC_CTX_dup(digest->mac);
    if (digest->md) {
        copy->md = EVP_MD_CTX_new();
        if (copy->md && EVP_MD_CTX_copy_ex(copy->md, digest->md) != 1) {
            EVP_MD_CTX_free(copy->md);
            copy->md = NULL;
        }
    }
    if (copy->mac || copy->md)
        return copy;
    if (!digest->mac && !digest->md)
        error_set(err, ERROR_STATE, "the hash is finished");
    else
        crypto_failed(err, ERROR_INTERNAL, "the hash cannot be copied");
    free(copy);
    return NULL;
}

int crypto_digest_update(struct crypto_digest *digest, const uint8_t *data, size_t size, struct error *err)
{
    if (!digest->md && !digest->mac)
        return error_set(err, ERROR_STATE, "the hash is finished");
    int ok = digest->md ? EVP_DigestUpdate(digest->md, data, size) : EVP_MAC_update(digest->mac, data, size);
    return ok == 1 ? 0 : crypto_failed(err, ERROR_INTERNAL, "the hash failed");
}

int crypto_digest_finish(struct crypto_digest *digest, uint8_t *out, struct error *err)
{
    size_t size = 0;
    unsigned md_size = 0;
    int ok;
    if (digest->md) {
        ok = EVP_DigestFinal_ex(digest->md, out, &md_size);
        size = md_size;
    } else if (digest->mac) {
        ok = EVP_MAC_final(digest->mac, out, &size, EVP_MAX_MD_SIZE);
    } else {
        return error_set(err, ERROR_STATE, "the hash is finished");
    }
    EVP_MD_CTX_free(digest->md);
    EVP_MAC_CTX_free(digest->mac);
    digest->md = NULL;
    digest->mac = NULL;
    return ok == 1 ? (int)size : crypto_failed(err, ERROR_INTERNAL, "the hash failed");
}

void crypto_digest_free(struct crypto_digest *digest)
{
    if (!digest)
        return;
    EVP_MD_CTX_free(digest->md);
    EVP_MAC_CTX_free(digest->mac);
    free(digest);
}

int crypto_hash(enum crypto_hash hash, const uint8_t *data, size_t size, uint8_t *out, struct error *err)
{
    unsigned written = 0;
    if (!found.md[hash] || EVP_Digest(data, size, out, &written, found.md[hash], NULL) != 1)
        return crypto_failed(err, ERROR_INTERNAL, "the hash failed");
    return (int)written;
}

int crypto_hmac(enum crypto_hash hash, struct crypto_bytes key, const uint8_t *data, size_t size,
                uint8_t *out, struct error *err)
{
    struct crypto_digest *digest = crypto_digest_new(hash, &key, err);
    int result = digest && crypto_digest_update(digest, data, size, err) == 0
                     ? crypto_digest_finish(digest, out, err)
                     : -1;
    crypto_digest_free(digest);
    return result;
}

/* RFC 5869, from HMAC: libcrypto's own refuses a secret of no bytes and long salts. */
int crypto_hkdf(enum crypto_hash hash, struct crypto_bytes secret, struct crypto_bytes salt,
                struct crypto_bytes info, size_t size, struct crypto_buffer *out, struct error *err)
{
    uint8_t zeros[EVP_MAX_MD_SIZE] = {0}, prk[EVP_MAX_MD_SIZE], block[EVP_MAX_MD_SIZE];
    size_t hash_size = crypto_hash_bytes(hash);
    if (size > 255 * hash_size)
        return error_set(err, ERROR_LIMIT, "HKDF derives at most %zu bytes with this hash", 255 * hash_size);
    if (salt.size == 0)
        salt = (struct crypto_bytes){zeros, hash_size};
    if (crypto_hmac(hash, salt, secret.data, secret.size, prk, err) < 0 ||
        !crypto_buffer_alloc(out, size, err))
        return -1;
    struct crypto_bytes key = {prk, hash_size};
    int result = 0;
    size_t done = 0, block_size = 0;
    for (uint8_t counter = 1; result == 0 && done < size; counter++) {
        struct crypto_digest *digest = crypto_digest_new(hash, &key, err);
        if (!digest || crypto_digest_update(digest, block, block_size, err) < 0 ||
            crypto_digest_update(digest, info.data, info.size, err) < 0 ||
            crypto_digest_update(digest, &counter, 1, err) < 0 ||
            crypto_digest_finish(digest, block, err) < 0)
            result = -1;
        crypto_digest_free(digest);
        block_size = hash_size;
        size_t take = size - done < block_size ? size - done : block_size;
        if (result == 0)
            memcpy(out->data + done, block, take);
        done += take;
    }
    OPENSSL_cleanse(prk, sizeof prk);
    OPENSSL_cleanse(block, sizeof block);
    if (result < 0)
        crypto_buffer_free(out);
    return result;
}

int crypto_pbkdf2(enum crypto_hash hash, struct crypto_bytes password, struct crypto_bytes salt,
                  uint32_t rounds, size_t size, struct crypto_buffer *out, struct error *err)
{
    if (size > CRYPTO_DERIVE_MAX)
        return error_set(err, ERROR_LIMIT, "PBKDF2 derives at most %u bytes", CRYPTO_DERIVE_MAX);
    if (rounds == 0 || rounds > INT_MAX)
        return error_set(err, ERROR_LIMIT, "the iterations of PBKDF2 are out of range");
    uint64_t blocks = (size + crypto_hash_bytes(hash) - 1) / crypto_hash_bytes(hash);
    if (blocks * rounds > CRYPTO_PBKDF2_ROUNDS_MAX)
        return error_set(err, ERROR_LIMIT, "PBKDF2 runs at most %u rounds in one call",
                         CRYPTO_PBKDF2_ROUNDS_MAX);
    if (!found.md[hash] || !crypto_buffer_alloc(out, size, err))
        return found.md[hash] ? -1 : error_set(err, ERROR_INTERNAL, "no such hash");
    if (size == 0)
        return 0;
    if (PKCS5_PBKDF2_HMAC((const char *)password.data, (int)password.size, salt.data, (int)salt.size,
                          (int)rounds, found.md[hash], (int)size, out->data) == 1)
        return 0;
    crypto_buffer_free(out);
    return crypto_failed(err, ERROR_INTERNAL, "PBKDF2 failed");
}

int crypto_scrypt(struct crypto_bytes password, struct crypto_bytes salt, uint64_t n, uint64_t r, uint64_t p,
                  uint64_t memory, size_t size, struct crypto_buffer *out, struct error *err)
{
    if (size > CRYPTO_DERIVE_MAX || memory > CRYPTO_SCRYPT_MEMORY_MAX)
        return error_set(err, ERROR_LIMIT,
                         "scrypt derives at most %u bytes and uses at most %u bytes of memory",
                         CRYPTO_DERIVE_MAX, CRYPTO_SCRYPT_MEMORY_MAX);
    /* p multiplies the time without the memory: bounded as the memory is. */
    if (n < 2 || (n & (n - 1)) || r == 0 || p == 0 || r > 1024 || p > 1024 || n > (1u << 20) ||
        n * r * p > CRYPTO_SCRYPT_MEMORY_MAX / 16)
        return error_set(err, ERROR_LIMIT, "the parameters of scrypt are out of range");
    if (!crypto_buffer_alloc(out, size, err))
        return -1;
    if (size == 0 || EVP_PBE_scrypt((const char *)password.data, password.size, salt.data, salt.size, n, r, p,
                                    memory, out->data, size) == 1)
        return 0;
    crypto_buffer_free(out);
    return crypto_failed(err, ERROR_INTERNAL, "scrypt failed");
}
