#include "image/blob_write.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/digest.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define LEVEL 1
#define WORKERS 2
/* Writing to disk begins this often, so that the sync at the end finds little left to do. */
#define WRITE_BEHIND ((uint64_t)4 << 20)

struct blob_writer {
    struct byte_sink sink; /* first: write() casts back */
    const char *data_dir;
    char tmp[PATH_MAX];
    int fd;
    ZSTD_CCtx *zstd;
    struct hasher hash;
    uint64_t size, behind;
    uint8_t *out;
    size_t out_size;
    bool published;
};

static int put_packed(struct blob_writer *w, size_t len, struct error *err)
{
    if (fd_write_all(w->fd, w->out, len) < 0)
        return error_system(err, errno, "cannot write %s", w->tmp);
    hasher_update(&w->hash, w->out, len);
    w->size += len;
    if (w->size - w->behind >= WRITE_BEHIND) {
        sync_file_range(w->fd, (off64_t)w->behind, (off64_t)(w->size - w->behind), SYNC_FILE_RANGE_WRITE);
        w->behind = w->size;
    }
    return 0;
}

static int compress(struct blob_writer *w, const void *data, size_t len, ZSTD_EndDirective how,
                    struct error *err)
{
    ZSTD_inBuffer in = {data, len, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {w->out, w->out_size, 0};
        left = ZSTD_compressStream2(w->zstd, &out, &in, how);
        if (ZSTD_isError(left))
            return error_set(err, ERROR_INTERNAL, "cannot compress: %s", ZSTD_getErrorName(left));
        if (out.pos > 0 && put_packed(w, out.pos, err) < 0)
            return -1;
    } while (how == ZSTD_e_end ? left > 0 : in.pos < in.size);
    return 0;
}

static int sink_write(struct byte_sink *s, const void *data, size_t len, struct error *err)
{
    return compress((struct blob_writer *)s, data, len, ZSTD_e_continue, err);
}

int blob_writer_open(const char *data_dir, struct blob_writer **ret, struct error *err)
{
    struct blob_writer *w = calloc(1, sizeof *w);
    if (!w)
        return error_oom(err);
    w->sink.write = sink_write;
    w->data_dir = data_dir;
    w->out_size = ZSTD_CStreamOutSize();
    w->out = malloc(w->out_size);
    w->zstd = ZSTD_createCCtx();
    hasher_init(&w->hash, true, false);
    w->fd = w->out && w->zstd ? store_tmp_file(data_dir, "blob", w->tmp, err) : error_oom(err);
    if (w->fd < 0) {
        w->tmp[0] = '\0';
        blob_writer_close(w);
        return -1;
    }
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_nbWorkers, WORKERS);
    *ret = w;
    return 0;
}

struct byte_sink *blob_writer_sink(struct blob_writer *w)
{
    return &w->sink;
}

/* The same blob may be there already, from an equal snapshot. It then counts as new for gc's grace. */
static int publish(struct blob_writer *w, const char *hex, struct error *err)
{
    char place[PATH_MAX], folder[PATH_MAX];
    if (store_path(place, w->data_dir, err, "blobs/sha256/%s", hex) < 0 ||
        store_path(folder, w->data_dir, err, "blobs/sha256") < 0)
        return -1;
    if (rename(w->tmp, place) < 0)
        return error_system(err, errno, "cannot put the blob at %s", place);
    w->published = true;
    cleanup_close int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fsync(dir) < 0)
        return error_system(err, errno, "cannot sync %s", folder);
    return 0;
}

int blob_writer_commit(struct blob_writer *w, char ret_hex[65], uint64_t *ret_size, struct error *err)
{
    char none[129];
    if (compress(w, NULL, 0, ZSTD_e_end, err) < 0)
        return -1;
    if (fchmod(w->fd, 0400) < 0 || fdatasync(w->fd) < 0)
        return error_system(err, errno, "cannot write %s to disk", w->tmp);
    hasher_finish(&w->hash, ret_hex, none);
    *ret_size = w->size;
    return publish(w, ret_hex, err);
}

void blob_writer_close(struct blob_writer *w)
{
    if (!w)
        return;
    if (*w->tmp && !w->published)
        unlink(w->tmp);
    if (w->fd >= 0)
        close(w->fd);
    ZSTD_freeCCtx(w->zstd);
    free(w->out);
    free(w);
}
