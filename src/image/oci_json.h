/* The JSON documents of images: OCI's index, manifest and configuration, and docker-archive's manifest.
 * UNTRUSTED INPUT: everything is bounded and checked here; nothing of it is a path or a URL that is followed.
 */
#ifndef CLOISTER_IMAGE_OCI_JSON_H
#define CLOISTER_IMAGE_OCI_JSON_H

#include "base/error.h"
#include "image/digest.h"
#include "image/limits.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCI_LAYERS_MAX 128
#define OCI_LAYER_PATH_MAX 256

struct oci_descriptor {
    struct digest digest;
    uint64_t size;
    bool index; /* leads to another index */
};

/* Chooses the manifest for this machine (linux, its architecture) from an index; `ref`: only those annotated
 * with that name, NULL for any. */
int oci_index_choose(const char *text, size_t len, const char *ref, struct oci_descriptor *ret,
                     struct error *err);

struct oci_manifest {
    struct oci_descriptor config;
    struct oci_descriptor layers[OCI_LAYERS_MAX];
    size_t layer_count;
};
int oci_manifest_parse(const char *text, size_t len, const struct image_limits *l, struct oci_manifest *ret,
                       struct error *err);

struct oci_config {
    struct digest diff_ids[OCI_LAYERS_MAX];
    size_t layer_count;
    json_t *config; /* checked: Env, Entrypoint, Cmd, WorkingDir, User, Labels and nothing else */
    char architecture[32];
};
int oci_config_parse(const char *text, size_t len, const struct image_limits *l, struct oci_config *ret,
                     struct error *err);
void oci_config_free(struct oci_config *c);

struct docker_manifest {
    char config[OCI_LAYER_PATH_MAX];
    char layers[OCI_LAYERS_MAX][OCI_LAYER_PATH_MAX];
    size_t layer_count;
    char tag[256]; /* the first RepoTags entry, "" when none */
};
/* `ref`: the image with that RepoTags entry, NULL: the only one. */
int docker_manifest_parse(const char *text, size_t len, const char *ref, const struct image_limits *l,
                          struct docker_manifest *ret, struct error *err);

/* GOARCH's name of this machine's architecture. */
const char *oci_architecture(void);

#endif
