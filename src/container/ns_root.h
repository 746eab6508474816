/* Builds the file systems of a namespace container, from outside: a private writable layer of bounded size
 * (the volume), overlays over image layers, the machine's /usr. Results are detached mounts, which the agent
 * attaches inside.
 *
 * Everything uses directories below `dir` (the container's run directory), in this process's private mount
 * namespace. */
#ifndef CLOISTER_CONTAINER_NS_ROOT_H
#define CLOISTER_CONTAINER_NS_ROOT_H

#include "base/error.h"
#include "container/ns_volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ns_root {
    int dir_fd; /* the run directory, O_PATH */
    const char *dir;
    uid_t uid;     /* outside id of the container's root: owner of the writable layers */
    int userns_fd; /* the container's user namespace */
    bool idmap;    /* layers are mounted through the container's id map (only root can) */
    bool volume;   /* the volume is mounted */
    enum volume_kind kind;
    const char *data_dir;
    const char *name; /* <engine id>.<container id> */
    uint64_t bytes, inodes;
    struct volume_spare *spare; /* of the engine */
    unsigned overlays;
    unsigned layers, released; /* attached so far; of those, detached again */
};

/* Mounts the volume, or brings the one that is there, still unused, to this size and kind. */
int ns_root_volume(struct ns_root *r, uint64_t bytes, uint64_t inodes, enum volume_kind kind,
                   struct error *err);
/* One overlay over `layers` (absolute directories, bottom first), with its own writable layer in the volume.
 * The first one is the container's root, and its upper directory is <dir>/disk/0/upper. */
int ns_root_overlay(struct ns_root *r, const char *const *layers, size_t count, int *ret_fd,
                    struct error *err);
/* Detaches the layers, which overlays hold by themselves. */
void ns_root_release_layers(struct ns_root *r);
/* The machine's /usr, read-only. */
int ns_root_usr(struct ns_root *r, int *ret_fd, struct error *err);
void ns_root_usage(const struct ns_root *r, uint64_t *ret_bytes, uint64_t *ret_inodes);
/* At the end of the container. `leave_mounts`: the process, and with it the mount namespace, ends too. */
void ns_root_remove(struct ns_root *r, bool leave_mounts);

#endif
