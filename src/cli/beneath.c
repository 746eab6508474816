#include "cli/beneath.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int open_beneath(int dir, const char *name, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd;
    do
        fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
    while (fd < 0 && (errno == EAGAIN || errno == EINTR));
    return fd;
}

static int refuse(struct error *err, const char *name, const char *why)
{
    return error_set(err, ERROR_DENIED, "the archive holds \"%.200s\", %s; refused", name, why);
}

int beneath_clean(const char *name, char to[BENEATH_MAX_PATH], struct error *err)
{
    size_t n = 0;
    unsigned depth = 0;
    if (name[0] == '/')
        return refuse(err, name, "an absolute name");
    if (strlen(name) >= BENEATH_MAX_PATH)
        return refuse(err, name, "a name of more than 4096 bytes");
    for (const char *p = name; *p;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && p[0] == '.' && p[1] == '.')
            return refuse(err, name, "which leads upwards");
        if (len > 0 && !(len == 1 && p[0] == '.')) {
            if (++depth > BENEATH_MAX_DEPTH)
                return refuse(err, name, "more than 256 directories deep");
            if (n > 0)
                to[n++] = '/';
            memcpy(to + n, p, len);
            n += len;
        }
        p += len;
        p += *p == '/';
    }
    to[n] = '\0';
    return 0;
}

bool beneath_link_stays(const char *name, const char *target)
{
    unsigned depth = 0;
    for (const char *p = name; (p = strchr(p, '/')); p++)
        depth++;
    if (target[0] == '/' || target[0] == '\0')
        return false;
    bool down = false;
    for (const char *p = target; *p;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && p[0] == '.' && p[1] == '.') {
            if (down || depth == 0)
                return false;
            depth--;
        } else if (len > 0 && !(len == 1 && p[0] == '.')) {
            down = true;
        }
        p += len;
        p += *p == '/';
    }
    return true;
}

static int fail(struct error *err, const char *name)
{
    if (errno == ELOOP)
        return error_system(err, errno, "cannot write %.200s: a symbolic link lies on the way", name);
    return error_system(err, errno, "cannot write %.200s", name);
}

/* Opens the directory `name` itself is in, making it and its parents; `*ret_base` is the last component of
 * `name`. */
static int open_parent(int dir, const char *name, const char **ret_base, struct error *err)
{
    char part[BENEATH_MAX_PATH];
    size_t len = strlen(name);
    memcpy(part, name, len + 1);
    char *slash = strrchr(part, '/');
    *ret_base = slash ? name + (slash - part) + 1 : name;
    if (!slash) {
        int fd = fcntl(dir, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? fail(err, name) : fd;
    }
    *slash = '\0';
    int fd = open_beneath(dir, part, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT && beneath_mkdir(dir, part, 0755, err) < 0)
        return -1;
    if (fd < 0)
        fd = open_beneath(dir, part, O_PATH | O_DIRECTORY);
    return fd < 0 ? fail(err, name) : fd;
}

int beneath_mkdir(int dir, const char *name, unsigned mode, struct error *err)
{
    char part[BENEATH_MAX_PATH];
    cleanup_close int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    if (at < 0)
        return fail(err, name);
    for (const char *p = name; *p;) {
        size_t len = strcspn(p, "/");
        memcpy(part, p, len);
        part[len] = '\0';
        bool last = p[len] == '\0';
        if (mkdirat(at, part, last ? (mode & 0777) | 0700 : 0755) < 0 && errno != EEXIST)
            return fail(err, name);
        int next = open_beneath(at, part, O_PATH | O_DIRECTORY);
        if (next < 0)
            return fail(err, name);
        close(at);
        at = next;
        p += len;
        p += *p == '/';
    }
    return 0;
}

int beneath_create(int dir, const char *name, struct error *err)
{
    const char *base;
    cleanup_close int parent = open_parent(dir, name, &base, err);
    if (parent < 0)
        return -1;
    if (unlinkat(parent, base, 0) < 0 && errno != ENOENT)
        return fail(err, name);
    int fd = openat(parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? fail(err, name) : fd;
}

int beneath_symlink(int dir, const char *name, const char *target, struct error *err)
{
    const char *base;
    cleanup_close int parent = open_parent(dir, name, &base, err);
    if (parent < 0)
        return -1;
    if (unlinkat(parent, base, 0) < 0 && errno != ENOENT)
        return fail(err, name);
    return symlinkat(target, parent, base) < 0 ? fail(err, name) : 0;
}

int beneath_hardlink(int dir, const char *name, const char *existing, struct error *err)
{
    const char *base;
    char path[32];
    struct stat st;
    cleanup_close int old = open_beneath(dir, existing, O_PATH | O_NOFOLLOW);
    if (old < 0)
        return fail(err, existing);
    if (fstat(old, &st) < 0 || !S_ISREG(st.st_mode))
        return refuse(err, name, "a hard link to something that is no file");
    cleanup_close int parent = open_parent(dir, name, &base, err);
    if (parent < 0)
        return -1;
    if (strcmp(name, existing) == 0)
        return 0;
    if (unlinkat(parent, base, 0) < 0 && errno != ENOENT)
        return fail(err, name);
    snprintf(path, sizeof path, "/proc/self/fd/%d", old);
    return linkat(AT_FDCWD, path, parent, base, AT_SYMLINK_FOLLOW) < 0 ? fail(err, name) : 0;
}
