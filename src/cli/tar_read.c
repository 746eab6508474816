#include "cli/tar_read.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/beneath.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 512u
#define META_MAX ((size_t)64 << 10) /* a pax header, a GNU long name */

enum state {
    AT_HEADER,  /* block[0..have) of the next header */
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
    uint8_t block[BLOCK];
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

static int octal(const uint8_t *p, size_t len, uint64_t *ret)
{
    uint64_t v = 0;
    size_t i = 0;
    while (i < len && p[i] == ' ')
        i++;
    for (; i < len && p[i] >= '0' && p[i] <= '7'; i++) {
        if (v >> 60)
            return -1;
        v = v * 8 + (uint64_t)(p[i] - '0');
    }
    if (i < len && p[i] != ' ' && p[i] != '\0')
        return -1;
    *ret = v;
    return 0;
}

static bool checksum_right(const uint8_t *block)
{
    uint64_t want;
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : block[i];
    return octal(block + 148, 8, &want) == 0 && want == sum;
}

static void skipped(struct tar_reader *r, const char *name, const char *why)
{
    if (r->skipped++ == 0)
        snprintf(r->first_skipped, sizeof r->first_skipped, "%.200s: %s", name, why);
}

/* ---- pax and GNU headers ---- */

static int replace_text(char **to, const uint8_t *data, size_t len, struct error *err)
{
    if (memchr(data, '\0', len) || len >= BENEATH_MAX_PATH)
        return malformed(err, "a name with a NUL byte or of more than 4096 bytes");
    char *text = strndup((const char *)data, len);
    if (!text)
        return error_oom(err);
    free(*to);
    *to = text;
    return 0;
}

static int pax_number(const char *text, uint64_t *ret, const char **ret_end)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    *ret_end = end;
    return errno || *ret > INT64_MAX ? -1 : 0;
}

static int pax_mtime(struct overrides *o, const char *text)
{
    uint64_t seconds;
    const char *p;
    if (text[0] == '-') /* before 1970: not worth a failure */
        return 0;
    if (pax_number(text, &seconds, &p) < 0)
        return -1;
    long ns = 0, unit = 100000000;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
            ns += (*p - '0') * unit;
    if (*p)
        return -1;
    o->mtime = (struct timespec){(time_t)seconds, ns};
    o->has_mtime = true;
    return 0;
}

static int pax_key(struct overrides *o, const char *key, size_t key_len, const uint8_t *value, size_t len,
                   struct error *err)
{
    char text[64];
    const char *end;
    if (key_len == 4 && memcmp(key, "path", 4) == 0)
        return replace_text(&o->path, value, len, err);
    if (key_len == 8 && memcmp(key, "linkpath", 8) == 0)
        return replace_text(&o->link, value, len, err);
    bool size = key_len == 4 && memcmp(key, "size", 4) == 0;
    bool mtime = key_len == 5 && memcmp(key, "mtime", 5) == 0;
    if (!size && !mtime)
        return 0;
    if (len >= sizeof text)
        return malformed(err, "a number is too long");
    memcpy(text, value, len);
    text[len] = '\0';
    if (mtime)
        return pax_mtime(o, text) < 0 ? malformed(err, "mtime") : 0;
    if (pax_number(text, &o->size, &end) < 0 || *end)
        return malformed(err, "size");
    o->has_size = true;
    return 0;
}

/* Records "<length> key=value\n". */
static int pax_header(struct overrides *o, const uint8_t *p, size_t len, struct error *err)
{
    while (len > 0) {
        size_t n = 0, digits = 0;
        for (; digits < len && digits < 7 && p[digits] >= '0' && p[digits] <= '9'; digits++)
            n = n * 10 + (size_t)(p[digits] - '0');
        if (digits == 0 || digits >= len || p[digits] != ' ' || n > len || n < digits + 3 || p[n - 1] != '\n')
            return malformed(err, "a pax record");
        const uint8_t *key = p + digits + 1, *end = p + n - 1;
        const uint8_t *eq = memchr(key, '=', (size_t)(end - key));
        if (!eq)
            return malformed(err, "a pax record without \"=\"");
        if (pax_key(o, (const char *)key, (size_t)(eq - key), eq + 1, (size_t)(end - eq - 1), err) < 0)
            return -1;
        p += n;
        len -= n;
    }
    return 0;
}

static int meta_done(struct tar_reader *r, struct error *err)
{
    size_t len = r->meta.len;
    if (r->meta_type == 'x')
        return pax_header(&r->next, r->meta.data, len, err);
    if (r->meta_type == 'g') /* global defaults say nothing that we keep */
        return 0;
    while (len > 0 && r->meta.data[len - 1] == '\0')
        len--;
    if (len == 0)
        return malformed(err, "an empty long name");
    return replace_text(r->meta_type == 'L' ? &r->next.path : &r->next.link, r->meta.data, len, err);
}

/* ---- entries ---- */

/* The ustar name: prefix "/" name, neither necessarily terminated. */
static void header_name(const uint8_t *block, char to[260])
{
    size_t n = 0;
    if (memcmp(block + 257, "ustar\0", 6) == 0 && block[345]) {
        n = strnlen((const char *)block + 345, 155);
        memcpy(to, block + 345, n);
        to[n++] = '/';
    }
    size_t len = strnlen((const char *)block, 100);
    memcpy(to + n, block, len);
    to[n + len] = '\0';
}

static void skip_content(struct tar_reader *r, uint64_t size)
{
    r->left = size + (uint64_t)(-size % BLOCK);
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
    r->pad = (unsigned)(-size % BLOCK);
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
    r->pad = (unsigned)(-size % BLOCK);
    r->state = IN_META;
    return 0;
}

static int begin_entry(struct tar_reader *r, uint64_t size, uint64_t mtime, struct error *err)
{
    char name[BENEATH_MAX_PATH], short_name[260], short_link[101];
    header_name(r->block, short_name);
    snprintf(short_link, sizeof short_link, "%.100s", (const char *)r->block + 157);
    const char *link = r->next.link ? r->next.link : short_link;
    if (++r->entries > r->config.max_entries)
        return error_set(err, ERROR_LIMIT, "more than %llu files come out",
                         (unsigned long long)r->config.max_entries);
    if (beneath_clean(r->next.path ? r->next.path : short_name, name, err) < 0)
        return -1;
    r->mtime = r->next.has_mtime ? r->next.mtime : (struct timespec){(time_t)mtime, 0};
    int result = put_entry(r, (char)r->block[156], r->config.as ? r->config.as : name, link,
                           r->next.has_size ? r->next.size : size, err);
    overrides_clear(&r->next);
    return result;
}

static int on_header(struct tar_reader *r, struct error *err)
{
    static const uint8_t empty[BLOCK];
    uint64_t size, mode, mtime;
    if (memcmp(r->block, empty, BLOCK) == 0) {
        r->state = AT_END;
        return 0;
    }
    if (!checksum_right(r->block))
        return malformed(err, "a checksum is wrong");
    if (octal(r->block + 124, 12, &size) < 0 || size > INT64_MAX || octal(r->block + 100, 8, &mode) < 0 ||
        octal(r->block + 136, 12, &mtime) < 0)
        return malformed(err, "a number is not octal");
    r->mode = (unsigned)mode;
    char type = (char)r->block[156];
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K')
        return begin_meta(r, type, size, err);
    return begin_entry(r, size, mtime, err);
}

/* Takes at least one byte unless len is 0. Bytes taken, or -1. */
static ssize_t feed_some(struct tar_reader *r, const uint8_t *p, size_t len, struct error *err)
{
    size_t n = r->left < len ? (size_t)r->left : len;
    switch (r->state) {
    case AT_HEADER:
        n = BLOCK - r->have < len ? BLOCK - r->have : len;
        memcpy(r->block + r->have, p, n);
        r->have += n;
        if (r->have < BLOCK)
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
