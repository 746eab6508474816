#include "base/fd.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

ssize_t fd_read_full(int fd, void *data, size_t len)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = read(fd, (char *)data + got, len - got);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

int fd_set_nonblock(int fd, bool on)
{
    int fl = fcntl(fd, F_GETFL);
    if (fl < 0)
        return -1;
    return fcntl(fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK);
}

int fd_set_cloexec(int fd, bool on)
{
    return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0);
}

int file_put(int dirfd, const char *path, const char *text)
{
    cleanup_close int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t len = strlen(text);
    ssize_t n = write(fd, text, len);
    if (n < 0)
        return -1;
    if ((size_t)n != len) {
        errno = EIO;
        return -1;
    }
    return 0;
}

int file_slurp(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_len, struct error *err)
{
    cleanup_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return error_system(err, errno, "cannot open %s", path);
    size_t cap = 4096, len = 0;
    cleanup_free char *text = malloc(cap + 1);
    if (!text)
        return error_oom(err);
    for (;;) {
        ssize_t n = fd_read_full(fd, text + len, cap - len);
        if (n < 0)
            return error_system(err, errno, "cannot read %s", path);
        len += (size_t)n;
        if (len < cap)
            break;
        if (cap > max)
            return error_set(err, ERROR_LIMIT, "%s is larger than %zu bytes", path, max);
        char *grown = realloc(text, cap * 2 + 1);
        if (!grown)
            return error_oom(err);
        text = grown;
        cap *= 2;
    }
    if (len > max)
        return error_set(err, ERROR_LIMIT, "%s is larger than %zu bytes", path, max);
    text[len] = '\0';
    if (ret_len)
        *ret_len = len;
    *ret_text = steal_pointer(&text);
    return 0;
}

static int sync_parent(int dirfd, const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(parent, sizeof parent, ".");
    else
        snprintf(parent, sizeof parent, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    cleanup_close int fd = openat(dirfd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

int file_replace(int dirfd, const char *path, const void *data, size_t len, mode_t mode, struct error *err)
{
    char tmp[PATH_MAX];
    if (snprintf(tmp, sizeof tmp, "%s.tmp.%d", path, (int)getpid()) >= (int)sizeof tmp)
        return error_system(err, ENAMETOOLONG, "cannot write %s", path);
    unlinkat(dirfd, tmp, 0);
    cleanup_close int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return error_system(err, errno, "cannot create %s", tmp);
    if (fd_write_all(fd, data, len) < 0 || fsync(fd) < 0 || renameat(dirfd, tmp, dirfd, path) < 0 ||
        sync_parent(dirfd, path) < 0) {
        int saved = errno;
        unlinkat(dirfd, tmp, 0);
        return error_system(err, saved, "cannot write %s", path);
    }
    return 0;
}

int dir_make(const char *path, mode_t mode, struct error *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part)
        return error_system(err, ENAMETOOLONG, "cannot create directory %.64s", path);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char keep = part[i];
        part[i] = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return error_system(err, errno, "cannot create directory %s", part);
        part[i] = keep;
    }
    return 0;
}

/* --- removing a tree: UNTRUSTED INPUT, a guest may have made it --- */

#define REMOVE_DEPTH 32

struct removal {
    int top;
    dev_t dev;
    unsigned long lifted;
};

static int remove_children(struct removal *r, int fd, unsigned depth);

/* As unlinkat(), also in a directory that forbids writing to its own owner, as images have them. */
static int remove_entry(int dir, const char *name, int flags)
{
    if (unlinkat(dir, name, flags) == 0)
        return 0;
    return errno == EACCES && fchmod(dir, 0700) == 0 ? unlinkat(dir, name, flags) : -1;
}

/* Opens a directory, even one that its own owner may not read. Never through a symbolic link. */
static int open_child(int dir, const char *name)
{
    const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char path[40];
    int fd = openat(dir, name, O_RDONLY | flags);
    if (fd >= 0 || errno != EACCES)
        return fd;
    cleanup_close int at = openat(dir, name, O_PATH | flags);
    if (at < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", at);
    if (chmod(path, 0700) < 0) {
        errno = EACCES; /* whatever kept us from changing that, a missing /proc too */
        return -1;
    }
    return openat(dir, name, O_RDONLY | flags);
}

/* Moves a directory that lies too deep up to the top, whose next pass removes it: a tree may be deeper than
 * there are descriptors, or stack. */
static int lift_child(struct removal *r, int dir, const char *name, int child)
{
    char to[40];
    if (fchmod(child, 0700) < 0 || fchmod(dir, 0700) < 0)
        return -1;
    do {
        snprintf(to, sizeof to, ".lifted-%lu", r->lifted++);
        if (renameat(dir, name, r->top, to) == 0)
            return 0;
    } while (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR);
    return -1;
}

static int remove_directory(struct removal *r, int dir, const char *name, unsigned depth)
{
    struct stat st;
    cleanup_close int child = open_child(dir, name);
    if (child < 0 || fstat(child, &st) < 0)
        return -1;
    if (st.st_dev != r->dev) {
        errno = EXDEV;
        return -1;
    }
    if (depth >= REMOVE_DEPTH)
        return lift_child(r, dir, name, child);
    if (remove_children(r, steal_fd(&child), depth + 1) < 0)
        return -1;
    return remove_entry(dir, name, AT_REMOVEDIR);
}

/* Removes everything in the directory `fd` (consumed), as far as it can. -1 with the errno of the last
 * failure. */
static int remove_children(struct removal *r, int fd, unsigned depth)
{
    cleanup_dir DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -1;
    }
    int failed = 0;
    struct dirent *e;
    while ((e = readdir(dir))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (e->d_type != DT_DIR && remove_entry(dirfd(dir), e->d_name, 0) == 0)
            continue;
        /* Of an unknown type, it may yet be a directory. */
        if (e->d_type != DT_DIR && errno != EISDIR)
            failed = errno;
        else if (remove_directory(r, dirfd(dir), e->d_name, depth) < 0)
            failed = errno;
    }
    if (failed) {
        errno = failed;
        return -1;
    }
    return 0;
}

int dir_remove(int at, const char *path, struct error *err)
{
    cleanup_close int top = open_child(at, path);
    if (top < 0)
        return errno == ENOENT ? 0 : error_system(err, errno, "cannot open %s", path);
    struct stat st;
    if (fstat(top, &st) < 0)
        return error_system(err, errno, "cannot read %s", path);
    struct removal r = {.top = top, .dev = st.st_dev};
    unsigned long before;
    int failed;
    do { /* ends: each pass makes what it lifts less deep */
        before = r.lifted;
        int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        failed = fd < 0 || remove_children(&r, fd, 0) < 0;
    } while (r.lifted != before);
    if (failed || remove_entry(at, path, AT_REMOVEDIR) < 0)
        return error_system(err, errno, "cannot remove %s", path);
    return 0;
}
