#include "worker/native_zlib_stream.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct zlib_stream {
    z_stream z;
    bool compress;
    bool ended;                 /* the compressed data's end was written or read */
    const char *fault;          /* what is wrong with the data, once it is known */
    struct crypto_buffer input; /* what z.next_in points into */
};

struct zlib_stream *zlib_stream_new(bool compress, enum zlib_format format, int level, struct error *err)
{
    struct zlib_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        error_oom(err);
        return NULL;
    }
    stream->compress = compress;
    int window = format == ZLIB_GZIP ? 15 + 16 : format == ZLIB_DEFLATE ? 15 : -15;
    int result = compress ? deflateInit2(&stream->z, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY)
                          : inflateInit2(&stream->z, window);
    if (result == Z_OK)
        return stream;
    free(stream);
    error_set(err, ERROR_INTERNAL, "the compressor cannot be started");
    return NULL;
}

static const char trailing[] = "there is data after the end of the compressed data";

static int fail(struct zlib_stream *stream, struct error *err, const char *what)
{
    stream->fault = what;
    crypto_buffer_free(&stream->input);
    stream->z.next_in = NULL;
    stream->z.avail_in = 0;
    return error_set(err, ERROR_CORRUPT, "%s", what);
}

/* UNTRUSTED INPUT */
int zlib_stream_push(struct zlib_stream *stream, const uint8_t *data, size_t size, struct error *err)
{
    if (stream->fault)
        return error_set(err, ERROR_CORRUPT, "%s", stream->fault);
    if (size == 0)
        return 0;
    if (size > ZLIB_PUSH_MAX)
        return error_set(err, ERROR_LIMIT, "a piece of more than %u bytes", ZLIB_PUSH_MAX);
    if (stream->ended)
        return stream->compress ? error_set(err, ERROR_STATE, "the stream has ended")
                                : fail(stream, err, trailing);
    if (stream->z.avail_in > 0)
        return error_set(err, ERROR_STATE, "the piece before is not used up");
    crypto_buffer_free(&stream->input);
    if (!crypto_buffer_alloc(&stream->input, size, err))
        return -1;
    memcpy(stream->input.data, data, size);
    stream->z.next_in = stream->input.data;
    stream->z.avail_in = (uInt)size;
    return 0;
}

/* One step of zlib into the output. -1 when the data is bad. */
static int step(struct zlib_stream *stream, bool finish, struct error *err)
{
    int result = stream->compress ? deflate(&stream->z, finish ? Z_FINISH : Z_NO_FLUSH)
                                  : inflate(&stream->z, Z_NO_FLUSH);
    if (result == Z_STREAM_END)
        stream->ended = true;
    else if (result == Z_NEED_DICT)
        return fail(stream, err, "the compressed data needs a dictionary");
    else if (result == Z_MEM_ERROR)
        return error_oom(err);
    else if (result != Z_OK && result != Z_BUF_ERROR) /* that one: there was nothing to do */
        return fail(stream, err, "the compressed data is malformed");
    return 0;
}

int zlib_stream_pull(struct zlib_stream *stream, bool finish, struct crypto_buffer *out, struct error *err)
{
    if (stream->fault)
        return error_set(err, ERROR_CORRUPT, "%s", stream->fault);
    if (stream->ended) {
        if (stream->z.avail_in > 0)
            return fail(stream, err, trailing);
        return 0;
    }
    if (!crypto_buffer_alloc(out, ZLIB_PULL_MAX, err))
        return -1;
    stream->z.next_out = out->data;
    stream->z.avail_out = ZLIB_PULL_MAX;
    int result = step(stream, finish, err);
    size_t made = ZLIB_PULL_MAX - stream->z.avail_out;
    if (made == 0) {
        crypto_buffer_free(out);
        if (result == 0 && stream->ended && stream->z.avail_in > 0)
            return fail(stream, err, trailing);
        if (result == 0 && finish && !stream->ended)
            return fail(stream, err, "the compressed data is not complete");
        return result;
    }
    /* What came before a fault is good; the fault itself is for the next pull. */
    uint8_t *smaller = realloc(out->data, made);
    if (smaller)
        out->data = smaller;
    out->size = made;
    return 1;
}

void zlib_stream_free(struct zlib_stream *stream)
{
    if (!stream)
        return;
    if (stream->compress)
        deflateEnd(&stream->z);
    else
        inflateEnd(&stream->z);
    crypto_buffer_free(&stream->input);
    free(stream);
}
