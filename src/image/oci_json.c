#include "image/oci_json.h"

#include "base/cleanup.h"
#include "base/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static json_t *parse(const char *text, size_t len, const char *what, json_type type, struct error *err)
{
    json_error_t je;
    if (len > LIMIT_JSON) {
        error_set(err, ERROR_LIMIT, "the %s is larger than %zu bytes", what, LIMIT_JSON);
        return NULL;
    }
    json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
    if (!v)
        error_set(err, ERROR_CORRUPT, "the %s is not valid JSON: line %d: %.200s", what, je.line, je.text);
    else if (json_typeof(v) != type)
        error_set(err, ERROR_CORRUPT, "the %s is not %s", what, type == JSON_OBJECT ? "an object" : "a list");
    else
        return v;
    json_decref(v);
    return NULL;
}

const char *oci_architecture(void)
{
    static const char *const names[][2] = {{"x86_64", "amd64"},    {"aarch64", "arm64"},
                                           {"armv7l", "arm"},      {"riscv64", "riscv64"},
                                           {"ppc64le", "ppc64le"}, {"s390x", "s390x"}};
    struct utsname u;
    if (uname(&u) == 0)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!strcmp(u.machine, names[i][0]))
                return names[i][1];
    return "unknown";
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static bool ends_with(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);
    return a >= b && !strcmp(s + a - b, end);
}

static int descriptor_parse(const json_t *o, const char *what, struct oci_descriptor *ret, struct error *err)
{
    const json_t *size = json_object_get(o, "size");
    if (!json_is_object(o) || !json_is_integer(size) || json_integer_value(size) < 0)
        return error_set(err, ERROR_CORRUPT, "the description of the %s has no size", what);
    if (json_array_size(json_object_get(o, "urls")) > 0)
        return error_set(err, ERROR_DENIED, "the %s is to be fetched from a foreign URL, which is refused",
                         what);
    ret->size = (uint64_t)json_integer_value(size);
    const char *type = text_of(o, "mediaType");
    ret->index = ends_with(type, ".image.index.v1+json") || ends_with(type, ".manifest.list.v2+json");
    return digest_parse(text_of(o, "digest"), what, &ret->digest, err);
}

/* ---- index ---- */

static bool platform_fits(const json_t *entry)
{
    const json_t *p = json_object_get(entry, "platform");
    const char *variant = text_of(p, "variant");
    return !strcmp(text_of(p, "os"), "linux") && !strcmp(text_of(p, "architecture"), oci_architecture()) &&
           (!*variant || !strcmp(variant, "v1") || !strcmp(variant, "v8"));
}

static bool ref_fits(const json_t *entry, const char *ref)
{
    const char *name = text_of(json_object_get(entry, "annotations"), "org.opencontainers.image.ref.name");
    return !ref || !strcmp(name, ref);
}

static int index_pick(const json_t *root, const char *ref, const json_t **ret, struct error *err)
{
    const json_t *list = json_object_get(root, "manifests"), *entry;
    const json_t *open = NULL;
    size_t i, fitting = 0, open_count = 0, named = 0;
    if (!json_is_array(list) || json_array_size(list) > 4096)
        return error_set(err, ERROR_CORRUPT, "the image index has no list of manifests");
    json_array_foreach(list, i, entry)
    {
        if (!ref_fits(entry, ref))
            continue;
        named++;
        if (!json_object_get(entry, "platform")) {
            open = entry;
            open_count++;
        } else if (platform_fits(entry) && fitting++ == 0) {
            *ret = entry;
        }
    }
    if (named == 0)
        return ref ? error_set(err, ERROR_NOT_FOUND, "the archive holds no image named \"%.100s\"", ref)
                   : error_set(err, ERROR_CORRUPT, "the image index is empty");
    if (fitting == 1 || (fitting > 1 && ref))
        return 0;
    if (fitting + open_count > 1)
        return error_field(err, "ref", "the archive holds several images: choose one with --ref NAME");
    if (fitting == 0 && open_count == 0)
        return error_set(err, ERROR_UNSUPPORTED, "the image is not offered for linux/%s", oci_architecture());
    *ret = open;
    return 0;
}

int oci_index_choose(const char *text, size_t len, const char *ref, struct oci_descriptor *ret,
                     struct error *err)
{
    json_t *root = parse(text, len, "image index", JSON_OBJECT, err);
    const json_t *entry = NULL;
    if (!root)
        return -1;
    int r = index_pick(root, ref, &entry, err);
    if (r == 0)
        r = descriptor_parse(entry, "manifest", ret, err);
    json_decref(root);
    return r;
}

/* ---- manifest ---- */

static int layers_parse(const json_t *list, const struct image_limits *l, struct oci_manifest *ret,
                        struct error *err)
{
    const json_t *entry;
    size_t i;
    if (!json_is_array(list))
        return error_set(err, ERROR_CORRUPT, "the manifest has no list of layers");
    if (json_array_size(list) > l->layers)
        return error_set(err, ERROR_LIMIT, "the image has %zu layers, more than the limit of %llu",
                         json_array_size(list), (unsigned long long)l->layers);
    json_array_foreach(list, i, entry)
    {
        const char *type = text_of(entry, "mediaType");
        if (strstr(type, "nondistributable") || strstr(type, ".foreign."))
            return error_set(err, ERROR_DENIED, "layer %zu is a foreign layer (%.80s), which is refused", i,
                             type);
        if (strstr(type, "+encrypted"))
            return error_set(err, ERROR_UNSUPPORTED, "layer %zu is encrypted", i);
        if (descriptor_parse(entry, "layer", &ret->layers[i], err) < 0)
            return error_wrap(err, "layer %zu", i);
    }
    ret->layer_count = json_array_size(list);
    return 0;
}

int oci_manifest_parse(const char *text, size_t len, const struct image_limits *l, struct oci_manifest *ret,
                       struct error *err)
{
    json_t *root = parse(text, len, "image manifest", JSON_OBJECT, err);
    if (!root)
        return -1;
    memset(ret, 0, sizeof *ret);
    int r = 0;
    if (json_integer_value(json_object_get(root, "schemaVersion")) != 2)
        r = error_set(err, ERROR_UNSUPPORTED, "the image manifest is not of schema version 2");
    if (r == 0)
        r = descriptor_parse(json_object_get(root, "config"), "configuration", &ret->config, err);
    if (r == 0)
        r = layers_parse(json_object_get(root, "layers"), l, ret, err);
    json_decref(root);
    return r;
}

/* ---- configuration ---- */

/* Copies a list of texts of at most `max` bytes in all; a missing list is an empty one. */
static json_t *texts_copy(const json_t *config, const char *key, size_t max, struct error *err)
{
    const json_t *list = json_object_get(config, key), *entry;
    size_t i, total = 0;
    json_t *ret = json_array();
    if (!list || json_is_null(list))
        return ret;
    if (!json_is_array(list)) {
        error_field(err, key, "the image's %s is not a list", key);
        goto bad;
    }
    json_array_foreach(list, i, entry)
    {
        const char *s = json_string_value(entry);
        if (!s) {
            error_field(err, key, "the image's %s holds something that is no text", key);
            goto bad;
        }
        total += strlen(s) + 1;
        if (total > max) {
            error_set(err, ERROR_LIMIT, "the image's %s is larger than %zu bytes", key, max);
            goto bad;
        }
        if (!strcmp(key, "Env") && parse_env(s, "Env", err) < 0) {
            error_wrap(err, "the image's Env");
            goto bad;
        }
        json_array_append_new(ret, json_string(s));
    }
    return ret;
bad:
    json_decref(ret);
    return NULL;
}

static bool has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127)
            return true;
    return false;
}

static int put_workdir(json_t *to, const json_t *config, struct error *err)
{
    const char *dir = text_of(config, "WorkingDir");
    char absolute[LIMIT_PATH + 2];
    if (strlen(dir) > LIMIT_PATH || has_control(dir))
        return error_field(err, "WorkingDir",
                           "the image's WorkingDir is too long or holds control characters");
    snprintf(absolute, sizeof absolute, "%s%s", dir[0] == '/' ? "" : "/", dir);
    return json_object_set_new(to, "WorkingDir", json_string(absolute));
}

static int put_user(json_t *to, const json_t *config, struct error *err)
{
    const char *user = text_of(config, "User"), *colon = strchr(user, ':');
    if (strlen(user) > 256 || has_control(user) || strchr(user, '/') || (colon && strchr(colon + 1, ':')))
        return error_field(err, "User", "the image's User is not of the form user[:group]");
    return json_object_set_new(to, "User", json_string(user));
}

static int put_labels(json_t *to, const json_t *config, struct error *err)
{
    json_t *labels = json_object_get(config, "Labels"), *copy = json_object(), *value;
    const char *key;
    size_t total = 0;
    json_object_foreach(labels, key, value)
    {
        total += strlen(key) + json_string_length(value);
        if (!json_is_string(value) || total > LIMIT_ENV) {
            json_decref(copy);
            return error_field(err, "Labels", "the image's Labels are no texts or larger than %zu bytes",
                               LIMIT_ENV);
        }
        json_object_set(copy, key, value);
    }
    return json_object_set_new(to, "Labels", copy);
}

static json_t *config_copy(const json_t *config, struct error *err)
{
    static const struct {
        const char *key;
        size_t max;
    } lists[] = {{"Env", LIMIT_ENV}, {"Entrypoint", LIMIT_ARGS}, {"Cmd", LIMIT_ARGS}};
    json_t *ret = json_object();
    for (size_t i = 0; i < 3; i++) {
        json_t *list = texts_copy(config, lists[i].key, lists[i].max, err);
        if (!list) {
            json_decref(ret);
            return NULL;
        }
        json_object_set_new(ret, lists[i].key, list);
    }
    if (put_workdir(ret, config, err) < 0 || put_user(ret, config, err) < 0 ||
        put_labels(ret, config, err) < 0) {
        json_decref(ret);
        return NULL;
    }
    return ret;
}

static int diff_ids_parse(const json_t *root, const struct image_limits *l, struct oci_config *ret,
                          struct error *err)
{
    const json_t *list = json_object_get(json_object_get(root, "rootfs"), "diff_ids"), *entry;
    size_t i;
    if (!json_is_array(list))
        return error_set(err, ERROR_CORRUPT, "the image configuration has no list of diff_ids");
    if (json_array_size(list) > l->layers)
        return error_set(err, ERROR_LIMIT, "the image has %zu layers, more than the limit of %llu",
                         json_array_size(list), (unsigned long long)l->layers);
    json_array_foreach(list, i, entry)
    {
        const char *s = json_string_value(entry);
        if (digest_parse(s ? s : "", "diff id", &ret->diff_ids[i], err) < 0)
            return -1;
    }
    ret->layer_count = json_array_size(list);
    return 0;
}

static int config_fill(const json_t *root, const struct image_limits *l, struct oci_config *ret,
                       struct error *err)
{
    const char *os = text_of(root, "os"), *arch = text_of(root, "architecture");
    if ((*os && strcmp(os, "linux") != 0) || (*arch && strcmp(arch, oci_architecture()) != 0))
        return error_set(err, ERROR_UNSUPPORTED, "the image is for %.20s/%.20s, this machine is linux/%s",
                         *os ? os : "linux", *arch ? arch : "any", oci_architecture());
    snprintf(ret->architecture, sizeof ret->architecture, "%s", *arch ? arch : oci_architecture());
    if (diff_ids_parse(root, l, ret, err) < 0)
        return -1;
    ret->config = config_copy(json_object_get(root, "config"), err);
    return ret->config ? 0 : -1;
}

int oci_config_parse(const char *text, size_t len, const struct image_limits *l, struct oci_config *ret,
                     struct error *err)
{
    memset(ret, 0, sizeof *ret); /* first, so that it can be freed after any failure */
    json_t *root = parse(text, len, "image configuration", JSON_OBJECT, err);
    if (!root)
        return -1;
    int r = config_fill(root, l, ret, err);
    json_decref(root);
    return r;
}

void oci_config_free(struct oci_config *c)
{
    json_decref(c->config);
    c->config = NULL;
}

/* ---- docker-archive ---- */

static const json_t *docker_pick(const json_t *root, const char *ref)
{
    const json_t *image, *tag;
    size_t i, k;
    if (!ref)
        return json_array_size(root) == 1 ? json_array_get(root, 0) : NULL;
    json_array_foreach(root, i, image)
        json_array_foreach(json_object_get(image, "RepoTags"), k,
                           tag) if (json_is_string(tag) && !strcmp(json_string_value(tag), ref)) return image;
    return NULL;
}

static int docker_fill(const json_t *image, const struct image_limits *l, struct docker_manifest *ret,
                       struct error *err)
{
    const json_t *layers = json_object_get(image, "Layers"), *entry;
    size_t i;
    const char *config = text_of(image, "Config"),
               *tag = json_string_value(json_array_get(json_object_get(image, "RepoTags"), 0));
    if (!*config || strlen(config) >= OCI_LAYER_PATH_MAX || !json_is_array(layers))
        return error_set(err, ERROR_CORRUPT, "manifest.json names no configuration or no layers");
    if (json_array_size(layers) > l->layers)
        return error_set(err, ERROR_LIMIT, "the image has %zu layers, more than the limit of %llu",
                         json_array_size(layers), (unsigned long long)l->layers);
    snprintf(ret->config, sizeof ret->config, "%s", config);
    if (tag && strlen(tag) < sizeof ret->tag)
        snprintf(ret->tag, sizeof ret->tag, "%s", tag);
    json_array_foreach(layers, i, entry)
    {
        const char *path = json_string_value(entry);
        if (!path || strlen(path) >= OCI_LAYER_PATH_MAX)
            return error_set(err, ERROR_CORRUPT, "manifest.json has a layer without a proper name");
        snprintf(ret->layers[i], OCI_LAYER_PATH_MAX, "%s", path);
    }
    ret->layer_count = json_array_size(layers);
    return 0;
}

int docker_manifest_parse(const char *text, size_t len, const char *ref, const struct image_limits *l,
                          struct docker_manifest *ret, struct error *err)
{
    json_t *root = parse(text, len, "manifest.json", JSON_ARRAY, err);
    if (!root)
        return -1;
    memset(ret, 0, sizeof *ret);
    const json_t *image = docker_pick(root, ref);
    int r;
    if (!image)
        r = ref ? error_set(err, ERROR_NOT_FOUND, "the archive holds no image named \"%.100s\"", ref)
                : error_field(err, "ref", "the archive holds %zu images: choose one with --ref NAME",
                              json_array_size(root));
    else
        r = docker_fill(image, l, ret, err);
    json_decref(root);
    return r;
}
