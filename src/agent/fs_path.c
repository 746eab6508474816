#include "agent/fs_path.h"

#include "agent/kernel.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#define MAX_LINKS 40

int fs_fail(struct error *err, int errnum, const char *what, const char *path)
{
    return error_system(err, errnum, "cannot %s %.300s", what, path);
}

int fs_refuse_pseudo(int fd, const char *path, struct error *err)
{
    struct statfs st;
    if (fstatfs(fd, &st) < 0)
        return fs_fail(err, errno, "open", path);
    if (st.f_type == PROC_SUPER_MAGIC_NUMBER || st.f_type == SYSFS_MAGIC_NUMBER)
        return fs_fail(err, EACCES, "open", path);
    return 0;
}

static int open_at(int dirfd, const char *path, int flags)
{
    return sys_openat2(dirfd, path, flags | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);
}

int fs_open_path(const char *path, int extra_flags, struct error *err)
{
    int fd = open_at(AT_FDCWD, path, O_PATH | extra_flags);
    return fd < 0 ? fs_fail(err, errno, "open", path) : fd;
}

int fs_open_regular(const struct fs_io *io, const char *path, int flags, struct stat *ret, struct error *err)
{
    cleanup_close int at = fs_open_path(path, 0, err);
    if (at < 0)
        return -1;
    if (fstat(at, ret) < 0)
        return fs_fail(err, errno, "open", path);
    if (!S_ISREG(ret->st_mode))
        return fs_fail(err, S_ISDIR(ret->st_mode) ? EISDIR : EINVAL, "open", path);
    if (fs_refuse_pseudo(at, path, err) < 0)
        return -1;
    /* exactly the file that was looked at, whatever the name means by now */
    char self[32];
    snprintf(self, sizeof self, "self/fd/%d", at);
    int fd = openat(io->proc, self, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? fs_fail(err, errno, "open", path) : fd;
}

int fs_open_directory(const char *path, struct error *err)
{
    cleanup_close int fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0)
        return fs_fail(err, errno, "open", path);
    if (fs_refuse_pseudo(fd, path, err) < 0)
        return -1;
    return steal_fd(&fd);
}

/* Splits off the last component. `*ret_dir_len` is the length of what comes before it. */
static int split(const char *path, size_t *ret_dir_len, char name[NAME_MAX + 1], struct error *err)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    size_t len = end - start;
    if (len > NAME_MAX)
        return fs_fail(err, ENAMETOOLONG, "use", path);
    memcpy(name, path + start, len);
    name[len] = '\0';
    if (len == 0)
        return fs_fail(err, EBUSY, "change", path);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return fs_fail(err, EINVAL, "use", path);
    *ret_dir_len = start;
    return 0;
}

/* One component of mkdir -p. An existing directory, or link to one, is fine. */
static int step_into(int at, const char *name, unsigned mode)
{
    int fd = open_at(at, name, O_PATH | O_DIRECTORY);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (mkdirat(at, name, mode) < 0 && errno != EEXIST)
        return -1;
    return open_at(at, name, O_PATH | O_DIRECTORY);
}

static int walk_making(int dirfd, const char *path, unsigned mode)
{
    char copy[PATH_MAX];
    if (strlen(path) >= sizeof copy)
        return errno = ENAMETOOLONG, -1;
    memcpy(copy, path, strlen(path) + 1);
    int at = open_at(dirfd, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY);
    char *save;
    for (char *name = strtok_r(copy, "/", &save); name && at >= 0; name = strtok_r(NULL, "/", &save)) {
        int next = step_into(at, name, mode);
        int saved = errno;
        close(at);
        errno = saved;
        at = next;
    }
    return at;
}

static int open_parent_at(int dirfd, const char *path, bool parents, char name[NAME_MAX + 1],
                          struct error *err)
{
    char dir[PATH_MAX];
    size_t len;
    if (split(path, &len, name, err) < 0)
        return -1;
    if (len >= sizeof dir)
        return fs_fail(err, ENAMETOOLONG, "use", path);
    memcpy(dir, path, len);
    dir[len] = '\0';
    int fd = parents ? walk_making(dirfd, dir, 0755) : open_at(dirfd, len ? dir : ".", O_PATH | O_DIRECTORY);
    return fd < 0 ? fs_fail(err, errno, "open the directory of", path) : fd;
}

int fs_open_parent(const char *path, bool parents, char name[NAME_MAX + 1], struct error *err)
{
    return open_parent_at(AT_FDCWD, path, parents, name, err);
}

int fs_open_target_parent(const char *path, bool parents, char name[NAME_MAX + 1], struct error *err)
{
    char target[PATH_MAX];
    cleanup_close int at = open_parent_at(AT_FDCWD, path, parents, name, err);
    for (int i = 0; at >= 0 && i < MAX_LINKS; i++) {
        ssize_t n = readlinkat(at, name, target, sizeof target);
        if (n < 0 || n == (ssize_t)sizeof target)
            return steal_fd(&at); /* no link: here it is, or will be */
        target[n] = '\0';
        struct statfs st;
        if (fstatfs(at, &st) == 0 && st.f_type == PROC_SUPER_MAGIC_NUMBER)
            return fs_fail(err, EACCES, "follow", path);
        int next = open_parent_at(at, target, parents, name, err);
        close(at);
        at = next;
    }
    return at < 0 ? -1 : fs_fail(err, ELOOP, "follow", path);
}

int fs_make_directories(const char *path, unsigned mode, struct error *err)
{
    cleanup_close int fd = walk_making(AT_FDCWD, path, mode);
    return fd < 0 ? fs_fail(err, errno, "make the directory", path) : 0;
}
