/* "fs.import": unpacks a tar below a directory. UNTRUSTED INPUT: the archive, and the tree it goes into.
 * Every name is resolved with that directory as its root (RESOLVE_IN_ROOT), so neither "..", nor links of the
 * archive, nor links that were there before lead out of it. Names with ".." are refused all the same: no
 * honest archive holds one. */
#include "agent/fs_path.h"
#include "agent/fs_stream.h"
#include "agent/kernel.h"
#include "agent/tar_read.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define INSIDE (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
#define MAX_LATE_DIRECTORIES 1000000

/* Times and modes of directories are set at the end: filling them changes the one and may need the other. */
struct late_directory {
    struct late_directory *next;
    unsigned mode;
    struct timespec mtime;
    char path[];
};

struct importing {
    const struct fs_io *io;
    int root;
    struct fs_sum sum;
    struct tar_reader tar;
    uint64_t entries;
    struct late_directory *late;
    size_t late_count;
};

static ssize_t read_archive(void *user, void *data, size_t len, struct error *err)
{
    struct importing *m = user;
    ssize_t n = fs_in_read(m->io, data, len, err);
    if (n > 0)
        fs_sum_add(&m->sum, data, (size_t)n);
    return n;
}

static int bad_entry(struct error *err, int errnum, const char *path)
{
    return error_system(err, errnum, "cannot unpack %.300s", path);
}

/* Cleans a name in place: no leading or doubled slashes, no ".". False when it holds "..". "" is the root
 * itself. */
static bool normalise(char *path)
{
    char *to = path;
    for (const char *from = path; *from;) {
        size_t len = strcspn(from, "/");
        if (len == 2 && memcmp(from, "..", 2) == 0)
            return false;
        if (len > 0 && !(len == 1 && *from == '.')) {
            if (to != path)
                *to++ = '/';
            memmove(to, from, len);
            to += len;
        }
        from += len;
        from += *from == '/';
    }
    *to = '\0';
    return true;
}

/* Opens the directory `path` (normalised) below the root, making what is missing. */
static int open_inside(struct importing *m, const char *path)
{
    int fd = sys_openat2(m->root, *path ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0, INSIDE);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    const char *slash = strrchr(path, '/');
    char up[PATH_MAX];
    size_t len = slash ? (size_t)(slash - path) : 0;
    memcpy(up, path, len);
    up[len] = '\0';
    cleanup_close int parent = open_inside(m, up);
    if (parent < 0)
        return -1;
    if (mkdirat(parent, slash ? slash + 1 : path, 0755) < 0 && errno != EEXIST)
        return -1;
    return sys_openat2(m->root, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, INSIDE);
}

/* The directory that holds `path`; *ret_name points into path. */
static int open_parent_inside(struct importing *m, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    char up[PATH_MAX];
    size_t len = slash ? (size_t)(slash - path) : 0;
    memcpy(up, path, len);
    up[len] = '\0';
    *ret_name = slash ? slash + 1 : path;
    return open_inside(m, up);
}

/* A directory is not replaced by something else; anything else makes way. */
static int make_way(int dir, const char *name)
{
    return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? -1 : 0;
}

/* An owner that this container does not know becomes root. */
static int set_owner(int dir, const char *name, const struct tar_entry *e, int flags)
{
    if (e->uid >= UINT32_MAX || e->gid >= UINT32_MAX)
        return 0;
    if (fchownat(dir, name, (uid_t)e->uid, (gid_t)e->gid, flags) < 0 && errno != EINVAL && errno != EPERM)
        return -1;
    return 0;
}

static int copy_data(struct importing *m, int fd, const struct tar_entry *e, struct error *err)
{
    static uint8_t data[FS_CHUNK];
    ssize_t n;
    while ((n = tar_read_data(&m->tar, data, sizeof data, err)) > 0)
        if (fd_write_all(fd, data, (size_t)n) < 0)
            return bad_entry(err, errno, e->path);
    return n < 0 ? -1 : 0;
}

static int unpack_file(struct importing *m, int dir, const char *name, const struct tar_entry *e,
                       struct error *err)
{
    if (make_way(dir, name) < 0)
        return bad_entry(err, errno, e->path);
    cleanup_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return bad_entry(err, errno, e->path);
    if (copy_data(m, fd, e, err) < 0)
        return -1;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, e->mtime};
    if (set_owner(fd, "", e, AT_EMPTY_PATH) < 0 || fchmod(fd, e->mode) < 0 || futimens(fd, times) < 0)
        return bad_entry(err, errno, e->path);
    return 0;
}

static int remember_directory(struct importing *m, const char *path, const struct tar_entry *e,
                              struct error *err)
{
    size_t len = strlen(path) + 1;
    struct late_directory *d = malloc(sizeof *d + len);
    if (!d || ++m->late_count > MAX_LATE_DIRECTORIES) {
        free(d);
        return error_set(err, ERROR_LIMIT, "the tar archive holds more than %d directories",
                         MAX_LATE_DIRECTORIES);
    }
    *d = (struct late_directory){.next = m->late, .mode = e->mode, .mtime = e->mtime};
    memcpy(d->path, path, len);
    m->late = d;
    return 0;
}

static int unpack_directory(struct importing *m, int dir, const char *name, const struct tar_entry *e,
                            struct error *err)
{
    struct stat st;
    bool there = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISDIR(st.st_mode)) {
        if (unlinkat(dir, name, 0) < 0)
            return bad_entry(err, errno, e->path);
        there = false;
    }
    if ((!there && mkdirat(dir, name, 0700) < 0) || set_owner(dir, name, e, AT_SYMLINK_NOFOLLOW) < 0)
        return bad_entry(err, errno, e->path);
    return remember_directory(m, e->path, e, err);
}

static int unpack_link(struct importing *m, int dir, const char *name, struct tar_entry *e, struct error *err)
{
    const char *target;
    if (!normalise(e->link))
        return error_set(err, ERROR_DENIED, "the tar archive holds a hard link to a path with \"..\": %.200s",
                         e->path);
    cleanup_close int from = open_parent_inside(m, e->link, &target);
    struct stat st, old;
    if (from < 0 || fstatat(from, target, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return bad_entry(err, errno, e->path);
    if (fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_dev == st.st_dev &&
        old.st_ino == st.st_ino)
        return 0;
    if (make_way(dir, name) < 0 || linkat(from, target, dir, name, 0) < 0)
        return bad_entry(err, errno, e->path);
    return 0;
}

static int unpack_other(int dir, const char *name, const struct tar_entry *e, struct error *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, e->mtime};
    if (make_way(dir, name) < 0)
        return bad_entry(err, errno, e->path);
    int r = e->type == TAR_SYMLINK ? symlinkat(e->link, dir, name) : mkfifoat(dir, name, e->mode);
    if (r < 0 || set_owner(dir, name, e, AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return bad_entry(err, errno, e->path);
    return 0;
}

static int unpack(struct importing *m, struct tar_entry *e, struct error *err)
{
    const char *name;
    if (!normalise(e->path))
        return error_set(err, ERROR_DENIED, "the tar archive holds a path with \"..\": %.200s", e->path);
    if (e->path[0] == '\0') /* "./": the directory itself */
        return e->type == TAR_DIRECTORY
                   ? remember_directory(m, "", e, err)
                   : error_set(err, ERROR_CORRUPT, "a tar entry that is no directory has no name");
    cleanup_close int dir = open_parent_inside(m, e->path, &name);
    if (dir < 0)
        return bad_entry(err, errno, e->path);
    if (fs_refuse_pseudo(dir, e->path, err) < 0)
        return -1;
    switch (e->type) {
    case TAR_FILE:
        return unpack_file(m, dir, name, e, err);
    case TAR_DIRECTORY:
        return unpack_directory(m, dir, name, e, err);
    case TAR_HARDLINK:
        return unpack_link(m, dir, name, e, err);
    default:
        return unpack_other(dir, name, e, err);
    }
}

/* The last one met is set first: children before their parents. A directory that was replaced since is left
 * alone. */
static int finish_directories(struct importing *m, struct error *err)
{
    while (m->late) {
        struct late_directory *d = m->late;
        m->late = d->next;
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, d->mtime};
        cleanup_close int fd = sys_openat2(m->root, d->path[0] ? d->path : ".",
                                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, INSIDE);
        if (fd >= 0 && (fchmod(fd, d->mode) < 0 || futimens(fd, times) < 0))
            return bad_entry(err, errno, d->path);
        free(d);
    }
    return 0;
}

static int unpack_all(struct importing *m, struct error *err)
{
    static struct tar_entry e;
    int r;
    while ((r = tar_next(&m->tar, &e, err)) > 0) {
        if (unpack(m, &e, err) < 0)
            return -1;
        m->entries++;
    }
    if (r < 0)
        return -1;
    uint8_t rest[4096]; /* padding after the end mark */
    ssize_t n;
    while ((n = read_archive(m, rest, sizeof rest, err)) > 0)
        ;
    return n < 0 ? -1 : finish_directories(m, err);
}

int fs_import(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    struct importing m = {.io = io, .root = -1};
    uint8_t digest[SHA256_BYTES];
    if (q->parents && fs_make_directories(q->path, 0755, err) < 0)
        return -1;
    cleanup_close int root = fs_open_directory(q->path, err);
    if (root < 0)
        return -1;
    m.root = root;
    fs_sum_init(&m.sum);
    tar_reader_init(&m.tar, read_archive, &m);
    if (unpack_all(&m, err) < 0)
        return -1;
    fs_sum_end(&m.sum, digest);
    if (fs_check_sum(q, m.sum.bytes, digest, err) < 0)
        return -1;
    cbor_put_map(ret, 3);
    cbor_put_text(ret, "entries");
    cbor_put_uint(ret, m.entries);
    cbor_put_text(ret, "size");
    cbor_put_uint(ret, m.sum.bytes);
    cbor_put_text(ret, "sha256");
    cbor_put_bytes(ret, digest, sizeof digest);
    return 0;
}
