#include "image/layer_store.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void layer_chain_id(const char *below, const char *diff_hex, char ret[65])
{
    char text[160];
    if (!*below) {
        memcpy(ret, diff_hex, 65);
        return;
    }
    int n = snprintf(text, sizeof text, "sha256:%s sha256:%s", below, diff_hex);
    digest_sha256_hex(text, (size_t)n, ret);
}

/* What layer.json says of a layer that is complete. */
static bool describe(const char *data_dir, const char *name, struct layer_done *ret)
{
    char dir[PATH_MAX], path[PATH_MAX];
    if (store_path(dir, data_dir, NULL, "layers/%s", name) < 0 || !store_layer_complete(dir) ||
        store_path(path, data_dir, NULL, "layers/%s/layer.json", name) < 0)
        return false;
    json_t *o = store_get_json(path, NULL);
    const char *diff = o ? store_json_text(o, "diffId", "") : "";
    snprintf(ret->name, sizeof ret->name, "%s", name);
    snprintf(ret->diff, sizeof ret->diff, "%s", diff ? diff : "");
    ret->unpacked.bytes = (uint64_t)store_json_int(o, "bytes", 0);
    ret->unpacked.entries = (uint64_t)store_json_int(o, "entries", 0);
    ret->unpacked.opaque_root = json_is_true(json_object_get(o, "opaque"));
    ret->unpacked.squashed = json_is_true(json_object_get(o, "squashed"));
    ret->reused = true;
    json_decref(o);
    return true;
}

bool layer_store_find(const char *data_dir, const char *diff_hex, const char *chain, struct layer_done *ret)
{
    memset(ret, 0, sizeof *ret);
    char id[65];
    layer_chain_id(chain, diff_hex, id);
    if (!describe(data_dir, diff_hex, ret) && !describe(data_dir, id, ret))
        return false;
    memcpy(ret->chain, id, sizeof id);
    return true;
}

static int write_record(const char *data_dir, const char *tmp, const struct layer_request *q,
                        const struct layer_done *d, struct error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/layer.json", tmp) >= (int)sizeof path)
        return error_field(err, "data-dir", "the data directory's path is too long");
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:b}", "diffId", d->diff, "entries",
                          (json_int_t)d->unpacked.entries, "bytes", (json_int_t)d->unpacked.bytes, "created",
                          (json_int_t)clock_wall_ms(), "skipped", (json_int_t)d->unpacked.skipped, "squashed",
                          d->unpacked.squashed, "opaque", d->unpacked.opaque_root);
    if (!o)
        return error_oom(err);
    if (q->snapshot)
        json_object_set_new(o, "boot", json_string(store_boot_id()));
    int r;
    if (q->snapshot) {
        /* No fsync here: the record counts only until the next boot, and until then the page cache is the
         * truth. */
        r = json_dump_file(o, path, JSON_INDENT(1) | JSON_SORT_KEYS) < 0
                ? error_system(err, errno, "cannot write %s", path)
                : 0;
    } else {
        r = store_put_json(data_dir, path, o, err);
    }
    json_decref(o);
    return r;
}

/* Moves the finished directory to its place, over a leftover that does not count (of another boot). */
static int take_place(const char *data_dir, const char *tmp, const char *name, struct error *err)
{
    char place[PATH_MAX], aside[PATH_MAX];
    if (store_path(place, data_dir, err, "layers/%s", name) < 0)
        return -1;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (rename(tmp, place) == 0)
            return 1;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return error_system(err, errno, "cannot put the layer at %s", place);
        if (store_layer_complete(place))
            return 0; /* someone else was faster */
        cleanup_close int fd = store_tmp_dir(data_dir, "old", aside, err);
        if (fd < 0)
            return -1;
        rename(place, aside);
        dir_remove(AT_FDCWD, aside, NULL);
    }
    return error_set(err, ERROR_STATE, "cannot put the layer at %s", place);
}

static int check_digests(const struct layer_request *q, const struct layer_stream_result *s,
                         struct error *err)
{
    if (q->blob_size != BLOB_SIZE_UNKNOWN && q->blob_size != s->blob_bytes)
        return error_set(err, ERROR_CORRUPT, "the layer has %llu bytes, its description says %llu",
                         (unsigned long long)s->blob_bytes, (unsigned long long)q->blob_size);
    if (*q->blob.text && strcmp(q->blob.hex, q->blob.sha512 ? s->blob512 : s->blob256) != 0)
        return error_set(err, ERROR_CORRUPT, "the layer's bytes do not have the digest %s", q->blob.text);
    if (*q->diff.text && strcmp(q->diff.hex, q->diff.sha512 ? s->diff512 : s->diff256) != 0)
        return error_set(err, ERROR_CORRUPT, "the unpacked layer does not have the digest (diff id) %s",
                         q->diff.text);
    return 0;
}

static void on_bytes(void *user, uint64_t packed)
{
    progress_bytes(user, packed);
}

static int unpack_stream(int root, const int *lowers, const struct image_limits *limits,
                         const struct layer_request *q, struct progress *progress,
                         struct layer_stream_result *s, struct unpack_result *ret, struct error *err)
{
    struct image_limits l = *limits;
    if (q->bytes_left < l.layer_bytes)
        l.layer_bytes = q->bytes_left;
    const struct layer_stream_options so = {.limits = &l,
                                            .blob512 = q->blob.sha512,
                                            .diff512 = q->diff.sha512,
                                            .no_diff = q->snapshot,
                                            .any_filter = q->any_filter,
                                            .progress = progress ? on_bytes : NULL,
                                            .user = progress};
    const struct unpack_options uo = {.limits = &l,
                                      .lowers = lowers,
                                      .lower_count = q->below_count,
                                      .snapshot = q->snapshot,
                                      .whole = q->any_filter};
    struct layer_stream *stream;
    if (layer_stream_open(q->fd, &so, &stream, err) < 0)
        return -1;
    int r = layer_unpack(root, layer_stream_source(stream), &uo, ret, err);
    if (r == 0)
        r = layer_stream_finish(stream, s, err);
    layer_stream_close(stream);
    return r < 0 ? -1 : check_digests(q, s, err);
}

static int fill(const char *data_dir, const char *tmp, int tmp_fd, const int *lowers,
                const struct image_limits *limits, const struct layer_request *q, struct progress *progress,
                struct layer_done *d, struct error *err)
{
    struct layer_stream_result s = {0};
    if (mkdirat(tmp_fd, "fs", 0755) < 0)
        return error_system(err, errno, "cannot make %s/fs", tmp);
    cleanup_close int root = openat(tmp_fd, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0 || fchmod(root, 0755) < 0)
        return error_system(err, errno, "cannot open %s/fs", tmp);
    if (unpack_stream(root, lowers, limits, q, progress, &s, &d->unpacked, err) < 0)
        return -1;
    d->blob_bytes = s.blob_bytes;
    if (q->snapshot) {
        memcpy(d->name, s.blob256, sizeof d->name);
    } else {
        memcpy(d->diff, s.diff256, sizeof d->diff);
        layer_chain_id(q->chain, s.diff256, d->chain);
        memcpy(d->name, d->unpacked.implied ? d->chain : d->diff, sizeof d->name);
        if (syncfs(root) < 0)
            return error_system(err, errno, "cannot write the layer to disk");
    }
    return write_record(data_dir, tmp, q, d, err);
}

static int open_below(const char *data_dir, const struct layer_request *q, int *fds, struct error *err)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < q->below_count; i++) {
        const char *name = q->below[q->below_count - 1 - i];
        if (store_path(path, data_dir, err, "layers/%s/fs", name) < 0)
            return -1;
        fds[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fds[i] < 0)
            return error_system(err, errno, "cannot open layer %s", name);
    }
    return 0;
}

int layer_store_add(const char *data_dir, const struct image_limits *limits, const struct layer_request *q,
                    struct progress *progress, struct layer_done *ret, struct error *err)
{
    char tmp[PATH_MAX];
    int fds[STORE_LAYERS_MAX];
    for (size_t i = 0; i < STORE_LAYERS_MAX; i++)
        fds[i] = -1;
    memset(ret, 0, sizeof *ret);
    if (q->below_count > STORE_LAYERS_MAX)
        return error_set(err, ERROR_LIMIT, "too many layers");
    cleanup_close int tmp_fd = store_tmp_dir(data_dir, "layer", tmp, err);
    if (tmp_fd < 0)
        return -1;
    int r = open_below(data_dir, q, fds, err);
    if (r == 0)
        r = fill(data_dir, tmp, tmp_fd, fds, limits, q, progress, ret, err);
    if (r == 0)
        r = take_place(data_dir, tmp, ret->name, err);
    if (r == 0)
        ret->reused = true;
    if (r <= 0)
        dir_remove(AT_FDCWD, tmp, NULL);
    for (size_t i = 0; i < STORE_LAYERS_MAX; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return r < 0 ? -1 : 0;
}
