/* "fs.stat" */
#include "agent/fs_entry.h"
#include "agent/fs_path.h"
#include "base/cleanup.h"
#include "link/cbor.h"

#include <errno.h>
#include <fcntl.h>

static const char *type_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "directory";
    case S_IFLNK:
        return "symlink";
    case S_IFIFO:
        return "fifo";
    case S_IFSOCK:
        return "socket";
    case S_IFCHR:
        return "char";
    default:
        return "block";
    }
}

static int64_t nanoseconds(const struct timespec *t)
{
    const int64_t most = INT64_MAX / 1000000000 - 1;
    if (t->tv_sec > most)
        return INT64_MAX;
    if (t->tv_sec < -most)
        return INT64_MIN;
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static void put_uint(struct buf *b, const char *key, uint64_t v)
{
    cbor_put_text(b, key);
    cbor_put_uint(b, v);
}

void fs_put_entry(struct buf *b, const char *path, const struct stat *st, const char *target)
{
    cbor_put_map(b, 8u + (path != NULL) + (target != NULL));
    if (path) {
        cbor_put_text(b, "path");
        cbor_put_string(b, path);
    }
    cbor_put_text(b, "type");
    cbor_put_text(b, type_name(st->st_mode));
    put_uint(b, "size", (uint64_t)st->st_size);
    put_uint(b, "mode", st->st_mode & 07777);
    put_uint(b, "uid", st->st_uid);
    put_uint(b, "gid", st->st_gid);
    cbor_put_text(b, "mtimeNs");
    cbor_put_int(b, nanoseconds(&st->st_mtim));
    put_uint(b, "nlink", st->st_nlink);
    put_uint(b, "ino", st->st_ino);
    if (target) {
        cbor_put_text(b, "target");
        cbor_put_string(b, target);
    }
}

const char *fs_link_target(int dirfd, const char *name, char *to)
{
    ssize_t n = readlinkat(dirfd, name, to, PATH_MAX);
    if (n < 0 || n == PATH_MAX)
        return NULL;
    to[n] = '\0';
    return to;
}

int fs_stat(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    char target[PATH_MAX];
    struct stat st;
    (void)io;
    cleanup_close int fd = fs_open_path(q->path, q->no_follow ? O_NOFOLLOW : 0, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return fs_fail(err, errno, "look at", q->path);
    fs_put_entry(ret, NULL, &st, S_ISLNK(st.st_mode) ? fs_link_target(fd, "", target) : NULL);
    return 0;
}
