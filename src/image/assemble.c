#include "image/image_build.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "image/image.h"
#include "image/layer_store.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int store_lock(const char *data_dir, bool exclusive, bool wait, struct error *err)
{
    char path[PATH_MAX];
    if (store_path(path, data_dir, err, "lock") < 0)
        return -1;
    cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_system(err, errno, "cannot open %s", path);
    int r;
    do
        r = flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | (wait ? 0 : LOCK_NB));
    while (r < 0 && errno == EINTR);
    if (r < 0 && errno == EWOULDBLOCK)
        return error_set(err, ERROR_STATE, "the image store is in use by another command");
    return r < 0 ? error_system(err, errno, "cannot lock %s", path) : steal_fd(&fd);
}

struct assembly {
    const struct image_builder *b;
    struct image_parts *parts;
    struct built_image *built;
    char names[OCI_LAYERS_MAX][65];
    const char *below[OCI_LAYERS_MAX];
    size_t count;
    size_t first; /* lowest layer that can be seen */
    char chain[65];
    int holds[OCI_LAYERS_MAX];
};

/* Even where the layer is in the store already, the image must bring what it says it brings. */
static int check_size(const struct layer_request *q, struct error *err)
{
    struct stat st;
    if (fstat(q->fd, &st) < 0)
        return error_system(err, errno, "cannot read the layer");
    if (S_ISREG(st.st_mode) && q->blob_size != BLOB_SIZE_UNKNOWN && (uint64_t)st.st_size != q->blob_size)
        return error_set(err, ERROR_CORRUPT, "the layer has %llu bytes, its description says %llu",
                         (unsigned long long)st.st_size, (unsigned long long)q->blob_size);
    return 0;
}

static int layer_reuse(struct assembly *a, const struct digest *diff, struct layer_done *done,
                       struct error *err)
{
    if (!*diff->text || diff->sha512 || !layer_store_find(a->b->data_dir, diff->text + 7, a->chain, done))
        return 0;
    if (done->unpacked.bytes > a->b->limits.image_bytes - a->built->bytes)
        return error_set(err, ERROR_LIMIT, "the image's files hold more than the limit of %llu bytes",
                         (unsigned long long)a->b->limits.image_bytes);
    return 1;
}

static int layer_get(struct assembly *a, size_t i, struct layer_done *done, struct error *err)
{
    struct layer_request q = {.fd = -1,
                              .diff = a->parts->config.diff_ids[i],
                              .blob_size = BLOB_SIZE_UNKNOWN,
                              .below = a->below,
                              .below_count = a->count,
                              .chain = a->chain,
                              .bytes_left = a->b->limits.image_bytes - a->built->bytes};
    q.diff.hex = q.diff.text + 7;
    if (a->parts->open_layer(a->parts->user, i, &q, err) < 0)
        return -1;
    int r = check_size(&q, err);
    if (r == 0)
        r = layer_reuse(a, &q.diff, done, err);
    if (r == 0)
        r = layer_store_add(a->b->data_dir, &a->b->limits, &q, a->b->progress, done, err);
    close(q.fd);
    if (r < 0 && err && err->kind == ERROR_LIMIT && q.bytes_left < a->b->limits.layer_bytes)
        error_wrap(err, "of the image's limit of %llu bytes %llu are left",
                   (unsigned long long)a->b->limits.image_bytes, (unsigned long long)q.bytes_left);
    return r < 0 ? -1 : 0;
}

static int layer_take(struct assembly *a, size_t i, struct error *err)
{
    char what[64], dir[PATH_MAX];
    struct layer_done done = {0};
    snprintf(what, sizeof what, "layer %zu of %zu", i + 1, a->parts->config.layer_count);
    progress_stage(a->b->progress, "unpack", what, 0);
    /* gc may take a layer before it is held; then it is made once more. */
    for (int attempt = 0; a->holds[i] < 0; attempt++) {
        if (layer_get(a, i, &done, err) < 0)
            return error_wrap(err, "layer %zu", i + 1);
        if (store_path(dir, a->b->data_dir, err, "layers/%s", done.name) < 0)
            return -1;
        a->holds[i] = image_layer_hold(dir, attempt < 3 ? NULL : err);
        if (a->holds[i] < 0 && attempt == 3)
            return -1;
    }
    memcpy(a->names[i], done.name, sizeof done.name);
    memcpy(a->chain, done.chain, sizeof done.chain);
    if (done.unpacked.opaque_root)
        a->first = i;
    a->below[a->count++] = a->names[i];
    a->built->bytes += done.unpacked.bytes;
    a->built->layers++;
    a->built->layers_reused += done.reused;
    a->built->skipped += done.unpacked.skipped;
    a->built->xattrs_dropped += done.unpacked.xattrs_dropped;
    a->built->squashed |= done.unpacked.squashed;
    if (!*a->parts->config.diff_ids[i].text) {
        char text[80];
        snprintf(text, sizeof text, "sha256:%s", done.diff);
        return digest_parse(text, "diff id", &a->parts->config.diff_ids[i], err);
    }
    return 0;
}

/* An image that came without a configuration is named by what stands in for one. */
static int id_make(struct image_parts *parts, struct error *err)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < parts->config.layer_count; i++)
        json_array_append_new(ids, json_string(parts->config.diff_ids[i].text));
    json_t *o =
        json_pack("{s:s, s:s, s:O, s:{s:s, s:o}}", "architecture", parts->config.architecture, "os", "linux",
                  "config", parts->config.config, "rootfs", "type", "layers", "diff_ids", ids);
    cleanup_free char *text = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(o);
    if (!text)
        return error_oom(err);
    digest_sha256_hex(text, strlen(text), parts->id);
    return 0;
}

static int record_write(struct assembly *a, struct error *err)
{
    char path[PATH_MAX];
    struct image_parts *p = a->parts;
    if (!*p->id && id_make(p, err) < 0)
        return -1;
    snprintf(a->built->id, sizeof a->built->id, "sha256:%s", p->id);
    json_t *layers = json_array();
    for (size_t i = a->first; i < a->count; i++)
        json_array_append_new(layers, json_string(a->names[i]));
    json_t *o = json_pack("{s:s, s:o, s:O, s:I, s:I, s:s}", "id", a->built->id, "layers", layers, "config",
                          p->config.config, "bytes", (json_int_t)a->built->bytes, "created",
                          (json_int_t)clock_wall_ms(), "architecture", p->config.architecture);
    if (!o)
        return error_oom(err);
    int r = store_path(path, a->b->data_dir, err, "images/%s.json", p->id);
    if (r == 0)
        r = store_put_json(a->b->data_dir, path, o, err);
    json_decref(o);
    return r;
}

static int ref_write(struct assembly *a, const char *name, struct error *err)
{
    char file[256], path[PATH_MAX], text[80];
    if (image_name_canonical(name, "name", a->built->name, err) < 0)
        return -1;
    store_ref_escape(a->built->name, file);
    int n = snprintf(text, sizeof text, "%s\n", a->built->id);
    if (store_path(path, a->b->data_dir, err, "refs/%s", file) < 0)
        return -1;
    return store_put(a->b->data_dir, path, text, (size_t)n, err);
}

/* The store is locked for this moment only: the layers are held one by one, so gc need not wait for a long
 * fetch. */
static int publish(struct assembly *a, const char *name, struct error *err)
{
    cleanup_close int lock = store_lock(a->b->data_dir, false, true, err);
    if (lock < 0 || record_write(a, err) < 0)
        return -1;
    return ref_write(a, name, err);
}

int image_assemble(const struct image_builder *b, struct image_parts *parts, const char *name,
                   struct built_image *ret, struct error *err)
{
    if (image_name_check(name, "name", err) < 0)
        return -1;
    if (!strcmp(name, "host") || !strncmp(name, "sha256:", 7))
        return error_field(err, "name", "\"%.40s\" cannot be given to an image", name);
    struct assembly *a = calloc(1, sizeof *a);
    if (!a)
        return error_oom(err);
    memset(ret, 0, sizeof *ret);
    a->b = b;
    a->parts = parts;
    a->built = ret;
    int r = 0;
    for (size_t i = 0; i < OCI_LAYERS_MAX; i++)
        a->holds[i] = -1;
    for (size_t i = 0; r == 0 && i < parts->config.layer_count; i++)
        r = layer_take(a, i, err);
    if (r == 0 && parts->confirm)
        r = parts->confirm(parts->user, err);
    if (r == 0)
        r = publish(a, name, err);
    for (size_t i = 0; i < OCI_LAYERS_MAX; i++)
        if (a->holds[i] >= 0)
            close(a->holds[i]);
    free(a);
    return r;
}
