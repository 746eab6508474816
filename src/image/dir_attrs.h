/* Permissions and times of directories, set when everything in them has been written (writing changes the
 * times, and a directory may come with permissions that forbid writing). Keyed by inode, so that a million
 * directories cost 32 MiB and not their paths. */
#ifndef CLOISTER_IMAGE_DIR_ATTRS_H
#define CLOISTER_IMAGE_DIR_ATTRS_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

struct dir_attrs {
    struct dir_attr *slots;
    size_t used, size; /* size: 0 or a power of two */
};
void dir_attrs_free(struct dir_attrs *d);
int dir_attrs_put(struct dir_attrs *d, ino_t ino, mode_t mode, struct timespec mtime, struct error *err);
/* Walks the tree and sets what was put, children before parents. */
int dir_attrs_apply(const struct dir_attrs *d, int root, struct error *err);

#endif
