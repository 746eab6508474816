#include "image/tar_write.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512

struct header { /* ustar, POSIX.1-1988 */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
        version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

static const char zeros[2 * BLOCK];

void tar_writer_init(struct tar_writer *w, struct byte_sink *sink)
{
    *w = (struct tar_writer){.sink = sink};
    buf_init(&w->pax, 8u << 20);
}

void tar_writer_free(struct tar_writer *w)
{
    buf_free(&w->pax);
}

static int put(struct tar_writer *w, const void *data, size_t len, struct error *err)
{
    return w->sink->write(w->sink, data, len, err);
}

/* "<length> <key>=<value>\n", where the length counts itself. */
static void pax_record(struct buf *b, const char *key, const void *value, size_t len)
{
    size_t body = strlen(key) + len + 3, total = body + 1;
    for (size_t digits = 1;; digits++) {
        char text[24];
        total = body + digits;
        if ((size_t)snprintf(text, sizeof text, "%zu", total) == digits)
            break;
    }
    buf_printf(b, "%zu %s=", total, key);
    buf_append(b, value, len);
    buf_append(b, "\n", 1);
}

static void pax_text(struct buf *b, const char *key, const char *value)
{
    pax_record(b, key, value, strlen(value));
}

static void pax_number(struct buf *b, const char *key, uint64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    pax_text(b, key, text);
}

static void base64(const uint8_t *in, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        uint32_t v = (uint32_t)in[i] << 16 | (i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0) |
                     (i + 2 < len ? in[i + 2] : 0);
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        if (i + 1 < len)
            *out++ = digits[v >> 6 & 63];
        if (i + 2 < len)
            *out++ = digits[v & 63];
    }
    *out = '\0';
}

/* A key must not hold '=': such names take libarchive's form, which escapes the name and wants base64. */
static int xattr_escaped(struct tar_writer *w, const char *name, const void *value, size_t len,
                         struct error *err)
{
    char key[20 + 3 * 256];
    char *text = malloc(len / 3 * 4 + 8);
    size_t n = (size_t)snprintf(key, sizeof key, "LIBARCHIVE.xattr.");
    if (!text)
        return error_oom(err);
    for (; *name && n < sizeof key - 4; name++) {
        bool plain = (unsigned char)*name > 32 && (unsigned char)*name < 127 && *name != '%' && *name != '=';
        n += (size_t)snprintf(key + n, sizeof key - n, plain ? "%c" : "%%%02X", (unsigned char)*name);
    }
    base64(value, len, text);
    pax_text(&w->pax, key, text);
    free(text);
    return 0;
}

int tar_add_xattr(struct tar_writer *w, const char *name, const void *value, size_t len, struct error *err)
{
    char key[300];
    if (strchr(name, '='))
        return xattr_escaped(w, name, value, len, err);
    snprintf(key, sizeof key, "SCHILY.xattr.%s", name);
    pax_record(&w->pax, key, value, len);
    return 0;
}

static bool all_ascii(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s >= 128)
            return false;
    return true;
}

static void octal(char *field, size_t size, uint64_t value)
{
    snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)value);
}

static void seal(struct header *h)
{
    unsigned sum = 0;
    memset(h->checksum, ' ', sizeof h->checksum);
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((unsigned char *)h)[i];
    snprintf(h->checksum, sizeof h->checksum, "%06o", sum);
    h->checksum[7] = ' ';
}

static void fill(struct header *h, const char *name, char type, uint64_t size)
{
    memset(h, 0, sizeof *h);
    size_t n = strlen(name);
    memcpy(h->name, name, n < sizeof h->name ? n : sizeof h->name);
    octal(h->mode, sizeof h->mode, 0644);
    octal(h->uid, sizeof h->uid, 0);
    octal(h->gid, sizeof h->gid, 0);
    octal(h->size, sizeof h->size, size);
    octal(h->mtime, sizeof h->mtime, 0);
    h->type = type;
    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
}

static int pad_to_block(struct tar_writer *w, uint64_t len, struct error *err)
{
    size_t rest = (size_t)(len % BLOCK);
    return rest ? put(w, zeros, BLOCK - rest, err) : 0;
}

static int put_pax(struct tar_writer *w, struct error *err)
{
    struct header h;
    if (w->pax.failed)
        return error_set(err, ERROR_LIMIT, "the attributes of one file are too large");
    if (w->pax.len == 0)
        return 0;
    fill(&h, "PaxHeaders/x", 'x', w->pax.len);
    seal(&h);
    if (put(w, &h, BLOCK, err) < 0 || put(w, w->pax.data, w->pax.len, err) < 0)
        return -1;
    int r = pad_to_block(w, w->pax.len, err);
    buf_clear(&w->pax);
    return r;
}

/* GNU's sparse format 1.0: the map, in decimal lines padded to a block, stands before the data. */
static uint64_t sparse_map(const struct tar_hole_map *m, struct buf *b)
{
    uint64_t data = 0;
    buf_printf(b, "%zu\n", m->count);
    for (size_t i = 0; i < m->count; i++) {
        buf_printf(b, "%llu\n%llu\n", (unsigned long long)m->extents[i][0],
                   (unsigned long long)m->extents[i][1]);
        data += m->extents[i][1];
    }
    size_t rest = b->len % BLOCK;
    if (rest)
        buf_append(b, zeros, BLOCK - rest);
    return data;
}

static void pax_times_and_ids(struct tar_writer *w, const struct tar_entry *e, struct header *h)
{
    if (e->uid > 07777777)
        pax_number(&w->pax, "uid", e->uid);
    if (e->gid > 07777777)
        pax_number(&w->pax, "gid", e->gid);
    octal(h->uid, sizeof h->uid, e->uid > 07777777 ? 0 : e->uid);
    octal(h->gid, sizeof h->gid, e->gid > 07777777 ? 0 : e->gid);
    bool plain = e->mtime.tv_sec >= 0 && (uint64_t)e->mtime.tv_sec < 077777777777 && e->mtime.tv_nsec == 0;
    octal(h->mtime, sizeof h->mtime, plain ? (uint64_t)e->mtime.tv_sec : 0);
    if (plain)
        return;
    char text[48];
    if (e->mtime.tv_sec < 0 && e->mtime.tv_nsec > 0) /* decimal fractions count away from zero */
        snprintf(text, sizeof text, "-%lld.%09ld", -(long long)(e->mtime.tv_sec + 1),
                 1000000000 - e->mtime.tv_nsec);
    else
        snprintf(text, sizeof text, "%lld.%09ld", (long long)e->mtime.tv_sec, e->mtime.tv_nsec);
    pax_text(&w->pax, "mtime", text);
}

int tar_header(struct tar_writer *w, const struct tar_entry *e, struct error *err)
{
    struct header h;
    struct buf map;
    buf_init(&map, 16u << 20);
    bool dir = e->type == '5';
    char *path = NULL;
    if (asprintf(&path, "%s%s", e->path, dir ? "/" : "") < 0)
        return error_oom(err);
    const char *link = e->link ? e->link : "";
    fill(&h, e->sparse ? "GNUSparseFile.0/x" : path, e->type, 0);
    octal(h.mode, sizeof h.mode, e->mode & 07777);
    pax_times_and_ids(w, e, &h);
    /* Names are bytes. What is not ASCII would be taken as UTF-8 in a pax record. */
    if (!all_ascii(path) || !all_ascii(link))
        pax_text(&w->pax, "hdrcharset", "BINARY");
    if (strlen(link) > sizeof h.link)
        pax_text(&w->pax, "linkpath", link);
    memcpy(h.link, link, strnlen(link, sizeof h.link)); /* readers want something here even so */
    uint64_t stored = e->type == '0' ? e->size : 0;
    if (e->sparse) {
        pax_text(&w->pax, "GNU.sparse.major", "1");
        pax_text(&w->pax, "GNU.sparse.minor", "0");
        pax_text(&w->pax, "GNU.sparse.name", path);
        pax_number(&w->pax, "GNU.sparse.realsize", e->size);
        stored = sparse_map(e->sparse, &map) + map.len;
    } else if (strlen(path) > sizeof h.name) {
        pax_text(&w->pax, "path", path);
    }
    if (stored > 077777777777)
        pax_number(&w->pax, "size", stored);
    octal(h.size, sizeof h.size, stored > 077777777777 ? 0 : stored);
    seal(&h);
    w->data_left = stored - map.len;
    w->pad = (unsigned)((BLOCK - stored % BLOCK) % BLOCK);
    int r =
        map.failed ? error_set(err, ERROR_LIMIT, "\"%.150s\" has too many holes", e->path) : put_pax(w, err);
    if (r == 0)
        r = put(w, &h, BLOCK, err);
    if (r == 0 && map.len)
        r = put(w, map.data, map.len, err);
    buf_free(&map);
    free(path);
    return r;
}

int tar_data(struct tar_writer *w, const void *data, size_t len, struct error *err)
{
    if (len > w->data_left)
        return error_set(err, ERROR_INTERNAL, "more data than the tar header said");
    if (put(w, data, len, err) < 0)
        return -1;
    w->data_left -= len;
    if (w->data_left > 0 || w->pad == 0)
        return 0;
    unsigned pad = w->pad;
    w->pad = 0;
    return put(w, zeros, pad, err);
}

int tar_end(struct tar_writer *w, struct error *err)
{
    return put(w, zeros, sizeof zeros, err);
}
