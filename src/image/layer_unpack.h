/* Unpacks the tar of one layer into an empty directory, in overlayfs's own form.
 *
 * - A name with ".." is refused; absolute names lie in the root; parents are resolved inside the root,
 * whatever symbolic links the layer made; where a parent is only in a layer below, it is found there (a link
 * is followed, a directory's looks are kept).
 * - ".wh.x" becomes a whiteout, ".wh..wh..opq" makes its directory opaque; other ".wh..wh." names (AUFS's
 * own) are skipped; ".wh.",
 *   ".wh..", ".wh...", whiteouts that are no regular files and whiteouts below a symbolic link are refused.
 * - Devices, fifos and sockets are skipped and counted; what has that name stays.
 * - A hard link leads to a file or symbolic link of the same layer, made before it; otherwise it is refused.
 * - Of extended attributes only user.* are kept, without user.overlay.*; the others are counted.
 * - The last of several entries with one name wins.
 * - Owners are numeric; what this process may not set is left to its own id, and `squashed` says so. */
#ifndef CLOISTER_IMAGE_LAYER_UNPACK_H
#define CLOISTER_IMAGE_LAYER_UNPACK_H

#include "base/error.h"
#include "image/layer_stream.h"
#include "image/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name of an attribute with which our own packer marks an entry whose name only looks like a whiteout. It
 * is never stored. */
#define LITERAL_XATTR "trusted.cloister.literal"
/* And one that it hides what has that name below, where ".wh." before the name would be too long or
 * ambiguous. */
#define WHITEOUT_XATTR "trusted.cloister.whiteout"

struct unpack_options {
    const struct image_limits *limits;
    const int *lowers; /* roots of the layers below, topmost first */
    size_t lower_count;
    bool whole;    /* nothing else vouches for the tar: it must have entries and its mark of the end */
    bool snapshot; /* user.overlay.* attributes are the container's own and are kept (escaped, so that
                      overlayfs ignores them) */
};

struct unpack_result {
    uint64_t entries;
    uint64_t bytes;   /* of regular files, by apparent size */
    uint64_t skipped; /* devices, fifos, sockets */
    uint64_t xattrs_dropped;
    uint64_t implied; /* parents that the tar did not list: the layer depends on those below it */
    bool squashed;    /* some owners could not be kept */
    bool opaque_root; /* hides every layer below */
};

/* UNTRUSTED INPUT. On error the directory holds a part, for the caller to remove. */
int layer_unpack(int root, struct byte_source *source, const struct unpack_options *o,
                 struct unpack_result *ret, struct error *err);

#endif
