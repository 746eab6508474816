/* Writes tar archives byte by byte, so that a test can put anything into them, and hands them to the
 * unpacker. */
#ifndef CLOISTER_TESTS_IMAGE_ARCHIVE_H
#define CLOISTER_TESTS_IMAGE_ARCHIVE_H

#include "base/buf.h"
#include "image/layer_unpack.h"

struct member {
    const char *name;
    char type; /* 0: '0' */
    const char *link, *data;
    unsigned mode; /* 0: 0644, directories 0755 */
    unsigned uid, gid;
    uint64_t size;   /* 0: that of data */
    const char *pax; /* "key=value" records, each ended by '\n' */
};
/* The name goes into the header as it is, cut at 100 bytes. */
void archive_add(struct buf *b, const struct member *m);
void archive_end(struct buf *b);

struct memory_source {
    struct byte_source source;
    const uint8_t *data;
    size_t len, at;
};
void memory_source_init(struct memory_source *s, const void *data, size_t len);

/* A new directory below TMPDIR; an open descriptor. */
int fresh_dir(char path[256]);
void drop_dir(const char *path);
/* Unpacks the members into a fresh directory. */
int unpack_members(const struct member *m, size_t n, const struct unpack_options *o, char path[256],
                   struct unpack_result *r, struct error *err);

#endif
