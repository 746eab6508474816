/* Compression and decompression, piece by piece, with bounded output: a bomb unpacks no faster than it is
 * read.
 *
 * Push a piece of input, pull until it gives nothing more, push the next; at the end pull with `finish`. */
#ifndef CLOISTER_WORKER_NATIVE_ZLIB_STREAM_H
#define CLOISTER_WORKER_NATIVE_ZLIB_STREAM_H

#include "worker/native_crypto_key.h"

/* The values are those of js/src/crypto/natives.d.ts. */
enum zlib_format { ZLIB_GZIP = 0, ZLIB_DEFLATE = 1, ZLIB_DEFLATE_RAW = 2 };

#define ZLIB_PULL_MAX (64u << 10) /* bytes that one pull gives */
#define ZLIB_PUSH_MAX (256u << 20)
#define ZLIB_STREAM_COST (300u << 10) /* bytes that a stream holds, about */

struct zlib_stream;

/* level: -1 (the usual one) to 9; of no meaning when it decompresses. */
struct zlib_stream *zlib_stream_new(bool compress, enum zlib_format format, int level, struct error *err);
/* Copies the input. ERROR_STATE: what was pushed before is not used up; ERROR_CORRUPT: it comes after the end
 * of the compressed data. */
int zlib_stream_push(struct zlib_stream *stream, const uint8_t *data, size_t size, struct error *err);
/* 1: gave 1 to ZLIB_PULL_MAX bytes; 0: there is no more until more is pushed (or at all, with `finish`).
 * ERROR_CORRUPT: not such data, something after its end, or, with `finish`, not all of it. After an error the
 * stream gives nothing but errors. */
int zlib_stream_pull(struct zlib_stream *stream, bool finish, struct crypto_buffer *out, struct error *err);
void zlib_stream_free(struct zlib_stream *stream);

#endif
