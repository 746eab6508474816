#include "agent/tar_read.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define MAX_EXTENDED (1u << 20)
#define MAX_SECONDS (UINT64_C(4096) * INT32_MAX) /* far beyond what any file system stores */

enum {
    NAME = 0,
    NAME_SIZE = 100,
    MODE = 100,
    UID = 108,
    GID = 116,
    ID_SIZE = 8,
    SIZE = 124,
    MTIME = 136,
    LONG_SIZE = 12,
    CHECKSUM = 148,
    CHECKSUM_SIZE = 8,
    TYPE = 156,
    LINK = 157,
    LINK_SIZE = 100,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_SIZE = 155,
};

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

/* Octal digits, or GNU's base 256 (first bit set). */
static bool get_number(const uint8_t *block, int at, int width, uint64_t *ret)
{
    const uint8_t *p = block + at;
    uint64_t v = 0;
    if (p[0] & 0x80) {
        if (p[0] != 0x80)
            return false; /* negative or absurdly large */
        for (int i = 1; i < width; i++) {
            if (v >> 55)
                return false;
            v = v << 8 | p[i];
        }
        *ret = v;
        return true;
    }
    int i = 0;
    while (i < width && p[i] == ' ')
        i++;
    for (; i < width && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0'); /* 12 digits at most: no overflow */
    for (; i < width; i++)
        if (p[i] != ' ' && p[i] != '\0')
            return false;
    *ret = v;
    return true;
}

static bool checksum_right(const uint8_t *block)
{
    uint64_t stated;
    unsigned sum = 0;
    int signed_sum = 0;
    if (!get_number(block, CHECKSUM, CHECKSUM_SIZE, &stated))
        return false;
    for (int i = 0; i < (int)TAR_BLOCK; i++) {
        uint8_t c = i >= CHECKSUM && i < CHECKSUM + CHECKSUM_SIZE ? ' ' : block[i];
        sum += c;
        signed_sum += (int8_t)c;
    }
    return stated == sum || (signed_sum >= 0 && stated == (uint64_t)signed_sum);
}

static bool all_zero(const uint8_t *block)
{
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

static size_t copy_field(char *to, const uint8_t *from, size_t max)
{
    size_t len = strnlen((const char *)from, max);
    memcpy(to, from, len);
    to[len] = '\0';
    return len;
}

static bool copy_value(char *to, const char *from, size_t len)
{
    if (len >= PATH_MAX || memchr(from, '\0', len))
        return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

static bool parse_decimal(const char *p, size_t len, uint64_t *ret)
{
    uint64_t v = 0;
    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    *ret = v;
    return true;
}

static bool parse_time(const char *p, size_t len, struct timespec *ret)
{
    bool negative = len > 0 && *p == '-';
    if (negative)
        p++, len--;
    const char *dot = memchr(p, '.', len);
    size_t whole = dot ? (size_t)(dot - p) : len;
    uint64_t seconds;
    long nanoseconds = 0;
    if (!parse_decimal(p, whole, &seconds) || seconds > MAX_SECONDS)
        return false;
    long unit = 100000000;
    for (size_t i = whole + 1; i < len; i++, unit /= 10) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        nanoseconds += (p[i] - '0') * unit;
    }
    ret->tv_sec = negative ? -(time_t)seconds : (time_t)seconds;
    ret->tv_nsec = nanoseconds;
    if (negative && nanoseconds) {
        ret->tv_sec--;
        ret->tv_nsec = 1000000000 - nanoseconds;
    }
    return true;
}

static bool key_is(const char *key, size_t len, const char *name)
{
    return len == strlen(name) && memcmp(key, name, len) == 0;
}

static bool apply_record(struct extended *x, const char *key, size_t key_len, const char *value, size_t len)
{
    if (key_is(key, key_len, "path"))
        return x->has_path = copy_value(x->path, value, len);
    if (key_is(key, key_len, "linkpath"))
        return x->has_link = copy_value(x->link, value, len);
    if (key_is(key, key_len, "size"))
        return x->has_size = parse_decimal(value, len, &x->size);
    if (key_is(key, key_len, "uid"))
        return x->has_uid = parse_decimal(value, len, &x->uid);
    if (key_is(key, key_len, "gid"))
        return x->has_gid = parse_decimal(value, len, &x->gid);
    if (key_is(key, key_len, "mtime"))
        return x->has_mtime = parse_time(value, len, &x->mtime);
    if (key_len > 11 && memcmp(key, "GNU.sparse.", 11) == 0)
        x->sparse = true;
    return true; /* others do not concern us */
}

/* Records "<length> key=value\n". */
static int parse_extended(struct extended *x, const char *p, size_t left, struct error *err)
{
    while (left > 0) {
        const char *space = memchr(p, ' ', left < 20 ? left : 20);
        uint64_t len;
        if (!space || !parse_decimal(p, (size_t)(space - p), &len) || len > left ||
            len < (size_t)(space - p) + 3 || p[len - 1] != '\n')
            return corrupt(err, "malformed extended header");
        const char *key = space + 1, *end = p + len - 1;
        const char *equals = memchr(key, '=', (size_t)(end - key));
        if (!equals || !apply_record(x, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals - 1)))
            return corrupt(err, "an extended header has a value that is malformed or too long");
        p += len;
        left -= (size_t)len;
    }
    return 0;
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
    if (must_read(t, data, (size_t)size, err) < 0 || skip(t, tar_padding(size), err) < 0)
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

static void fill_names(const uint8_t *block, const struct extended *x, struct tar_entry *e)
{
    size_t len = 0;
    if (memcmp(block + MAGIC, "ustar\0", 6) == 0 && block[PREFIX]) {
        len = copy_field(e->path, block + PREFIX, PREFIX_SIZE);
        e->path[len++] = '/';
    }
    copy_field(e->path + len, block + NAME, NAME_SIZE);
    copy_field(e->link, block + LINK, LINK_SIZE);
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

static int fill_entry(struct tar_reader *t, const uint8_t *block, const struct extended *x,
                      struct tar_entry *e, struct error *err)
{
    uint64_t mode, size, uid, gid, mtime;
    if (!get_number(block, MODE, ID_SIZE, &mode) || !get_number(block, UID, ID_SIZE, &uid) ||
        !get_number(block, GID, ID_SIZE, &gid) || !get_number(block, SIZE, LONG_SIZE, &size) ||
        !get_number(block, MTIME, LONG_SIZE, &mtime))
        return corrupt(err, "a header has a malformed number");
    fill_names(block, x, e);
    if (fill_type((char)block[TYPE], e, err) < 0)
        return -1;
    if (x->sparse)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the tar archive holds a sparse file (%.200s): make it without --sparse", e->path);
    e->mode = (unsigned)(mode & 07777);
    e->size = x->has_size ? x->size : size;
    e->uid = x->has_uid ? x->uid : uid;
    e->gid = x->has_gid ? x->gid : gid;
    e->mtime = x->has_mtime ? x->mtime : (struct timespec){.tv_sec = (time_t)mtime};
    if (e->size > INT64_MAX || mtime > MAX_SECONDS)
        return corrupt(err, "a size or time that cannot be");
    if (e->type != TAR_FILE)
        e->size = 0; /* some writers put the size of the linked file there; no data follows */
    if (e->path[0] == '\0')
        return corrupt(err, "an entry without a name");
    t->data_left = e->size;
    t->padding = tar_padding(e->size);
    return 1;
}

int tar_next(struct tar_reader *t, struct tar_entry *ret, struct error *err)
{
    cleanup_free struct extended *x = calloc(1, sizeof *x);
    uint8_t block[TAR_BLOCK];
    if (!x)
        return error_oom(err);
    if (skip(t, t->data_left, err) < 0 || skip(t, t->padding, err) < 0)
        return -1;
    t->data_left = t->padding = 0;
    for (;;) {
        uint64_t size;
        if (must_read(t, block, sizeof block, err) < 0)
            return -1;
        if (all_zero(block))
            return 0;
        if (!checksum_right(block) || !get_number(block, SIZE, LONG_SIZE, &size))
            return corrupt(err, "a header has a wrong checksum");
        char type = (char)block[TYPE];
        if (type == 'g') { /* for all entries: comments, in practice */
            if (size > MAX_EXTENDED)
                return corrupt(err, "an extended header is larger than 1 MiB");
            if (skip(t, size + tar_padding(size), err) < 0)
                return -1;
        } else if (type == 'x' || type == 'L' || type == 'K') {
            if (read_about_next(t, type, size, x, err) < 0)
                return -1;
        } else {
            return fill_entry(t, block, x, ret, err);
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
