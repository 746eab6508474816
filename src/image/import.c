#include "image/image_build.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/image.h"
#include "image/layer_path.h"
#include "image/layer_stream.h"
#include "image/store.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- walking an archive's entries ---- */

struct scan {
    struct byte_source *source;
    struct error error;
};

static la_ssize_t scan_read(struct archive *a, void *user, const void **ret)
{
    struct scan *s = user;
    ssize_t n = s->source->next(s->source, ret, &s->error);
    if (n < 0)
        archive_set_error(a, EIO, "source");
    return n;
}

/* Calls visit for each entry; 1 from it ends the walk early. */
static int scan_entries(struct archive *a, struct scan *s, uint64_t max_entries,
                        int (*visit)(void *user, struct archive *a, struct archive_entry *e,
                                     struct error *err),
                        void *user, struct error *err)
{
    struct archive_entry *e;
    uint64_t n = 0;
    int r = archive_read_open(a, s, NULL, scan_read, NULL);
    while (r == ARCHIVE_OK && (r = archive_read_next_header(a, &e)) != ARCHIVE_EOF &&
           (r == ARCHIVE_OK || r == ARCHIVE_WARN)) {
        if (++n > max_entries)
            return error_set(err, ERROR_LIMIT, "the archive has more than the limit of %llu entries",
                             (unsigned long long)max_entries);
        int v = visit(user, a, e, err);
        if (v != 0)
            return v < 0 ? -1 : 0;
        r = ARCHIVE_OK;
    }
    if (r == ARCHIVE_EOF)
        return 0;
    if (s->error.kind != ERROR_NONE) {
        if (err)
            *err = s->error;
        return -1;
    }
    const char *why = archive_error_string(a);
    return error_set(err, ERROR_CORRUPT, "not an image archive or tar: %s", why ? why : "unknown format");
}

static void show_bytes(void *user, uint64_t n)
{
    progress_bytes(user, n);
}

static int scan_archive(int fd, const struct image_limits *l, struct progress *progress,
                        int (*visit)(void *user, struct archive *a, struct archive_entry *e,
                                     struct error *err),
                        void *user, struct error *err)
{
    struct image_limits outer = *l;
    outer.layer_bytes = l->image_bytes;
    const struct layer_stream_options o = {.limits = &outer,
                                           .no_diff = true,
                                           .any_filter = true,
                                           .progress = progress ? show_bytes : NULL,
                                           .user = progress};
    struct layer_stream *stream;
    struct scan s = {0};
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_system(err, errno, "cannot read the archive");
    struct archive *a = archive_read_new();
    if (!a)
        return error_oom(err);
    archive_read_support_format_tar(a);
    archive_read_support_format_empty(a);
    int r = layer_stream_open(fd, &o, &stream, err);
    if (r == 0) {
        s.source = layer_stream_source(stream);
        r = scan_entries(a, &s, l->layer_entries, visit, user, err);
    }
    archive_read_free(a);
    if (s.source)
        layer_stream_close(stream);
    return r;
}

/* ---- what is it? ---- */

struct classify {
    struct entry_name name;
    bool layout, index, docker, root;
};

/* The top directories of a root file system: one of them settles it, without reading the whole archive. */
static bool is_root_directory(const char *path)
{
    static const char *const tops[] = {"bin",   "boot", "dev", "etc",  "home", "lib", "lib64",
                                       "media", "mnt",  "opt", "proc", "root", "run", "sbin",
                                       "srv",   "sys",  "tmp", "usr",  "var"};
    size_t n = strcspn(path, "/");
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++)
        if (strlen(tops[i]) == n && !strncmp(path, tops[i], n))
            return true;
    return false;
}

static int classify_entry(void *user, struct archive *a, struct archive_entry *e, struct error *err)
{
    struct classify *c = user;
    (void)a;
    (void)err;
    /* Bad names are for the unpacker to name. */
    if (entry_name_parse(archive_entry_pathname(e), &c->name, NULL) < 0 || is_root_directory(c->name.path)) {
        c->root = true;
        return 1;
    }
    c->layout |= !strcmp(c->name.path, "oci-layout");
    c->index |= !strcmp(c->name.path, "index.json");
    c->docker |= !strcmp(c->name.path, "manifest.json");
    return c->layout && c->index;
}

int archive_classify(int fd, const struct image_limits *l, enum archive_kind *ret, struct error *err)
{
    struct classify *c = calloc(1, sizeof *c);
    if (!c)
        return error_oom(err);
    int r = scan_archive(fd, l, NULL, classify_entry, c, err);
    if (r == 0)
        *ret = c->root                 ? ARCHIVE_ROOTFS
               : c->layout && c->index ? ARCHIVE_OCI
               : c->docker             ? ARCHIVE_DOCKER
                                       : ARCHIVE_ROOTFS;
    free(c);
    return r;
}

/* ---- an image archive's files into a private directory ---- */

struct extract {
    struct entry_name name, link;
    int dir;
    uint64_t left;
};

int archive_flat_name(const char *name, char ret[LIMIT_NAME + 1], struct error *err)
{
    struct entry_name *n = malloc(sizeof *n);
    if (!n)
        return error_oom(err);
    int r = entry_name_parse(name, n, err);
    if (r == 0 && (!*n->path || strlen(n->path) > LIMIT_NAME))
        r = error_set(err, ERROR_INVALID, "\"%.80s\" is no name for a file of an image archive", name);
    for (size_t i = 0; r == 0 && i <= strlen(n->path); i++)
        ret[i] = n->path[i] == '/' ? '\1' : n->path[i];
    free(n);
    return r;
}

/* docker-archive has "<id>/layer.tar -> ../<other>" for layers that are the same. The link leads to a name in
 * our private directory, in which there are no directories. */
static int extract_link(struct extract *x, const char *flat, const char *target, struct error *err)
{
    char to[LIMIT_NAME + 1];
    if (!target || strncmp(target, "../", 3) != 0 || archive_flat_name(target + 3, to, NULL) < 0)
        return error_set(err, ERROR_DENIED, "link \"%.100s\" in the archive leads elsewhere", x->name.path);
    unlinkat(x->dir, flat, 0);
    return symlinkat(to, x->dir, flat) < 0 ? error_system(err, errno, "cannot write %s", x->name.path) : 0;
}

static int extract_file(struct extract *x, const char *flat, struct archive *a, struct archive_entry *e,
                        struct error *err)
{
    const void *data;
    size_t len;
    la_int64_t offset, size = archive_entry_size(e);
    if (size < 0 || (uint64_t)size > x->left)
        return error_set(err, ERROR_LIMIT, "the archive's files are larger than the limit for images");
    x->left -= (uint64_t)size;
    unlinkat(x->dir, flat, 0);
    cleanup_close int fd = openat(x->dir, flat, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_system(err, errno, "cannot write %s", x->name.path);
    int r;
    while ((r = archive_read_data_block(a, &data, &len, &offset)) == ARCHIVE_OK) {
        if (offset < 0 || offset > size || (la_int64_t)len > size - offset)
            return error_set(err, ERROR_CORRUPT, "\"%.100s\" in the archive has data outside its size",
                             x->name.path);
        ssize_t n = pwrite(fd, data, len, offset);
        if (n != (ssize_t)len)
            return error_system(err, n < 0 ? errno : ENOSPC, "cannot write %s", x->name.path);
    }
    if (r != ARCHIVE_EOF)
        return error_set(err, ERROR_CORRUPT, "the archive is cut off in %s", x->name.path);
    return 0;
}

static int extract_entry(void *user, struct archive *a, struct archive_entry *e, struct error *err)
{
    struct extract *x = user;
    char flat[LIMIT_NAME + 1];
    if (entry_name_parse(archive_entry_pathname(e), &x->name, err) < 0)
        return -1;
    if (archive_entry_filetype(e) == AE_IFDIR || !*x->name.path)
        return 0;
    if (archive_flat_name(x->name.path, flat, err) < 0)
        return -1;
    if (archive_entry_filetype(e) == AE_IFLNK)
        return extract_link(x, flat, archive_entry_symlink(e), err);
    if (archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e))
        return error_set(err, ERROR_CORRUPT, "\"%.100s\" in the archive is not a regular file", x->name.path);
    return extract_file(x, flat, a, e, err);
}

int archive_extract(int fd, int dir, const struct image_limits *l, struct progress *progress,
                    struct error *err)
{
    struct extract *x = calloc(1, sizeof *x);
    if (!x)
        return error_oom(err);
    x->dir = dir;
    x->left = l->image_bytes;
    int r = scan_archive(fd, l, progress, extract_entry, x, err);
    free(x);
    return r;
}

/* ---- the command ---- */

/* Standard input, kept in a nameless file so that it can be read more than once. */
static int spool(const struct image_builder *b, int in, struct error *err)
{
    char tmp[PATH_MAX];
    cleanup_close int fd = store_tmp_file(b->data_dir, "spool", tmp, err);
    if (fd < 0)
        return -1;
    unlink(tmp);
    cleanup_free char *buf = malloc(1 << 20);
    if (!buf)
        return error_oom(err);
    uint64_t total = 0;
    progress_stage(b->progress, "receive", "archive", 0);
    for (;;) {
        ssize_t n = read(in, buf, 1 << 20);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(err, errno, "cannot read the archive");
        if (n == 0)
            return steal_fd(&fd);
        total += (uint64_t)n;
        if (total > b->limits.image_bytes)
            return error_set(err, ERROR_LIMIT, "the archive is larger than the limit of %llu bytes",
                             (unsigned long long)b->limits.image_bytes);
        if (fd_write_all(fd, buf, (size_t)n) < 0)
            return error_system(err, errno, "cannot keep the archive in %s/tmp", b->data_dir);
        progress_bytes(b->progress, total);
    }
}

static int import_archive(const struct image_builder *b, int fd, enum archive_kind kind, const char *name,
                          const char *ref, struct built_image *ret, struct error *err)
{
    char tmp[PATH_MAX];
    cleanup_close int dir = store_tmp_dir(b->data_dir, "import", tmp, err);
    if (dir < 0)
        return -1;
    const struct blob_dir files = {dir, true};
    progress_stage(b->progress, "read", kind == ARCHIVE_OCI ? "OCI archive" : "docker archive", 0);
    int r = archive_extract(fd, dir, &b->limits, b->progress, err);
    if (r == 0)
        r = kind == ARCHIVE_OCI ? import_layout(b, &files, name, ref, ret, err)
                                : import_docker(b, &files, name, ref, ret, err);
    dir_remove(AT_FDCWD, tmp, NULL);
    return r;
}

static bool ends_with(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);
    return a > b && !strcmp(s + a - b, end);
}

/* "dir/alpine.tar.gz" -> "alpine"; "" when that is no image name. */
static void name_from_file(const char *source, char ret[256])
{
    static const char *const ends[] = {".gz", ".zst", ".xz", ".bz2", ".tgz", ".tar", ".oci"};
    const char *slash = strrchr(source, '/');
    snprintf(ret, 256, "%s", slash ? slash + 1 : source);
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            if (ends_with(ret, ends[i])) {
                ret[strlen(ret) - strlen(ends[i])] = '\0';
                again = true;
            }
    }
    if (image_name_check(ret, "name", NULL) < 0 || strchr(ret, ':') || strchr(ret, '@'))
        ret[0] = '\0';
}

static int import_fd(const struct image_builder *b, int fd, const char *name, const char *guess,
                     const char *ref, struct built_image *ret, struct error *err)
{
    enum archive_kind kind = ARCHIVE_ROOTFS;
    if (archive_classify(fd, &b->limits, &kind, err) < 0)
        return -1;
    if (ref && kind == ARCHIVE_ROOTFS)
        return error_field(err, "ref",
                           "--ref chooses an image of an archive, and this is a root file system");
    if (!name && kind != ARCHIVE_DOCKER)
        name = *guess ? guess : NULL;
    if (!name && kind != ARCHIVE_DOCKER)
        return error_field(err, "name", "give the image a name with --name");
    if (kind != ARCHIVE_ROOTFS)
        return import_archive(b, fd, kind, name, ref, ret, err);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_system(err, errno, "cannot read the archive");
    return import_rootfs(b, fd, name, NULL, NULL, ret, err);
}

int image_import(const struct image_builder *b, const char *source, const char *name, const char *ref,
                 struct built_image *ret, struct error *err)
{
    char guess[256] = "";
    if (name && image_name_check(name, "name", err) < 0)
        return -1;
    bool input = !strcmp(source, "-");
    cleanup_close int fd =
        input ? spool(b, STDIN_FILENO, err) : open(source, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (fd < 0)
        return input ? -1 : error_system(err, errno, "cannot open %s", source);
    if (fstat(fd, &st) < 0)
        return error_system(err, errno, "cannot read %s", source);
    if (!input)
        name_from_file(source, guess);
    if (S_ISDIR(st.st_mode)) {
        const struct blob_dir files = {fd, false};
        if (faccessat(fd, "index.json", F_OK, 0) < 0)
            return error_set(
                err, ERROR_INVALID,
                "%s is not an OCI layout (no index.json): for a root file system pass a tar of it", source);
        if (!name && !*guess)
            return error_field(err, "name", "give the image a name with --name");
        return import_layout(b, &files, name ? name : guess, ref, ret, err);
    }
    if (!S_ISREG(st.st_mode)) {
        cleanup_close int kept = spool(b, fd, err);
        return kept < 0 ? -1 : import_fd(b, kept, name, guess, ref, ret, err);
    }
    return import_fd(b, fd, name, guess, ref, ret, err);
}
