/* A file operation as decoded from its arguments, and what its child process works with. */
#ifndef CLOISTER_AGENT_FS_REQUEST_H
#define CLOISTER_AGENT_FS_REQUEST_H

#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "link/cbor.h"

#include <stdbool.h>
#include <stdint.h>

#define FS_MAX_EXCLUDES 256

enum fs_stream { FS_NO_STREAM, FS_SENDS, FS_RECEIVES }; /* seen from the agent */

struct fs_request {
    char *path, *from, *to, *target;
    bool has_stream, has_offset, has_length, has_mode, has_size, has_sha256;
    bool no_follow, recursive, parents, exclusive, append, force;
    uint32_t stream;
    uint64_t offset, length, mode, size;
    uint8_t sha256[SHA256_BYTES];
    char *exclude[FS_MAX_EXCLUDES];
    size_t exclude_count;
};

/* The child's descriptors. */
struct fs_io {
    int out;    /* bytes for the stream; -1 */
    int in;     /* bytes of the stream; -1 */
    int commit; /* one byte after the stream's orderly end; end of file without one: it was reset */
    int proc;   /* O_PATH of the container's /proc */
};

/* Runs in the child. Puts one CBOR value into `ret`, or fills err and returns -1. */
typedef int (*fs_operation_fn)(const struct fs_request *q, const struct fs_io *io, struct buf *ret,
                               struct error *err);

struct fs_operation {
    const char *name;
    enum fs_stream stream;
    const char *keys[12];
    fs_operation_fn run;
};

/* NULL when there is none. */
const struct fs_operation *fs_operation_find(const char *name);
int fs_request_read(struct fs_request *q, const struct fs_operation *op, const struct cbor_reader *args,
                    struct error *err);
void fs_request_free(struct fs_request *q);

int fs_stat(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_read(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_write(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_list(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_mkdir(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_rename(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_remove(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_symlink(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_chmod(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_export(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_import(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);
int fs_watch(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err);

#endif
