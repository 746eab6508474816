/* "fs.export": a pax archive of a directory (entries relative to it, the first is "./") or of one file (its
 * name). Hard links within the tree stay hard links; sockets are left out; what other programs change
 * meanwhile is taken as found, but a file that shrinks while it is read fails the export, because its header
 * has already promised the bytes. */
#include "agent/fs_entry.h"
#include "agent/fs_path.h"
#include "agent/fs_stream.h"
#include "agent/fs_walk.h"
#include "agent/tar_write.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK_BUCKETS 1024
#define MAX_LINKS 1000000

/* A file with several names, met before. */
struct seen {
    struct seen *next;
    dev_t dev;
    ino_t ino;
    char path[];
};

struct exporting {
    const struct fs_request *q;
    const struct fs_io *io;
    struct fs_out out;
    struct buf header;
    uint64_t entries;
    struct seen *seen[LINK_BUCKETS];
    size_t seen_count;
};

/* A pattern without slash matches a name at any depth; one with a slash matches from the exported directory
 * on. What matches is left out with all that is in it. */
static bool excluded(const struct fs_request *q, const struct walk_entry *e)
{
    for (size_t i = 0; i < q->exclude_count; i++) {
        const char *pattern = q->exclude[i];
        if (strncmp(pattern, "./", 2) == 0)
            pattern += 2;
        char trimmed[PATH_MAX];
        size_t len = strlen(pattern);
        while (len > 1 && pattern[len - 1] == '/')
            len--;
        if (len >= sizeof trimmed)
            continue;
        memcpy(trimmed, pattern, len);
        trimmed[len] = '\0';
        bool anchored = strchr(trimmed, '/') != NULL;
        const char *p = trimmed[0] == '/' ? trimmed + 1 : trimmed;
        if (fnmatch(p, anchored ? e->path : e->name, anchored ? FNM_PATHNAME : 0) == 0)
            return true;
    }
    return false;
}

static const char *first_name(struct exporting *x, const struct walk_entry *e)
{
    if (e->st.st_nlink < 2 || S_ISDIR(e->st.st_mode))
        return NULL;
    struct seen **bucket = &x->seen[(e->st.st_ino ^ e->st.st_dev) % LINK_BUCKETS];
    for (struct seen *s = *bucket; s; s = s->next)
        if (s->ino == e->st.st_ino && s->dev == e->st.st_dev)
            return s->path;
    size_t len = strlen(e->path) + 1;
    struct seen *s = x->seen_count < MAX_LINKS ? malloc(sizeof *s + len) : NULL;
    if (s) { /* else it is simply written twice */
        *s = (struct seen){.next = *bucket, .dev = e->st.st_dev, .ino = e->st.st_ino};
        memcpy(s->path, e->path, len);
        *bucket = s;
        x->seen_count++;
    }
    return NULL;
}

static int put_header(struct exporting *x, char type, const char *path, const char *link,
                      const struct stat *st, uint64_t size, struct error *err)
{
    buf_clear(&x->header);
    tar_put_header(&x->header, type, path, link, st, size);
    if (x->header.failed)
        return error_oom(err);
    fs_out_put(&x->out, x->header.data, x->header.len);
    x->entries++;
    return x->out.errnum ? fs_out_flush(&x->out, err) : 0;
}

static int put_data(struct exporting *x, int fd, const char *path, uint64_t size, struct error *err)
{
    static uint8_t data[FS_CHUNK];
    static const uint8_t zeros[USTAR_BLOCK];
    for (uint64_t left = size; left > 0 && !x->out.errnum;) {
        ssize_t n = read(fd, data, left < sizeof data ? (size_t)left : sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fs_fail(err, errno, "read", path);
        if (n == 0)
            return error_set(err, ERROR_STATE, "%.300s shrank while it was being read", path);
        fs_out_put(&x->out, data, (size_t)n);
        left -= (uint64_t)n;
    }
    fs_out_put(&x->out, zeros, ustar_padding(size));
    return 0;
}

static int put_file(struct exporting *x, int dir, const char *name, const char *path, struct error *err)
{
    struct stat st;
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ELOOP))
        return 0; /* gone, or something else by now */
    if (fd < 0 || fstat(fd, &st) < 0)
        return fs_fail(err, errno, "read", path);
    if (!S_ISREG(st.st_mode))
        return 0;
    uint64_t size = (uint64_t)st.st_size;
    if (put_header(x, TAR_FILE, path, NULL, &st, size, err) < 0)
        return -1;
    return put_data(x, fd, path, size, err);
}

static int export_one(void *user, const struct walk_entry *e, struct error *err)
{
    struct exporting *x = user;
    char text[PATH_MAX + 1];
    if (excluded(x->q, e))
        return 0;
    const char *earlier = first_name(x, e);
    if (earlier)
        return put_header(x, TAR_HARDLINK, e->path, earlier, &e->st, 0, err);
    switch (e->st.st_mode & S_IFMT) {
    case S_IFREG:
        return put_file(x, e->dir, e->name, e->path, err);
    case S_IFLNK: {
        const char *target = fs_link_target(e->dir, e->name, text);
        return target ? put_header(x, TAR_SYMLINK, e->path, target, &e->st, 0, err) : 0;
    }
    case S_IFIFO:
        return put_header(x, TAR_FIFO, e->path, NULL, &e->st, 0, err);
    case S_IFDIR:
        snprintf(text, sizeof text, "%s/", e->path);
        return put_header(x, TAR_DIRECTORY, text, NULL, &e->st, 0, err) < 0 ? -1 : 1;
    default:
        return 0;
    }
}

static int export_tree(struct exporting *x, struct error *err)
{
    struct stat st;
    int fd = fs_open_directory(x->q->path, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || put_header(x, TAR_DIRECTORY, "./", NULL, &st, 0, err) < 0) {
        close(fd);
        return -1;
    }
    return fs_walk(fd, export_one, x, err);
}

static int export_file(struct exporting *x, struct error *err)
{
    struct stat st;
    const char *slash = strrchr(x->q->path, '/');
    cleanup_close int fd = fs_open_regular(x->io, x->q->path, O_RDONLY, &st, err);
    if (fd < 0 || put_header(x, TAR_FILE, slash + 1, NULL, &st, (uint64_t)st.st_size, err) < 0)
        return -1;
    return put_data(x, fd, x->q->path, (uint64_t)st.st_size, err);
}

static int export_any(struct exporting *x, struct error *err)
{
    static const uint8_t end[2 * USTAR_BLOCK];
    struct stat st;
    cleanup_close int at = fs_open_path(x->q->path, 0, err);
    if (at < 0)
        return -1;
    if (fstat(at, &st) < 0)
        return fs_fail(err, errno, "open", x->q->path);
    if ((S_ISDIR(st.st_mode) ? export_tree(x, err) : export_file(x, err)) < 0)
        return -1;
    fs_out_put(&x->out, end, sizeof end);
    return fs_out_flush(&x->out, err);
}

int fs_export(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    static struct exporting x;
    uint8_t digest[SHA256_BYTES];
    x.q = q;
    x.io = io;
    buf_init(&x.header, 64 << 10);
    fs_out_init(&x.out, io->out);
    if (export_any(&x, err) < 0)
        return -1; /* the process ends: nothing needs freeing */
    fs_sum_end(&x.out.sum, digest);
    cbor_put_map(ret, 3);
    cbor_put_text(ret, "entries");
    cbor_put_uint(ret, x.entries);
    cbor_put_text(ret, "sent");
    cbor_put_uint(ret, x.out.sum.bytes);
    cbor_put_text(ret, "sha256");
    cbor_put_bytes(ret, digest, sizeof digest);
    return 0;
}
