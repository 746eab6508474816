#include "image/layer_stream.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/digest.h"

#include <archive.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define PIECE ((size_t)256 << 10)
#define PIECES 8

struct piece {
    uint8_t *data;
    size_t len;
};

struct layer_stream {
    struct byte_source source; /* first: next() casts back */
    int fd;
    struct layer_stream_options o;
    pthread_t thread;
    bool started;

    /* the producer's own */
    uint8_t *in;
    size_t in_len;
    struct hasher blob, diff;
    uint64_t blob_bytes, diff_bytes;

    /* shared */
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct piece ring[PIECES];
    unsigned head, tail; /* produced, consumed; the piece at tail-1 is in the reader's hands */
    bool held, ended, stop;
    struct error error;
    uint64_t shown_bytes;
};

/* Takes more packed bytes into s->in; 0 at the end. */
static int fill_input(struct layer_stream *s)
{
    ssize_t n = fd_read_full(s->fd, s->in, PIECE);
    if (n < 0)
        return error_system(&s->error, errno, "cannot read the layer");
    s->in_len = (size_t)n;
    s->blob_bytes += (size_t)n;
    hasher_update(&s->blob, s->in, (size_t)n);
    pthread_mutex_lock(&s->lock);
    s->shown_bytes = s->blob_bytes;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* A free piece to write to, NULL when the reader has gone. */
static struct piece *piece_wait(struct layer_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->stop && s->head - s->tail + (s->held ? 1 : 0) >= PIECES)
        pthread_cond_wait(&s->change, &s->lock);
    struct piece *p = s->stop ? NULL : &s->ring[s->head % PIECES];
    pthread_mutex_unlock(&s->lock);
    return p;
}

static int piece_publish(struct layer_stream *s, struct piece *p, size_t len)
{
    const struct image_limits *l = s->o.limits;
    p->len = len;
    s->diff_bytes += len;
    if (!s->o.no_diff)
        hasher_update(&s->diff, p->data, len);
    /* Headers and padding come on top of what the files may hold. */
    if (s->diff_bytes / 2 > l->layer_bytes + ((uint64_t)64 << 20))
        return error_set(&s->error, ERROR_LIMIT, "the layer unpacks to more than the limit of %llu bytes",
                         (unsigned long long)l->layer_bytes);
    if (s->diff_bytes > l->ratio_free && s->diff_bytes / l->ratio > s->blob_bytes)
        return error_set(&s->error, ERROR_LIMIT,
                         "decompression bomb: more than %llu bytes come out of each byte of the layer",
                         (unsigned long long)l->ratio);
    pthread_mutex_lock(&s->lock);
    s->head++;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int pump_plain(struct layer_stream *s)
{
    while (s->in_len > 0) {
        struct piece *p = piece_wait(s);
        if (!p)
            return 0;
        memcpy(p->data, s->in, s->in_len);
        if (piece_publish(s, p, s->in_len) < 0 || fill_input(s) < 0)
            return -1;
    }
    return 0;
}

/* Fills one piece; 0 at the end of the input. */
static ssize_t zstd_piece(struct layer_stream *s, ZSTD_DStream *z, ZSTD_inBuffer *in, ZSTD_outBuffer *out,
                          size_t *pending)
{
    while (out->pos < out->size) {
        size_t in_before = in->pos, out_before = out->pos;
        size_t r = ZSTD_decompressStream(z, out, in);
        if (ZSTD_isError(r))
            return error_set(&s->error, ERROR_CORRUPT, "the layer's zstd data is bad: %s",
                             ZSTD_getErrorName(r));
        if (in->pos != in_before || out->pos != out_before) {
            *pending = r; /* 0 exactly between frames */
            continue;
        }
        if (in->pos < in->size)
            return error_set(&s->error, ERROR_CORRUPT, "the layer's zstd data is bad: no progress");
        if (fill_input(s) < 0)
            return -1;
        *in = (ZSTD_inBuffer){s->in, s->in_len, 0};
        if (s->in_len == 0)
            break;
    }
    return (ssize_t)out->pos;
}

static int pump_zstd_with(struct layer_stream *s, ZSTD_DStream *z)
{
    size_t pending = 1;
    ZSTD_inBuffer in = {s->in, s->in_len, 0};
    while (s->in_len > 0) {
        struct piece *p = piece_wait(s);
        if (!p)
            return 0;
        ZSTD_outBuffer out = {p->data, PIECE, 0};
        ssize_t n = zstd_piece(s, z, &in, &out, &pending);
        if (n < 0 || (n > 0 && piece_publish(s, p, (size_t)n) < 0))
            return -1;
    }
    return pending == 0 ? 0 : error_set(&s->error, ERROR_CORRUPT, "the layer's zstd data ends too early");
}

static int pump_zstd(struct layer_stream *s)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    if (!z)
        return error_oom(&s->error);
    ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, LIMIT_ZSTD_WINDOW_LOG);
    int r = pump_zstd_with(s, z);
    ZSTD_freeDStream(z);
    return r;
}

struct filter_state {
    struct layer_stream *s;
    bool first_given; /* s->in holds the first piece from the start */
};

static la_ssize_t filter_read(struct archive *a, void *user, const void **ret)
{
    struct filter_state *f = user;
    if (f->first_given && fill_input(f->s) < 0) {
        archive_set_error(a, EIO, "%s", f->s->error.message);
        return -1;
    }
    f->first_given = true;
    *ret = f->s->in;
    return (la_ssize_t)f->s->in_len;
}

static int filter_failed(struct layer_stream *s, struct archive *a)
{
    if (s->error.kind != ERROR_NONE)
        return -1;
    const char *why = archive_error_string(a);
    return error_set(&s->error, ERROR_CORRUPT, "the layer's compressed data is bad: %s",
                     why ? why : "unknown");
}

static int pump_filter_with(struct layer_stream *s, struct archive *a)
{
    struct filter_state f = {.s = s};
    struct archive_entry *entry;
    if (archive_read_open(a, &f, NULL, filter_read, NULL) != ARCHIVE_OK)
        return filter_failed(s, a);
    int r = archive_read_next_header(a, &entry);
    if (r == ARCHIVE_EOF)
        return 0;
    if (r != ARCHIVE_OK)
        return filter_failed(s, a);
    for (;;) {
        struct piece *p = piece_wait(s);
        if (!p)
            return 0;
        la_ssize_t n = archive_read_data(a, p->data, PIECE);
        if (n < 0)
            return filter_failed(s, a);
        if (n == 0)
            return 0;
        if (piece_publish(s, p, (size_t)n) < 0)
            return -1;
    }
}

static int pump_filter(struct layer_stream *s, bool gzip)
{
    struct archive *a = archive_read_new();
    if (!a)
        return error_oom(&s->error);
    archive_read_support_format_raw(a);
    archive_read_support_format_empty(a);
    if (gzip) {
        archive_read_support_filter_gzip(a);
    } else {
        archive_read_support_filter_bzip2(a);
        archive_read_support_filter_xz(a);
    }
    int r = pump_filter_with(s, a);
    archive_read_free(a);
    return r;
}

static int pump(struct layer_stream *s)
{
    static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd}, bzip2[] = {'B', 'Z', 'h'},
                         xz[] = {0xfd, '7', 'z', 'X', 'Z', 0};
    if (fill_input(s) < 0)
        return -1;
    const uint8_t *in = s->in;
    size_t n = s->in_len;
    int r;
    if (n > sizeof gzip && !memcmp(in, gzip, sizeof gzip))
        r = pump_filter(s, true);
    else if (n > 8 && (!memcmp(in, zstd, sizeof zstd) ||
                       ((in[0] & 0xf0) == 0x50 && !memcmp(in + 1, "\x2a\x4d\x18", 3))))
        r = pump_zstd(s);
    else if (s->o.any_filter &&
             ((n > 10 && !memcmp(in, bzip2, sizeof bzip2)) || (n > 10 && !memcmp(in, xz, sizeof xz))))
        r = pump_filter(s, false);
    else
        r = pump_plain(s);
    /* What follows the compressed data belongs to the blob's digest too. */
    while (r == 0 && s->in_len > 0 && !__atomic_load_n(&s->stop, __ATOMIC_RELAXED))
        r = fill_input(s);
    return r;
}

static void *producer(void *arg)
{
    struct layer_stream *s = arg;
    pump(s);
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static ssize_t stream_next(struct byte_source *source, const void **ret, struct error *err)
{
    struct layer_stream *s = (struct layer_stream *)source;
    pthread_mutex_lock(&s->lock);
    if (s->held) {
        s->held = false;
        pthread_cond_broadcast(&s->change);
    }
    while (s->head == s->tail && !s->ended)
        pthread_cond_wait(&s->change, &s->lock);
    ssize_t n = 0;
    if (s->head != s->tail) {
        struct piece *p = &s->ring[s->tail++ % PIECES];
        s->held = true;
        *ret = p->data;
        n = (ssize_t)p->len;
    } else if (s->error.kind != ERROR_NONE) {
        n = -1;
        if (err)
            *err = s->error;
    }
    uint64_t shown = s->shown_bytes;
    pthread_mutex_unlock(&s->lock);
    if (s->o.progress)
        s->o.progress(s->o.user, shown);
    return n;
}

int layer_stream_open(int fd, const struct layer_stream_options *o, struct layer_stream **ret,
                      struct error *err)
{
    struct layer_stream *s = calloc(1, sizeof *s);
    if (!s)
        return error_oom(err);
    s->source.next = stream_next;
    s->fd = fd;
    s->o = *o;
    hasher_init(&s->blob, true, o->blob512);
    hasher_init(&s->diff, true, o->diff512);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->change, NULL);
    bool memory = (s->in = malloc(PIECE)) != NULL;
    for (size_t i = 0; i < PIECES; i++)
        memory &= (s->ring[i].data = malloc(PIECE)) != NULL;
    int r = memory ? pthread_create(&s->thread, NULL, producer, s) : ENOMEM;
    if (r != 0) {
        layer_stream_close(s);
        return error_system(err, r, "cannot start reading the layer");
    }
    s->started = true;
    *ret = s;
    return 0;
}

struct byte_source *layer_stream_source(struct layer_stream *s)
{
    return &s->source;
}

int layer_stream_finish(struct layer_stream *s, struct layer_stream_result *ret, struct error *err)
{
    const void *ignored;
    ssize_t n;
    while ((n = stream_next(&s->source, &ignored, err)) > 0) {
    }
    if (n < 0)
        return -1;
    pthread_join(s->thread, NULL);
    s->started = false;
    ret->blob_bytes = s->blob_bytes;
    ret->diff_bytes = s->diff_bytes;
    hasher_finish(&s->blob, ret->blob256, ret->blob512);
    hasher_finish(&s->diff, ret->diff256, ret->diff512);
    return 0;
}

void layer_stream_close(struct layer_stream *s)
{
    if (!s)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        __atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
        pthread_cond_broadcast(&s->change);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    for (size_t i = 0; i < PIECES; i++)
        free(s->ring[i].data);
    free(s->in);
    pthread_cond_destroy(&s->change);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
