/* Ciphers, derivation and signatures with parameters of a guest. The first byte chooses the operation; the
 * rest is cut into arguments, each with one byte of length before it. What was encrypted must decrypt to the
 * same. */
#include "worker/native_crypto_cipher.h"
#include "worker/native_crypto_random.h"
#include "worker/native_crypto_sign.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct input {
    const uint8_t *at;
    size_t left;
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static struct crypto_bytes take(struct input *in)
{
    struct crypto_bytes bytes = {(const uint8_t *)"", 0};
    if (in->left == 0)
        return bytes;
    size_t size = in->at[0];
    in->at++;
    in->left--;
    if (size > in->left)
        size = in->left;
    bytes = (struct crypto_bytes){in->at, size};
    in->at += size;
    in->left -= size;
    return bytes;
}

static uint32_t take_number(struct input *in)
{
    struct crypto_bytes bytes = take(in);
    uint32_t number = 0;
    for (size_t i = 0; i < bytes.size && i < 4; i++)
        number = number << 8 | bytes.data[i];
    return number;
}

static struct crypto_bytes rest(const struct input *in)
{
    return (struct crypto_bytes){in->left ? in->at : (const uint8_t *)"", in->left};
}

static struct crypto_bytes of(const struct crypto_buffer *buffer)
{
    return (struct crypto_bytes){buffer->data, buffer->size};
}

static void check_same(struct crypto_buffer *made, struct crypto_bytes expected)
{
    check(made->size == expected.size && memcmp(made->data, expected.data, expected.size) == 0);
    crypto_buffer_free(made);
}

static void run_cbc(struct input *in)
{
    struct crypto_bytes key = take(in), iv = take(in), text = rest(in);
    struct crypto_buffer sealed, again;
    if (crypto_aes_cbc(false, key, iv, text, &again, NULL) == 0)
        crypto_buffer_free(&again);
    if (crypto_aes_cbc(true, key, iv, text, &sealed, NULL) < 0)
        return;
    check(crypto_aes_cbc(false, key, iv, of(&sealed), &again, NULL) == 0);
    check_same(&again, text);
    crypto_buffer_free(&sealed);
}

static void run_ctr(struct input *in)
{
    struct crypto_bytes key = take(in), counter = take(in);
    uint32_t bits = take_number(in);
    struct crypto_bytes text = rest(in);
    struct crypto_buffer sealed, again;
    if (crypto_aes_ctr(key, counter, bits, text, &sealed, NULL) < 0)
        return;
    check(crypto_aes_ctr(key, counter, bits, of(&sealed), &again, NULL) == 0);
    check_same(&again, text);
    crypto_buffer_free(&sealed);
}

static void run_gcm(struct input *in)
{
    struct crypto_bytes key = take(in), iv = take(in), extra = take(in);
    size_t tag = take_number(in);
    struct crypto_bytes text = rest(in);
    struct crypto_buffer sealed, again;
    if (crypto_aes_gcm(false, key, iv, extra, tag, text, &again, NULL) == 0)
        crypto_buffer_free(&again);
    if (crypto_aes_gcm(true, key, iv, extra, tag, text, &sealed, NULL) < 0)
        return;
    check(crypto_aes_gcm(false, key, iv, extra, tag, of(&sealed), &again, NULL) == 0);
    check_same(&again, text);
    sealed.data[0] ^= 1;
    check(crypto_aes_gcm(false, key, iv, extra, tag, of(&sealed), &again, NULL) < 0);
    crypto_buffer_free(&sealed);
}

static void run_kw(struct input *in)
{
    struct crypto_bytes key = take(in), text = rest(in);
    struct crypto_buffer sealed, again;
    if (crypto_aes_kw(false, key, text, &again, NULL) == 0)
        crypto_buffer_free(&again);
    if (crypto_aes_kw(true, key, text, &sealed, NULL) < 0)
        return;
    check(crypto_aes_kw(false, key, of(&sealed), &again, NULL) == 0);
    check_same(&again, text);
    crypto_buffer_free(&sealed);
}

static void run_derive(struct input *in)
{
    enum crypto_hash hash = take_number(in) % CRYPTO_HASHES;
    struct crypto_bytes secret = take(in), salt = take(in), info = take(in);
    size_t size = take_number(in);
    struct crypto_buffer out;
    if (crypto_hkdf(hash, secret, salt, info, size, &out, NULL) == 0)
        crypto_buffer_free(&out);
    if (crypto_pbkdf2(hash, secret, salt, take_number(in) % 8, size % 4096, &out, NULL) == 0)
        crypto_buffer_free(&out);
    if (crypto_scrypt(secret, salt, take_number(in) % 64, take_number(in) % 4, take_number(in) % 4, 1 << 20,
                      size % 4096, &out, NULL) == 0)
        crypto_buffer_free(&out);
}

/* Signatures of any shape over a key of ours, and RSA-OAEP of anything. */
static void run_verify(struct input *in)
{
    static struct crypto_key *keys[CRYPTO_KINDS];
    enum crypto_kind kind = 1 + take_number(in) % (CRYPTO_KINDS - 1);
    if (!keys[kind])
        keys[kind] = crypto_key_generate(kind, 512, 3, NULL);
    check(keys[kind] != NULL);
    enum crypto_scheme scheme = take_number(in) % 4;
    enum crypto_hash hash = take_number(in) % CRYPTO_HASHES;
    uint32_t salt = take_number(in);
    struct crypto_bytes signature = take(in), text = take(in);
    struct crypto_buffer out;
    check(crypto_verify(keys[kind], scheme, hash, salt, signature, text, NULL) <= 0);
    if (crypto_sign(keys[kind], scheme, hash, salt, text, &out, NULL) == 0) {
        check(crypto_verify(keys[kind], scheme, hash, salt, of(&out), text, NULL) == 1);
        crypto_buffer_free(&out);
    }
    if (crypto_rsa_oaep(false, keys[kind], hash, signature, text, &out, NULL) == 0)
        crypto_buffer_free(&out);
    if (crypto_rsa_oaep(true, keys[kind], hash, signature, text, &out, NULL) == 0) {
        struct crypto_buffer again;
        check(crypto_rsa_oaep(false, keys[kind], hash, signature, of(&out), &again, NULL) == 0);
        check_same(&again, text);
        crypto_buffer_free(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const runs[])(struct input *) = {run_cbc, run_ctr, run_gcm, run_kw, run_derive, run_verify};
    static bool ready;
    if (!ready) {
        check(crypto_random_init());
        crypto_digest_init();
        crypto_cipher_init();
        ready = true;
    }
    if (len < 1)
        return 0;
    struct input in = {data + 1, len - 1};
    runs[data[0] % (sizeof runs / sizeof *runs)](&in);
    return 0;
}
