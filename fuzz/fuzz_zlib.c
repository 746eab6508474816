/* The glue around zlib. The first byte chooses the format, the second the size of the pieces; the rest is
 * decompressed as it is, and compressed and decompressed again, which must give the same. */
#include "worker/native_zlib_stream.h"

#include <stdlib.h>
#include <string.h>

#define OUTPUT_MAX (4u << 20) /* a bomb is not unpacked to its end */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct output {
    uint8_t *data;
    size_t size;
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* 1: more came than is kept; 0: all of it; -1: an error. */
static int drain(struct zlib_stream *stream, bool finish, struct output *out)
{
    struct crypto_buffer piece;
    struct error err = {0};
    int result;
    while ((result = zlib_stream_pull(stream, finish, &piece, &err)) == 1) {
        check(piece.size > 0 && piece.size <= ZLIB_PULL_MAX);
        bool room = out->size + piece.size <= OUTPUT_MAX;
        if (room) {
            memcpy(out->data + out->size, piece.data, piece.size);
            out->size += piece.size;
        }
        crypto_buffer_free(&piece);
        if (!room)
            return 1;
    }
    check(result == 0 || err.message[0]);
    return result;
}

static int run(bool compress, enum zlib_format format, size_t piece, const uint8_t *data, size_t len,
               struct output *out)
{
    struct zlib_stream *stream = zlib_stream_new(compress, format, -1, NULL);
    check(stream != NULL);
    int result = 0;
    while (result == 0 && len > 0) {
        size_t size = len < piece ? len : piece;
        result = zlib_stream_push(stream, data, size, NULL);
        if (result == 0)
            result = drain(stream, false, out);
        data += size;
        len -= size;
    }
    if (result == 0)
        result = drain(stream, true, out);
    if (result < 0) { /* an error stays */
        struct crypto_buffer piece_after;
        check(zlib_stream_pull(stream, true, &piece_after, NULL) < 0);
    }
    zlib_stream_free(stream);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static uint8_t first[OUTPUT_MAX], second[OUTPUT_MAX];
    if (len < 2)
        return 0;
    enum zlib_format format = data[0] % 3;
    size_t piece = data[1] ? data[1] : len;
    struct output packed = {first, 0}, unpacked = {second, 0};
    run(false, format, piece, data + 2, len - 2, &unpacked);

    unpacked.size = 0;
    check(run(true, format, piece, data + 2, len - 2, &packed) == 0);
    check(run(false, format, piece, packed.data, packed.size, &unpacked) == 0);
    check(unpacked.size == len - 2 && memcmp(unpacked.data, data + 2, len - 2) == 0);
    return 0;
}
