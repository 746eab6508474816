/* "fs.read" */
#include "agent/fs_path.h"
#include "agent/fs_stream.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int send_range(int fd, const struct fs_request *q, struct fs_out *o, struct error *err)
{
    uint64_t at = q->offset, left = q->has_length ? q->length : UINT64_MAX;
    while (left > 0 && !o->errnum) {
        size_t want = sizeof o->data < left ? sizeof o->data : (size_t)left;
        ssize_t n = pread(fd, o->data, want, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fs_fail(err, errno, "read", q->path);
        if (n == 0)
            break;
        o->len = (size_t)n;
        if (fs_out_flush(o, err) < 0)
            return -1;
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
    return fs_out_flush(o, err);
}

int fs_read(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    static struct fs_out out;
    struct stat st;
    uint8_t digest[SHA256_BYTES];
    cleanup_close int fd = fs_open_regular(io, q->path, O_RDONLY, &st, err);
    if (fd < 0)
        return -1;
    fs_out_init(&out, io->out);
    if (send_range(fd, q, &out, err) < 0)
        return -1;
    fs_sum_end(&out.sum, digest);
    cbor_put_map(ret, 3);
    cbor_put_text(ret, "size");
    cbor_put_uint(ret, (uint64_t)st.st_size);
    cbor_put_text(ret, "sent");
    cbor_put_uint(ret, out.sum.bytes);
    cbor_put_text(ret, "sha256");
    cbor_put_bytes(ret, digest, sizeof digest);
    return 0;
}
