/* OCI's and docker's documents, honest and hostile (catalogue D9, D10, D12). */
#include "testing.h"

#include "image/oci_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define D256 "sha256:" HEX
#define D512 "sha512:" HEX HEX
#define DESC "\"digest\":\"" D256 "\",\"size\":10"

static struct image_limits limits;

static void says(const struct error *e, const char *words)
{
    if (!strstr(e->message, words))
        fail_msg("\"%s\" does not say \"%s\"", e->message, words);
}

static struct error index_error(const char *text, const char *ref)
{
    struct oci_descriptor d;
    struct error e = {0};
    assert_int_equal(oci_index_choose(text, strlen(text), ref, &d, &e), -1);
    return e;
}

static void index_platform(void **state)
{
    struct oci_descriptor d;
    char text[1000];
    snprintf(text, sizeof text,
             "{\"manifests\":[{\"digest\":\"" D512
             "\",\"size\":1,\"platform\":{\"os\":\"windows\",\"architecture\":\"%s\"}},"
             "{" DESC ",\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}]}",
             oci_architecture(), oci_architecture());
    assert_int_equal(oci_index_choose(text, strlen(text), NULL, &d, NULL), 0);
    assert_string_equal(d.digest.text, D256);
    assert_false(d.index);
    struct error e = index_error(
        "{\"manifests\":[{" DESC ",\"platform\":{\"os\":\"linux\",\"architecture\":\"pdp11\"}}]}", NULL);
    says(&e, "not offered for linux/");
}

static void index_names(void **state)
{
    struct oci_descriptor d;
    const char *two =
        "{\"manifests\":[{" DESC ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"a\"}},"
        "{\"digest\":\"" D512
        "\",\"size\":2,\"annotations\":{\"org.opencontainers.image.ref.name\":\"b\"}}]}";
    assert_int_equal(oci_index_choose(two, strlen(two), "b", &d, NULL), 0);
    assert_int_equal(d.size, 2);
    assert_true(d.digest.sha512);
    struct error e = index_error(two, NULL);
    says(&e, "--ref");
    assert_string_equal(e.field, "ref");
    e = index_error(two, "c");
    assert_int_equal(e.kind, ERROR_NOT_FOUND);
    const char *nested =
        "{\"manifests\":[{" DESC ",\"mediaType\":\"application/vnd.oci.image.index.v1+json\"}]}";
    assert_int_equal(oci_index_choose(nested, strlen(nested), NULL, &d, NULL), 0);
    assert_true(d.index);
}

static void index_broken(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"manifests\":{}}",
        "{\"manifests\":[]}",
        "{\"manifests\":[1]}",
        "{\"manifests\":[{\"size\":1}]}",
        "{\"manifests\":[{\"digest\":\"" D256 "\"}]}",
        "{\"manifests\":[{\"digest\":\"" D256 "\",\"size\":-1}]}",
        "{\"manifests\":[{\"digest\":\"" D256 "\",\"size\":1e9}]}",
        "{\"manifests\":[{\"digest\":\"md5:00\",\"size\":1}]}",
        "{\"manifests\":[{\"digest\":\"sha256:../../etc\",\"size\":1}]}",
        "{\"manifests\":[{\"digest\":\"" D256 "0\",\"size\":1}]}",
        "{\"a\":1,\"a\":2,\"manifests\":[{" DESC "}]}",
        "{\"manifests\":[{\"digest\":\"SHA256:" HEX "\",\"size\":1}]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        index_error(bad[i], NULL);
    struct error e = index_error("{\"manifests\":[{" DESC ",\"urls\":[\"http://169.254.169.254/\"]}]}", NULL);
    says(&e, "foreign URL");
}

static struct error manifest_error(const char *text)
{
    struct oci_manifest *m = malloc(sizeof *m);
    struct error e = {0};
    assert_int_equal(oci_manifest_parse(text, strlen(text), &limits, m, &e), -1);
    free(m);
    return e;
}

static void manifests(void **state)
{
    struct oci_manifest *m = malloc(sizeof *m);
    const char *good = "{\"schemaVersion\":2,\"config\":{" DESC "},\"layers\":[{" DESC "},{\"digest\":\"" D512
                       "\",\"size\":3}]}";
    assert_int_equal(oci_manifest_parse(good, strlen(good), &limits, m, NULL), 0);
    assert_int_equal(m->layer_count, 2);
    assert_int_equal(m->layers[1].size, 3);
    free(m);
    struct error e = manifest_error("{\"schemaVersion\":1,\"config\":{" DESC "},\"layers\":[]}");
    says(&e, "schema version 2");
    e = manifest_error("{\"schemaVersion\":2,\"config\":{" DESC "},\"layers\":[{" DESC
                       ",\"urls\":[\"file:///etc/passwd\"]}]}");
    says(&e, "foreign URL");
    e = manifest_error("{\"schemaVersion\":2,\"config\":{" DESC "},\"layers\":[{" DESC ",\"mediaType\":"
                       "\"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip\"}]}");
    says(&e, "foreign layer");
    manifest_error("{\"schemaVersion\":2,\"layers\":[]}");
    manifest_error("{\"schemaVersion\":2,\"config\":{" DESC "}}");
    char *many = malloc(200000),
         *p = many + sprintf(many, "{\"schemaVersion\":2,\"config\":{" DESC "},\"layers\":[");
    for (int i = 0; i < 1000; i++)
        p += sprintf(p, "%s{" DESC "}", i ? "," : "");
    strcpy(p, "]}");
    e = manifest_error(many);
    says(&e, "1000 layers, more than the limit of 128");
    free(many);
}

static struct error config_error(const char *config)
{
    struct oci_config *c = malloc(sizeof *c);
    struct error e = {0};
    char *text = NULL;
    assert_true(asprintf(&text, "{\"config\":%s,\"rootfs\":{\"diff_ids\":[]}}", config) > 0);
    assert_int_equal(oci_config_parse(text, strlen(text), &limits, c, &e), -1);
    oci_config_free(c);
    free(text);
    free(c);
    return e;
}

static void config_good(void **state)
{
    struct oci_config *c = malloc(sizeof *c);
    const char *good = "{\"config\":{\"Env\":[\"A=b\",\"PATH=/x\\n/y\",\"E=\"],\"Entrypoint\":[\"/bin/"
                       "x\"],\"Cmd\":null,\"User\":\"u:g\","
                       "\"WorkingDir\":\"w/d\",\"Labels\":{\"k\":\"v\"},\"Volumes\":{\"/"
                       "\":{}}},\"rootfs\":{\"diff_ids\":[\"" D256 "\"]}}";
    assert_int_equal(oci_config_parse(good, strlen(good), &limits, c, NULL), 0);
    assert_int_equal(c->layer_count, 1);
    assert_string_equal(json_string_value(json_object_get(c->config, "WorkingDir")), "/w/d");
    assert_int_equal(json_array_size(json_object_get(c->config, "Env")), 3);
    assert_int_equal(json_array_size(json_object_get(c->config, "Cmd")), 0);
    assert_null(json_object_get(c->config, "Volumes"));
    oci_config_free(c);
    free(c);
}

static void config_bad(void **state)
{
    struct error e = config_error("{\"Env\":[\"NOEQUALS\"]}");
    says(&e, "Env");
    e = config_error("{\"Env\":[\"=x\"]}");
    says(&e, "Env");
    e = config_error("{\"Env\":[\"A=\\u0000\"]}");
    says(&e, "not valid JSON");
    e = config_error("{\"Entrypoint\":[\"/bin/sh\\u0000x\"]}");
    says(&e, "not valid JSON");
    e = config_error("{\"Entrypoint\":\"/bin/sh\"}");
    says(&e, "Entrypoint is not a list");
    e = config_error("{\"Cmd\":[1]}");
    says(&e, "no text");
    e = config_error("{\"User\":\"root\\nroot:x:0\"}");
    says(&e, "User");
    e = config_error("{\"User\":\"../../etc/passwd\"}");
    says(&e, "User");
    e = config_error("{\"User\":\"a:b:c\"}");
    says(&e, "User");
    e = config_error("{\"WorkingDir\":\"/a\\u001b[2J\"}");
    says(&e, "WorkingDir");
    e = config_error("{\"Labels\":{\"a\":1}}");
    says(&e, "Labels");
    size_t n = 2u << 20;
    char *big = malloc(n + 100), *p = big + sprintf(big, "{\"Env\":[\"A=");
    memset(p, 'x', n);
    strcpy(p + n, "\"]}");
    e = config_error(big);
    says(&e, "larger than 1048576 bytes");
    free(big);
    struct oci_config *c = malloc(sizeof *c);
    const char *wrong = "{\"os\":\"windows\",\"rootfs\":{\"diff_ids\":[]}}";
    assert_int_equal(oci_config_parse(wrong, strlen(wrong), &limits, c, &e), -1);
    says(&e, "windows/");
    free(c);
}

static void too_large(void **state)
{
    char *text = malloc(LIMIT_JSON + 2);
    struct oci_descriptor d;
    struct error e = {0};
    memset(text, ' ', LIMIT_JSON + 1);
    assert_int_equal(oci_index_choose(text, LIMIT_JSON + 1, NULL, &d, &e), -1);
    assert_int_equal(e.kind, ERROR_LIMIT);
    memset(text, '[', LIMIT_JSON); /* nesting without end */
    assert_int_equal(oci_index_choose(text, LIMIT_JSON, NULL, &d, &e), -1);
    free(text);
}

static void docker(void **state)
{
    struct docker_manifest *m = malloc(sizeof *m);
    struct error e = {0};
    const char *two = "[{\"Config\":\"a.json\",\"RepoTags\":[\"x:1\"],\"Layers\":[\"l/layer.tar\"]},"
                      "{\"Config\":\"b.json\",\"RepoTags\":null,\"Layers\":[]}]";
    assert_int_equal(docker_manifest_parse(two, strlen(two), "x:1", &limits, m, &e), 0);
    assert_string_equal(m->config, "a.json");
    assert_string_equal(m->tag, "x:1");
    assert_int_equal(docker_manifest_parse(two, strlen(two), NULL, &limits, m, &e), -1);
    says(&e, "2 images");
    assert_int_equal(docker_manifest_parse("[]", 2, NULL, &limits, m, &e), -1);
    assert_int_equal(docker_manifest_parse("[{}]", 4, NULL, &limits, m, &e), -1);
    free(m);
}

static void digests(void **state)
{
    struct digest d;
    assert_int_equal(digest_parse("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                                  "x", &d, NULL),
                     0);
    assert_true(digest_matches(&d, "", 0));
    assert_false(digest_matches(&d, "a", 1));
    assert_int_equal(digest_parse("sha512:cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
                                  "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
                                  "x", &d, NULL),
                     0);
    assert_true(digest_matches(&d, "", 0));
    assert_false(digest_matches(&d, "a", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_platform), cmocka_unit_test(index_names), cmocka_unit_test(index_broken),
        cmocka_unit_test(manifests),      cmocka_unit_test(config_good), cmocka_unit_test(config_bad),
        cmocka_unit_test(too_large),      cmocka_unit_test(docker),      cmocka_unit_test(digests),
    };
    if (image_limits_load(&limits, NULL) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
