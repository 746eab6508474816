/* Bytes of a file operation's stream, counted and digested on their way. */
#ifndef CLOISTER_AGENT_FS_STREAM_H
#define CLOISTER_AGENT_FS_STREAM_H

#include "agent/fs_request.h"
#include "base/sha256.h"

#include <sys/types.h>

#define FS_CHUNK (64u << 10)

struct fs_sum {
    struct sha256 hash;
    uint64_t bytes;
};

void fs_sum_init(struct fs_sum *s);
void fs_sum_add(struct fs_sum *s, const void *data, size_t len);
void fs_sum_end(struct fs_sum *s, uint8_t ret[SHA256_BYTES]);

/* Buffered output to the stream. Errors are sticky and come out of fs_out_flush(). */
struct fs_out {
    int fd;
    int errnum;
    size_t len;
    struct fs_sum sum;
    uint8_t data[FS_CHUNK];
};
void fs_out_init(struct fs_out *o, int fd);
void fs_out_put(struct fs_out *o, const void *data, size_t len);
int fs_out_flush(struct fs_out *o, struct error *err);

/* Reads from the stream: bytes, 0 at its orderly end, -1 (ECANCELED when it was reset). */
ssize_t fs_in_read(const struct fs_io *io, void *data, size_t len, struct error *err);
/* Compares what arrived with what the caller announced. */
int fs_check_sum(const struct fs_request *q, uint64_t bytes, const uint8_t digest[SHA256_BYTES],
                 struct error *err);

#endif
