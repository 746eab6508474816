/* Writes the tar inside a snapshot layer: pax format, the same bytes for the same files. */
#ifndef CLOISTER_IMAGE_TAR_WRITE_H
#define CLOISTER_IMAGE_TAR_WRITE_H

#include "base/buf.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Where the bytes go. */
struct byte_sink {
    int (*write)(struct byte_sink *s, const void *data, size_t len, struct error *err);
};

struct tar_hole_map { /* a sparse file's data: pairs of offset and length */
    uint64_t (*extents)[2];
    size_t count;
};

struct tar_entry {
    const char *path; /* relative, no slash at the end; "." for the root */
    char type;        /* '0' file, '1' hard link, '2' symbolic link, '5' directory */
    const char *link; /* for '1' and '2' */
    mode_t mode;
    uint64_t uid, gid, size; /* size: apparent, of files */
    struct timespec mtime;
    const struct tar_hole_map *sparse; /* NULL: all of it is data */
};

struct tar_writer {
    struct byte_sink *sink;
    struct buf pax; /* records for the next entry */
    uint64_t data_left;
    unsigned pad;
};
void tar_writer_init(struct tar_writer *w, struct byte_sink *sink);
void tar_writer_free(struct tar_writer *w);
/* An extended attribute of the entry to come. */
int tar_add_xattr(struct tar_writer *w, const char *name, const void *value, size_t len, struct error *err);
/* The header; then exactly the entry's data (of a sparse file: its extents one after another) must follow by
 * tar_data(). */
int tar_header(struct tar_writer *w, const struct tar_entry *e, struct error *err);
int tar_data(struct tar_writer *w, const void *data, size_t len, struct error *err);
int tar_end(struct tar_writer *w, struct error *err);

#endif
