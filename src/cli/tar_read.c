#include "cli/tar_read.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/ustar.h"
#include "cli/beneath.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define META_MAX ((size_t)64 << 10) /* a pax header, a GNU long name */

enum state {
    AT_HEADER,  /* the first `have` bytes of the next header */
    IN_META,    /* `meta` collects `left` bytes for the next entry */
    IN_CONTENT, /* `left` bytes go to `file` */
    IN_SKIPPED, /* `left` bytes go nowhere (padding too) */
    AT_END,     /* after the first empty block: the rest is ignored */
};

/* What pax and GNU headers said about the next entry. */
struct overrides {
    char *path, *link;
    bool has_size, has_mtime;
    uint64_t size;
    struct timespec mtime;
};

struct tar_reader {
    struct tar_reader_config config;
    enum state state;
    struct ustar header;
    size_t have;
    char meta_type;
    struct buf meta;
    uint64_t left;
    unsigned pad;
    int file;
    unsigned mode;
    struct timespec mtime;
    struct overrides next;
    uint64_t bytes, entries, skipped;
    char first_skipped[320];
};

int tar_reader_new(struct tar_reader **ret, const struct tar_reader_config *config, struct error *err)
{
    struct tar_reader *r = calloc(1, sizeof *r);
    if (!r)
        return error_oom(err);
    r->config = *config;
    r->file = -1;
    buf_init(&r->meta, META_MAX + 1);
    *ret = r;
    return 0;
}

static void overrides_clear(struct overrides *o)
{
    free(o->path);
    free(o->link);
    *o = (struct overrides){0};
}

void tar_reader_free(struct tar_reader *r)
{
    if (!r)
        return;
    if (r->file >= 0)
        close(r->file);
    overrides_clear(&r->next);
    buf_free(&r->meta);
    free(r);
}

uint64_t tar_reader_skipped(const struct tar_reader *r, const char **ret_first)
{
    *ret_first = r->first_skipped;
    return r->skipped;
}

static int malformed(struct error *err, const char *what)
{
    return error_set(err, ERROR_CORRUPT, "the archive is malformed: %s", what);
}

static void skipped(struct tar_reader *r, const char *name, const char *why)
{
    if (r->skipped++ == 0)
        snprintf(r->first_skipped, sizeof r->first_skipped, "%.200s: %s", name, why);
}

/* ---- pax and GNU headers ---- */

static int replace_text(char **to, const char *data, size_t len, struct error *err)
{
    if (memchr(data, '\0', len) || len >= BENEATH_MAX_PATH)
        return malformed(err, "a name with a NUL byte or of more than 4096 bytes");
    char *text = strndup(data, len);
    if (!text)
        return error_oom(err);
    free(*to);
    *to = text;
    return 0;
}

static int apply_record(struct overrides *o, const struct pax_record *r, struct error *err)
{
    if (pax_key_is(r, "path"))
        return replace_text(&o->path, r->value, r->len, err);
    if (pax_key_is(r, "linkpath"))
        return replace_text(&o->link, r->value, r->len, err);
    if (pax_key_is(r, "size"))
        return (o->has_size = pax_number(r, &o->size)) ? 0 : malformed(err, "size");
    if (pax_key_is(r, "mtime"))
        return (o->has_mtime = pax_time(r, &o->mtime)) ? 0 : malformed(err, "mtime");
    return 0;
}

static int pax_header(struct overrides *o, const char *p, size_t len, struct error *err)
{
    struct pax_record record;
    int r;
    while ((r = pax_next(&p, &len, &record)) > 0)
        if (apply_record(o, &record, err) < 0)
            return -1;
    return r < 0 ? malformed(err, "a pax record") : 0;
}

static int meta_done(struct tar_reader *r, struct error *err)
{
    size_t len = r->meta.len;
    if (r->meta_type == 'x')
        return pax_header(&r->next, (const char *)r->meta.data, len, err);
    if (r->meta_type == 'g') /* global defaults say nothing that we keep */
        return 0;
    while (len > 0 && r->meta.data[len - 1] == '\0')
        len--;
    if (len == 0)
        return malformed(err, "an empty long name");
    return replace_text(r->meta_type == 'L' ? &r->next.path : &r->next.link, (const char *)r->meta.data, len,
                        err);
}

/* ---- entries ---- */

static void skip_content(struct tar_reader *r, uint64_t size)
{
    r->left = size + ustar_padding(size);
    r->state = r->left ? IN_SKIPPED : AT_HEADER;
}

static int begin_file(struct tar_reader *r, const char *name, uint64_t size, struct error *err)
{
    if (size > r->config.max_bytes - r->bytes)
        return error_set(err, ERROR_LIMIT, "what comes out is larger than %llu bytes",
                         (unsigned long long)r->config.max_bytes);
    r->bytes += size;
    r->file = beneath_create(r->config.dir, name, err);
    if (r->file < 0)
        return -1;
    r->left = size;
    r->pad = ustar_padding(size);
    r->state = IN_CONTENT;
    return 0;
}

static int end_file(struct tar_reader *r, struct error *err)
{
    struct timespec times[2] = {{0, UTIME_OMIT}, r->mtime};
    int failed = fchmod(r->file, r->mode & 0777) < 0 || futimens(r->file, times) < 0 ? errno : 0;
    if (close(r->file) < 0 && !failed)
        failed = errno;
    r->file = -1;
    r->left = r->pad;
    r->state = r->left ? IN_SKIPPED : AT_HEADER;
    return failed ? error_system(err, failed, "cannot write a file") : 0;
}

static int put_symlink(struct tar_reader *r, const char *name, const char *target, struct error *err)
{
    if (beneath_link_stays(name, target))
        return beneath_symlink(r->config.dir, name, target, err);
    skipped(r, name, "a symbolic link that leads out of the tree");
    return 0;
}

static int put_hardlink(struct tar_reader *r, const char *name, const char *link, struct error *err)
{
    char target[BENEATH_MAX_PATH];
    if (beneath_clean(link, target, err) < 0)
        return -1;
    if (!target[0])
        return malformed(err, "a hard link to the top");
    return beneath_hardlink(r->config.dir, name, target, err);
}

/* `name` is clean; empty for the top of a tree. */
static int put_entry(struct tar_reader *r, char type, const char *name, const char *link, uint64_t size,
                     struct error *err)
{
    bool file = type == '0' || type == '\0' || type == '7';
    if (r->config.as && (!file || r->entries > 1))
        return malformed(err, "one file was asked for, and something else came");
    if (!name[0]) {
        skip_content(r, size);
        return type == '5' ? 0 : malformed(err, "an entry without a name");
    }
    if (file)
        return begin_file(r, name, size, err);
    skip_content(r, size);
    switch (type) {
    case '5':
        return beneath_mkdir(r->config.dir, name, r->mode, err);
    case '2':
        return put_symlink(r, name, link, err);
    case '1':
        return put_hardlink(r, name, link, err);
    default:
        skipped(r, name, "not a file, a directory or a link");
        return 0;
    }
}

static int begin_meta(struct tar_reader *r, char type, uint64_t size, struct error *err)
{
    if (size > META_MAX)
        return malformed(err, "a header of more than 64 KiB");
    buf_clear(&r->meta);
    r->meta_type = type;
    r->left = size;
    r->pad = ustar_padding(size);
    r->state = IN_META;
    return 0;
}

static int begin_entry(struct tar_reader *r, uint64_t size, uint64_t mtime, struct error *err)
{
    char name[BENEATH_MAX_PATH], short_name[USTAR_NAME_MAX], short_link[101];
    ustar_name(&r->header, short_name);
    snprintf(short_link, sizeof short_link, "%.100s", r->header.link);
    const char *link = r->next.link ? r->next.link : short_link;
    if (++r->entries > r->config.max_entries)
        return error_set(err, ERROR_LIMIT, "more than %llu files come out",
                         (unsigned long long)r->config.max_entries);
    if (beneath_clean(r->next.path ? r->next.path : short_name, name, err) < 0)
        return -1;
    r->mtime = r->next.has_mtime ? r->next.mtime : (struct timespec){(time_t)mtime, 0};
    int result = put_entry(r, r->header.type, r->config.as ? r->config.as : name, link,
                           r->next.has_size ? r->next.size : size, err);
    overrides_clear(&r->next);
    return result;
}

static int on_header(struct tar_reader *r, struct error *err)
{
    const struct ustar *h = &r->header;
    uint64_t size, mode, mtime;
    if (ustar_is_empty(h)) {
        r->state = AT_END;
        return 0;
    }
    if (!ustar_is_sealed(h))
        return malformed(err, "a checksum is wrong");
    if (!ustar_number(h->size, sizeof h->size, &size) || !ustar_number(h->mode, sizeof h->mode, &mode) ||
        !ustar_number(h->mtime, sizeof h->mtime, &mtime))
        return malformed(err, "a number is not octal");
    if (size > INT64_MAX || mtime > USTAR_MAX_SECONDS)
        return malformed(err, "a size or time that cannot be");
    r->mode = (unsigned)(mode & 07777);
    if (h->type == 'x' || h->type == 'g' || h->type == 'L' || h->type == 'K')
        return begin_meta(r, h->type, size, err);
    return begin_entry(r, size, mtime, err);
}

/* Takes at least one byte unless len is 0. Bytes taken, or -1. */
static ssize_t feed_some(struct tar_reader *r, const uint8_t *p, size_t len, struct error *err)
{
    size_t n = r->left < len ? (size_t)r->left : len;
    switch (r->state) {
    case AT_HEADER:
        n = USTAR_BLOCK - r->have < len ? USTAR_BLOCK - r->have : len;
        memcpy((uint8_t *)&r->header + r->have, p, n);
        r->have += n;
        if (r->have < USTAR_BLOCK)
            return (ssize_t)n;
        r->have = 0;
        return on_header(r, err) < 0 ? -1 : (ssize_t)n;
    case IN_META:
        if (buf_append(&r->meta, p, n) < 0)
            return error_oom(err);
        break;
    case IN_CONTENT:
        if (fd_write_all(r->file, p, n) < 0)
            return error_system(err, errno, "cannot write a file");
        break;
    case IN_SKIPPED:
        break;
    case AT_END:
        return (ssize_t)len;
    }
    r->left -= n;
    return (ssize_t)n;
}

/* Leaves a state whose bytes have all come. */
static int settle(struct tar_reader *r, struct error *err)
{
    if (r->left > 0)
        return 0;
    if (r->state == IN_CONTENT)
        return end_file(r, err);
    if (r->state == IN_SKIPPED)
        r->state = AT_HEADER;
    if (r->state == IN_META) {
        r->left = r->pad;
        r->state = r->left ? IN_SKIPPED : AT_HEADER;
        return meta_done(r, err);
    }
    return 0;
}

int tar_reader_feed(struct tar_reader *r, const void *data, size_t len, struct error *err)
{
    const uint8_t *p = data;
    while (len > 0) {
        ssize_t n = feed_some(r, p, len, err);
        if (n < 0 || settle(r, err) < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int tar_reader_finish(struct tar_reader *r, struct error *err)
{
    if (r->state == AT_END)
        return 0;
    return error_set(err, ERROR_CORRUPT, "the archive was cut short");
}
