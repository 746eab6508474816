/* "start", first half: the image becomes the root. Every mount target in it is opened by descriptor without
 * following any symbolic link, because the image is not trusted (attacks A8, A9, A10, B5). */
#include "agent/agent.h"
#include "agent/kernel.h"
#include "agent/mount.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

static int refuse_target(struct error *err, const char *path)
{
    int saved = errno;
    if (saved == ELOOP)
        return error_set(err, ERROR_DENIED,
                         "the mount target /%s is, or passes through, a symbolic link of the image", path);
    if (saved == EROFS)
        return error_system(err, saved, "the image lacks /%s and its root is read-only", path);
    return error_system(err, saved, "cannot use /%s of the image as a mount target", path);
}

/* Makes the missing directories of `path` below `root`. */
static int make_directories(int root, const char *path, struct error *err)
{
    cleanup_free char *copy = strdup(path);
    cleanup_close int at = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!copy)
        return error_oom(err);
    char *save;
    for (char *name = strtok_r(copy, "/", &save); name && at >= 0; name = strtok_r(NULL, "/", &save)) {
        mkdirat(at, name, 0755); /* an error shows at the next step */
        int saved = errno;
        int next = sys_openat2(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
        if (next < 0 && errno == ENOENT)
            errno = saved;
        int opened = errno;
        close(at);
        errno = opened;
        at = next;
    }
    return at < 0 ? refuse_target(err, path) : 0;
}

/* `path` without leading slash. */
static int open_target(int root, const char *path, struct error *err)
{
    int fd = sys_openat2(root, path, O_PATH | O_CLOEXEC, 0, BENEATH);
    if (fd < 0 && errno == ENOENT) {
        if (make_directories(root, path, err) < 0)
            return -1;
        fd = sys_openat2(root, path, O_PATH | O_CLOEXEC, 0, BENEATH);
    }
    if (fd < 0)
        return refuse_target(err, path);
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) { /* O_PATH opens the link itself */
        close(fd);
        errno = ELOOP;
        return refuse_target(err, path);
    }
    return fd;
}

static int move_to(int root, int mount_fd, const char *path, struct error *err)
{
    cleanup_close int target = open_target(root, path, err);
    if (target < 0)
        return -1;
    if (mount_attach(mount_fd, target, "", err) < 0)
        return error_wrap(err, "/%s", path);
    return 0;
}

static int move_all(struct agent *a, int root, const struct enter_mount *mounts, int count, struct error *err)
{
    if (move_to(root, a->proc_fd, "proc", err) < 0 || move_to(root, a->sys_fd, "sys", err) < 0 ||
        move_to(root, a->dev_fd, "dev", err) < 0 || move_to(root, a->run_fd, "run", err) < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        const char *path = mounts[i].target + strspn(mounts[i].target, "/");
        if (*path == '\0')
            return error_field(err, "mounts", "a mount target must not be /: that is what \"root\" is for");
        if (move_to(root, mounts[i].fd, path, err) < 0)
            return -1;
    }
    return 0;
}

/* After all moves: what is at these names is what we put there. */
static int verify(const char *path, long magic, struct error *err)
{
    cleanup_close int fd =
        sys_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
    struct statfs st;
    if (fd < 0 || fstatfs(fd, &st) < 0)
        return error_system(err, errno, "cannot verify %s", path);
    if (st.f_type != magic)
        return error_set(err, ERROR_DENIED, "%s is not the file system it must be; a mount covers it", path);
    return 0;
}

int enter_root(struct agent *a, int root_fd, const struct enter_mount *mounts, int count, struct error *err)
{
    if (mount_attach(root_fd, AT_FDCWD, "/", err) < 0)
        return error_wrap(err, "the image root");
    if (move_all(a, root_fd, mounts, count, err) < 0)
        return -1;
    if (fchdir(root_fd) < 0 || sys_pivot_root(".", ".") < 0)
        return error_system(err, errno, "cannot change to the image root");
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_system(err, errno, "cannot detach the stage");
    if (verify("/proc", PROC_SUPER_MAGIC_NUMBER, err) < 0 || verify("/dev", TMPFS_MAGIC_NUMBER, err) < 0)
        return -1;
    /* Nobody needs these any more; proc and devpts stay open for our own use. */
    close(a->sys_fd);
    close(a->dev_fd);
    close(a->run_fd);
    a->sys_fd = a->dev_fd = a->run_fd = -1;
    return 0;
}
