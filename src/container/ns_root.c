#include "container/ns_root.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "container/fsconf.h"
#include "container/ns_volume.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static int make_volume(struct ns_root *r, uint64_t bytes, uint64_t inodes, enum volume_kind kind, int *ret,
                       struct error *err)
{
    switch (kind) {
    case VOLUME_MEMORY:
        *ret = volume_spare_take(r->spare, bytes, inodes);
        return *ret >= 0 ? 0 : volume_in_memory(bytes, inodes, ret, err);
    case VOLUME_IMAGE:
        return volume_in_image(r->data_dir, bytes, inodes, ret, err);
    case VOLUME_DIRECTORY:
        break;
    }
    return volume_in_directory(r->data_dir, r->name, ret, err);
}

static int mount_volume(struct ns_root *r, uint64_t bytes, uint64_t inodes, enum volume_kind kind,
                        struct error *err)
{
    int got = -1;
    if (mkdirat(r->dir_fd, "disk", 0700) < 0 && errno != EEXIST)
        return error_system(err, errno, "cannot create %s/disk", r->dir);
    if (make_volume(r, bytes, inodes, kind, &got, err) < 0)
        return -1;
    cleanup_close int mnt = got;
    r->kind = kind;
    if (move_mount(mnt, "", r->dir_fd, "disk", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_system(err, errno, "cannot attach the writable layer");
    r->volume = true;
    return 0;
}

static void unmount_volume(struct ns_root *r)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/disk", r->dir);
    umount2(path, MNT_DETACH);
}

static void forget_volume(struct ns_root *r)
{
    r->volume = false;
    if (r->kind == VOLUME_DIRECTORY)
        volume_remove_directory(r->data_dir, r->name);
}

int ns_root_volume(struct ns_root *r, uint64_t bytes, uint64_t inodes, enum volume_kind kind,
                   struct error *err)
{
    bool same = r->volume && r->kind == kind;
    if (same && (kind == VOLUME_DIRECTORY || (r->bytes == bytes && r->inodes == inodes)))
        return 0;
    if (same && kind == VOLUME_MEMORY) {
        if (volume_resize(r->dir_fd, "disk", bytes, inodes, err) < 0)
            return -1;
    } else {
        if (r->volume) {
            unmount_volume(r);
            forget_volume(r);
        }
        if (mount_volume(r, bytes, inodes, kind, err) < 0)
            return -1;
    }
    r->bytes = bytes;
    r->inodes = inodes;
    return 0;
}

/* A detached copy of the mount at `path`, mapped to the container's ids and with `attr` set. */
static int clone_mapped(struct ns_root *r, const char *path, bool recursive, uint64_t attr, struct error *err)
{
    unsigned rec = recursive ? AT_RECURSIVE : 0;
    cleanup_close int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | rec);
    if (fd < 0)
        return error_system(err, errno, "cannot mount %s", path);
    struct mount_attr a = {.attr_set = attr};
    if (r->idmap) {
        a.attr_set |= MOUNT_ATTR_IDMAP;
        a.userns_fd = (uint64_t)r->userns_fd;
    }
    if (mount_setattr(fd, "", AT_EMPTY_PATH | rec, &a, sizeof a) < 0)
        return error_system(err, errno, "cannot map the owners of %s", path);
    return steal_fd(&fd);
}

/* Attaches a layer as <dir>/l<number>; the overlay takes a private copy. */
static int attach_layer(struct ns_root *r, const char *layer, struct error *err)
{
    char name[32];
    snprintf(name, sizeof name, "l%u", r->layers);
    if (mkdirat(r->dir_fd, name, 0700) < 0 && errno != EEXIST)
        return error_system(err, errno, "cannot create %s/%s", r->dir, name);
    cleanup_close int fd = clone_mapped(r, layer, false, MOUNT_ATTR_RDONLY, err);
    if (fd < 0)
        return -1;
    if (move_mount(fd, "", r->dir_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_system(err, errno, "cannot attach layer %s", layer);
    r->layers++;
    return 0;
}

void ns_root_release_layers(struct ns_root *r)
{
    for (; r->released < r->layers; r->released++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/l%u", r->dir, r->released);
        umount2(path, MNT_DETACH);
        rmdir(path);
    }
}

static int make_upper(struct ns_root *r, unsigned overlay, struct error *err)
{
    static const char *const parts[] = {"", "/upper", "/work"};
    char path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "disk/%u%s", overlay, parts[i]);
        if (mkdirat(r->dir_fd, path, i ? 0755 : 0700) < 0)
            return error_system(err, errno, "cannot create %s/%s", r->dir, path);
        if (i && r->uid && fchownat(r->dir_fd, path, r->uid, r->uid, AT_SYMLINK_NOFOLLOW) < 0)
            return error_system(err, errno, "cannot give %s/%s to the container", r->dir, path);
    }
    return 0;
}

/* Relative names keep the option short; with more layers than fit, each is given by itself (Linux 6.7). */
static int configure_layers(int fs, unsigned first, size_t count)
{
    struct buf list;
    char name[32];
    int rc = -1;
    buf_init(&list, 0);
    for (size_t i = count; i-- > 0;)
        buf_printf(&list, "l%zu%s", first + i, i ? ":" : "");
    if (list.len <= FSCONF_MAX && buf_str(&list)) {
        rc = fsconf_string(fs, "lowerdir", (const char *)list.data);
    } else {
        rc = 0;
        for (size_t i = count; rc == 0 && i-- > 0;) {
            snprintf(name, sizeof name, "l%zu", first + i);
            rc = fsconf_string(fs, "lowerdir+", name);
        }
    }
    buf_free(&list);
    return rc;
}

static int mount_overlay(struct ns_root *r, unsigned overlay, unsigned first, size_t count, struct error *err)
{
    char upper[32], work[32];
    snprintf(upper, sizeof upper, "disk/%u/upper", overlay);
    snprintf(work, sizeof work, "disk/%u/work", overlay);
    cleanup_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    /* userxattr: marks of the writable layer are user.overlay.*, which a container's root may read when its
     * snapshot is packed; it also switches redirect_dir and metacopy off (overlayfs documentation). */
    if (fs < 0 || fsconf_string(fs, "source", "cloister") < 0 || configure_layers(fs, first, count) < 0 ||
        fsconf_string(fs, "upperdir", upper) < 0 || fsconf_string(fs, "workdir", work) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return fsconf_error(fs, err, "the container's root");
    int mnt = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return mnt < 0 ? fsconf_error(fs, err, "the container's root") : mnt;
}

int ns_root_overlay(struct ns_root *r, const char *const *layers, size_t count, int *ret_fd,
                    struct error *err)
{
    unsigned overlay = r->overlays++, first = r->layers;
    if (count == 0)
        return error_set(err, ERROR_INVALID, "an image needs at least one layer");
    if (make_upper(r, overlay, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (attach_layer(r, layers[i], err) < 0)
            return -1;
    /* Relative layer names are resolved against the working directory. */
    cleanup_close int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || fchdir(r->dir_fd) < 0)
        return error_system(err, errno, "cannot enter %s", r->dir);
    cleanup_close int mnt = mount_overlay(r, overlay, first, count, err);
    if (fchdir(here) < 0 && mnt >= 0)
        return error_system(err, errno, "cannot return to the working directory");
    if (mnt < 0)
        return -1;
    *ret_fd = steal_fd(&mnt);
    return 0;
}

int ns_root_usr(struct ns_root *r, int *ret_fd, struct error *err)
{
    /* Without the id map: the machine's files keep owners that are nobody inside, so that the container's
     * root can neither read what is only for root of the host nor take leases, which are an owner's right and
     * would make the host wait. */
    struct ns_root plain = *r;
    plain.idmap = false;
    int fd =
        clone_mapped(&plain, "/usr", true, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    if (fd < 0)
        return -1;
    *ret_fd = fd;
    return 0;
}

void ns_root_usage(const struct ns_root *r, uint64_t *ret_bytes, uint64_t *ret_inodes)
{
    char path[PATH_MAX];
    struct statfs st;
    snprintf(path, sizeof path, "%s/disk", r->dir);
    if (!r->volume || statfs(path, &st) < 0)
        return;
    *ret_bytes = (st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
    *ret_inodes = st.f_files - st.f_ffree;
}

void ns_root_remove(struct ns_root *r, bool leave_mounts)
{
    if (!leave_mounts)
        ns_root_release_layers(r);
    if (!r->volume)
        return;
    if (!leave_mounts)
        unmount_volume(r);
    forget_volume(r);
}
