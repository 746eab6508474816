/* The operations that change names and modes: "fs.mkdir", "fs.rename", "fs.symlink", "fs.chmod". */
#include "agent/fs_path.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static void put_empty(struct buf *ret)
{
    cbor_put_map(ret, 0);
}

int fs_mkdir(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    char name[NAME_MAX + 1];
    unsigned mode = q->has_mode ? (unsigned)q->mode : 0755;
    (void)io;
    put_empty(ret);
    if (q->parents && q->path[strspn(q->path, "/")] == '\0')
        return 0; /* the root is there */
    cleanup_close int dir = fs_open_parent(q->path, q->parents, name, err);
    if (dir < 0)
        return -1;
    if (mkdirat(dir, name, mode) == 0) {
        if (q->has_mode && fchmodat(dir, name, mode, 0) < 0) /* whatever the umask is */
            return fs_fail(err, errno, "set the mode of", q->path);
        return 0;
    }
    int saved = errno;
    struct stat st;
    if (saved == EEXIST && q->parents && fstatat(dir, name, &st, 0) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return fs_fail(err, saved, "make the directory", q->path);
}

int fs_rename(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    char from_name[NAME_MAX + 1], to_name[NAME_MAX + 1];
    (void)io;
    cleanup_close int from = fs_open_parent(q->from, false, from_name, err);
    if (from < 0)
        return -1;
    cleanup_close int to = fs_open_parent(q->to, false, to_name, err);
    if (to < 0)
        return -1;
    if (renameat(from, from_name, to, to_name) < 0)
        return error_system(err, errno, "cannot rename %.200s to %.200s", q->from, q->to);
    put_empty(ret);
    return 0;
}

int fs_symlink(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    char name[NAME_MAX + 1];
    (void)io;
    cleanup_close int dir = fs_open_parent(q->path, false, name, err);
    if (dir < 0)
        return -1;
    if (symlinkat(q->target, dir, name) < 0)
        return fs_fail(err, errno, "make the link", q->path);
    put_empty(ret);
    return 0;
}

int fs_chmod(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    cleanup_close int fd = fs_open_path(q->path, 0, err);
    if (fd < 0 || fs_refuse_pseudo(fd, q->path, err) < 0)
        return -1;
    char self[32];
    snprintf(self, sizeof self, "self/fd/%d", fd); /* fchmod(2) takes no O_PATH descriptor */
    if (fchmodat(io->proc, self, (mode_t)q->mode, 0) < 0)
        return fs_fail(err, errno, "set the mode of", q->path);
    put_empty(ret);
    return 0;
}
