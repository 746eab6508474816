#include "image/image_build.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/image.h"
#include "image/layer_store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Opens a regular file of the archive; nothing outside its directory is reached. */
static int blob_open(const struct blob_dir *d, const char *name, struct error *err)
{
    char flat[LIMIT_NAME + 1];
    if (d->flat && archive_flat_name(name, flat, err) < 0)
        return -1;
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    cleanup_close int fd = (int)syscall(SYS_openat2, d->fd, d->flat ? flat : name, &how, sizeof how);
    struct stat st;
    if (fd < 0 && errno == ENOENT)
        return error_set(err, ERROR_CORRUPT, "\"%.150s\" is missing", name);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_system(err, errno, "cannot open \"%.150s\"", name);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_CORRUPT, "\"%.150s\" is not a regular file", name);
    return steal_fd(&fd);
}

static char *blob_read(const struct blob_dir *d, const char *name, size_t *ret_len, struct error *err)
{
    cleanup_close int fd = blob_open(d, name, err);
    if (fd < 0)
        return NULL;
    char *text = malloc(LIMIT_JSON + 2);
    ssize_t n = text ? fd_read_full(fd, text, LIMIT_JSON + 1) : -1;
    if (n < 0 || n > (ssize_t)LIMIT_JSON) {
        if (n < 0)
            error_system(err, errno, "cannot read \"%.150s\"", name);
        else
            error_set(err, ERROR_LIMIT, "\"%.150s\" is larger than %zu bytes", name, LIMIT_JSON);
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *ret_len = (size_t)n;
    return text;
}

static void blob_name(const struct digest *d, char ret[OCI_LAYER_PATH_MAX])
{
    snprintf(ret, OCI_LAYER_PATH_MAX, "blobs/%s/%s", d->sha512 ? "sha512" : "sha256", d->text + 7);
}

/* A small blob, verified against its description before anything looks into it. */
static char *blob_verified(const struct blob_dir *d, const struct oci_descriptor *desc, const char *what,
                           size_t *ret_len, struct error *err)
{
    char name[OCI_LAYER_PATH_MAX];
    struct digest digest = desc->digest;
    digest.hex = digest.text + 7;
    blob_name(&digest, name);
    char *text = blob_read(d, name, ret_len, err);
    if (!text)
        return NULL;
    if (*ret_len != desc->size || !digest_matches(&digest, text, *ret_len)) {
        error_set(err, ERROR_CORRUPT, "the %s does not have the size and digest it should have (%s)", what,
                  digest.text);
        free(text);
        return NULL;
    }
    return text;
}

struct layout {
    const struct blob_dir *dir;
    struct oci_manifest manifest;
};

static int layout_open_layer(void *user, size_t i, struct layer_request *q, struct error *err)
{
    struct layout *l = user;
    char name[OCI_LAYER_PATH_MAX];
    q->blob = l->manifest.layers[i].digest;
    q->blob.hex = q->blob.text + 7;
    q->blob_size = l->manifest.layers[i].size;
    blob_name(&q->blob, name);
    q->fd = blob_open(l->dir, name, err);
    return q->fd < 0 ? -1 : 0;
}

/* From index.json to the manifest: at most one further index on the way. */
static int layout_manifest(struct layout *l, const struct image_limits *limits, const char *ref,
                           struct error *err)
{
    struct oci_descriptor desc;
    size_t len;
    cleanup_free char *index = blob_read(l->dir, "index.json", &len, err);
    if (!index || oci_index_choose(index, len, ref, &desc, err) < 0)
        return -1;
    cleanup_free char *text = blob_verified(l->dir, &desc, "manifest", &len, err);
    if (!text)
        return -1;
    if (!desc.index)
        return oci_manifest_parse(text, len, limits, &l->manifest, err);
    if (oci_index_choose(text, len, NULL, &desc, err) < 0)
        return -1;
    if (desc.index)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the image index leads to an index that leads to a further index");
    cleanup_free char *inner = blob_verified(l->dir, &desc, "manifest", &len, err);
    return inner ? oci_manifest_parse(inner, len, limits, &l->manifest, err) : -1;
}

static int layout_config(struct layout *l, const struct image_limits *limits, struct image_parts *parts,
                         struct error *err)
{
    size_t len;
    cleanup_free char *text = blob_verified(l->dir, &l->manifest.config, "configuration", &len, err);
    if (!text || oci_config_parse(text, len, limits, &parts->config, err) < 0)
        return -1;
    if (parts->config.layer_count != l->manifest.layer_count)
        return error_set(err, ERROR_CORRUPT, "the manifest has %zu layers, the configuration %zu",
                         l->manifest.layer_count, parts->config.layer_count);
    digest_sha256_hex(text, len, parts->id);
    return 0;
}

int import_layout(const struct image_builder *b, const struct blob_dir *d, const char *name, const char *ref,
                  struct built_image *ret, struct error *err)
{
    struct layout *l = calloc(1, sizeof *l);
    struct image_parts *parts = calloc(1, sizeof *parts);
    int r = l && parts ? 0 : error_oom(err);
    if (r == 0) {
        l->dir = d;
        parts->user = l;
        parts->open_layer = layout_open_layer;
        r = layout_manifest(l, &b->limits, ref, err);
    }
    if (r == 0)
        r = layout_config(l, &b->limits, parts, err);
    if (r == 0)
        r = image_assemble(b, parts, name, ret, err);
    if (parts)
        oci_config_free(&parts->config);
    free(parts);
    free(l);
    return r;
}

/* ---- docker-archive: no digests of its own but the diff ids of the configuration, which is the image's
 * identity ---- */

struct docker {
    const struct blob_dir *dir;
    struct docker_manifest manifest;
};

static int docker_open_layer(void *user, size_t i, struct layer_request *q, struct error *err)
{
    struct docker *k = user;
    q->fd = blob_open(k->dir, k->manifest.layers[i], err);
    return q->fd < 0 ? -1 : 0;
}

static int docker_config(struct docker *k, const struct image_limits *limits, struct image_parts *parts,
                         struct error *err)
{
    size_t len;
    cleanup_free char *text = blob_read(k->dir, k->manifest.config, &len, err);
    if (!text || oci_config_parse(text, len, limits, &parts->config, err) < 0)
        return -1;
    if (parts->config.layer_count != k->manifest.layer_count)
        return error_set(err, ERROR_CORRUPT, "manifest.json has %zu layers, the configuration %zu",
                         k->manifest.layer_count, parts->config.layer_count);
    digest_sha256_hex(text, len, parts->id);
    /* Where the file's name is the digest, it must be the right one. */
    const char *base = strrchr(k->manifest.config, '/');
    base = base ? base + 1 : k->manifest.config;
    if (strspn(base, "0123456789abcdef") == 64 && strncmp(base, parts->id, 64) != 0)
        return error_set(err, ERROR_CORRUPT, "the configuration does not have the digest in its name (%.64s)",
                         base);
    return 0;
}

int import_docker(const struct image_builder *b, const struct blob_dir *d, const char *name, const char *ref,
                  struct built_image *ret, struct error *err)
{
    struct docker *k = calloc(1, sizeof *k);
    struct image_parts *parts = calloc(1, sizeof *parts);
    size_t len = 0;
    cleanup_free char *text = NULL;
    int r = k && parts ? 0 : error_oom(err);
    if (r == 0)
        r = (text = blob_read(d, "manifest.json", &len, err)) ? 0 : -1;
    if (r == 0) {
        k->dir = d;
        parts->user = k;
        parts->open_layer = docker_open_layer;
        r = docker_manifest_parse(text, len, ref, &b->limits, &k->manifest, err);
    }
    if (r == 0)
        r = docker_config(k, &b->limits, parts, err);
    if (r == 0 && !name && !*k->manifest.tag)
        r = error_field(err, "name", "the archive does not name its image: give it one with --name");
    if (r == 0)
        r = image_assemble(b, parts, name ? name : k->manifest.tag, ret, err);
    if (parts)
        oci_config_free(&parts->config);
    free(parts);
    free(k);
    return r;
}

/* ---- a plain root file system ---- */

struct rootfs {
    int fd;
    int (*confirm)(void *user, struct error *err);
    void *user;
};

static int rootfs_open_layer(void *user, size_t i, struct layer_request *q, struct error *err)
{
    struct rootfs *r = user;
    q->fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
    q->any_filter = true;
    return q->fd < 0 ? error_system(err, errno, "cannot read the archive") : 0;
}

static int rootfs_confirm(void *user, struct error *err)
{
    struct rootfs *r = user;
    return r->confirm ? r->confirm(r->user, err) : 0;
}

int import_rootfs(const struct image_builder *b, int fd, const char *name,
                  int (*confirm)(void *user, struct error *err), void *user, struct built_image *ret,
                  struct error *err)
{
    struct rootfs source = {fd, confirm, user};
    struct image_parts *parts = calloc(1, sizeof *parts);
    if (!parts)
        return error_oom(err);
    parts->user = &source;
    parts->open_layer = rootfs_open_layer;
    parts->confirm = rootfs_confirm;
    parts->config.layer_count = 1;
    snprintf(parts->config.architecture, sizeof parts->config.architecture, "%s", oci_architecture());
    parts->config.config = json_pack("{s:[s], s:[], s:[s], s:s, s:s, s:{}}", "Env",
                                     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                     "Entrypoint", "Cmd", "/bin/sh", "WorkingDir", "/", "User", "", "Labels");
    int r = parts->config.config ? image_assemble(b, parts, name, ret, err) : error_oom(err);
    oci_config_free(&parts->config);
    free(parts);
    return r;
}
