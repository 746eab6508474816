#include "image/image_build.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/host.h"
#include "image/image.h"
#include "image/snapshot.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is referred to, each a JSON object used as a set. */
struct used {
    json_t *images, *layers, *blobs;
};

struct collector {
    const char *data_dir;
    int64_t now, grace_ms;
    struct used used;
    struct gc_result *r;
    struct error error; /* of a visitor */
};

static bool in_set(const json_t *set, const char *key)
{
    return json_object_get(set, key) != NULL;
}

static void add(json_t *set, const char *key)
{
    json_object_set_new(set, key, json_true());
}

/* ---- marking ---- */

static bool mark_snapshot(void *user, const struct snapshot *s)
{
    struct collector *c = user;
    if (s->expires_ms <= c->now) {
        if (snapshot_remove(c->data_dir, s->id, NULL) == 0)
            c->r->snapshots++;
        return true;
    }
    const char *hex = store_id_hex(s->image_id);
    if (hex)
        add(c->used.images, hex);
    for (size_t i = 0; i < s->chain_count; i++) {
        add(c->used.blobs, s->chain[i]);
        add(c->used.layers, s->chain[i]);
    }
    return true;
}

static int each_name(const char *data_dir, const char *folder,
                     int (*visit)(struct collector *c, int dir, const char *name), struct collector *c,
                     struct error *err)
{
    char path[PATH_MAX];
    if (store_path(path, data_dir, err, "%s", folder) < 0)
        return -1;
    cleanup_dir DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT ? 0 : error_system(err, errno, "cannot read %s", path);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        if (visit(c, dirfd(d), e->d_name) < 0) {
            if (err)
                *err = c->error;
            return -1;
        }
    }
    return 0;
}

static int mark_ref(struct collector *c, int dir, const char *name)
{
    cleanup_free char *text = NULL;
    if (file_slurp(dir, name, 256, &text, NULL, &c->error) < 0)
        return c->error.errnum == ENOENT ? 0 : -1;
    text[strcspn(text, "\n")] = '\0';
    const char *hex = store_id_hex(text);
    if (!hex)
        return error_set(&c->error, ERROR_CORRUPT,
                         "refs/%.200s does not hold an image id: nothing is collected", name);
    add(c->used.images, hex);
    return 0;
}

static bool young(const struct collector *c, int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return true;
    int64_t ms = (int64_t)st.st_ctim.tv_sec * 1000 + st.st_ctim.tv_nsec / 1000000;
    return c->now - ms < c->grace_ms;
}

/* Drops a record without a name, or marks its layers. */
static int mark_image(struct collector *c, int dir, const char *name)
{
    char hex[80], path[PATH_MAX];
    const json_t *layer;
    size_t i;
    snprintf(hex, sizeof hex, "%.*s", (int)strcspn(name, "."), name);
    if (!store_hex_valid(hex) || strcmp(name + 64, ".json") != 0)
        return 0;
    if (!in_set(c->used.images, hex) && !young(c, dir, name)) {
        if (unlinkat(dir, name, 0) == 0)
            c->r->images++;
        return 0;
    }
    if (store_path(path, c->data_dir, &c->error, "images/%s", name) < 0)
        return -1;
    json_t *o = store_get_json(path, &c->error);
    if (!o)
        return c->error.errnum == ENOENT ? 0 : -1;
    json_array_foreach(json_object_get(o, "layers"), i, layer) if (json_is_string(layer))
        add(c->used.layers, json_string_value(layer));
    json_decref(o);
    return 0;
}

/* ---- sweeping ---- */

static uint64_t tree_bytes(const char *layer_dir)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/layer.json", layer_dir);
    json_t *o = store_get_json(path, NULL);
    uint64_t n = o ? (uint64_t)store_json_int(o, "bytes", 0) : 0;
    json_decref(o);
    return n;
}

/* Takes a layer away unless someone holds it: first out of its place in one step, then file by file. */
static int layer_drop(struct collector *c, int dir, const char *name)
{
    char aside[PATH_MAX], from[PATH_MAX];
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return 0;
    cleanup_close int tmp = store_tmp_dir(c->data_dir, "gone", aside, &c->error);
    if (tmp < 0 || store_path(from, c->data_dir, &c->error, "layers/%s", name) < 0)
        return -1;
    uint64_t bytes = tree_bytes(from);
    if (rename(from, aside) == 0) {
        c->r->layers++;
        c->r->bytes += bytes;
    }
    dir_remove(AT_FDCWD, aside, NULL);
    return 0;
}

static int sweep_layer(struct collector *c, int dir, const char *name)
{
    char host[64];
    image_host_layer_name(host);
    if (in_set(c->used.layers, name) || !strcmp(name, host) || young(c, dir, name))
        return 0;
    return layer_drop(c, dir, name);
}

static int sweep_blob(struct collector *c, int dir, const char *name)
{
    struct stat st;
    if (in_set(c->used.blobs, name) || young(c, dir, name) ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (unlinkat(dir, name, 0) == 0) {
        c->r->blobs++;
        c->r->bytes += (uint64_t)st.st_size;
    }
    return 0;
}

/* Whoever made it holds its lock while it lives. */
static int sweep_tmp(struct collector *c, int dir, const char *name)
{
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return 0;
    int r = S_ISDIR(st.st_mode) ? dir_remove(dir, name, NULL) : unlinkat(dir, name, 0);
    c->r->temporary += r == 0;
    return 0;
}

static int collect(struct collector *c, struct error *err)
{
    /* A record that cannot be read ends the collection: what it refers to is not known. */
    if (snapshot_list(c->data_dir, mark_snapshot, c, err) < 0 ||
        each_name(c->data_dir, "refs", mark_ref, c, err) < 0 ||
        each_name(c->data_dir, "images", mark_image, c, err) < 0)
        return -1;
    if (each_name(c->data_dir, "layers", sweep_layer, c, err) < 0 ||
        each_name(c->data_dir, "blobs/sha256", sweep_blob, c, err) < 0)
        return -1;
    return each_name(c->data_dir, "tmp", sweep_tmp, c, err);
}

int image_gc(const char *data_dir, int64_t grace_ms, bool wait, struct gc_result *ret, struct error *err)
{
    cleanup_close int lock = store_lock(data_dir, true, wait, err);
    if (lock < 0)
        return -1;
    memset(ret, 0, sizeof *ret);
    struct collector c = {.data_dir = data_dir, .now = clock_wall_ms(), .grace_ms = grace_ms, .r = ret};
    c.used = (struct used){json_object(), json_object(), json_object()};
    int r = c.used.images && c.used.layers && c.used.blobs ? collect(&c, err) : error_oom(err);
    json_decref(c.used.images);
    json_decref(c.used.layers);
    json_decref(c.used.blobs);
    return r;
}

/* ---- names ---- */

struct id_search {
    const char *id;
    bool found;
};

static bool find_by_snapshot(void *user, const struct snapshot *s)
{
    struct id_search *f = user;
    f->found |= !strcmp(s->image_id, f->id);
    return !f->found;
}

static bool find_by_image(void *user, const struct image *i)
{
    struct id_search *f = user;
    f->found |= !strcmp(i->id, f->id);
    return !f->found;
}

int image_remove(const char *data_dir, const char *name, bool *ret_kept, struct error *err)
{
    char canonical[256], file[256], path[PATH_MAX], record[PATH_MAX];
    cleanup_free char *text = NULL;
    if (image_name_canonical(name, "name", canonical, err) < 0)
        return -1;
    if (!strcmp(name, IMAGE_HOST))
        return error_field(err, "name", "image host is built in and cannot be removed");
    cleanup_close int lock = store_lock(data_dir, true, true, err);
    if (lock < 0)
        return -1;
    store_ref_escape(canonical, file);
    if (store_path(path, data_dir, err, "refs/%s", file) < 0)
        return -1;
    if (access(path, F_OK) < 0)
        return error_set(err, ERROR_NOT_FOUND, "no image \"%s\" (see \"cloister image list\")", name);
    if (file_slurp(AT_FDCWD, path, 256, &text, NULL, err) < 0)
        return -1;
    if (unlink(path) < 0)
        return error_system(err, errno, "cannot remove %s", path);
    text[strcspn(text, "\n")] = '\0';
    struct id_search image = {text, false}, snapshot = {text, false};
    const char *hex = store_id_hex(text);
    *ret_kept = false;
    if (!hex || image_list(data_dir, find_by_image, &image, err) < 0 ||
        snapshot_list(data_dir, find_by_snapshot, &snapshot, err) < 0)
        return hex ? -1 : 0;
    *ret_kept = snapshot.found;
    if (!image.found && !snapshot.found && store_path(record, data_dir, err, "images/%s.json", hex) == 0)
        unlink(record);
    return 0;
}

int image_alias(const char *data_dir, const char *alias, const char *target, struct error *err)
{
    char canonical[256], path[PATH_MAX];
    if (image_name_check(alias, "name", err) < 0 || (target && image_name_check(target, "target", err) < 0))
        return -1;
    if (!strcmp(alias, IMAGE_HOST))
        return error_field(err, "name", "\"host\" always means the built-in image");
    if (target && image_name_canonical(target, "target", canonical, err) < 0)
        return -1;
    cleanup_close int lock = store_lock(data_dir, true, true, err);
    if (lock < 0 || store_path(path, data_dir, err, "aliases.json") < 0)
        return -1;
    json_t *all = access(path, F_OK) == 0 ? store_get_json(path, err) : json_object();
    if (!all)
        return -1;
    int r = 0;
    if (!target && json_object_del(all, alias) < 0)
        r = error_set(err, ERROR_NOT_FOUND, "\"%s\" is no alias", alias);
    if (target)
        json_object_set_new(all, alias, json_string(target));
    if (r == 0)
        r = store_put_json(data_dir, path, all, err);
    json_decref(all);
    return r;
}
