/* The four JSON documents of an image over arbitrary bytes; the first byte chooses which. What is accepted
 * must keep to the limits. */
#include "image/oci_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_digest(const struct digest *d)
{
    check(strlen(d->hex) == (d->sha512 ? 128u : 64u) && !strpbrk(d->hex, "/."));
}

static void try_config(const char *text, size_t len, const struct image_limits *l)
{
    static struct oci_config c;
    if (oci_config_parse(text, len, l, &c, NULL) == 0) {
        const char *dir = json_string_value(json_object_get(c.config, "WorkingDir"));
        check(c.layer_count <= l->layers && dir && dir[0] == '/');
        check(json_is_array(json_object_get(c.config, "Env")) &&
              json_is_array(json_object_get(c.config, "Cmd")));
        for (size_t i = 0; i < c.layer_count; i++)
            check_digest(&c.diff_ids[i]);
    }
    oci_config_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct image_limits limits = {.layers = 8};
    static struct oci_manifest m;
    static struct docker_manifest k;
    struct oci_descriptor d;
    if (len == 0)
        return 0;
    const char *text = (const char *)data + 1;
    switch (data[0] % 4) {
    case 0:
        if (oci_index_choose(text, len - 1, data[0] & 4 ? "ref" : NULL, &d, NULL) == 0)
            check_digest(&d.digest);
        break;
    case 1:
        if (oci_manifest_parse(text, len - 1, &limits, &m, NULL) == 0) {
            check(m.layer_count <= limits.layers);
            for (size_t i = 0; i < m.layer_count; i++)
                check_digest(&m.layers[i].digest);
        }
        break;
    case 2:
        try_config(text, len - 1, &limits);
        break;
    default:
        if (docker_manifest_parse(text, len - 1, data[0] & 4 ? "ref" : NULL, &limits, &k, NULL) == 0)
            check(k.layer_count <= limits.layers && strlen(k.config) < OCI_LAYER_PATH_MAX);
    }
    return 0;
}
