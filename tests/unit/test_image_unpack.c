/* Layers as an attacker writes them (catalogue group D, case C011). Every refusal has its legal twin. */
#include "testing.h"

#include "../image/archive.h"
#include "base/fd.h"
#include "image/layer_path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct image_limits limits;
static struct unpack_options options = {.limits = &limits};

struct box {
    char path[256];
    struct unpack_result r;
    struct error err;
    int status;
};

static void unpack(struct box *b, const struct member *m, size_t n)
{
    memset(b, 0, sizeof *b);
    b->status = unpack_members(m, n, &options, b->path, &b->r, &b->err);
}
#define UNPACK(b, ...)                                                                                       \
    unpack(b, (const struct member[]){__VA_ARGS__},                                                          \
           sizeof((const struct member[]){__VA_ARGS__}) / sizeof(struct member))

static void accept(struct box *b)
{
    if (b->status < 0)
        print_error("%s\n", b->err.message);
    assert_int_equal(b->status, 0);
}

static void refuse(struct box *b, const char *words)
{
    assert_int_equal(b->status, -1);
    if (!strstr(b->err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", b->err.message, words);
    drop_dir(b->path);
}

static char *full(const struct box *b, const char *name)
{
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", b->path, name);
    return path;
}

static struct stat look(const struct box *b, const char *name)
{
    struct stat st;
    if (lstat(full(b, name), &st) < 0)
        fail_msg("%s is missing", name);
    return st;
}

static void assert_absent(const struct box *b, const char *name)
{
    assert_int_equal(access(full(b, name), F_OK), -1);
}

static void assert_text(const struct box *b, const char *name, const char *want)
{
    char *text = NULL;
    assert_int_equal(file_slurp(AT_FDCWD, full(b, name), 4096, &text, NULL, NULL), 0);
    assert_string_equal(text, want);
    free(text);
}

static void assert_link(const struct box *b, const char *name, const char *want)
{
    char to[4096] = {0};
    assert_true(readlink(full(b, name), to, sizeof to - 1) > 0);
    assert_string_equal(to, want);
}

static bool opaque(const struct box *b, const char *name)
{
    char v[4];
    return getxattr(full(b, name), "user.overlay.opaque", v, sizeof v) == 1 && v[0] == 'y';
}

static bool whiteout(const struct box *b, const char *name)
{
    struct stat st = look(b, name);
    return S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

/* ---- D1: names ---- */

static void names_upwards(void **state)
{
    struct box b;
    UNPACK(&b, {"../../../../tmp/case-outside/up.txt", .data = "a"});
    refuse(&b, "entry \"../../../../tmp/case-outside/up.txt\" leads upwards");
    UNPACK(&b, {"a/", '5'}, {"a/../../b", .data = "a"});
    refuse(&b, "leads upwards");
    UNPACK(&b, {"a/..", '5'});
    refuse(&b, "leads upwards");
    UNPACK(&b, {"..", '5'});
    refuse(&b, "leads upwards");
    UNPACK(&b, {"/../x", .data = "a"});
    refuse(&b, "leads upwards");
    UNPACK(&b, {"...", .data = "dots"}, {"..a", .data = "x"}, {"a..", .data = "y"});
    accept(&b);
    assert_text(&b, "...", "dots");
    drop_dir(b.path);
}

static void names_absolute_lie_in_the_root(void **state)
{
    struct box b;
    UNPACK(&b, {"/abs.txt", .data = "c"}, {"//deep///er/./x", .data = "d"}, {"./", '5'});
    accept(&b);
    assert_text(&b, "abs.txt", "c");
    assert_text(&b, "deep/er/x", "d");
    drop_dir(b.path);
}

static void names_odd_bytes(void **state)
{
    struct box b;
    UNPACK(&b, {"non\xff\xfeutf8", .data = "1"}, {"new\nline", .data = "2"}, {"\xc3\xbcml", .data = "3"},
           {"x", .data = "4", .pax = "path=p\xc3\xa4th\n"});
    accept(&b);
    assert_text(&b, "non\xff\xfeutf8", "1");
    assert_text(&b, "new\nline", "2");
    assert_text(&b, "\xc3\xbcml", "3");
    assert_text(&b, "p\xc3\xa4th", "4");
    drop_dir(b.path);
    UNPACK(&b, {"", .data = "empty"});
    assert_int_equal(b.status, -1);
    drop_dir(b.path);
}

static void limit_names(void **state)
{
    struct box b;
    char *pax = malloc(70000), part[300];
    memset(part, 'n', sizeof part);
    snprintf(pax, 70000, "path=%.256s\n", part);
    UNPACK(&b, {"x", .data = "1", .pax = pax});
    refuse(&b, "longer than 255 bytes");
    memset(pax, 'a', 66000);
    memcpy(pax, "path=", 5);
    memcpy(pax + 66000, "\n", 2);
    UNPACK(&b, {"x", .data = "1", .pax = pax});
    refuse(&b, "longer than 4096 bytes");
    char *p = pax + sprintf(pax, "path=");
    for (int i = 0; i < 257; i++)
        p += sprintf(p, "d/");
    sprintf(p, "f\n");
    UNPACK(&b, {"x", .data = "1", .pax = pax});
    refuse(&b, "directories deep");
    p = pax + sprintf(pax, "path=");
    for (int i = 0; i < 255; i++)
        p += sprintf(p, "d/");
    sprintf(p, "f\n");
    UNPACK(&b, {"x", .data = "1", .pax = pax});
    accept(&b);
    drop_dir(b.path);
    free(pax);
}

/* Two names that look the same stay two; libarchive by itself would make one of them. */
static void names_are_bytes(void **state)
{
    struct box b;
    UNPACK(&b, {"x", .data = "composed", .pax = "path=\xc3\xbc\n"},
           {"x", .data = "decomposed", .pax = "path=u\xcc\x88\n"},
           {"x", .data = "latin", .pax = "path=\xfc\n"}, {"x", .data = "other", .pax = "path=\xfd\n"},
           {"l", '2', .pax = "linkpath=u\xcc\x88\n"});
    accept(&b);
    assert_text(&b, "\xc3\xbc", "composed");
    assert_text(&b, "u\xcc\x88", "decomposed");
    assert_text(&b, "\xfc", "latin");
    assert_text(&b, "\xfd", "other");
    assert_link(&b, "l", "u\xcc\x88");
    drop_dir(b.path);
}

static void names_with_nul(void **state)
{
    static const char record[] = "16 path=a\0/../b\n";
    struct box b = {0};
    struct buf t;
    struct memory_source s;
    const struct member x = {"x", 'x', .data = "16 path=a#/../b\n"}, f = {"f", .data = "1"};
    buf_init(&t, 0);
    archive_add(&t, &x);
    memcpy(t.data + 512, record, sizeof record);
    t.data[512 + 9] = '\0';
    archive_add(&t, &f);
    archive_end(&t);
    memory_source_init(&s, t.data, t.len);
    int root = fresh_dir(b.path);
    b.status = layer_unpack(root, &s.source, &options, &b.r, &b.err);
    close(root);
    buf_free(&t);
    refuse(&b, "a name holds a NUL byte");
}

/* ---- D2: symbolic links as parents ---- */

static char outside[256];

static void links_stay_inside(void **state)
{
    struct box b;
    int fd = fresh_dir(outside);
    UNPACK(&b, {"door", '2', .link = outside}, {"door/in.txt", .data = "b"},
           {"up", '2', .link = "../../../../../.."}, {"up/top.txt", .data = "t"});
    accept(&b);
    char inside[600];
    snprintf(inside, sizeof inside, "%s/in.txt", outside + 1);
    assert_text(&b, inside, "b"); /* below the layer's root */
    assert_text(&b, "top.txt", "t");
    assert_int_equal(faccessat(fd, "in.txt", F_OK, 0), -1);
    drop_dir(b.path);
    close(fd);
    drop_dir(outside);
}

static void links_loop(void **state)
{
    struct box b;
    UNPACK(&b, {"a", '2', .link = "b"}, {"b", '2', .link = "a"}, {"a/f", .data = "x"});
    refuse(&b, "a");
    UNPACK(&b, {"f", .data = "x"}, {"f/g", .data = "y"});
    refuse(&b, "is not a directory");
}

static void links_are_kept(void **state)
{
    struct box b;
    UNPACK(&b, {"usr/lib", '5'}, {"usr/lib/x.so", .data = "d"}, {"lib64", '2', .link = "../../../usr/lib"},
           {"lib64/y.so", .data = "e"});
    accept(&b);
    assert_link(&b, "lib64", "../../../usr/lib");
    assert_text(&b, "usr/lib/y.so", "e");
    drop_dir(b.path);
}

/* ---- hard links ---- */

static void hard_links(void **state)
{
    struct box b;
    UNPACK(&b, {"peek", '1', .link = "../../../../../../etc/hostname"});
    refuse(&b, "leads upwards");
    UNPACK(&b, {"peek", '1', .link = "/etc/hostname"});
    refuse(&b, "which is no file of this layer");
    UNPACK(&b, {"d", '5'}, {"x", '1', .link = "d"});
    refuse(&b, "which is no file of this layer");
    UNPACK(&b, {".wh.gone"}, {"x", '1', .link = "gone"});
    refuse(&b, "which is no file of this layer");
    UNPACK(&b, {"door", '2', .link = "/"}, {"a", .data = "1"}, {"x", '1', .link = "door/a"},
           {"y", '1', .link = "a"}, {"a", '1', .link = "a"});
    accept(&b);
    assert_int_equal(look(&b, "x").st_ino, look(&b, "a").st_ino);
    assert_int_equal(look(&b, "a").st_nlink, 3);
    drop_dir(b.path);
}

/* ---- D4: whiteouts ---- */

static void whiteouts(void **state)
{
    struct box b;
    UNPACK(&b, {"d/", '5'}, {"d/.wh.f"}, {"o/", '5'}, {"o/.wh..wh..opq"}, {".wh.dev"});
    accept(&b);
    assert_true(whiteout(&b, "d/f"));
    assert_true(whiteout(&b, "dev"));
    assert_true(opaque(&b, "o"));
    assert_false(opaque(&b, "d"));
    assert_false(b.r.opaque_root);
    drop_dir(b.path);
    UNPACK(&b, {".wh..wh..opq"}, {"new", .data = "n"});
    accept(&b);
    assert_true(b.r.opaque_root);
    drop_dir(b.path);
}

static void whiteouts_in_any_order(void **state)
{
    struct box b;
    UNPACK(&b, {".wh.a"}, {"a/", '5'}, {"a/new", .data = "1"}, {"b/", '5'}, {"b/new", .data = "2"}, {".wh.b"},
           {".wh.c"}, {"c/implied", .data = "3"}, {".wh.f"}, {"f", .data = "4"}, {"g", .data = "5"},
           {".wh.g"});
    accept(&b);
    assert_true(opaque(&b, "a") && opaque(&b, "b") && opaque(&b, "c"));
    assert_text(&b, "a/new", "1");
    assert_text(&b, "b/new", "2");
    assert_text(&b, "c/implied", "3");
    assert_text(&b, "f", "4");
    assert_text(&b, "g", "5");
    drop_dir(b.path);
}

static void whiteouts_odd(void **state)
{
    struct box b;
    UNPACK(&b, {".wh."});
    refuse(&b, "names nothing that can be removed");
    UNPACK(&b, {"d/", '5'}, {"d/.wh.."});
    refuse(&b, "names nothing that can be removed");
    UNPACK(&b, {"d/", '5'}, {"d/.wh..."});
    refuse(&b, "names nothing that can be removed");
    UNPACK(&b, {"a", .data = "x"}, {".wh.x", '1', .link = "a"});
    refuse(&b, "is not a regular file");
    UNPACK(&b, {".wh.x", '2', .link = "a"});
    refuse(&b, "is not a regular file");
    UNPACK(&b, {"real/", '5'}, {"s", '2', .link = "real"}, {"s/.wh.x"});
    refuse(&b, "symbolic link");
    UNPACK(&b, {"s", '2', .link = "/"}, {"s/.wh..wh..opq"});
    refuse(&b, "symbolic link");
    UNPACK(&b, {".wh..wh.aufs"}, {".wh..wh.plnk", '5'}, {"f", .data = "x"});
    accept(&b);
    assert_int_equal(b.r.skipped, 2);
    drop_dir(b.path);
}

/* ---- D5: special files and attributes ---- */

static void devices_are_skipped(void **state)
{
    struct box b;
    UNPACK(&b, {"null", .data = "mine"}, {"null", '3'}, {"disk", '4'}, {"fifo", '6'}, {"after", .data = "x"});
    accept(&b);
    assert_text(&b, "null", "mine");
    assert_absent(&b, "disk");
    assert_absent(&b, "fifo");
    assert_int_equal(b.r.skipped, 3);
    assert_text(&b, "after", "x");
    drop_dir(b.path);
}

static void attributes(void **state)
{
    struct box b;
    UNPACK(&b,
           {"f", .data = "x", .mode = 04755,
            .pax = "SCHILY.xattr.user.ok=yes\nSCHILY.xattr.trusted.overlay.opaque=y\nSCHILY.xattr.user."
                   "overlay.redirect=/etc\n"
                   "SCHILY.xattr.security.capability=abc\nSCHILY.xattr.system.posix_acl_access=q\nmtime="
                   "981173106.123456789\n"},
           {"d", '5', .mode = 0555, .pax = "SCHILY.xattr.user.overlay.opaque=y\nmtime=5\n"},
           {"d/in", .data = "y"});
    accept(&b);
    char v[16];
    assert_int_equal(getxattr(full(&b, "f"), "user.ok", v, sizeof v), 3);
    assert_int_equal(getxattr(full(&b, "f"), "user.overlay.redirect", v, sizeof v), -1);
    assert_int_equal(getxattr(full(&b, "f"), "security.capability", v, sizeof v), -1);
    assert_int_equal(listxattr(full(&b, "f"), NULL, 0), sizeof "user.ok");
    assert_false(opaque(&b, "d"));
    assert_int_equal(b.r.xattrs_dropped, 5);
    struct stat st = look(&b, "f");
    assert_int_equal(st.st_mode & 07777, 04755);
    assert_int_equal(st.st_mtim.tv_sec, 981173106);
    assert_int_equal(st.st_mtim.tv_nsec, 123456789);
    st = look(&b, "d");
    assert_int_equal(st.st_mode & 07777, 0555);
    assert_int_equal(st.st_mtim.tv_sec, 5);
    drop_dir(b.path);
}

static void attributes_too_large(void **state)
{
    struct box b;
    char *pax = malloc(80000);
    size_t n = (size_t)sprintf(pax, "SCHILY.xattr.user.big=");
    memset(pax + n, 'v', 70000);
    strcpy(pax + n + 70000, "\n");
    UNPACK(&b, {"f", .data = "x", .pax = pax});
    refuse(&b, "extended attributes are larger");
    free(pax);
}

static void owners(void **state)
{
    struct box b;
    UNPACK(&b, {"f", .data = "x", .uid = 12345, .gid = 54321}, {"d", '5', .uid = 7},
           {"l", '2', .link = "f", .uid = 8});
    accept(&b);
    bool root = geteuid() == 0;
    assert_int_equal(look(&b, "f").st_uid, root ? 12345 : geteuid());
    assert_int_equal(look(&b, "f").st_gid, root ? 54321 : getegid());
    assert_int_equal(look(&b, "d").st_uid, root ? 7 : geteuid());
    assert_int_equal(look(&b, "l").st_uid, root ? 8 : geteuid());
    assert_int_equal(b.r.squashed, !root);
    drop_dir(b.path);
    UNPACK(&b, {"f", .data = "x", .pax = "uid=99999999999\n"});
    refuse(&b, "impossible owner");
    UNPACK(&b, {"f", .data = "x", .pax = "uid=-1\n"});
    assert_int_equal(b.status, -1);
    drop_dir(b.path);
}

/* ---- D6, D8: too much ---- */

static void sparse_terabyte(void **state)
{
    struct box b;
    static const char pax[] =
        "GNU.sparse.major=1\nGNU.sparse.minor=0\nGNU.sparse.name=huge\nGNU.sparse.realsize=1099511627776\n";
    UNPACK(&b, {"x", .data = "1\n1099511627776\n0\n", .size = 512, .pax = pax});
    refuse(&b, "more than the limit of 34359738368 bytes");
    static const char small[] =
        "GNU.sparse.major=1\nGNU.sparse.minor=0\nGNU.sparse.name=small\nGNU.sparse.realsize=1048576\n";
    UNPACK(&b, {"x", .data = "1\n1048576\n0\n", .size = 512, .pax = small});
    accept(&b);
    assert_int_equal(look(&b, "small").st_size, 1048576);
    assert_int_equal(look(&b, "small").st_blocks, 0);
    drop_dir(b.path);
}

static void total_bytes(void **state)
{
    struct box b;
    limits.layer_bytes = 10;
    UNPACK(&b, {"a", .data = "123456"}, {"b", .data = "1234"});
    accept(&b);
    drop_dir(b.path);
    UNPACK(&b, {"a", .data = "123456"}, {"b", .data = "12345"});
    refuse(&b, "entry \"b\": the layer's files hold more than the limit of 10 bytes");
    image_limits_load(&limits, NULL);
}

static void total_entries(void **state)
{
    struct box b;
    limits.layer_entries = 3;
    UNPACK(&b, {"a"}, {"b"}, {"c"});
    accept(&b);
    drop_dir(b.path);
    UNPACK(&b, {"a"}, {"b"}, {"c"}, {"d"});
    refuse(&b, "more than the limit of 3 entries");
    image_limits_load(&limits, NULL);
}

/* ---- duplicates ---- */

static void last_one_wins(void **state)
{
    struct box b;
    UNPACK(&b, {"x", .data = "1"}, {"x", .data = "2"}, {"d/", '5'}, {"d/in", .data = "i"},
           {"d", .data = "file now"}, {"e", .data = "f"}, {"e/", '5'}, {"e/in", .data = "j"},
           {"s", '2', .link = "/etc"}, {"s", '5'}, {"s/in", .data = "k"}, {"t", .data = "t"},
           {"t", '2', .link = "x"}, {"u/v", '5'}, {"u/v/w", .data = "w"}, {"u", '2', .link = "e"},
           {"u/z", .data = "z"});
    accept(&b);
    assert_text(&b, "x", "2");
    assert_text(&b, "d", "file now");
    assert_text(&b, "e/in", "j");
    assert_text(&b, "s/in", "k");
    assert_link(&b, "t", "x");
    assert_text(&b, "e/z", "z");
    drop_dir(b.path);
}

/* ---- broken archives ---- */

static void broken(void **state)
{
    struct box b;
    struct memory_source s;
    static const char junk[2048] = "this is no tar";
    int root = fresh_dir(b.path);
    memory_source_init(&s, junk, sizeof junk);
    assert_int_equal(layer_unpack(root, &s.source, &options, &b.r, &b.err), -1);
    assert_non_null(strstr(b.err.message, "not a valid tar"));
    close(root);
    drop_dir(b.path);
    UNPACK(&b, {"cut", .data = "x", .size = 100000});
    refuse(&b, "not a valid tar");
}

/* ---- parents that only layers below have ---- */

static void parents_from_below(void **state)
{
    struct box low, b;
    UNPACK(&low, {"tmp/", '5', .mode = 01777, .uid = 3}, {"usr/lib/", '5'}, {"lib", '2', .link = "usr/lib"});
    accept(&low);
    int fd = open(low.path, O_RDONLY | O_DIRECTORY);
    options.lowers = &fd;
    options.lower_count = 1;
    UNPACK(&b, {"tmp/x", .data = "1"}, {"lib/y.so", .data = "2"});
    accept(&b);
    assert_int_equal(look(&b, "tmp").st_mode & 07777, 01777);
    assert_int_equal(look(&b, "tmp").st_mtim.tv_sec, 1000000000);
    assert_text(&b, "usr/lib/y.so", "2");
    assert_absent(&b, "lib");
    assert_true(b.r.implied >= 2);
    drop_dir(b.path);
    UNPACK(&b, {"lib/.wh.y.so"});
    refuse(&b, "symbolic link");
    options.lowers = NULL;
    options.lower_count = 0;
    close(fd);
    drop_dir(low.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_upwards),
        cmocka_unit_test(names_absolute_lie_in_the_root),
        cmocka_unit_test(names_odd_bytes),
        cmocka_unit_test(names_are_bytes),
        cmocka_unit_test(names_with_nul),
        cmocka_unit_test(limit_names),
        cmocka_unit_test(links_stay_inside),
        cmocka_unit_test(links_loop),
        cmocka_unit_test(links_are_kept),
        cmocka_unit_test(hard_links),
        cmocka_unit_test(whiteouts),
        cmocka_unit_test(whiteouts_in_any_order),
        cmocka_unit_test(whiteouts_odd),
        cmocka_unit_test(devices_are_skipped),
        cmocka_unit_test(attributes),
        cmocka_unit_test(attributes_too_large),
        cmocka_unit_test(owners),
        cmocka_unit_test(sparse_terabyte),
        cmocka_unit_test(total_bytes),
        cmocka_unit_test(total_entries),
        cmocka_unit_test(last_one_wins),
        cmocka_unit_test(broken),
        cmocka_unit_test(parents_from_below),
    };
    if (image_limits_load(&limits, NULL) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
