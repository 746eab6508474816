#include "agent/fs_request.h"

#include "agent/args.h"
#include "link/agent_protocol.h"

#include <stdlib.h>
#include <string.h>

static const struct fs_operation operations[] = {
    {"stat", FS_NO_STREAM, {"path", "follow"}, fs_stat},
    {"read", FS_SENDS, {"path", "offset", "length", "stream"}, fs_read},
    {"write",
     FS_RECEIVES,
     {"path", "stream", "mode", "size", "sha256", "parents", "exclusive", "append"},
     fs_write},
    {"list", FS_SENDS, {"path", "recursive", "stream"}, fs_list},
    {"mkdir", FS_NO_STREAM, {"path", "parents", "mode"}, fs_mkdir},
    {"rename", FS_NO_STREAM, {"from", "to"}, fs_rename},
    {"remove", FS_NO_STREAM, {"path", "recursive", "force"}, fs_remove},
    {"symlink", FS_NO_STREAM, {"path", "target"}, fs_symlink},
    {"chmod", FS_NO_STREAM, {"path", "mode"}, fs_chmod},
    {"export", FS_SENDS, {"path", "stream", "exclude"}, fs_export},
    {"import", FS_RECEIVES, {"path", "stream", "size", "sha256", "parents"}, fs_import},
    {"watch", FS_SENDS, {"path", "recursive", "stream"}, fs_watch},
};

const struct fs_operation *fs_operation_find(const char *name)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}

static int read_number(const struct cbor_reader *args, const char *key, uint64_t max, bool *has,
                       uint64_t *ret, struct error *err)
{
    int r = args_uint(args, key, 0, max, ret, err);
    *has = r == 1;
    return r < 0 ? -1 : 0;
}

static int read_digest(struct fs_request *q, const struct cbor_reader *args, struct error *err)
{
    struct cbor_reader r;
    const uint8_t *p;
    size_t len;
    if (!cbor_map_find(args, "sha256", &r))
        return 0;
    if (cbor_get_bytes(&r, &p, &len) < 0 || len != SHA256_BYTES)
        return error_field(err, "sha256", "\"sha256\" must be %d bytes", SHA256_BYTES);
    memcpy(q->sha256, p, SHA256_BYTES);
    q->has_sha256 = true;
    return 0;
}

static int read_excludes(struct fs_request *q, const struct cbor_reader *args, struct error *err)
{
    struct cbor_reader r;
    uint64_t count;
    if (!cbor_map_find(args, "exclude", &r))
        return 0;
    if (cbor_get_array(&r, FS_MAX_EXCLUDES, &count) < 0)
        return error_field(err, "exclude", "\"exclude\" must be an array of at most %d patterns",
                           FS_MAX_EXCLUDES);
    for (uint64_t i = 0; i < count; i++) {
        char *pattern = cbor_dup_string(&r, AGENT_MAX_PATH);
        if (!pattern || !*pattern) {
            free(pattern);
            return error_field(err, "exclude", "\"exclude\" must hold texts that are not empty");
        }
        q->exclude[q->exclude_count++] = pattern;
    }
    return 0;
}

static int read_paths(struct fs_request *q, const struct cbor_reader *args, struct error *err)
{
    struct cbor_reader r;
    if ((cbor_map_find(args, "path", &r) && args_path(args, "path", &q->path, err) < 0) ||
        (cbor_map_find(args, "from", &r) && args_path(args, "from", &q->from, err) < 0) ||
        (cbor_map_find(args, "to", &r) && args_path(args, "to", &q->to, err) < 0))
        return -1;
    return args_text(args, "target", AGENT_MAX_PATH - 1, &q->target, err) < 0 ? -1 : 0;
}

static int read_flags(struct fs_request *q, const struct cbor_reader *args, struct error *err)
{
    bool follow = true;
    if (args_bool(args, "follow", &follow, err) < 0 || args_bool(args, "recursive", &q->recursive, err) < 0 ||
        args_bool(args, "parents", &q->parents, err) < 0 ||
        args_bool(args, "exclusive", &q->exclusive, err) < 0 ||
        args_bool(args, "append", &q->append, err) < 0 || args_bool(args, "force", &q->force, err) < 0)
        return -1;
    q->no_follow = !follow;
    if (q->append && q->exclusive)
        return error_field(err, "append", "\"append\" and \"exclusive\" exclude each other");
    return 0;
}

/* Which of the accepted keys an operation cannot do without. */
static int check_required(const struct fs_request *q, const struct fs_operation *op, struct error *err)
{
    for (int i = 0; op->keys[i]; i++) {
        const char *k = op->keys[i];
        if ((strcmp(k, "path") == 0 && !q->path) || (strcmp(k, "from") == 0 && !q->from) ||
            (strcmp(k, "to") == 0 && !q->to) || (strcmp(k, "target") == 0 && !q->target) ||
            (strcmp(k, "stream") == 0 && !q->has_stream))
            return args_missing(k, err);
    }
    if (strcmp(op->name, "chmod") == 0 && !q->has_mode)
        return args_missing("mode", err);
    return 0;
}

int fs_request_read(struct fs_request *q, const struct fs_operation *op, const struct cbor_reader *args,
                    struct error *err)
{
    uint64_t stream = 0;
    *q = (struct fs_request){0};
    if (args_check(args, op->keys, err) < 0 || read_paths(q, args, err) < 0 || read_flags(q, args, err) < 0 ||
        read_number(args, "stream", UINT32_MAX, &q->has_stream, &stream, err) < 0 ||
        read_number(args, "offset", INT64_MAX, &q->has_offset, &q->offset, err) < 0 ||
        read_number(args, "length", INT64_MAX, &q->has_length, &q->length, err) < 0 ||
        read_number(args, "size", INT64_MAX, &q->has_size, &q->size, err) < 0 ||
        read_number(args, "mode", 07777, &q->has_mode, &q->mode, err) < 0 || read_digest(q, args, err) < 0 ||
        read_excludes(q, args, err) < 0 || check_required(q, op, err) < 0) {
        fs_request_free(q);
        return -1;
    }
    q->stream = (uint32_t)stream;
    return 0;
}

void fs_request_free(struct fs_request *q)
{
    free(q->path);
    free(q->from);
    free(q->to);
    free(q->target);
    for (size_t i = 0; i < q->exclude_count; i++)
        free(q->exclude[i]);
    *q = (struct fs_request){0};
}
