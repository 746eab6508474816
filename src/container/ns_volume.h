/* The writable layer of a container as a file system of bounded size: writes beyond it fail with ENOSPC
 * inside, and the host's disk never fills.
 *
 * Two kinds. In memory (tmpfs): quick to make, charged to the container's memory limit. An image: a sparse
 * ext4 file below <data_dir>/volumes on a loop device (root only), unlinked as soon as it is mounted, so that
 * it is gone with its mount, however its owner ends. */
#ifndef CLOISTER_CONTAINER_NS_VOLUME_H
#define CLOISTER_CONTAINER_NS_VOLUME_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* A detached mount of a new volume. */
int volume_in_memory(uint64_t bytes, uint64_t inodes, int *ret_mount, struct error *err);
int volume_in_image(const char *data_dir, uint64_t bytes, uint64_t inodes, int *ret_mount, struct error *err);
/* Changes the size of a volume in memory, mounted at `name` below dir_fd. */
int volume_resize(int dir_fd, const char *name, uint64_t bytes, uint64_t inodes, struct error *err);
/* Whether volume_in_image() can work here; `err` says what is missing. */
bool volume_image_possible(struct error *err);

#endif
