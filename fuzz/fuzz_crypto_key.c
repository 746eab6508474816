/* Keys as a guest may give them, in every format. The first byte chooses: its low three bits the kind, the
 * next two the format (3: the numbers of a JSON Web Key, each with two bytes of length before it). A key that
 * was accepted must survive being exported and imported again, and its public half must be one. */
#include "worker/native_crypto_random.h"
#include "worker/native_crypto_sign.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void init(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    check(crypto_random_init());
    crypto_digest_init();
}

static struct crypto_key *from_parts(enum crypto_kind kind, const uint8_t *data, size_t len)
{
    struct crypto_bytes parts[CRYPTO_PARTS_MAX] = {0};
    for (size_t i = 0; i < CRYPTO_PARTS_MAX && len >= 2; i++) {
        size_t size = (size_t)data[0] << 8 | data[1];
        data += 2;
        len -= 2;
        if (size == 0xffff) /* absent */
            continue;
        if (size > len)
            size = len;
        parts[i] = (struct crypto_bytes){data, size};
        data += size;
        len -= size;
    }
    struct error err = {0};
    struct crypto_key *key = crypto_key_from_parts(kind, parts, CRYPTO_PARTS_MAX, &err);
    check(key || err.message[0]);
    return key;
}

static void check_round_trip(const struct crypto_key *key, enum crypto_format format)
{
    struct crypto_buffer first, second;
    struct error err = {0};
    if (crypto_key_export(key, format, &first, &err) < 0) {
        check(err.message[0]);
        return;
    }
    struct crypto_key *again = crypto_key_import(format, crypto_key_kind(key), first.data, first.size, &err);
    check(again != NULL && crypto_key_export(again, format, &second, &err) == 0);
    check(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    crypto_key_free(again);
    crypto_buffer_free(&first);
    crypto_buffer_free(&second);
}

static void check_signature(const struct crypto_key *key)
{
    struct crypto_buffer signature;
    struct crypto_bytes text = {(const uint8_t *)"text", 4};
    enum crypto_scheme scheme = crypto_key_kind(key) == CRYPTO_ED25519 ? CRYPTO_EDDSA : CRYPTO_ECDSA;
    if (!crypto_key_is_private(key) || crypto_sign(key, scheme, CRYPTO_SHA256, 0, text, &signature, NULL) < 0)
        return;
    struct crypto_bytes made = {signature.data, signature.size};
    check(crypto_verify(key, scheme, CRYPTO_SHA256, 0, made, text, NULL) == 1);
    crypto_buffer_free(&signature);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    init();
    if (len < 1)
        return 0;
    enum crypto_kind kind = (enum crypto_kind)((data[0] & 7) % CRYPTO_KINDS);
    unsigned format = data[0] >> 3 & 3;
    struct error err = {0};
    struct crypto_key *key = format == 3 ? from_parts(kind, data + 1, len - 1)
                                         : crypto_key_import(format, kind, data + 1, len - 1, &err);
    if (!key)
        return 0;
    struct crypto_key *public = crypto_key_public(key, &err);
    check(public != NULL && !crypto_key_is_private(public));
    check_round_trip(key, CRYPTO_PKCS8);
    check_round_trip(public, CRYPTO_SPKI);
    check_round_trip(public, CRYPTO_RAW);
    check_signature(key);
    crypto_key_free(public);
    crypto_key_free(key);
    return 0;
}
