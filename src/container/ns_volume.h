/* The writable layer of a container as a file system of bounded size: writes beyond it fail with ENOSPC
 * inside, and the host's disk never fills.
 *
 * In memory (tmpfs): quick to make, charged to the container's memory limit; needs user attributes on tmpfs,
 * Linux 6.6. Image: a sparse ext4 file below <data_dir>/volumes on a loop device (root only), never linked,
 * so that it is gone with its mount, however its owner ends. Directory: below <data_dir>/volumes, of any
 * size: the last resort, and the grade says so. */
#ifndef CLOISTER_CONTAINER_NS_VOLUME_H
#define CLOISTER_CONTAINER_NS_VOLUME_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum volume_kind { VOLUME_MEMORY, VOLUME_IMAGE, VOLUME_DIRECTORY };

/* A detached mount of a new volume. `name`: of the directory, unique and beginning with the engine's id. */
int volume_in_directory(const char *data_dir, const char *name, int *ret_mount, struct error *err);
void volume_remove_directory(const char *data_dir, const char *name);
/* Removes the directories of an engine that is dead. */
void volume_remove_engine(const char *data_dir, const char *engine_id);
int volume_in_memory(uint64_t bytes, uint64_t inodes, int *ret_mount, struct error *err);
int volume_in_image(const char *data_dir, uint64_t bytes, uint64_t inodes, int *ret_mount, struct error *err);
/* Changes the size of a volume in memory, mounted at `name` below dir_fd. */
int volume_resize(int dir_fd, const char *name, uint64_t bytes, uint64_t inodes, struct error *err);
/* How many inodes a volume of this size gets where nothing else is said. */
uint64_t volume_inodes(uint64_t bytes);

/* A volume in memory that waits for its container; mount -1: none. */
struct volume_spare {
    int mount;
    uint64_t bytes, inodes;
};
/* Makes one. False when volumes in memory cannot carry the marks that overlays need: then there is none. */
bool volume_spare_make(struct volume_spare *s, uint64_t bytes, uint64_t inodes);
/* Its mount, now the caller's, when it is of this size; else -1. */
int volume_spare_take(struct volume_spare *s, uint64_t bytes, uint64_t inodes);
/* Whether volume_in_image() can work here; `err` says what is missing. */
bool volume_image_possible(struct error *err);

#endif
