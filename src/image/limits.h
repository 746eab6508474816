/* What an image or a snapshot may make us do. Each can be set for one run by an environment variable of the
 * helper (for tests and for unusual images): CLOISTER_IMAGE_<NAME>, a number of bytes ("32G") or a count. */
#ifndef CLOISTER_IMAGE_LIMITS_H
#define CLOISTER_IMAGE_LIMITS_H

#include "base/error.h"

#include <stdint.h>

#define LIMIT_DEPTH 256          /* directories below each other */
#define LIMIT_NAME 255           /* one part of a path */
#define LIMIT_PATH 4096          /* a whole path, and where a symbolic link leads */
#define LIMIT_XATTR_VALUE 65536  /* one extended attribute */
#define LIMIT_XATTR_TOTAL 131072 /* those of one entry */
#define LIMIT_JSON ((size_t)4 << 20)
#define LIMIT_ENV ((size_t)1 << 20)            /* all of Env */
#define LIMIT_ARGS ((size_t)1 << 20)           /* Entrypoint and Cmd, each */
#define LIMIT_ZSTD_WINDOW_LOG 27               /* 128 MiB of decoder memory */
#define LIMIT_RATIO_FREE ((uint64_t)256 << 20) /* output below which the ratio is not judged */

struct image_limits {
    uint64_t layer_bytes;   /* LAYER_BYTES: unpacked, sparse files by their apparent size; 32G */
    uint64_t image_bytes;   /* IMAGE_BYTES: all layers of an image; 64G */
    uint64_t layer_entries; /* LAYER_ENTRIES; 1000000 */
    uint64_t layers;        /* LAYERS: of an image; 128 */
    uint64_t ratio;         /* RATIO: bytes out per byte in, beyond LIMIT_RATIO_FREE; 1000 */
    uint64_t ratio_free;    /* RATIO_FREE: LIMIT_RATIO_FREE */
};

/* The defaults, as the environment changes them. */
int image_limits_load(struct image_limits *l, struct error *err);

#endif
