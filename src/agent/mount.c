#include "agent/mount.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

int mount_new(const char *fstype, const struct mount_option *options, unsigned attributes, struct error *err)
{
    cleanup_close int fs = fsopen(fstype, FSOPEN_CLOEXEC);
    if (fs < 0)
        return error_system(err, errno, "cannot open file system type %s", fstype);
    for (const struct mount_option *o = options; o && o->key; o++)
        if (fsconfig(fs, o->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, o->key, o->value, 0) < 0)
            return error_system(err, errno, "%s refuses option %s", fstype, o->key);
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_system(err, errno, "cannot create a %s", fstype);
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    if (fd < 0)
        return error_system(err, errno, "cannot mount a %s", fstype);
    return fd;
}

int mount_clone(int dirfd, const char *path, unsigned attributes, struct error *err)
{
    cleanup_close int fd =
        open_tree(dirfd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (*path ? 0 : AT_EMPTY_PATH));
    if (fd < 0)
        return error_system(err, errno, "cannot copy the mount %s", *path ? path : "by descriptor");
    struct mount_attr attr = {.attr_set = attributes};
    if (attributes && mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return error_system(err, errno, "cannot restrict the mount %s", path);
    return steal_fd(&fd);
}

int mount_attach(int mount_fd, int dirfd, const char *path, struct error *err)
{
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
    if (move_mount(mount_fd, "", dirfd, path, flags) < 0)
        return error_system(err, errno, "cannot attach a mount at %s", *path ? path : "its place");
    return 0;
}
