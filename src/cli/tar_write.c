#include "cli/tar_write.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 512

struct tar_writer {
    char *source; /* without slashes at its end */
    size_t source_len;
    char *name;
    FTS *walk;
    struct buf head; /* header bytes to be handed out, then padding */
    size_t head_off;
    int file; /* content being handed out; -1: none */
    char *file_path;
    uint64_t left; /* of the content */
    unsigned pad;
    bool ended;
    uint64_t skipped;
    char *first_skipped;
    void *linked; /* tree of struct linked: files of several names that were packed */
};

/* A file that has more than one name, and under which it is in the archive. */
struct linked {
    dev_t dev;
    ino_t ino;
    char name[];
};

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], uname[32], gname[32], devmajor[8], devminor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a tar header is one block");

int tar_writer_open(struct tar_writer **ret, const char *source, const char *name, struct error *err)
{
    struct tar_writer *w = calloc(1, sizeof *w);
    if (!w)
        return error_oom(err);
    w->file = -1;
    w->source = strdup(source);
    w->name = strdup(name);
    if (!w->source || !w->name) {
        tar_writer_free(w);
        return error_oom(err);
    }
    w->source_len = strlen(w->source);
    while (w->source_len > 1 && w->source[w->source_len - 1] == '/')
        w->source[--w->source_len] = '\0';
    buf_init(&w->head, 1 << 20);
    struct stat st;
    char *const roots[] = {w->source, NULL};
    if (stat(source, &st) < 0 ||
        !(w->walk = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL))) {
        error_system(err, errno, "cannot read %s", source);
        tar_writer_free(w);
        return -1;
    }
    *ret = w;
    return 0;
}

static int linked_compare(const void *a, const void *b)
{
    const struct linked *x = a, *y = b;
    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino == y->ino ? 0 : x->ino < y->ino ? -1 : 1;
}

/* The name under which the file is in the archive already; NULL: under none, and it is now under `name` (or
 * there is no memory to remember it: then it becomes a file of its own). */
static const char *linked_name(struct tar_writer *w, const struct stat *st, const char *name)
{
    struct linked *n = malloc(sizeof *n + strlen(name) + 1);
    if (!n)
        return NULL;
    n->dev = st->st_dev;
    n->ino = st->st_ino;
    memcpy(n->name, name, strlen(name) + 1);
    struct linked **found = tsearch(n, &w->linked, linked_compare);
    if (found && *found == n)
        return NULL;
    free(n);
    return found ? (*found)->name : NULL;
}

void tar_writer_free(struct tar_writer *w)
{
    if (!w)
        return;
    if (w->walk)
        fts_close(w->walk);
    if (w->file >= 0)
        close(w->file);
    tdestroy(w->linked, free);
    buf_free(&w->head);
    free(w->source);
    free(w->name);
    free(w->file_path);
    free(w->first_skipped);
    free(w);
}

uint64_t tar_writer_skipped(const struct tar_writer *w, const char **ret_first)
{
    *ret_first = w->first_skipped;
    return w->skipped;
}

/* One record "<length> key=value\n", whose length counts itself. */
static void pax_record(struct buf *b, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
    char digits[24];
    while ((size_t)snprintf(digits, sizeof digits, "%zu", len) + rest != len)
        len = (size_t)snprintf(digits, sizeof digits, "%zu", len) + rest;
    buf_printf(b, "%zu %s=%s\n", len, key, value);
}

static void put_header(struct buf *b, const char *name, char type, unsigned mode, uint64_t size,
                       int64_t mtime, const char *link)
{
    struct ustar h = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    char size_octal[24];
    memcpy(h.name, name, strnlen(name, sizeof h.name));
    if (link)
        memcpy(h.link, link, strnlen(link, sizeof h.link));
    snprintf(h.mode, sizeof h.mode, "%07o", mode & 07777);
    snprintf(h.uid, sizeof h.uid, "%07o", 0);
    snprintf(h.gid, sizeof h.gid, "%07o", 0);
    /* What does not fit stands in the pax header before this one. */
    snprintf(size_octal, sizeof size_octal, "%011llo", size >> 33 ? 0ull : (unsigned long long)size);
    memcpy(h.size, size_octal, 11);
    snprintf(size_octal, sizeof size_octal, "%011llo",
             mtime < 0 || mtime >> 33 ? 0ull : (unsigned long long)mtime);
    memcpy(h.mtime, size_octal, 11);
    memset(h.checksum, ' ', sizeof h.checksum);
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((const unsigned char *)&h)[i];
    snprintf(h.checksum, sizeof h.checksum, "%06o", sum & 0777777);
    buf_append(b, &h, sizeof h);
}

static void put_padding(struct buf *b, uint64_t size)
{
    static const char zeros[BLOCK];
    buf_append(b, zeros, (size_t)(-size % BLOCK));
}

/* The header of one entry, with a pax header before it. */
static int put_entry(struct tar_writer *w, const char *name, char type, const struct stat *st, uint64_t size,
                     const char *link, struct error *err)
{
    struct buf pax;
    char number[48];
    buf_init(&pax, 64 << 10);
    if (strlen(name) > 99)
        pax_record(&pax, "path", name);
    if (link && strlen(link) > 99)
        pax_record(&pax, "linkpath", link);
    if (size >> 33) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)size);
        pax_record(&pax, "size", number);
    }
    snprintf(number, sizeof number, "%lld.%09ld", (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    pax_record(&pax, "mtime", number);
    put_header(&w->head, "PaxHeader", 'x', 0644, pax.len, 0, NULL);
    buf_append(&w->head, pax.data, pax.len);
    put_padding(&w->head, pax.len);
    put_header(&w->head, name, type, st->st_mode, size, st->st_mtim.tv_sec, link);
    bool failed = pax.failed || w->head.failed;
    buf_free(&pax);
    return failed ? error_oom(err) : 0;
}

static int put_link(struct tar_writer *w, const FTSENT *e, const char *name, struct error *err)
{
    char target[4097];
    ssize_t n = readlink(e->fts_accpath, target, sizeof target - 1);
    if (n < 0)
        return error_system(err, errno, "cannot read the link %s", e->fts_path);
    target[n] = '\0';
    return put_entry(w, name, '2', e->fts_statp, 0, target, err);
}

static int put_file(struct tar_writer *w, const FTSENT *e, const char *name, struct error *err)
{
    /* NONBLOCK: a FIFO that took the file's place must not hang us; what was opened is what is packed. */
    cleanup_close int fd = open(e->fts_accpath, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_system(err, errno, "cannot read %s", e->fts_path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_STATE, "%s changed while it was copied", e->fts_path);
    const char *first = st.st_nlink > 1 ? linked_name(w, &st, name) : NULL;
    if (first)
        return put_entry(w, name, '1', &st, 0, first, err);
    free(w->file_path);
    w->file_path = strdup(e->fts_path);
    if (!w->file_path)
        return error_oom(err);
    if (put_entry(w, name, '0', &st, (uint64_t)st.st_size, NULL, err) < 0)
        return -1;
    w->file = steal_fd(&fd);
    w->left = (uint64_t)st.st_size;
    w->pad = (unsigned)(-w->left % BLOCK);
    return 0;
}

static int skip(struct tar_writer *w, const FTSENT *e, struct error *err)
{
    if (w->skipped++ == 0 && !(w->first_skipped = strdup(e->fts_path)))
        return error_oom(err);
    return 0;
}

static int put_next(struct tar_writer *w, const FTSENT *e, struct error *err)
{
    cleanup_free char *name = NULL;
    if (asprintf(&name, "%s%s", w->name, e->fts_level ? e->fts_path + w->source_len : "") < 0) {
        name = NULL;
        return error_oom(err);
    }
    if (w->source_len == 1 && w->source[0] == '/' && e->fts_level) { /* "/" is its own separator */
        free(name);
        if (asprintf(&name, "%s%s", w->name, e->fts_path) < 0) {
            name = NULL;
            return error_oom(err);
        }
    }
    switch (e->fts_info) {
    case FTS_D:
        return put_entry(w, name, '5', e->fts_statp, 0, NULL, err);
    case FTS_F:
        return put_file(w, e, name, err);
    case FTS_SL:
    case FTS_SLNONE:
        return put_link(w, e, name, err);
    case FTS_DP:
        return 0;
    case FTS_DEFAULT:
        return skip(w, e, err);
    case FTS_DC:
        return error_set(err, ERROR_SYSTEM, "%s is a directory loop", e->fts_path);
    default:
        return error_system(err, e->fts_errno, "cannot read %s", e->fts_path);
    }
}

/* Fills `head` with the next header, or the two empty blocks that end an archive. */
static int advance(struct tar_writer *w, struct error *err)
{
    static const char zeros[2 * BLOCK];
    buf_clear(&w->head);
    w->head_off = 0;
    errno = 0;
    FTSENT *e = fts_read(w->walk);
    if (e)
        return put_next(w, e, err);
    if (errno)
        return error_system(err, errno, "cannot read %s", w->source);
    w->ended = true;
    return buf_append(&w->head, zeros, sizeof zeros) < 0 ? error_oom(err) : 0;
}

static ssize_t read_content(struct tar_writer *w, void *to, size_t cap, struct error *err)
{
    ssize_t n;
    do
        n = read(w->file, to, w->left < cap ? (size_t)w->left : cap);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_system(err, errno, "cannot read %s", w->file_path);
    if (n == 0)
        return error_set(err, ERROR_STATE, "%s became shorter while it was copied", w->file_path);
    w->left -= (uint64_t)n;
    return n;
}

static void finish_content(struct tar_writer *w)
{
    close(w->file);
    w->file = -1;
    buf_clear(&w->head);
    w->head_off = 0;
    put_padding(&w->head, BLOCK - w->pad);
}

ssize_t tar_writer_read(struct tar_writer *w, void *to, size_t cap, struct error *err)
{
    for (;;) {
        if (w->head_off < w->head.len) {
            size_t n = w->head.len - w->head_off;
            n = n < cap ? n : cap;
            memcpy(to, w->head.data + w->head_off, n);
            w->head_off += n;
            return (ssize_t)n;
        }
        if (w->file >= 0 && w->left > 0)
            return read_content(w, to, cap, err);
        if (w->file >= 0) {
            finish_content(w);
            continue;
        }
        if (w->ended)
            return 0;
        if (advance(w, err) < 0)
            return -1;
    }
}
