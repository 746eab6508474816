#include "agent/tar_write.h"

#include <stdio.h>
#include <string.h>

/* Field offsets and sizes of the ustar header. */
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
    TYPE = 156,
    LINK = 157,
    LINK_SIZE = 100,
    MAGIC = 257,
};

#define MAX_LONG_OCTAL 077777777777u /* 11 digits */
#define MAX_ID_OCTAL 07777777u       /* 7 digits */

unsigned tar_padding(uint64_t size)
{
    return (unsigned)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

static void put_octal(uint8_t *block, int at, int width, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%0*llo", width - 1, (unsigned long long)v);
    memcpy(block + at, text, (size_t)width - 1);
}

static void put_block(struct buf *b, char type, const char *name, size_t name_len, const char *link,
                      uint64_t mode, uint64_t uid, uint64_t gid, uint64_t size, uint64_t mtime)
{
    uint8_t block[TAR_BLOCK] = {0};
    memcpy(block + NAME, name, name_len < NAME_SIZE ? name_len : NAME_SIZE);
    put_octal(block, MODE, ID_SIZE, mode);
    put_octal(block, UID, ID_SIZE, uid);
    put_octal(block, GID, ID_SIZE, gid);
    put_octal(block, SIZE, LONG_SIZE, size);
    put_octal(block, MTIME, LONG_SIZE, mtime);
    block[TYPE] = (uint8_t)type;
    if (link) {
        size_t len = strlen(link);
        memcpy(block + LINK, link, len < LINK_SIZE ? len : LINK_SIZE);
    }
    memcpy(block + MAGIC, "ustar\00000", 8);
    memset(block + CHECKSUM, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof block; i++)
        sum += block[i];
    put_octal(block, CHECKSUM, 7, sum);
    block[CHECKSUM + 6] = '\0';
    buf_append(b, block, sizeof block);
}

/* "<length> key=value\n", where the length counts itself. */
static void put_record(struct buf *b, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3; /* ' ', '=', '\n' */
    size_t len = rest + 1;
    char digits[24];
    while ((size_t)snprintf(digits, sizeof digits, "%zu", len) + rest != len)
        len = rest + strlen(digits);
    buf_append_str(b, digits);
    buf_append_str(b, " ");
    buf_append_str(b, key);
    buf_append_str(b, "=");
    buf_append_str(b, value);
    buf_append_str(b, "\n");
}

static void put_number_record(struct buf *b, const char *key, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    put_record(b, key, text);
}

static void put_time_record(struct buf *b, const struct timespec *t)
{
    /* a negative time is written as its distance from zero: -0.25 is second -1, nanosecond 750000000 */
    long long seconds = t->tv_sec;
    long nanoseconds = t->tv_nsec;
    const char *sign = "";
    if (seconds < 0) {
        sign = "-";
        seconds = nanoseconds ? -(seconds + 1) : -seconds;
        nanoseconds = nanoseconds ? 1000000000 - nanoseconds : 0;
    }
    char text[48];
    snprintf(text, sizeof text, "%s%lld.%09ld", sign, seconds, nanoseconds);
    put_record(b, "mtime", text);
}

static uint64_t fitting(uint64_t v, uint64_t most)
{
    return v <= most ? v : 0;
}

void tar_put_header(struct buf *b, char type, const char *path, const char *link, const struct stat *st,
                    uint64_t size)
{
    struct buf extended;
    buf_init(&extended, 0);
    size_t len = strlen(path);
    if (len > NAME_SIZE)
        put_record(&extended, "path", path);
    if (link && strlen(link) > LINK_SIZE)
        put_record(&extended, "linkpath", link);
    if (size > MAX_LONG_OCTAL)
        put_number_record(&extended, "size", size);
    if (st->st_uid > MAX_ID_OCTAL)
        put_number_record(&extended, "uid", st->st_uid);
    if (st->st_gid > MAX_ID_OCTAL)
        put_number_record(&extended, "gid", st->st_gid);
    if (st->st_mtim.tv_nsec != 0 || st->st_mtim.tv_sec < 0 || (uint64_t)st->st_mtim.tv_sec > MAX_LONG_OCTAL)
        put_time_record(&extended, &st->st_mtim);
    if (extended.len > 0) {
        static const uint8_t zeros[TAR_BLOCK];
        put_block(b, 'x', "pax", 3, NULL, 0644, 0, 0, extended.len, 0);
        buf_append(b, extended.data, extended.len);
        buf_append(b, zeros, tar_padding(extended.len));
    }
    if (extended.failed)
        b->failed = true;
    buf_free(&extended);
    uint64_t mtime = st->st_mtim.tv_sec < 0 ? 0 : fitting((uint64_t)st->st_mtim.tv_sec, MAX_LONG_OCTAL);
    put_block(b, type, path, len, link, st->st_mode & 07777, fitting(st->st_uid, MAX_ID_OCTAL),
              fitting(st->st_gid, MAX_ID_OCTAL), fitting(size, MAX_LONG_OCTAL), mtime);
}
