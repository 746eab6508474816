/* Mounts made through descriptors (fsopen(2) and friends): no path is walked twice. */
#ifndef CLOISTER_AGENT_MOUNT_H
#define CLOISTER_AGENT_MOUNT_H

#include "base/error.h"

struct mount_option {
    const char *key;
    const char *value; /* NULL: a flag */
};

/* A new, detached mount of a file system. `options` ends with a NULL key. Descriptor, or -1. */
int mount_new(const char *fstype, const struct mount_option *options, unsigned attributes, struct error *err);
/* A detached copy of what is at dirfd/path ("" : dirfd itself) with further attributes set. */
int mount_clone(int dirfd, const char *path, unsigned attributes, struct error *err);
/* Attaches `mount_fd` (detached, or attached elsewhere: then it moves) at dirfd/path ("": dirfd itself). */
int mount_attach(int mount_fd, int dirfd, const char *path, struct error *err);

#endif
