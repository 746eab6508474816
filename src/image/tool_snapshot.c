#include "image/tool.h"

#include "base/cleanup.h"
#include "image/layer_store.h"
#include "image/snapshot_build.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static json_t *layer_json(const struct layer_done *d)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:b, s:b}", "digest", d->name, "size", (json_int_t)d->blob_bytes,
                     "entries", (json_int_t)d->unpacked.entries, "unpackedBytes",
                     (json_int_t)d->unpacked.bytes, "squashed", d->unpacked.squashed, "reused", d->reused);
}

int command_layer_add(struct tool *t, struct error *err)
{
    char path[PATH_MAX], text[80];
    struct layer_done done;
    const char *hex = t->o.digest;
    if (!hex || !store_hex_valid(hex))
        return error_field(err, "digest", "--digest takes the 64 lower-case hex digits of a sha256");
    if (layer_store_find(t->b.data_dir, hex, "", &done))
        return tool_put(layer_json(&done), err);
    if (store_path(path, t->b.data_dir, err, "blobs/sha256/%s", hex) < 0)
        return -1;
    const char *blob = t->o.operand_count ? t->o.operands[0] : path;
    struct layer_request q = {.fd = open(blob, O_RDONLY | O_CLOEXEC | O_NOCTTY),
                              .blob_size = BLOB_SIZE_UNKNOWN,
                              .chain = "",
                              .snapshot = true,
                              .bytes_left = t->b.limits.layer_bytes};
    if (q.fd < 0)
        return error_system(err, errno, "cannot open the snapshot layer %s", blob);
    snprintf(text, sizeof text, "sha256:%s", hex);
    int r = digest_parse(text, "digest", &q.blob, err);
    if (r == 0)
        r = layer_store_add(t->b.data_dir, &t->b.limits, &q, &t->progress, &done, err);
    close(q.fd);
    return r < 0 ? error_wrap(err, "snapshot layer %.12s", hex) : tool_put(layer_json(&done), err);
}

static int put_packed(const struct packed_layer *p, struct error *err)
{
    return tool_put(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "digest", p->digest, "size",
                              (json_int_t)p->size, "entries", (json_int_t)p->entries, "unpackedBytes",
                              (json_int_t)p->bytes, "skipped", (json_int_t)p->skipped, "excluded",
                              (json_int_t)p->excluded, "changed", (json_int_t)p->changed),
                    err);
}

int command_snapshot_pack(struct tool *t, struct error *err)
{
    if (!t->o.upper)
        return error_field(err, "upper", "--upper names the directory to pack");
    const struct snapshot_pack s = {.upper = t->o.upper,
                                    .below = t->o.operands,
                                    .below_count = t->o.operand_count,
                                    .userns = t->o.userns,
                                    .excludes = t->o.exclude,
                                    .exclude_count = t->o.exclude_count};
    struct packed_layer packed;
    /* The reader is forked before any thread exists; the lock keeps gc from the new blob until its grace
     * begins. */
    cleanup_close int lock = store_lock(t->b.data_dir, false, true, err);
    if (lock < 0 || snapshot_pack(&t->b, &s, &packed, err) < 0)
        return -1;
    return put_packed(&packed, err);
}

int command_snapshot_from_tar(struct tool *t, struct error *err)
{
    struct packed_layer packed;
    cleanup_close int lock = store_lock(t->b.data_dir, false, true, err);
    if (lock < 0 ||
        snapshot_from_tar(&t->b, STDIN_FILENO, t->o.exclude, t->o.exclude_count, &packed, err) < 0)
        return -1;
    return put_packed(&packed, err);
}
