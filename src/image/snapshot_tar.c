#include "image/snapshot_build.h"

#include "base/cleanup.h"
#include "image/blob_write.h"
#include "image/exclude.h"
#include "image/layer_path.h"
#include "image/layer_stream.h"
#include "image/layer_unpack.h"
#include "image/tar_names.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* Writes a tar anew, entry by entry, as our own packer would have: what it does not understand is left out,
 * what tries to get away is refused, and a name that looks like a whiteout is marked as the plain name it is.
 */
struct rewriter {
    const struct image_builder *b;
    const char *const *excludes;
    size_t exclude_count;
    struct tar_names source;
    struct error source_error;
    struct archive *in;
    struct tar_writer out;
    struct entry_name name, link;
    struct packed_layer *r;
    uint8_t zeros[65536];
};

static la_ssize_t read_source(struct archive *a, void *user, const void **ret)
{
    struct rewriter *w = user;
    ssize_t n = w->source.source.next(&w->source.source, ret, &w->source_error);
    if (n < 0)
        archive_set_error(a, EIO, "source");
    return n;
}

static int archive_failed(struct rewriter *w, struct error *err)
{
    if (w->source_error.kind != ERROR_NONE) {
        if (err)
            *err = w->source_error;
        return -1;
    }
    const char *why = archive_error_string(w->in);
    return error_set(err, ERROR_CORRUPT, "not a valid tar: %s", why ? why : "unknown");
}

/* True when the path or something above it matches. */
static bool left_out(const struct rewriter *w, const char *path, bool dir)
{
    char part[LIMIT_PATH + 1];
    for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        if (exclude_matches(w->excludes, w->exclude_count, part, true))
            return true;
    }
    return exclude_matches(w->excludes, w->exclude_count, path, dir);
}

static int put_zeros(struct rewriter *w, uint64_t n, struct error *err)
{
    while (n > 0) {
        size_t len = n < sizeof w->zeros ? (size_t)n : sizeof w->zeros;
        if (tar_data(&w->out, w->zeros, len, err) < 0)
            return -1;
        n -= len;
    }
    return 0;
}

static int copy_data(struct rewriter *w, uint64_t size, struct error *err)
{
    const void *data;
    size_t len;
    la_int64_t offset;
    uint64_t at = 0;
    int r;
    while ((r = archive_read_data_block(w->in, &data, &len, &offset)) == ARCHIVE_OK) {
        if (offset < (la_int64_t)at || (uint64_t)offset > size || len > size - (uint64_t)offset)
            return error_set(err, ERROR_CORRUPT, "entry \"%.200s\" has data outside its size", w->name.path);
        if (put_zeros(w, (uint64_t)offset - at, err) < 0 || tar_data(&w->out, data, len, err) < 0)
            return -1;
        at = (uint64_t)offset + len;
    }
    return r != ARCHIVE_EOF ? archive_failed(w, err) : put_zeros(w, size - at, err);
}

static int add_attributes(struct rewriter *w, struct archive_entry *e, struct error *err)
{
    const char *name;
    const void *value;
    size_t size, total = 0;
    archive_entry_xattr_reset(e);
    while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK) {
        if (!name || strncmp(name, "user.", 5) != 0 || strlen(name) > 255)
            continue;
        total += size;
        if (total > LIMIT_XATTR_TOTAL)
            return error_set(err, ERROR_LIMIT,
                             "entry \"%.200s\": its extended attributes are larger than %d bytes",
                             w->name.path, LIMIT_XATTR_TOTAL);
        if (tar_add_xattr(&w->out, name, value, size, err) < 0)
            return -1;
    }
    return strncmp(w->name.base, ".wh.", 4) ? 0 : tar_add_xattr(&w->out, LITERAL_XATTR, "1", 1, err);
}

static int describe(struct rewriter *w, struct archive_entry *e, struct tar_entry *t, struct error *err)
{
    la_int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e), size = archive_entry_size(e);
    long nsec = archive_entry_mtime_nsec(e);
    if (uid < 0 || gid < 0 || uid >= UINT32_MAX || gid >= UINT32_MAX || size < 0)
        return error_set(err, ERROR_INVALID, "entry \"%.200s\" has an impossible owner or size",
                         w->name.path);
    *t = (struct tar_entry){.path = *w->name.path ? w->name.path : ".",
                            .mode = archive_entry_perm(e) & 07777,
                            .uid = (uint64_t)uid,
                            .gid = (uint64_t)gid,
                            .mtime = {archive_entry_mtime(e), nsec >= 0 && nsec <= 999999999 ? nsec : 0}};
    return 0;
}

static int link_target(struct rewriter *w, struct archive_entry *e, struct error *err)
{
    if (entry_name_parse(archive_entry_hardlink(e), &w->link, err) < 0)
        return error_wrap(err, "hard link \"%.150s\"", w->name.path);
    if (!left_out(w, w->link.path, false))
        return 0;
    return error_field(
        err, "exclude",
        "\"%.150s\" is the same file as \"%.150s\", which is excluded: exclude both or neither", w->name.path,
        w->link.path);
}

static int rewrite_entry(struct rewriter *w, struct archive_entry *e, struct error *err)
{
    struct tar_entry t;
    mode_t type = archive_entry_filetype(e);
    if (entry_name_parse(archive_entry_pathname(e), &w->name, err) < 0)
        return -1;
    if (*w->name.path && left_out(w, w->name.path, type == AE_IFDIR)) {
        w->r->excluded++;
        return 0;
    }
    if (describe(w, e, &t, err) < 0)
        return -1;
    bool link = archive_entry_hardlink(e) != NULL;
    if (!link && type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK) {
        w->r->skipped++;
        return 0;
    }
    if (!*w->name.path && (link || type != AE_IFDIR))
        return error_set(err, ERROR_DENIED, "an entry that is no directory stands for the root");
    t.type = link ? '1' : type == AE_IFDIR ? '5' : type == AE_IFLNK ? '2' : '0';
    if (link && link_target(w, e, err) < 0)
        return -1;
    t.link = link ? w->link.path : archive_entry_symlink(e);
    if (t.type == '2' && (!t.link || !*t.link || strlen(t.link) >= LIMIT_PATH))
        return error_set(err, ERROR_INVALID, "symbolic link \"%.200s\" leads nowhere", w->name.path);
    t.size = t.type == '0' ? (uint64_t)archive_entry_size(e) : 0;
    if (++w->r->entries > w->b->limits.layer_entries || t.size > w->b->limits.layer_bytes - w->r->bytes)
        return error_set(
            err, ERROR_LIMIT, "the directory holds more than the limit of %llu files or %llu bytes",
            (unsigned long long)w->b->limits.layer_entries, (unsigned long long)w->b->limits.layer_bytes);
    w->r->bytes += t.size;
    if (add_attributes(w, e, err) < 0 || tar_header(&w->out, &t, err) < 0)
        return -1;
    return t.type == '0' ? copy_data(w, t.size, err) : 0;
}

static int rewrite_all(struct rewriter *w, struct error *err)
{
    struct archive_entry *e;
    archive_read_support_format_tar(w->in);
    archive_read_support_format_empty(w->in);
    if (archive_read_open(w->in, w, NULL, read_source, NULL) != ARCHIVE_OK)
        return archive_failed(w, err);
    for (;;) {
        int r = archive_read_next_header(w->in, &e);
        if (r == ARCHIVE_EOF)
            return tar_end(&w->out, err);
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            return archive_failed(w, err);
        if (rewrite_entry(w, e, err) < 0)
            return -1;
    }
}

static int rewrite(struct rewriter *w, int fd, struct blob_writer *blob, struct error *err)
{
    const struct layer_stream_options so = {.limits = &w->b->limits, .no_diff = true};
    struct layer_stream_result ignored;
    struct layer_stream *stream;
    if (layer_stream_open(fd, &so, &stream, err) < 0)
        return -1;
    tar_names_init(&w->source, layer_stream_source(stream));
    tar_writer_init(&w->out, blob_writer_sink(blob));
    int r = rewrite_all(w, err);
    if (r == 0)
        r = layer_stream_finish(stream, &ignored, err);
    tar_writer_free(&w->out);
    tar_names_free(&w->source);
    layer_stream_close(stream);
    return r;
}

int snapshot_from_tar(const struct image_builder *b, int fd, const char *const *excludes,
                      size_t exclude_count, struct packed_layer *ret, struct error *err)
{
    for (size_t i = 0; i < exclude_count; i++)
        if (exclude_check(excludes[i], err) < 0)
            return -1;
    memset(ret, 0, sizeof *ret);
    struct rewriter *w = calloc(1, sizeof *w);
    struct blob_writer *blob = NULL;
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = (locale_t)0;
    int r = w && utf8 ? blob_writer_open(b->data_dir, &blob, err) : error_oom(err);
    if (r == 0) {
        before = uselocale(utf8);
        w->b = b;
        w->excludes = excludes;
        w->exclude_count = exclude_count;
        w->r = ret;
        w->in = archive_read_new();
        r = w->in ? rewrite(w, fd, blob, err) : error_oom(err);
        archive_read_free(w->in);
    }
    if (r == 0)
        r = blob_writer_commit(blob, ret->digest, &ret->size, err);
    blob_writer_close(blob);
    if (before)
        uselocale(before);
    if (utf8)
        freelocale(utf8);
    free(w);
    return r;
}
