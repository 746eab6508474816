#include "agent/tar_read.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXTENDED (1u << 20)

/* What extended headers said about the next entry. */
struct extended {
    bool has_path, has_link, has_size, has_uid, has_gid, has_mtime, sparse;
    char path[PATH_MAX], link[PATH_MAX];
    uint64_t size, uid, gid;
    struct timespec mtime;
};

static int corrupt(struct error *err, const char *why)
{
    return error_set(err, ERROR_CORRUPT, "the tar archive is damaged: %s", why);
}

void tar_reader_init(struct tar_reader *t,
                     ssize_t (*read)(void *user, void *data, size_t len, struct error *err), void *user)
{
    *t = (struct tar_reader){.read = read, .user = user};
}

/* All `len` bytes. 1; 0 at a clean end before the first byte; -1. */
static int read_full(struct tar_reader *t, void *data, size_t len, struct error *err)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = t->read(t->user, (uint8_t *)data + got, len - got, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return got == 0 ? 0 : corrupt(err, "it ends in the middle of a block");
        got += (size_t)n;
    }
    return 1;
}

static int must_read(struct tar_reader *t, void *data, size_t len, struct error *err)
{
    int r = read_full(t, data, len, err);
    return r == 1 ? 0 : r < 0 ? -1 : corrupt(err, "it ends too early");
}

static int skip(struct tar_reader *t, uint64_t len, struct error *err)
{
    uint8_t data[4096];
    while (len > 0) {
        size_t n = len < sizeof data ? (size_t)len : sizeof data;
        if (must_read(t, data, n, err) < 0)
            return -1;
        len -= n;
    }
    return 0;
}

static bool copy_value(char *to, const char *from, size_t len)
{
    if (len >= PATH_MAX || memchr(from, '\0', len))
        return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

static bool apply_record(struct extended *x, const struct pax_record *r)
{
    if (pax_key_is(r, "path"))
        return x->has_path = copy_value(x->path, r->value, r->len);
    if (pax_key_is(r, "linkpath"))
        return x->has_link = copy_value(x->link, r->value, r->len);
    if (pax_key_is(r, "size"))
        return x->has_size = pax_number(r, &x->size);
    if (pax_key_is(r, "uid"))
        return x->has_uid = pax_number(r, &x->uid);
    if (pax_key_is(r, "gid"))
        return x->has_gid = pax_number(r, &x->gid);
    if (pax_key_is(r, "mtime"))
        return x->has_mtime = pax_time(r, &x->mtime);
    if (r->key_len > 11 && memcmp(r->key, "GNU.sparse.", 11) == 0)
        x->sparse = true;
    return true; /* others do not concern us */
}

static int parse_extended(struct extended *x, const char *p, size_t left, struct error *err)
{
    struct pax_record record;
    int r;
    while ((r = pax_next(&p, &left, &record)) > 0)
        if (!apply_record(x, &record))
            return corrupt(err, "an extended header has a value that is malformed or too long");
    return r < 0 ? corrupt(err, "malformed extended header") : 0;
}

/* The data of a header about the next entry: pax 'x', GNU 'L' and 'K'. */
static int read_about_next(struct tar_reader *t, char type, uint64_t size, struct extended *x,
                           struct error *err)
{
    if (size > MAX_EXTENDED)
        return corrupt(err, "an extended header is larger than 1 MiB");
    cleanup_free char *data = malloc((size_t)size + 1);
    if (!data)
        return error_oom(err);
    if (must_read(t, data, (size_t)size, err) < 0 || skip(t, ustar_padding(size), err) < 0)
        return -1;
    if (type == 'x')
        return parse_extended(x, data, (size_t)size, err);
    size_t len = strnlen(data, (size_t)size);
    bool ok = copy_value(type == 'L' ? x->path : x->link, data, len);
    if (type == 'L')
        x->has_path = ok;
    else
        x->has_link = ok;
    return ok ? 0 : corrupt(err, "a name is too long");
}

static void fill_names(const struct ustar *h, const struct extended *x, struct tar_entry *e)
{
    _Static_assert(sizeof e->path >= USTAR_NAME_MAX, "a header's name fits");
    ustar_name(h, e->path);
    snprintf(e->link, sizeof e->link, "%.*s", (int)sizeof h->link, h->link);
    if (x->has_path)
        memcpy(e->path, x->path, sizeof e->path);
    if (x->has_link)
        memcpy(e->link, x->link, sizeof e->link);
}

static int fill_type(char type, struct tar_entry *e, struct error *err)
{
    size_t len = strlen(e->path);
    switch (type) {
    case '\0':
    case '7':
    case TAR_FILE: /* in the oldest archives a directory is a file whose name ends with a slash */
        e->type = len > 0 && e->path[len - 1] == '/' ? TAR_DIRECTORY : TAR_FILE;
        return 0;
    case TAR_HARDLINK:
    case TAR_SYMLINK:
        if (!e->link[0])
            return corrupt(err, "a link without a target");
        e->type = type;
        return 0;
    case TAR_DIRECTORY:
    case TAR_FIFO:
        e->type = type;
        return 0;
    case TAR_CHAR:
    case TAR_BLOCKDEV:
        return error_set(err, ERROR_DENIED, "the tar archive holds a device node: %.200s", e->path);
    case 'S':
        return error_set(err, ERROR_UNSUPPORTED,
                         "the tar archive holds a sparse file (%.200s): make it without --sparse", e->path);
    default:
        return error_set(err, ERROR_UNSUPPORTED,
                         "the tar archive holds an entry of unknown type 0x%02x: %.200s", (unsigned char)type,
                         e->path);
    }
}

static int fill_entry(struct tar_reader *t, const struct ustar *h, const struct extended *x,
                      struct tar_entry *e, struct error *err)
{
    uint64_t mode, size, uid, gid, mtime;
    if (!ustar_number(h->mode, sizeof h->mode, &mode) || !ustar_number(h->uid, sizeof h->uid, &uid) ||
        !ustar_number(h->gid, sizeof h->gid, &gid) || !ustar_number(h->size, sizeof h->size, &size) ||
        !ustar_number(h->mtime, sizeof h->mtime, &mtime))
        return corrupt(err, "a header has a malformed number");
    fill_names(h, x, e);
    if (fill_type(h->type, e, err) < 0)
        return -1;
    if (x->sparse)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the tar archive holds a sparse file (%.200s): make it without --sparse", e->path);
    e->mode = (unsigned)(mode & 07777);
    e->size = x->has_size ? x->size : size;
    e->uid = x->has_uid ? x->uid : uid;
    e->gid = x->has_gid ? x->gid : gid;
    e->mtime = x->has_mtime ? x->mtime : (struct timespec){.tv_sec = (time_t)mtime};
    if (e->size > INT64_MAX || mtime > USTAR_MAX_SECONDS)
        return corrupt(err, "a size or time that cannot be");
    if (e->type != TAR_FILE)
        e->size = 0; /* some writers put the size of the linked file there; no data follows */
    if (e->path[0] == '\0')
        return corrupt(err, "an entry without a name");
    t->data_left = e->size;
    t->padding = ustar_padding(e->size);
    return 1;
}

int tar_next(struct tar_reader *t, struct tar_entry *ret, struct error *err)
{
    cleanup_free struct extended *x = calloc(1, sizeof *x);
    struct ustar h;
    if (!x)
        return error_oom(err);
    if (skip(t, t->data_left, err) < 0 || skip(t, t->padding, err) < 0)
        return -1;
    t->data_left = t->padding = 0;
    for (;;) {
        uint64_t size;
        if (must_read(t, &h, sizeof h, err) < 0)
            return -1;
        if (ustar_is_empty(&h))
            return 0;
        if (!ustar_is_sealed(&h) || !ustar_number(h.size, sizeof h.size, &size))
            return corrupt(err, "a header has a wrong checksum");
        if (h.type == 'g') { /* for all entries: comments, in practice */
            if (size > MAX_EXTENDED)
                return corrupt(err, "an extended header is larger than 1 MiB");
            if (skip(t, size + ustar_padding(size), err) < 0)
                return -1;
        } else if (h.type == 'x' || h.type == 'L' || h.type == 'K') {
            if (read_about_next(t, h.type, size, x, err) < 0)
                return -1;
        } else {
            return fill_entry(t, &h, x, ret, err);
        }
    }
}

ssize_t tar_read_data(struct tar_reader *t, void *data, size_t len, struct error *err)
{
    if (len > t->data_left)
        len = (size_t)t->data_left;
    if (len == 0)
        return 0;
    ssize_t n = t->read(t->user, data, len, err);
    if (n == 0)
        return corrupt(err, "it ends too early");
    if (n > 0)
        t->data_left -= (uint64_t)n;
    return n;
}
