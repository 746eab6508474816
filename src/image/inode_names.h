/* The first name under which a file with several names was met. */
#ifndef CLOISTER_IMAGE_INODE_NAMES_H
#define CLOISTER_IMAGE_INODE_NAMES_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

struct inode_names {
    struct inode_name *slots;
    size_t used, size;
};
const char *inode_names_find(const struct inode_names *n, dev_t dev, ino_t ino);
int inode_names_add(struct inode_names *n, dev_t dev, ino_t ino, const char *path, struct error *err);
void inode_names_free(struct inode_names *n);

#endif
