/* What the files that make and take apart keys share. Not for others. */
#ifndef CLOISTER_WORKER_NATIVE_CRYPTO_KEY_INTERNAL_H
#define CLOISTER_WORKER_NATIVE_CRYPTO_KEY_INTERNAL_H

#include "worker/native_crypto_key.h"

struct crypto_key {
    enum crypto_kind kind;
    bool is_private;
    EVP_PKEY *pkey;
    struct crypto_buffer secret;
};

struct crypto_curve {
    const char *name; /* OpenSSL's */
    int nid;
    size_t field; /* bytes */
    uint8_t oid[9];
    size_t oid_size;
};

/* NULL where the kind is no NIST curve. */
const struct crypto_curve *crypto_curve_of(enum crypto_kind kind);
/* Takes `pkey` over, also when it fails. */
struct crypto_key *crypto_key_wrap(enum crypto_kind kind, bool is_private, EVP_PKEY *pkey, struct error *err);

/* The constructors for each kind; what they get is checked by them. */
struct crypto_key *crypto_rsa_new(const struct crypto_bytes parts[CRYPTO_PARTS_MAX], struct error *err);
/* point: an encoded point, or absent when `d` is given. */
struct crypto_key *crypto_ec_new(enum crypto_kind kind, struct crypto_bytes point, struct crypto_bytes d,
                                 struct error *err);
struct crypto_key *crypto_okp_new(enum crypto_kind kind, struct crypto_bytes x, struct crypto_bytes d,
                                  struct error *err);

#endif
