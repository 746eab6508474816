/* Turns a container's writable layer (an overlayfs upper directory) into a tar. */
#ifndef CLOISTER_IMAGE_PACK_H
#define CLOISTER_IMAGE_PACK_H

#include "base/error.h"
#include "image/limits.h"
#include "image/tar_write.h"

#include <stddef.h>
#include <stdint.h>

#define PACK_SOURCES_MAX 40

/* Maps the ids that a file has on disk to those it has for the container: on disk [disk, disk+count) is
 * [inside, inside+count). */
struct pack_ids {
    uint32_t inside, disk, count;
};

struct pack_options {
    const struct image_limits *limits;
    const char *const *excludes;
    size_t exclude_count;
    /* Ids of the topmost source; 0: as they are. */
    const struct pack_ids *uids, *gids;
    size_t uid_count, gid_count;
};

struct pack_result {
    uint64_t entries, bytes;
    uint64_t skipped;  /* sockets, fifos, devices */
    uint64_t excluded; /* entries that matched (not what lay below them) */
    uint64_t changed;  /* files that shrank while they were read: their end is zeros */
};

/* `sources`: directories, topmost first; what lies below the topmost (lower snapshot layers) is merged in.
 * Nothing outside of them is opened, whatever links they hold. The order of entries depends on the names
 * alone. UNTRUSTED INPUT: the tree is the guest's. */
int pack_tree(const int *sources, size_t count, const struct pack_options *o, struct byte_sink *sink,
              struct pack_result *ret, struct error *err);

#endif
