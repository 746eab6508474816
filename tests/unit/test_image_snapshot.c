/* Packing and unpacking of snapshots: exclude patterns (case C019), round trips, merging, damage. */
#include "testing.h"

#include "../image/archive.h"
#include "base/fd.h"
#include "image/exclude.h"
#include "image/layer_store.h"
#include "image/snapshot_build.h"
#include "image/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct progress quiet;
static struct image_builder builder;
static char data_dir[256], tree[256], other[256];

static int setup(void **state)
{
    int a = fresh_dir(data_dir), b = fresh_dir(tree), c = fresh_dir(other);
    builder.data_dir = data_dir;
    builder.progress = &quiet;
    progress_init(&quiet, "none");
    if (a < 0 || b < 0 || c < 0 || image_limits_load(&builder.limits, NULL) < 0)
        return -1;
    close(a);
    close(b);
    close(c);
    return store_prepare(data_dir, NULL);
}

static int teardown(void **state)
{
    drop_dir(data_dir);
    drop_dir(tree);
    drop_dir(other);
    return 0;
}

static char *at(const char *top, const char *name)
{
    static char paths[4][8192];
    static unsigned turn;
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", top, name);
    return p;
}

static void put(const char *top, const char *name, const char *text)
{
    char dir[8192];
    snprintf(dir, sizeof dir, "%s/%s", top, name);
    *strrchr(dir, '/') = '\0';
    assert_int_equal(dir_make(dir, 0755, NULL), 0);
    int fd = open(at(top, name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static char *get(const char *top, const char *name)
{
    static char text[4096];
    char *t = NULL;
    if (file_slurp(AT_FDCWD, at(top, name), sizeof text - 1, &t, NULL, NULL) < 0)
        return NULL;
    snprintf(text, sizeof text, "%s", t);
    free(t);
    return text;
}

static bool there(const char *top, const char *name)
{
    struct stat st;
    return lstat(at(top, name), &st) == 0;
}

static struct packed_layer pack(const char *upper, const char *const *below, size_t below_count,
                                const char *const *excludes, size_t exclude_count)
{
    const struct snapshot_pack s = {.upper = upper,
                                    .below = below,
                                    .below_count = below_count,
                                    .userns = -1,
                                    .excludes = excludes,
                                    .exclude_count = exclude_count};
    struct packed_layer p;
    struct error e = {0};
    if (snapshot_pack(&builder, &s, &p, &e) < 0)
        fail_msg("%s", e.message);
    return p;
}

static int add(const char *hex, char layer[512], struct error *e)
{
    char path[600], text[80];
    struct layer_done done;
    snprintf(path, sizeof path, "%s/blobs/sha256/%s", data_dir, hex);
    struct layer_request q = {.fd = open(path, O_RDONLY | O_CLOEXEC),
                              .blob_size = BLOB_SIZE_UNKNOWN,
                              .chain = "",
                              .snapshot = true,
                              .bytes_left = builder.limits.layer_bytes};
    snprintf(text, sizeof text, "sha256:%s", hex);
    assert_true(q.fd >= 0);
    assert_int_equal(digest_parse(text, "digest", &q.blob, NULL), 0);
    int r = layer_store_add(data_dir, &builder.limits, &q, NULL, &done, e);
    close(q.fd);
    if (r == 0)
        snprintf(layer, 512, "%s/layers/%s/fs", data_dir, done.name);
    return r;
}

static void patterns(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool dir, match;
    } cases[] = {
        {"vendor", "vendor", true, true},
        {"vendor", "a/b/vendor", true, true},
        {"vendor", "src/vendor_notes.txt", false, false},
        {"*.o", "a/b.o", false, true},
        {"/top", "top", false, true},
        {"/top", "a/top", false, false},
        {".tools/mods/*/vendor", ".tools/mods/a/vendor", true, true},
        {".tools/mods/*/vendor", ".tools", true, false},
        {".tools/mods/*/vendor", ".tools/mods", true, false},
        {".tools/mods/*/vendor", ".tools/mods/b/deep/vendor", true, false},
        {".tools/mods/**/vendor", ".tools/mods/b/deep/vendor", true, true},
        {".tools/mods/**/vendor", ".tools/mods/vendor", true, true},
        {"**/x", "x", false, true},
        {"a/**", "a/b/c", false, true},
        {"a/**", "b", false, false},
        {"logs/", "a/logs", true, true},
        {"logs/", "a/logs", false, false},
        {"a/logs/", "a/logs", true, true},
        {"[ab]", "b", false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (exclude_matches(&cases[i].pattern, 1, cases[i].path, cases[i].dir) != cases[i].match)
            fail_msg("%s against %s", cases[i].pattern, cases[i].path);
    static const char *const bad[] = {"", "/", "//", "a/../b", "./a", "**/**/**/**/**/x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        assert_int_equal(exclude_check(bad[i], &e), -1);
        assert_string_equal(e.field, "exclude");
    }
}

static void case_c019(void **state)
{
    static const char *const files[] = {".tools/state.json",
                                        ".tools/mods/a/page.md",
                                        ".tools/mods/a/vendor/m.js",
                                        ".tools/mods/b/deep/vendor/n.js",
                                        "vendor/x.js",
                                        "src/main.js",
                                        "src/vendor_notes.txt",
                                        "run.sh"};
    static const char *const excludes[] = {"vendor", ".tools/mods/*/vendor"};
    char layer[512], to[64] = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        put(tree, files[i], files[i]);
    assert_int_equal(symlink("../.tools/state.json", at(tree, "src/link")), 0);
    assert_int_equal(mkdir(at(tree, "empty"), 0755), 0);
    assert_int_equal(chmod(at(tree, "run.sh"), 0750), 0);
    struct packed_layer p = pack(tree, NULL, 0, excludes, 2);
    assert_int_equal(p.excluded, 3);
    assert_int_equal(add(p.digest, layer, NULL), 0);
    static const char *const present[] = {".tools/state.json", ".tools/mods/a/page.md", "src/main.js",
                                          "src/vendor_notes.txt", "run.sh"};
    for (size_t i = 0; i < sizeof present / sizeof *present; i++)
        assert_string_equal(get(layer, present[i]), present[i]);
    assert_true(readlink(at(layer, "src/link"), to, sizeof to - 1) > 0);
    assert_string_equal(to, "../.tools/state.json");
    assert_true(there(layer, "empty") && there(layer, ".tools/mods/b/deep"));
    assert_false(there(layer, "vendor") || there(layer, ".tools/mods/a/vendor"));
    assert_false(there(layer, ".tools/mods/b/deep/vendor")); /* a bare name matches at any depth */
    struct stat st;
    assert_int_equal(stat(at(layer, "run.sh"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
}

static void names_that_look_like_whiteouts(void **state)
{
    char layer[512], longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    put(tree, ".wh.plain", "p");
    put(tree, ".wh.dir/.wh..wh..opq", "q");
    assert_int_equal(mknod(at(tree, ".wh.hidden"), S_IFCHR, 0), 0);
    assert_int_equal(mknod(at(tree, longest), S_IFCHR, 0), 0);
    assert_int_equal(mknod(at(tree, "usual"), S_IFCHR, 0), 0);
    struct packed_layer p = pack(tree, NULL, 0, NULL, 0);
    assert_int_equal(add(p.digest, layer, NULL), 0);
    assert_string_equal(get(layer, ".wh.plain"), "p");
    assert_string_equal(get(layer, ".wh.dir/.wh..wh..opq"), "q");
    const char *const hidden[] = {".wh.hidden", longest, "usual"};
    for (size_t i = 0; i < 3; i++) {
        struct stat st;
        assert_int_equal(lstat(at(layer, hidden[i]), &st), 0);
        assert_true(S_ISCHR(st.st_mode) && st.st_rdev == 0);
    }
    assert_false(there(layer, "plain"));
}

static void long_and_odd_names(void **state)
{
    char layer[512], target[4096], to[4096] = {0}, part[200];
    memset(part, 'p', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    snprintf(target, sizeof target, "../%s/u\xcc\x88/\xff\xfe", part);
    put(tree, "u\xcc\x88", "decomposed");
    put(tree, "\xc3\xbc", "composed");
    put(tree, "\xff\xfe\n", "bytes");
    assert_int_equal(symlink(target, at(tree, "long")), 0);
    assert_int_equal(symlink("\xff/u\xcc\x88", at(tree, "short")), 0);
    char deep[1000];
    snprintf(deep, sizeof deep, "%s/%s/file", part, part);
    put(tree, deep, "deep");
    assert_int_equal(link(at(tree, deep), at(tree, "hard")), 0);
    struct packed_layer p = pack(tree, NULL, 0, NULL, 0);
    assert_int_equal(add(p.digest, layer, NULL), 0);
    assert_string_equal(get(layer, "u\xcc\x88"), "decomposed");
    assert_string_equal(get(layer, "\xc3\xbc"), "composed");
    assert_string_equal(get(layer, "\xff\xfe\n"), "bytes");
    assert_string_equal(get(layer, deep), "deep");
    assert_true(readlink(at(layer, "long"), to, sizeof to - 1) > 0);
    assert_string_equal(to, target);
    memset(to, 0, sizeof to);
    assert_true(readlink(at(layer, "short"), to, sizeof to - 1) > 0);
    assert_string_equal(to, "\xff/u\xcc\x88");
    struct stat a, b;
    assert_int_equal(stat(at(layer, "hard"), &a), 0);
    assert_int_equal(stat(at(layer, deep), &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
}

static void the_same_twice(void **state)
{
    put(tree, "a/b", "1");
    put(tree, "c", "2");
    struct packed_layer first = pack(tree, NULL, 0, NULL, 0), second = pack(tree, NULL, 0, NULL, 0);
    assert_string_equal(first.digest, second.digest);
    put(tree, "c", "3");
    second = pack(tree, NULL, 0, NULL, 0);
    assert_string_not_equal(first.digest, second.digest);
}

static void merging(void **state)
{
    char bottom[512], merged[512], v[4];
    put(other, "kept", "old");
    put(other, "changed", "old");
    put(other, "removed", "old");
    put(other, "dir/old", "old");
    put(other, "again/old", "old");
    struct packed_layer p = pack(other, NULL, 0, NULL, 0);
    assert_int_equal(add(p.digest, bottom, NULL), 0);
    put(tree, "changed", "new");
    put(tree, "dir/new", "new");
    put(tree, "again/new", "new");
    assert_int_equal(setxattr(at(tree, "again"), "user.overlay.opaque", "y", 1, 0), 0);
    assert_int_equal(mknod(at(tree, "removed"), S_IFCHR, 0), 0);
    const char *const below[] = {bottom};
    p = pack(tree, below, 1, NULL, 0);
    assert_int_equal(add(p.digest, merged, NULL), 0);
    assert_string_equal(get(merged, "kept"), "old");
    assert_string_equal(get(merged, "changed"), "new");
    assert_string_equal(get(merged, "dir/old"), "old");
    assert_string_equal(get(merged, "dir/new"), "new");
    assert_string_equal(get(merged, "again/new"), "new");
    assert_false(there(merged, "again/old"));
    assert_int_equal(getxattr(at(merged, "again"), "user.overlay.opaque", v, sizeof v), 1);
    struct stat st;
    assert_int_equal(lstat(at(merged, "removed"), &st), 0);
    assert_true(S_ISCHR(st.st_mode)); /* the image below may still have it */
}

static size_t entries_of(const char *name)
{
    size_t n = 0;
    DIR *d = opendir(at(data_dir, name));
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void damage_is_found(void **state)
{
    char layer[512];
    struct error e = {0};
    put(tree, "file", "some text that will be damaged in its packed form");
    struct packed_layer p = pack(tree, NULL, 0, NULL, 0);
    char *blob = strdup(at(data_dir, "blobs/sha256"));
    char path[700];
    snprintf(path, sizeof path, "%s/%s", blob, p.digest);
    free(blob);
    assert_int_equal(chmod(path, 0600), 0);
    for (off_t i = 0; i < (off_t)p.size; i += 7) {
        char c, flipped;
        int fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, &c, 1, i), 1);
        flipped = (char)(c ^ 0x10);
        assert_int_equal(pwrite(fd, &flipped, 1, i), 1);
        assert_int_equal(add(p.digest, layer, &e), -1);
        assert_int_equal(pwrite(fd, &c, 1, i), 1);
        close(fd);
    }
    for (off_t len = 0; len < (off_t)p.size; len += 11) {
        char copy[8192];
        int fd = open(path, O_RDWR);
        ssize_t n = read(fd, copy, sizeof copy);
        assert_int_equal(ftruncate(fd, len), 0);
        assert_int_equal(add(p.digest, layer, &e), -1);
        assert_int_equal(pwrite(fd, copy, (size_t)n, 0), n);
        close(fd);
    }
    assert_int_equal(entries_of("layers"), 0);
    assert_int_equal(entries_of("tmp"), 0);
    assert_int_equal(add(p.digest, layer, &e), 0);
}

static void from_tar(void **state)
{
    static const struct member members[] = {
        {"./", '5', .mode = 0750},      {"./keep", .data = "1", .uid = 0},   {"./.wh.x", .data = "literal"},
        {"./node_modules/", '5'},       {"./node_modules/big", .data = "2"}, {"./dev", '3'},
        {"./ln", '1', .link = "./keep"}};
    static const char *const excludes[] = {"node_modules"};
    char layer[512];
    struct buf b;
    struct packed_layer p;
    struct error e = {0};
    buf_init(&b, 0);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        archive_add(&b, &members[i]);
    archive_end(&b);
    int fd = memfd_create("tar", MFD_CLOEXEC);
    assert_int_equal(fd_write_all(fd, b.data, b.len), 0);
    lseek(fd, 0, SEEK_SET);
    buf_free(&b);
    if (snapshot_from_tar(&builder, fd, excludes, 1, &p, &e) < 0)
        fail_msg("%s", e.message);
    close(fd);
    assert_int_equal(p.excluded, 2);
    assert_int_equal(p.skipped, 1);
    assert_int_equal(add(p.digest, layer, NULL), 0);
    assert_string_equal(get(layer, ".wh.x"), "literal");
    assert_string_equal(get(layer, "ln"), "1");
    assert_false(there(layer, "node_modules"));
}

static void from_hostile_tar(void **state)
{
    static const struct member bad[] = {
        {"../up", .data = "x"}, {"a/../../b", .data = "x"}, {"l", '1', .link = "../../etc/passwd"}};
    for (size_t i = 0; i < 3; i++) {
        struct packed_layer p;
        struct error e = {0};
        struct buf b;
        buf_init(&b, 0);
        archive_add(&b, &bad[i]);
        archive_end(&b);
        int fd = memfd_create("tar", MFD_CLOEXEC);
        assert_int_equal(fd_write_all(fd, b.data, b.len), 0);
        lseek(fd, 0, SEEK_SET);
        buf_free(&b);
        assert_int_equal(snapshot_from_tar(&builder, fd, NULL, 0, &p, &e), -1);
        assert_non_null(strstr(e.message, "leads upwards"));
        close(fd);
    }
    assert_int_equal(entries_of("tmp"), 0);
    assert_int_equal(entries_of("blobs/sha256"), 0);
}

static void depth_is_bounded(void **state)
{
    struct error e = {0};
    struct packed_layer p;
    int fd = open(tree, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
    }
    close(fd);
    const struct snapshot_pack s = {.upper = tree, .userns = -1};
    assert_int_equal(snapshot_pack(&builder, &s, &p, &e), -1);
    assert_non_null(strstr(e.message, "levels deep"));
    assert_int_equal(entries_of("tmp"), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns), T(case_c019),      T(names_that_look_like_whiteouts),
        T(long_and_odd_names),      T(the_same_twice), T(merging),
        T(damage_is_found),         T(from_tar),       T(from_hostile_tar),
        T(depth_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
