#include "cli/tar_write.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/ustar.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char zeros[2 * USTAR_BLOCK];

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

/* The header of one entry, with a pax header before it: its time is always exact. */
static int put_entry(struct tar_writer *w, const char *name, char type, const struct stat *st, uint64_t size,
                     const char *link, struct error *err)
{
    struct buf pax;
    struct ustar h;
    buf_init(&pax, 64 << 10);
    if (strlen(name) > sizeof h.name)
        pax_put_text(&pax, "path", name);
    if (link && strlen(link) > sizeof h.link)
        pax_put_text(&pax, "linkpath", link);
    if (size > USTAR_MAX_LONG)
        pax_put_number(&pax, "size", size);
    pax_put_time(&pax, "mtime", &st->st_mtim);
    pax_put_header(&w->head, &pax);
    buf_free(&pax);
    ustar_init(&h, name, type, size);
    ustar_put_number(h.mode, sizeof h.mode, st->st_mode & 07777);
    if (st->st_mtim.tv_sec > 0)
        ustar_put_number(h.mtime, sizeof h.mtime, (uint64_t)st->st_mtim.tv_sec);
    if (link)
        ustar_put_text(h.link, sizeof h.link, link);
    ustar_seal(&h);
    buf_append(&w->head, &h, sizeof h);
    return w->head.failed ? error_oom(err) : 0;
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
    w->pad = ustar_padding(w->left);
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
    buf_append(&w->head, zeros, w->pad);
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
