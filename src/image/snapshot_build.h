/* Making the packed layer of a snapshot. The store's half of a snapshot only: its record is the caller's
 * (snapshot.h). */
#ifndef CLOISTER_IMAGE_SNAPSHOT_BUILD_H
#define CLOISTER_IMAGE_SNAPSHOT_BUILD_H

#include "base/error.h"
#include "image/image_build.h"

#include <stddef.h>
#include <stdint.h>

struct packed_layer {
    char digest[65]; /* of the blob */
    uint64_t size;   /* of the blob */
    uint64_t entries, bytes, skipped, excluded, changed;
};

struct snapshot_pack {
    const char *upper;
    const char *const *below; /* unpacked snapshot layers to merge in, bottom first */
    size_t below_count;
    int userns; /* of the container, or -1 */
    const char *const *excludes;
    size_t exclude_count;
};
/* Reads the tree in a child process: with a user namespace, one that has no more rights than the container's
 * own root (except when merging, where owners are translated instead). */
int snapshot_pack(const struct image_builder *b, const struct snapshot_pack *s, struct packed_layer *ret,
                  struct error *err);
/* Packs a tar (of a directory) read from `fd`. UNTRUSTED INPUT. */
int snapshot_from_tar(const struct image_builder *b, int fd, const char *const *excludes,
                      size_t exclude_count, struct packed_layer *ret, struct error *err);

#endif
