#include "image/snapshot.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool id_valid(const char *id)
{
    size_t n = strspn(id, "0123456789abcdef");
    return n == 32 && id[n] == '\0';
}

static int record_path(char path[PATH_MAX], const char *data_dir, const char *id, struct error *err)
{
    if (!id_valid(id))
        return error_set(err, ERROR_NOT_FOUND,
                         "no snapshot \"%.64s\": an id is 32 hex digits (see \"cloister snapshot list\")",
                         id);
    return store_path(path, data_dir, err, "snapshots/%s.json", id);
}

void snapshot_free(struct snapshot *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->chain_count; i++)
        free(s->chain[i]);
    free(s->chain);
    free(s->image_id);
    free(s->dir);
    free(s);
}

static int chain_read(struct snapshot *s, const json_t *chain, struct error *err)
{
    size_t n = json_array_size(chain);
    if (!json_is_array(chain) || n == 0 || n > SNAPSHOT_MAX_CHAIN)
        return error_set(err, ERROR_CORRUPT, "\"chain\" is not a list of 1 to %d digests",
                         SNAPSHOT_MAX_CHAIN);
    s->chain = calloc(n, sizeof *s->chain);
    if (!s->chain)
        return error_oom(err);
    for (size_t i = 0; i < n; i++) {
        const char *hex = json_string_value(json_array_get(chain, i));
        if (!hex || !store_hex_valid(hex))
            return error_set(err, ERROR_CORRUPT, "\"chain\" holds something that is no sha256");
        if (!(s->chain[i] = strdup(hex)))
            return error_oom(err);
        s->chain_count = i + 1;
    }
    return 0;
}

static int record_fill(struct snapshot *s, const char *id, const json_t *o, struct error *err)
{
    const char *name = store_json_text(o, "name", ""), *kind = store_json_text(o, "kind", "");
    const char *image = store_json_text(o, "imageId", ""), *dir = store_json_text(o, "dir", "");
    int64_t bytes = store_json_int(o, "bytes", -1), created = store_json_int(o, "createdAt", -1);
    int64_t expires = store_json_int(o, "expiresAt", -1);
    if (!name || strlen(name) >= sizeof s->name || !kind || !image || !dir || bytes < 0 || created < 0 ||
        expires < 0)
        return error_set(err, ERROR_CORRUPT, "not a snapshot record");
    if (strcmp(kind, "container") != 0 && strcmp(kind, "directory") != 0)
        return error_set(err, ERROR_CORRUPT, "unknown kind \"%.32s\"", kind);
    snprintf(s->id, sizeof s->id, "%s", id);
    snprintf(s->name, sizeof s->name, "%s", name);
    s->kind = !strcmp(kind, "directory") ? SNAPSHOT_DIRECTORY : SNAPSHOT_CONTAINER;
    s->bytes = (uint64_t)bytes;
    s->created_ms = created;
    s->expires_ms = expires;
    s->image_id = strdup(image);
    s->dir = strdup(dir);
    if (!s->image_id || !s->dir)
        return error_oom(err);
    return chain_read(s, json_object_get(o, "chain"), err);
}

int snapshot_load(const char *data_dir, const char *id, struct snapshot **ret, struct error *err)
{
    char path[PATH_MAX];
    struct error why = {0};
    if (record_path(path, data_dir, id, err) < 0)
        return -1;
    json_t *o = store_get_json(path, &why);
    if (!o && why.errnum == ENOENT)
        return error_set(err, ERROR_NOT_FOUND, "no snapshot %s: it was removed or has expired", id);
    if (!o) {
        if (err)
            *err = why;
        return -1;
    }
    struct snapshot *s = calloc(1, sizeof *s);
    int r = s ? record_fill(s, id, o, err) : error_oom(err);
    json_decref(o);
    if (r < 0) {
        error_wrap(err, "%s", path);
        snapshot_free(s);
        return -1;
    }
    *ret = s;
    return 0;
}

static int by_creation(const void *a, const void *b)
{
    const struct snapshot *x = *(const struct snapshot *const *)a, *y = *(const struct snapshot *const *)b;
    return x->created_ms != y->created_ms ? (x->created_ms < y->created_ms ? -1 : 1) : strcmp(x->id, y->id);
}

/* Every record, unsorted. The caller frees each and the array, also on error. */
static int load_all(const char *data_dir, struct snapshot ***all, size_t *n, struct error *err)
{
    char path[PATH_MAX];
    size_t cap = 0;
    if (store_path(path, data_dir, err, "snapshots") < 0)
        return -1;
    cleanup_dir DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char id[33];
        struct error why = {0};
        if (strlen(e->d_name) != 37 || strcmp(e->d_name + 32, ".json") != 0)
            continue;
        memcpy(id, e->d_name, 32);
        id[32] = '\0';
        if (*n == cap) {
            cap = cap ? cap * 2 : 16;
            struct snapshot **grown = realloc(*all, cap * sizeof **all);
            if (!grown)
                return error_oom(err);
            *all = grown;
        }
        if (snapshot_load(data_dir, id, &(*all)[*n], &why) == 0) {
            ++*n;
        } else if (why.kind != ERROR_NOT_FOUND) { /* not found: removed in the meantime */
            if (err)
                *err = why;
            return -1;
        }
    }
    return 0;
}

int snapshot_list(const char *data_dir, bool (*visit)(void *user, const struct snapshot *s), void *user,
                  struct error *err)
{
    struct snapshot **all = NULL;
    size_t n = 0;
    int r = load_all(data_dir, &all, &n, err);
    if (r == 0 && n > 0)
        qsort(all, n, sizeof *all, by_creation);
    bool go = r == 0;
    for (size_t i = 0; i < n; i++) {
        if (go)
            go = visit(user, all[i]);
        snapshot_free(all[i]);
    }
    free(all);
    return r;
}

int snapshot_save(const char *data_dir, const struct snapshot *s, struct error *err)
{
    char path[PATH_MAX], blob[PATH_MAX];
    if (record_path(path, data_dir, s->id, err) < 0)
        return -1;
    if (s->chain_count == 0 || s->chain_count > SNAPSHOT_MAX_CHAIN)
        return error_set(err, ERROR_LIMIT, "a snapshot has 1 to %d layers, not %zu", SNAPSHOT_MAX_CHAIN,
                         s->chain_count);
    json_t *chain = json_array();
    for (size_t i = 0; i < s->chain_count; i++) {
        if (store_path(blob, data_dir, err, "blobs/sha256/%s", s->chain[i]) < 0 || access(blob, F_OK) < 0) {
            json_decref(chain);
            return error_set(err, ERROR_CORRUPT, "layer %s of the snapshot is not in the store", s->chain[i]);
        }
        json_array_append_new(chain, json_string(s->chain[i]));
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "id", s->id, "name", s->name,
                          "kind", s->kind == SNAPSHOT_DIRECTORY ? "directory" : "container", "imageId",
                          s->image_id ? s->image_id : "", "dir", s->dir ? s->dir : "", "bytes",
                          (json_int_t)s->bytes, "createdAt", (json_int_t)s->created_ms, "expiresAt",
                          (json_int_t)s->expires_ms, "chain", chain);
    if (!o)
        return error_oom(err);
    int r = store_put_json(data_dir, path, o, err);
    json_decref(o);
    return r;
}

int snapshot_touch(const char *data_dir, const char *id, struct error *err)
{
    struct snapshot *s;
    if (snapshot_load(data_dir, id, &s, err) < 0)
        return -1;
    s->expires_ms = clock_wall_ms() + SNAPSHOT_TTL_MS;
    int r = snapshot_save(data_dir, s, err);
    snapshot_free(s);
    return r;
}

int snapshot_remove(const char *data_dir, const char *id, struct error *err)
{
    char path[PATH_MAX];
    if (record_path(path, data_dir, id, err) < 0)
        return -1;
    if (unlink(path) < 0)
        return errno == ENOENT ? error_set(err, ERROR_NOT_FOUND, "no snapshot %s", id)
                               : error_system(err, errno, "cannot remove %s", path);
    return 0;
}

char *snapshot_layer_dir(const char *data_dir, const char *digest_hex)
{
    char dir[PATH_MAX];
    char *ret = NULL;
    if (!store_hex_valid(digest_hex) || store_path(dir, data_dir, NULL, "layers/%s", digest_hex) < 0 ||
        !store_layer_complete(dir))
        return NULL;
    char real[PATH_MAX];
    if (!realpath(dir, real) || asprintf(&ret, "%s/fs", real) < 0)
        return NULL;
    return ret;
}
