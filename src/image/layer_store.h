/* Puts verified layers into the store: unpacked aside, checked against every digest that is known, made
 * durable, then renamed to their place in one step. A layer is there wholly or not at all, whenever we are
 * killed. */
#ifndef CLOISTER_IMAGE_LAYER_STORE_H
#define CLOISTER_IMAGE_LAYER_STORE_H

#include "base/error.h"
#include "image/digest.h"
#include "image/layer_unpack.h"
#include "image/progress.h"

#include <stdbool.h>
#include <stdint.h>

#define BLOB_SIZE_UNKNOWN UINT64_MAX

struct layer_request {
    int fd;                   /* the packed layer; borrowed */
    struct digest blob, diff; /* expected; text "" where unknown */
    uint64_t blob_size;       /* expected, or BLOB_SIZE_UNKNOWN */
    const char *const *below; /* store names of the layers below, bottom first (an image's layers) */
    size_t below_count;
    const char *chain; /* chain id (hex) of the layers below, "" for none */
    bool snapshot; /* named by its blob digest; made durable only until the next boot, as its blob is kept */
    bool any_filter;     /* see layer_stream.h */
    uint64_t bytes_left; /* of the image's limit */
};

struct layer_done {
    char name[65]; /* in the store */
    char diff[65];
    char chain[65];
    uint64_t blob_bytes;
    bool reused; /* it was there before */
    struct unpack_result unpacked;
};

int layer_store_add(const char *data_dir, const struct image_limits *limits, const struct layer_request *q,
                    struct progress *progress, struct layer_done *ret, struct error *err);
/* Finds a layer by diff id (or, where `chain` is not "", by the chain id that diff id makes on it); true when
 * complete. */
bool layer_store_find(const char *data_dir, const char *diff_hex, const char *chain, struct layer_done *ret);
/* sha256 of "sha256:<below> sha256:<diff>", or diff itself when nothing is below (OCI's ChainID). */
void layer_chain_id(const char *below, const char *diff_hex, char ret[65]);

#endif
