/* "fs.remove". Trees of any depth: one open directory at a time, up again by "..", which must lead to the
 * directory we came from (a hostile process may have moved it: then we stop). Mount points are not crossed.
 */
#include "agent/fs_path.h"
#include "agent/kernel.h"
#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 100000
#define MAX_RETRIES 20 /* somebody keeps making new files in a directory that we remove */

struct level {
    struct level *up;
    dev_t dev; /* of the directory this level's is in */
    ino_t ino;
    int retries;
    char name[]; /* in that directory */
};

struct removal {
    const char *path;
    int dir; /* the open directory */
    struct level *top;
    int depth;
};

static int fail(const struct removal *r, int errnum, struct error *err)
{
    return fs_fail(err, errnum, "remove", r->path);
}

static int descend(struct removal *r, const char *name, struct error *err)
{
    struct stat st;
    size_t len = strlen(name) + 1;
    struct level *l = malloc(sizeof *l + len);
    if (!l)
        return error_oom(err);
    if (r->depth >= MAX_DEPTH || fstat(r->dir, &st) < 0) {
        free(l);
        return fail(r, ENAMETOOLONG, err);
    }
    int fd = sys_openat2(r->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0,
                         RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
    if (fd < 0) {
        int saved = errno;
        free(l);
        return saved == ENOENT ? 0 : fail(r, saved == EXDEV ? EBUSY : saved, err);
    }
    *l = (struct level){.up = r->top, .dev = st.st_dev, .ino = st.st_ino};
    memcpy(l->name, name, len);
    r->top = l;
    r->depth++;
    close(r->dir);
    r->dir = fd;
    return 0;
}

/* Removes what can be removed in the open directory. 1: went down into a subdirectory; 0: all seen. */
static int empty_directory(struct removal *r, struct error *err)
{
    int fd = openat(r->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return fail(r, errno, err);
    struct dirent *d;
    while ((d = readdir(dir))) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (unlinkat(r->dir, d->d_name, 0) == 0 || errno == ENOENT)
            continue;
        if (errno != EISDIR)
            return fail(r, errno, err);
        if (unlinkat(r->dir, d->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            continue;
        if (errno != ENOTEMPTY)
            return fail(r, errno, err);
        return descend(r, d->d_name, err) < 0 ? -1 : 1;
    }
    return 0;
}

static int ascend(struct removal *r, struct error *err)
{
    struct level *l = r->top;
    struct stat st;
    int up = openat(r->dir, "..", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (up < 0)
        return fail(r, errno, err);
    if (fstat(up, &st) < 0 || st.st_dev != l->dev || st.st_ino != l->ino) {
        close(up);
        return fail(r, EAGAIN, err); /* moved while it was being removed */
    }
    if (unlinkat(up, l->name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        int saved = errno;
        close(up);
        return saved == ENOTEMPTY && ++l->retries < MAX_RETRIES ? 0 : fail(r, saved, err);
    }
    close(r->dir);
    r->dir = up;
    r->top = l->up;
    r->depth--;
    free(l);
    return 0;
}

static int remove_tree(const char *path, int parent, const char *name, struct error *err)
{
    struct removal r = {.path = path, .dir = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    int result = r.dir < 0 ? fail(&r, errno, err) : descend(&r, name, err);
    while (result == 0 && r.top) {
        result = empty_directory(&r, err);
        if (result == 0)
            result = ascend(&r, err);
        else if (result == 1)
            result = 0;
    }
    while (r.top) {
        struct level *l = r.top;
        r.top = l->up;
        free(l);
    }
    if (r.dir >= 0)
        close(r.dir);
    return result;
}

int fs_remove(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    char name[NAME_MAX + 1];
    struct error why = {0};
    (void)io;
    cbor_put_map(ret, 0);
    cleanup_close int dir = fs_open_parent(q->path, false, name, &why);
    if (dir < 0) {
        if (q->force && why.errnum == ENOENT)
            return 0;
        *err = why;
        return -1;
    }
    if (unlinkat(dir, name, 0) == 0 || (errno == ENOENT && q->force))
        return 0;
    if (errno != EISDIR)
        return fs_fail(err, errno, "remove", q->path);
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY || !q->recursive)
        return fs_fail(err, errno, "remove", q->path);
    return remove_tree(q->path, dir, name, err);
}
