#include "agent/fs_stream.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void fs_sum_init(struct fs_sum *s)
{
    s->bytes = 0;
    sha256_begin(&s->hash);
}

void fs_sum_add(struct fs_sum *s, const void *data, size_t len)
{
    s->bytes += len;
    sha256_add(&s->hash, data, len);
}

void fs_sum_end(struct fs_sum *s, uint8_t ret[SHA256_BYTES])
{
    sha256_end(&s->hash, ret);
}

void fs_out_init(struct fs_out *o, int fd)
{
    o->fd = fd;
    o->errnum = 0;
    o->len = 0;
    fs_sum_init(&o->sum);
}

static void drain(struct fs_out *o)
{
    if (!o->errnum && o->len > 0) {
        fs_sum_add(&o->sum, o->data, o->len);
        if (fd_write_all(o->fd, o->data, o->len) < 0)
            o->errnum = errno;
    }
    o->len = 0;
}

void fs_out_put(struct fs_out *o, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len > 0 && !o->errnum) {
        size_t n = sizeof o->data - o->len;
        if (n > len)
            n = len;
        memcpy(o->data + o->len, p, n);
        o->len += n;
        p += n;
        len -= n;
        if (o->len == sizeof o->data)
            drain(o);
    }
}

int fs_out_flush(struct fs_out *o, struct error *err)
{
    drain(o);
    if (o->errnum == EPIPE)
        return error_system(err, EPIPE, "the reader of the stream wants no more");
    return o->errnum ? error_system(err, o->errnum, "cannot send") : 0;
}

ssize_t fs_in_read(const struct fs_io *io, void *data, size_t len, struct error *err)
{
    ssize_t n;
    do
        n = read(io->in, data, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_system(err, errno, "cannot receive");
    char byte;
    if (n == 0 && fd_read_full(io->commit, &byte, 1) != 1)
        return error_system(err, ECANCELED, "the sender gave up before the end");
    return n;
}

int fs_check_sum(const struct fs_request *q, uint64_t bytes, const uint8_t digest[SHA256_BYTES],
                 struct error *err)
{
    if (q->has_size && q->size != bytes) {
        error_set(err, ERROR_CORRUPT, "%llu bytes arrived, %llu were announced", (unsigned long long)bytes,
                  (unsigned long long)q->size);
        memcpy(err->field, "size", sizeof "size");
        return -1;
    }
    if (q->has_sha256 && memcmp(q->sha256, digest, SHA256_BYTES) != 0) {
        error_set(err, ERROR_CORRUPT, "the bytes that arrived do not have the announced SHA-256");
        memcpy(err->field, "sha256", sizeof "sha256");
        return -1;
    }
    return 0;
}
