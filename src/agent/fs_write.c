/* "fs.write": into a file of another name beside the target, which takes the target's place once everything
 * has arrived and was checked; on any failure it is removed. Appending goes the same way, and is added to the
 * target in one go at the end. */
#include "agent/fs_path.h"
#include "agent/fs_stream.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

struct target {
    int dir; /* O_PATH */
    char name[NAME_MAX + 1];
    char temporary[48];
    bool exists;
    struct stat st;
};

static int target_open(struct target *t, const struct fs_request *q, struct error *err)
{
    /* an exclusive write must not follow a link: the link exists */
    t->dir = q->exclusive ? fs_open_parent(q->path, q->parents, t->name, err)
                          : fs_open_target_parent(q->path, q->parents, t->name, err);
    if (t->dir < 0)
        return -1;
    size_t len = strlen(q->path);
    if (q->path[len - 1] == '/')
        return fs_fail(err, EISDIR, "write", q->path);
    t->exists = fstatat(t->dir, t->name, &t->st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!t->exists && errno != ENOENT)
        return fs_fail(err, errno, "write", q->path);
    if (t->exists && q->exclusive)
        return fs_fail(err, EEXIST, "write", q->path);
    if (t->exists && !S_ISREG(t->st.st_mode))
        return fs_fail(err, S_ISDIR(t->st.st_mode) ? EISDIR : EINVAL, "write", q->path);
    return fs_refuse_pseudo(t->dir, q->path, err);
}

static int temporary_make(struct target *t, const struct fs_request *q, struct error *err)
{
    for (int i = 0; i < 10; i++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return fs_fail(err, errno, "write", q->path);
        snprintf(t->temporary, sizeof t->temporary, ".cloister-%016llx.tmp", (unsigned long long)random);
        int fd = openat(t->dir, t->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            break;
    }
    t->temporary[0] = '\0';
    return fs_fail(err, errno, "write", q->path);
}

static int receive(const struct fs_request *q, const struct fs_io *io, int fd, struct fs_sum *sum,
                   struct error *err)
{
    static uint8_t data[FS_CHUNK];
    fs_sum_init(sum);
    for (;;) {
        ssize_t n = fs_in_read(io, data, sizeof data, err);
        if (n <= 0)
            return (int)n;
        fs_sum_add(sum, data, (size_t)n);
        if (q->has_size && sum->bytes > q->size)
            return fs_check_sum(q, sum->bytes, q->sha256, err);
        if (fd_write_all(fd, data, (size_t)n) < 0)
            return fs_fail(err, errno, "write", q->path);
    }
}

/* The replaced file's owner and mode, or what was asked for. */
static int dress(const struct target *t, const struct fs_request *q, int fd, struct error *err)
{
    if (t->exists && fchown(fd, t->st.st_uid, t->st.st_gid) < 0 && errno != EPERM && errno != EINVAL)
        return fs_fail(err, errno, "set the owner of", q->path);
    mode_t mode = q->has_mode ? (mode_t)q->mode : t->exists ? t->st.st_mode & 07777 : 0644;
    if (fchmod(fd, mode) < 0)
        return fs_fail(err, errno, "set the mode of", q->path);
    return 0;
}

static int take_place(struct target *t, const struct fs_request *q, int fd, struct error *err)
{
    if (dress(t, q, fd, err) < 0)
        return -1;
    if (fsync(fd) < 0)
        return fs_fail(err, errno, "write", q->path);
    unsigned flags = q->exclusive ? RENAME_NOREPLACE : 0;
    if (renameat2(t->dir, t->temporary, t->dir, t->name, flags) < 0)
        return fs_fail(err, errno, "write", q->path);
    t->temporary[0] = '\0';
    return 0;
}

static int copy_to_end(int from, int to, const char *path, struct error *err)
{
    static uint8_t data[FS_CHUNK];
    off_t size = lseek(to, 0, SEEK_END);
    if (size < 0 || lseek(from, 0, SEEK_SET) < 0)
        return fs_fail(err, errno, "append to", path);
    ssize_t n;
    while ((n = fd_read_full(from, data, sizeof data)) > 0)
        if (fd_write_all(to, data, (size_t)n) < 0) {
            int saved = errno;
            if (ftruncate(to, size) < 0) /* half an addition is worse than none */
                return fs_fail(err, errno, "undo a failed append to", path);
            return fs_fail(err, saved, "append to", path);
        }
    return n < 0 ? fs_fail(err, errno, "append to", path) : 0;
}

static int append(struct target *t, const struct fs_request *q, const struct fs_io *io, int fd,
                  struct error *err)
{
    if (!t->exists)
        return take_place(t, q, fd, err);
    struct stat st;
    cleanup_close int to = fs_open_regular(io, q->path, O_WRONLY | O_APPEND, &st, err);
    if (to < 0 || copy_to_end(fd, to, q->path, err) < 0)
        return -1;
    if (q->has_mode && fchmod(to, (mode_t)q->mode) < 0)
        return fs_fail(err, errno, "set the mode of", q->path);
    return 0;
}

int fs_write(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    struct target t = {.dir = -1};
    struct fs_sum sum;
    uint8_t digest[SHA256_BYTES];
    int r = -1, fd = -1;
    if (target_open(&t, q, err) < 0 || (fd = temporary_make(&t, q, err)) < 0)
        goto out;
    if (receive(q, io, fd, &sum, err) < 0)
        goto out;
    fs_sum_end(&sum, digest);
    if (fs_check_sum(q, sum.bytes, digest, err) < 0)
        goto out;
    if ((q->append ? append(&t, q, io, fd, err) : take_place(&t, q, fd, err)) < 0)
        goto out;
    cbor_put_map(ret, 2);
    cbor_put_text(ret, "size");
    cbor_put_uint(ret, sum.bytes);
    cbor_put_text(ret, "sha256");
    cbor_put_bytes(ret, digest, sizeof digest);
    r = 0;
out:
    if (t.temporary[0])
        unlinkat(t.dir, t.temporary, 0);
    if (fd >= 0)
        close(fd);
    if (t.dir >= 0)
        close(t.dir);
    return r;
}
