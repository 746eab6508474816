/* The bytes of a layer, decompressed, while the packed and the unpacked side are hashed and bounded. Reading,
 * hashing and decompressing run in a thread of their own, so that they overlap with writing files. */
#ifndef CLOISTER_IMAGE_LAYER_STREAM_H
#define CLOISTER_IMAGE_LAYER_STREAM_H

#include "base/error.h"
#include "image/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where a tar comes from: next() gives the next piece (valid until the next call), 0 at the end, -1 on error.
 */
struct byte_source {
    ssize_t (*next)(struct byte_source *s, const void **ret, struct error *err);
};

struct layer_stream;

struct layer_stream_options {
    const struct image_limits *limits;
    bool blob512, diff512; /* hash in sha512 as well */
    bool no_diff;          /* the unpacked side need not be hashed */
    bool any_filter; /* accept bzip2 and xz besides gzip and zstd (root file systems that users hand in) */
    void (*progress)(void *user, uint64_t packed_bytes); /* called from next()'s thread */
    void *user;
};

struct layer_stream_result {
    uint64_t blob_bytes, diff_bytes;
    char blob256[65], blob512[129], diff256[65], diff512[129];
};

/* Starts on `fd` (borrowed until close). UNTRUSTED INPUT. */
int layer_stream_open(int fd, const struct layer_stream_options *o, struct layer_stream **ret,
                      struct error *err);
struct byte_source *layer_stream_source(struct layer_stream *s);
/* Reads whatever is left on both sides and tells the digests. */
int layer_stream_finish(struct layer_stream *s, struct layer_stream_result *ret, struct error *err);
void layer_stream_close(struct layer_stream *s);

#endif
