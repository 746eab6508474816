#include "worker/native_crypto_cipher.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <string.h>

enum mode { MODE_CBC, MODE_CTR, MODE_GCM, MODE_WRAP };

static const char *const names[][3] = {
    [MODE_CBC] = {"AES-128-CBC", "AES-192-CBC", "AES-256-CBC"},
    [MODE_CTR] = {"AES-128-CTR", "AES-192-CTR", "AES-256-CTR"},
    [MODE_GCM] = {"AES-128-GCM", "AES-192-GCM", "AES-256-GCM"},
    [MODE_WRAP] = {"AES-128-WRAP", "AES-192-WRAP", "AES-256-WRAP"},
};

static EVP_CIPHER *found[4][3]; /* see crypto_digest_init() */

void crypto_cipher_init(void)
{
    if (found[0][0])
        return;
    for (size_t mode = 0; mode < 4; mode++)
        for (size_t size = 0; size < 3; size++)
            found[mode][size] = EVP_CIPHER_fetch(NULL, names[mode][size], NULL);
    ERR_clear_error();
}

static const EVP_CIPHER *cipher_for(enum mode mode, struct crypto_bytes key, struct error *err)
{
    if (key.size != 16 && key.size != 24 && key.size != 32) {
        error_set(err, ERROR_INVALID, "an AES key has 16, 24 or 32 bytes");
        return NULL;
    }
    const EVP_CIPHER *cipher = found[mode][key.size / 8 - 2];
    if (!cipher)
        error_set(err, ERROR_INTERNAL, "no such cipher");
    return cipher;
}

static bool within_limit(struct crypto_bytes data, struct error *err)
{
    if (data.size > CRYPTO_DATA_MAX)
        error_set(err, ERROR_LIMIT, "more than %u bytes of data", CRYPTO_DATA_MAX);
    return data.size <= CRYPTO_DATA_MAX;
}

int crypto_aes_cbc(bool encrypt, struct crypto_bytes key, struct crypto_bytes iv, struct crypto_bytes data,
                   struct crypto_buffer *out, struct error *err)
{
    const EVP_CIPHER *cipher = cipher_for(MODE_CBC, key, err);
    if (!cipher || !within_limit(data, err))
        return -1;
    if (iv.size != 16)
        return error_set(err, ERROR_INTERNAL, "iv must have 16 bytes");
    if (!crypto_buffer_alloc(out, data.size + 16, err))
        return -1;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int first = 0, last = 0;
    bool ok = ctx && EVP_CipherInit_ex2(ctx, cipher, key.data, iv.data, encrypt, NULL) == 1 &&
              EVP_CipherUpdate(ctx, out->data, &first, data.data, (int)data.size) == 1 &&
              EVP_CipherFinal_ex(ctx, out->data + first, &last) == 1;
    EVP_CIPHER_CTX_free(ctx);
    out->size = (size_t)first + (size_t)last;
    if (ok)
        return 0;
    crypto_buffer_free(out);
    ERR_clear_error();
    /* Nothing about why: which check of the padding failed is nobody's business. */
    return error_set(err, ERROR_INTERNAL, "the operation failed");
}

static bool ctr_run(const EVP_CIPHER *cipher, const uint8_t *key, const uint8_t *counter, const uint8_t *in,
                    size_t size, uint8_t *out)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int written = 0;
    bool ok = ctx && EVP_CipherInit_ex2(ctx, cipher, key, counter, 1, NULL) == 1 &&
              EVP_CipherUpdate(ctx, out, &written, in, (int)size) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return ok;
}

/* How many blocks until the last `bits` bits of the counter wrap: 0 means more than `enough`. */
static uint64_t blocks_until_wrap(const uint8_t *counter, uint32_t bits, uint64_t enough)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t from_end = 15 - i; /* this byte holds the bits 8*from_end and up */
        if (from_end * 8 >= bits)
            continue;
        uint8_t byte = counter[i];
        if (bits < (from_end + 1) * 8)
            byte &= (uint8_t)((1u << (bits - from_end * 8)) - 1);
        if (from_end >= 8) {
            uint8_t full = (uint8_t)(bits < (from_end + 1) * 8 ? (1u << (bits - from_end * 8)) - 1 : 0xff);
            if (byte != full)
                return 0;
        } else {
            value = value << 8 | byte;
        }
    }
    uint64_t left = bits >= 64 ? -value : ((uint64_t)1 << bits) - value; /* 0: 2^64 */
    return left == 0 || left > enough ? 0 : left;
}

int crypto_aes_ctr(struct crypto_bytes key, struct crypto_bytes counter, uint32_t bits,
                   struct crypto_bytes data, struct crypto_buffer *out, struct error *err)
{
    const EVP_CIPHER *cipher = cipher_for(MODE_CTR, key, err);
    if (!cipher || !within_limit(data, err))
        return -1;
    if (counter.size != 16 || bits == 0 || bits > 128)
        return error_set(err, ERROR_INTERNAL, "counter must have 16 bytes and length must be 1 to 128");
    uint64_t blocks = ((uint64_t)data.size + 15) / 16;
    if (bits < 64 && blocks > (uint64_t)1 << bits)
        return error_set(err, ERROR_INTERNAL, "the data is too long for the length of the counter");
    if (!crypto_buffer_alloc(out, data.size, err))
        return -1;
    uint64_t before = blocks_until_wrap(counter.data, bits, blocks);
    size_t first = before && before < blocks ? (size_t)before * 16 : data.size;
    bool ok = ctr_run(cipher, key.data, counter.data, data.data, first, out->data);
    if (ok && first < data.size) {
        /* libcrypto counts with all 128 bits, so what follows the wrap starts from the counter of zeros. */
        uint8_t wrapped[16];
        memcpy(wrapped, counter.data, 16);
        for (uint32_t bit = 0; bit < bits; bit++)
            wrapped[15 - bit / 8] &= (uint8_t)~(1u << (bit % 8));
        ok = ctr_run(cipher, key.data, wrapped, data.data + first, data.size - first, out->data + first);
    }
    if (ok)
        return 0;
    crypto_buffer_free(out);
    return crypto_failed(err, ERROR_INTERNAL, "the operation failed");
}

static bool gcm_run(EVP_CIPHER_CTX *ctx, bool encrypt, struct crypto_bytes extra, size_t tag_size,
                    struct crypto_bytes data, uint8_t *out)
{
    int ignored = 0, written = 0, last = 0;
    if (extra.size && EVP_CipherUpdate(ctx, NULL, &ignored, extra.data, (int)extra.size) != 1)
        return false;
    if (!encrypt) {
        data.size -= tag_size;
        if (EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, (int)tag_size, (void *)(data.data + data.size)) !=
            1)
            return false;
    }
    if (data.size && EVP_CipherUpdate(ctx, out, &written, data.data, (int)data.size) != 1)
        return false;
    if (EVP_CipherFinal_ex(ctx, out + written, &last) != 1)
        return false;
    return !encrypt || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, (int)tag_size, out + data.size) == 1;
}

int crypto_aes_gcm(bool encrypt, struct crypto_bytes key, struct crypto_bytes iv, struct crypto_bytes extra,
                   size_t tag_size, struct crypto_bytes data, struct crypto_buffer *out, struct error *err)
{
    const EVP_CIPHER *cipher = cipher_for(MODE_GCM, key, err);
    if (!cipher || !within_limit(data, err) || !within_limit(extra, err))
        return -1;
    if (iv.size == 0 || iv.size > CRYPTO_KEY_BYTES_MAX)
        return error_set(err, ERROR_INTERNAL, "iv must have 1 to %u bytes", CRYPTO_KEY_BYTES_MAX);
    if (tag_size != 4 && tag_size != 8 && (tag_size < 12 || tag_size > 16))
        return error_set(err, ERROR_INTERNAL, "no such length of the tag");
    if (!encrypt && data.size < tag_size)
        return error_set(err, ERROR_INTERNAL, "the data is shorter than the tag");
    if (!crypto_buffer_alloc(out, encrypt ? data.size + tag_size : data.size - tag_size, err))
        return -1;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    bool ok = ctx && EVP_CipherInit_ex2(ctx, cipher, NULL, NULL, encrypt, NULL) == 1 &&
              EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_IVLEN, (int)iv.size, NULL) == 1 &&
              EVP_CipherInit_ex2(ctx, NULL, key.data, iv.data, encrypt, NULL) == 1 &&
              gcm_run(ctx, encrypt, extra, tag_size, data, out->data);
    EVP_CIPHER_CTX_free(ctx);
    if (ok)
        return 0;
    crypto_buffer_free(out); /* wiped: what did not verify is not shown */
    ERR_clear_error();
    return error_set(err, ERROR_INTERNAL, "the operation failed");
}

int crypto_aes_kw(bool wrap, struct crypto_bytes key, struct crypto_bytes data, struct crypto_buffer *out,
                  struct error *err)
{
    const EVP_CIPHER *cipher = cipher_for(MODE_WRAP, key, err);
    if (!cipher || !within_limit(data, err))
        return -1;
    if (data.size % 8 != 0 || data.size < (wrap ? 16u : 24u))
        return error_set(err, ERROR_INTERNAL, "the data must be a multiple of 8 bytes, and at least two");
    if (!crypto_buffer_alloc(out, data.size + 8, err))
        return -1;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int written = 0, last = 0;
    if (ctx)
        EVP_CIPHER_CTX_set_flags(ctx, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
    bool ok = ctx && EVP_CipherInit_ex2(ctx, cipher, key.data, NULL, wrap, NULL) == 1 &&
              EVP_CipherUpdate(ctx, out->data, &written, data.data, (int)data.size) == 1 &&
              EVP_CipherFinal_ex(ctx, out->data + written, &last) == 1;
    EVP_CIPHER_CTX_free(ctx);
    size_t expected = wrap ? data.size + 8 : data.size - 8;
    if (ok && (size_t)written + (size_t)last == expected) {
        out->size = expected;
        return 0;
    }
    crypto_buffer_free(out);
    ERR_clear_error();
    return error_set(err, ERROR_INTERNAL, "the operation failed");
}
