/* The store: names, aliases, the built-in image, records, collection. */
#include "testing.h"

#include "../image/archive.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/host.h"
#include "image/image.h"
#include "image/image_build.h"
#include "image/snapshot.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define HEX "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static struct progress quiet;
static struct image_builder builder;
static char data_dir[256];

static int setup(void **state)
{
    int fd = fresh_dir(data_dir);
    builder.data_dir = data_dir;
    builder.progress = &quiet;
    progress_init(&quiet, "none");
    if (fd < 0 || image_limits_load(&builder.limits, NULL) < 0)
        return -1;
    close(fd);
    return store_prepare(data_dir, NULL);
}

static int teardown(void **state)
{
    drop_dir(data_dir);
    return 0;
}

static char *at(const char *name)
{
    static char paths[4][600];
    static unsigned turn;
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", data_dir, name);
    return p;
}

static bool there(const char *name)
{
    struct stat st;
    return lstat(at(name), &st) == 0;
}

/* A root file system image with one file of that text. */
static struct built_image import_text(const char *name, const char *text)
{
    struct built_image built;
    struct error e = {0};
    struct buf b;
    const struct member m = {"file", .data = text};
    buf_init(&b, 0);
    archive_add(&b, &m);
    archive_end(&b);
    int fd = open(at("input.tar"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(fd_write_all(fd, b.data, b.len), 0);
    close(fd);
    buf_free(&b);
    if (image_import(&builder, at("input.tar"), name, NULL, &built, &e) < 0)
        fail_msg("%s", e.message);
    return built;
}

static void names(void **state)
{
    static const char *const good[] = {"a",         "debian:12",     "localhost:5000/x/y:t",
                                       "A_b-c.d/e", "x@sha256:" HEX, "r.io:443/a:b@sha256:" HEX};
    static const char *const bad[] = {
        "",        "/",         "a/",          "/a",          "a//b",    "../a",       "a/../b",
        "a/.",     "-a",        "a:",          "a@",          ":a",      "a b",        "a\n",
        "a%2f",    "a+b",       "a=b",         ".a",          "a/.b",    "a/-b",       "a:b:c",
        "a:b/c",   "a:1/b:2:3", "a@sha256:zz", "a@sha256:00", "a/b:1/c", "a:123456/b", "a@b@c",
        "\xc3\xa4"};
    char full[256], file[256], back[256], long_name[400];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(image_name_canonical(good[i], "image", full, NULL), 0);
        store_ref_escape(full, file);
        assert_null(strchr(file, '/'));
        store_ref_unescape(file, back);
        assert_string_equal(full, back);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        if (image_name_check(bad[i], "image", &e) == 0)
            fail_msg("\"%s\" was taken for a name", bad[i]);
        assert_string_equal(e.field, "image");
    }
    assert_int_equal(image_name_canonical("debian", "image", full, NULL), 0);
    assert_string_equal(full, "debian:latest");
    assert_int_equal(image_name_canonical("localhost:5000/x", "image", full, NULL), 0);
    assert_string_equal(full, "localhost:5000/x:latest");
    assert_int_equal(image_name_canonical("docker.io/library/debian:12", "image", full, NULL), 0);
    assert_string_equal(full, "debian:12");
    assert_int_equal(image_name_canonical("docker.io/me/app", "image", full, NULL), 0);
    assert_string_equal(full, "me/app:latest");
    assert_int_equal(image_name_canonical("host", "image", full, NULL), 0);
    assert_string_equal(full, "host");
    memset(long_name, 'a', sizeof long_name);
    long_name[248] = '\0';
    assert_int_equal(image_name_canonical(long_name, "image", full, NULL), 0);
    long_name[248] = 'a';
    long_name[249] = '\0';
    assert_int_equal(image_name_canonical(long_name, "image", full, NULL), -1);
    long_name[248] = '\0';
    import_text(long_name, "longest name");
    struct image *i;
    assert_int_equal(image_resolve(data_dir, long_name, &i, NULL), 0);
    image_free(i);
}

static void host(void **state)
{
    struct image *i;
    char path[1200], to[64] = {0};
    struct stat st;
    assert_int_equal(image_resolve(data_dir, "host", &i, NULL), 0);
    assert_true(i->host_usr);
    assert_int_equal(i->layer_count, 1);
    assert_string_equal(i->id, "host");
    snprintf(path, sizeof path, "%s/bin", i->layers[0]);
    assert_true(readlink(path, to, sizeof to - 1) > 0);
    assert_string_equal(to, "usr/bin");
    snprintf(path, sizeof path, "%s/tmp", i->layers[0]);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 01777);
    static const char *const absent[] = {"etc/shadow", "etc/machine-id", "var/lib/dpkg", "usr/bin",
                                         "etc/ssh"};
    for (size_t k = 0; k < sizeof absent / sizeof *absent; k++) {
        snprintf(path, sizeof path, "%s/%s", i->layers[0], absent[k]);
        assert_int_equal(lstat(path, &st), -1);
    }
    struct gc_result g;
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_int_equal(g.layers, 0);
    image_free(i);
}

static void resolving(void **state)
{
    struct image *i;
    struct error e = {0};
    struct built_image built = import_text("local/thing", "one");
    assert_string_equal(built.name, "local/thing:latest");
    assert_int_equal(image_resolve(data_dir, "local/thing", &i, NULL), 0);
    assert_string_equal(i->id, built.id);
    assert_true(i->layers[0][0] == '/' && i->holds[0] >= 0);
    image_free(i);
    assert_int_equal(image_resolve(data_dir, built.id, &i, NULL), 0);
    image_free(i);
    assert_int_equal(image_resolve(data_dir, "local/other", &i, &e), -1);
    assert_int_equal(e.kind, ERROR_NOT_FOUND);
    assert_non_null(strstr(e.message, "cloister image pull local/other"));
    /* the same bytes are the same image; other bytes under the name replace it */
    struct built_image again = import_text("local/thing", "one");
    assert_string_equal(again.id, built.id);
    again = import_text("local/thing", "two");
    assert_string_not_equal(again.id, built.id);
}

static void aliases(void **state)
{
    struct image *i;
    struct error e = {0};
    struct built_image built = import_text("debian", "one");
    assert_int_equal(image_alias(data_dir, "cloudflare/debian-trixie", "debian", NULL), 0);
    assert_int_equal(image_resolve(data_dir, "cloudflare/debian-trixie", &i, NULL), 0);
    assert_string_equal(i->id, built.id);
    assert_string_equal(i->name, "debian:latest");
    image_free(i);
    assert_int_equal(image_resolve(data_dir, "cloudflare/debian-trixie:latest", &i, NULL), 0);
    image_free(i);
    assert_int_equal(image_alias(data_dir, "second", "cloudflare/debian-trixie", NULL), 0);
    assert_int_equal(image_resolve(data_dir, "second", &i, &e), -1); /* no chains */
    assert_non_null(strstr(e.message, "\"second\" stands for"));
    assert_int_equal(image_alias(data_dir, "h", "host", NULL), 0);
    assert_int_equal(image_resolve(data_dir, "h", &i, NULL), 0);
    assert_true(i->host_usr);
    image_free(i);
    assert_int_equal(image_alias(data_dir, "host", "debian", &e), -1);
    assert_int_equal(image_alias(data_dir, "h", NULL, NULL), 0);
    assert_int_equal(image_alias(data_dir, "h", NULL, &e), -1);
    assert_int_equal(e.kind, ERROR_NOT_FOUND);
}

static bool remember(void *user, const struct image *i)
{
    strcat(user, i->name);
    strcat(user, " ");
    return true;
}

static void listing_and_removing(void **state)
{
    char seen[1024] = "";
    bool kept;
    struct gc_result g;
    struct error e = {0};
    import_text("zebra", "z");
    import_text("ape:1", "a");
    import_text("ape:2", "a");
    assert_int_equal(image_list(data_dir, remember, seen, NULL), 0);
    assert_string_equal(seen, "ape:1 ape:2 host zebra:latest ");
    assert_int_equal(image_remove(data_dir, "ape:1", &kept, NULL), 0);
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_int_equal(g.layers, 0); /* ape:2 has the same */
    struct image *i;
    assert_int_equal(image_resolve(data_dir, "ape:2", &i, NULL), 0);
    assert_int_equal(image_remove(data_dir, "ape:2", &kept, NULL), 0);
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_int_equal(g.layers, 0); /* held: a container may run on it */
    assert_int_equal(access(i->layers[0], F_OK), 0);
    image_free(i);
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_int_equal(g.layers, 1);
    assert_int_equal(image_remove(data_dir, "ape:2", &kept, &e), -1);
    assert_int_equal(e.kind, ERROR_NOT_FOUND);
    assert_int_equal(image_remove(data_dir, "host", &kept, &e), -1);
    assert_int_equal(image_resolve(data_dir, "zebra", &i, NULL), 0);
    image_free(i);
}

static const char hex[] = HEX;

static void put_file(const char *name, const char *text)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static bool count(void *user, const struct snapshot *s)
{
    ++*(int *)user;
    return true;
}

static void snapshots(void **state)
{
    char *chain[] = {(char *)hex}, blob[128];
    struct snapshot s = {.id = "0123456789abcdef0123456789abcdef",
                         .name = "mine",
                         .image_id = (char *)"host",
                         .chain = chain,
                         .chain_count = 1,
                         .bytes = 5,
                         .created_ms = 1,
                         .dir = (char *)""};
    struct snapshot *back;
    struct error e = {0};
    struct gc_result g;
    int n = 0;
    s.expires_ms = clock_wall_ms() + SNAPSHOT_TTL_MS;
    assert_int_equal(snapshot_save(data_dir, &s, &e), -1); /* without its blob */
    assert_int_equal(e.kind, ERROR_CORRUPT);
    snprintf(blob, sizeof blob, "blobs/sha256/%s", hex);
    put_file(blob, "x");
    assert_int_equal(snapshot_save(data_dir, &s, NULL), 0);
    assert_int_equal(snapshot_load(data_dir, s.id, &back, NULL), 0);
    assert_string_equal(back->name, "mine");
    assert_string_equal(back->chain[0], hex);
    assert_int_equal(back->expires_ms, s.expires_ms);
    snapshot_free(back);
    assert_int_equal(snapshot_list(data_dir, count, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_true(there(blob));
    s.expires_ms = clock_wall_ms() - 1;
    assert_int_equal(snapshot_save(data_dir, &s, NULL), 0);
    assert_int_equal(snapshot_touch(data_dir, s.id, NULL), 0);
    assert_int_equal(snapshot_load(data_dir, s.id, &back, NULL), 0);
    assert_true(back->expires_ms > clock_wall_ms() + SNAPSHOT_TTL_MS - 60000);
    snapshot_free(back);
    assert_int_equal(snapshot_save(data_dir, &s, NULL), 0);
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_int_equal(g.snapshots, 1);
    assert_int_equal(g.blobs, 1);
    assert_int_equal(snapshot_load(data_dir, s.id, &back, &e), -1);
    assert_int_equal(e.kind, ERROR_NOT_FOUND);
    assert_int_equal(snapshot_load(data_dir, "../../etc/passwd", &back, &e), -1);
    assert_int_equal(e.kind, ERROR_NOT_FOUND);
}

static void snapshot_keeps_its_image(void **state)
{
    char *chain[] = {(char *)hex}, blob[128];
    bool kept;
    struct image *i;
    struct gc_result g;
    struct built_image built = import_text("base", "text");
    snprintf(blob, sizeof blob, "blobs/sha256/%s", hex);
    put_file(blob, "x");
    const struct snapshot s = {.id = "0123456789abcdef0123456789abcdef",
                               .image_id = built.id,
                               .chain = chain,
                               .chain_count = 1,
                               .created_ms = 1,
                               .expires_ms = clock_wall_ms() + 100000};
    assert_int_equal(snapshot_save(data_dir, &s, NULL), 0);
    assert_int_equal(image_remove(data_dir, "base", &kept, NULL), 0);
    assert_true(kept);
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_int_equal(image_resolve(data_dir, built.id, &i, NULL), 0);
    image_free(i);
    assert_int_equal(snapshot_remove(data_dir, s.id, NULL), 0);
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_int_equal(g.images, 1);
    assert_int_equal(g.layers, 1);
}

static void collecting(void **state)
{
    char path[PATH_MAX];
    struct gc_result g;
    struct error e = {0};
    char blob[128];
    snprintf(blob, sizeof blob, "blobs/sha256/%s", hex);
    put_file(blob, "x");
    assert_int_equal(image_gc(data_dir, 60000, true, &g, NULL), 0);
    assert_true(there(blob)); /* young: its record may be on the way */
    int fd = store_tmp_dir(data_dir, "work", path, NULL);
    assert_true(fd >= 0);
    assert_int_equal(mkdir(at("tmp/dead-1"), 0700), 0);
    put_file("tmp/dead-1/part", "x");
    assert_int_equal(image_gc(data_dir, 0, true, &g, NULL), 0);
    assert_int_equal(g.temporary, 1);
    assert_int_equal(g.blobs, 1);
    assert_int_equal(access(path, F_OK), 0); /* its owner lives */
    close(fd);
    /* what cannot be read may refer to anything */
    put_file(blob, "x");
    put_file("snapshots/0123456789abcdef0123456789abcdef.json", "{");
    assert_int_equal(image_gc(data_dir, 0, true, &g, &e), -1);
    assert_int_equal(e.kind, ERROR_CORRUPT);
    assert_true(there(blob));
    int lock = store_lock(data_dir, false, true, NULL);
    assert_int_equal(image_gc(data_dir, 0, false, &g, &e), -1);
    assert_int_equal(e.kind, ERROR_STATE);
    close(lock);
}

static void half_a_layer_is_none(void **state)
{
    char layer[PATH_MAX];
    snprintf(layer, sizeof layer, "layers/%s", hex);
    assert_int_equal(mkdir(at(layer), 0700), 0);
    assert_null(snapshot_layer_dir(data_dir, hex));
    snprintf(layer, sizeof layer, "layers/%s/layer.json", hex);
    put_file(layer, "{\"boot\": \"another boot\"}"); /* its files may never have reached the disk */
    assert_null(snapshot_layer_dir(data_dir, hex));
    put_file(layer, "{");
    assert_null(snapshot_layer_dir(data_dir, hex));
    put_file(layer, "{}");
    char *dir = snapshot_layer_dir(data_dir, hex);
    assert_non_null(dir);
    free(dir);
    assert_null(snapshot_layer_dir(data_dir, "../../etc"));
}

static void reserved_names(void **state)
{
    struct built_image built;
    struct error e = {0};
    import_text("x", "1");
    assert_int_equal(image_import(&builder, at("input.tar"), "host", NULL, &built, &e), -1);
    assert_string_equal(e.field, "name");
    assert_int_equal(image_import(&builder, at("input.tar"), "sha256:abc", NULL, &built, &e), -1);
    assert_int_equal(image_import(&builder, at("input.tar"), "../x", NULL, &built, &e), -1);
    assert_int_equal(image_import(&builder, at("absent.tar"), "y", NULL, &built, &e), -1);
    assert_int_equal(e.errnum, ENOENT);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(names),          T(host),
        T(resolving),      T(aliases),
        T(snapshots),      T(listing_and_removing),
        T(collecting),     T(snapshot_keeps_its_image),
        T(reserved_names), T(half_a_layer_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
