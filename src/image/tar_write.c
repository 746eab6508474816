#include "image/tar_write.h"

#include "base/ustar.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char zeros[2 * USTAR_BLOCK];

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
    pax_put_text(&w->pax, key, text);
    free(text);
    return 0;
}

int tar_add_xattr(struct tar_writer *w, const char *name, const void *value, size_t len, struct error *err)
{
    char key[300];
    if (strchr(name, '='))
        return xattr_escaped(w, name, value, len, err);
    snprintf(key, sizeof key, "SCHILY.xattr.%s", name);
    pax_put(&w->pax, key, value, len);
    return 0;
}

static bool all_ascii(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s >= 128)
            return false;
    return true;
}

static int put_pax(struct tar_writer *w, struct error *err)
{
    struct buf header;
    if (w->pax.failed)
        return error_set(err, ERROR_LIMIT, "the attributes of one file are too large");
    buf_init(&header, 0);
    pax_put_header(&header, &w->pax);
    buf_clear(&w->pax);
    int r = header.failed ? error_oom(err) : 0;
    if (r == 0 && header.len)
        r = put(w, header.data, header.len, err);
    buf_free(&header);
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
    buf_append(b, zeros, ustar_padding(b->len));
    return data;
}

static void put_times_and_ids(struct tar_writer *w, const struct tar_entry *e, struct ustar *h)
{
    if (e->uid > USTAR_MAX_ID)
        pax_put_number(&w->pax, "uid", e->uid);
    if (e->gid > USTAR_MAX_ID)
        pax_put_number(&w->pax, "gid", e->gid);
    ustar_put_number(h->uid, sizeof h->uid, e->uid);
    ustar_put_number(h->gid, sizeof h->gid, e->gid);
    bool plain = e->mtime.tv_sec >= 0 && (uint64_t)e->mtime.tv_sec < USTAR_MAX_LONG && e->mtime.tv_nsec == 0;
    if (plain)
        ustar_put_number(h->mtime, sizeof h->mtime, (uint64_t)e->mtime.tv_sec);
    else
        pax_put_time(&w->pax, "mtime", &e->mtime);
}

int tar_header(struct tar_writer *w, const struct tar_entry *e, struct error *err)
{
    struct ustar h;
    struct buf map;
    buf_init(&map, 16u << 20);
    bool dir = e->type == '5';
    char *path = NULL;
    if (asprintf(&path, "%s%s", e->path, dir ? "/" : "") < 0)
        return error_oom(err);
    const char *link = e->link ? e->link : "";
    ustar_init(&h, e->sparse ? "GNUSparseFile.0/x" : path, e->type, 0);
    ustar_put_number(h.mode, sizeof h.mode, e->mode & 07777);
    put_times_and_ids(w, e, &h);
    /* Names are bytes. What is not ASCII would be taken as UTF-8 in a pax record. */
    if (!all_ascii(path) || !all_ascii(link))
        pax_put_text(&w->pax, "hdrcharset", "BINARY");
    if (strlen(link) > sizeof h.link)
        pax_put_text(&w->pax, "linkpath", link);
    ustar_put_text(h.link, sizeof h.link, link); /* readers want something here even so */
    uint64_t stored = e->type == '0' ? e->size : 0;
    if (e->sparse) {
        pax_put_text(&w->pax, "GNU.sparse.major", "1");
        pax_put_text(&w->pax, "GNU.sparse.minor", "0");
        pax_put_text(&w->pax, "GNU.sparse.name", path);
        pax_put_number(&w->pax, "GNU.sparse.realsize", e->size);
        stored = sparse_map(e->sparse, &map) + map.len;
    } else if (strlen(path) > sizeof h.name) {
        pax_put_text(&w->pax, "path", path);
    }
    if (stored > USTAR_MAX_LONG)
        pax_put_number(&w->pax, "size", stored);
    ustar_put_number(h.size, sizeof h.size, stored);
    ustar_seal(&h);
    w->data_left = stored - map.len;
    w->pad = ustar_padding(stored);
    int r =
        map.failed ? error_set(err, ERROR_LIMIT, "\"%.150s\" has too many holes", e->path) : put_pax(w, err);
    if (r == 0)
        r = put(w, &h, sizeof h, err);
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
