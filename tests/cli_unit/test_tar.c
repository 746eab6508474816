/* src/cli/tar_write.c, tar_read.c and beneath.c: what is packed comes back, and hostile archives stay inside.
 */
#include "cli/beneath.h"
#include "cli/tar_read.h"
#include "cli/tar_write.h"
#include "testing.h"

#include "base/buf.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory of its own for each test, which is also the working directory; "in" is where archives go. */
struct place {
    char dir[64];
    int in;
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    strcpy(p->dir, "/tmp/cloister-tar.XXXXXX");
    if (!mkdtemp(p->dir) || chdir(p->dir) < 0 || mkdir("in", 0755) < 0)
        return -1;
    p->in = open("in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = p;
    return p->in < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    close(p->in);
    int r = chdir("/") || dir_remove(AT_FDCWD, p->dir, NULL);
    free(p);
    return r;
}

static void put(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
    close(fd);
}

static bool same(const char *path, const void *data, size_t len)
{
    char *text = NULL;
    size_t got = 0;
    if (file_slurp(AT_FDCWD, path, 1 << 24, &text, &got, NULL) < 0)
        return false;
    bool equal = got == len && memcmp(text, data, len) == 0;
    free(text);
    return equal;
}

static void pack(struct buf *to, const char *source, const char *name)
{
    struct tar_writer *w = NULL;
    struct error err = {0};
    uint8_t chunk[777]; /* no multiple of a block */
    ssize_t n;
    buf_init(to, 0);
    assert_int_equal(tar_writer_open(&w, source, name, &err), 0);
    while ((n = tar_writer_read(w, chunk, sizeof chunk, &err)) > 0)
        buf_append(to, chunk, (size_t)n);
    assert_int_equal(n, 0);
    assert_int_equal(to->len % 512, 0);
    tar_writer_free(w);
}

static int unpack(const struct tar_reader_config *config, const struct buf *archive, size_t step,
                  struct error *err, uint64_t *ret_skipped)
{
    struct tar_reader *r = NULL;
    const char *first;
    int result = tar_reader_new(&r, config, err);
    for (size_t i = 0; result == 0 && i < archive->len; i += step)
        result =
            tar_reader_feed(r, archive->data + i, archive->len - i < step ? archive->len - i : step, err);
    if (result == 0)
        result = tar_reader_finish(r, err);
    if (ret_skipped)
        *ret_skipped = tar_reader_skipped(r, &first);
    tar_reader_free(r);
    return result;
}

static struct tar_reader_config config_of(void **state)
{
    struct place *p = *state;
    return (struct tar_reader_config){.dir = p->in, .max_bytes = 1 << 24, .max_entries = 1000};
}

static void test_round_trip(void **state)
{
    static uint8_t blob[100001];
    char deep[300], path[700];
    struct buf archive;
    struct error err = {0};
    struct timespec times[2] = {{0, UTIME_OMIT}, {981173106, 789000000}};
    for (size_t i = 0; i < sizeof blob; i++)
        blob[i] = (uint8_t)(i * 7);
    memset(deep, 'n', 240);
    deep[240] = '\0';
    assert_int_equal(mkdir("src", 0755) | mkdir("src/sub", 0711), 0);
    put("src/blob", blob, sizeof blob);
    put("src/empty", "", 0);
    snprintf(path, sizeof path, "src/sub/%s", deep);
    put(path, "long", 4);
    assert_int_equal(symlink("blob", "src/link") | symlink(deep, "src/longlink") | chmod("src/blob", 04750),
                     0);
    assert_int_equal(link("src/blob", "src/sub/again"), 0);
    assert_int_equal(utimensat(AT_FDCWD, "src/blob", times, 0), 0);
    pack(&archive, "src", "top");
    static const size_t steps[] = {1, 511, 512, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct tar_reader_config config = config_of(state);
        struct stat st;
        char target[400] = "";
        assert_int_equal(unpack(&config, &archive, steps[i], &err, NULL), 0);
        assert_true(same("in/top/blob", blob, sizeof blob));
        assert_true(same("in/top/empty", "", 0));
        snprintf(path, sizeof path, "in/top/sub/%s", deep);
        assert_true(same(path, "long", 4));
        assert_int_equal(stat("in/top/blob", &st), 0);
        assert_int_equal(st.st_mode & 07777, 0750);
        assert_int_equal(st.st_mtim.tv_sec, 981173106);
        assert_int_equal(st.st_mtim.tv_nsec, 789000000);
        assert_int_equal(st.st_nlink, 2);
        assert_true(same("in/top/sub/again", blob, sizeof blob));
        assert_int_equal(readlink("in/top/longlink", target, sizeof target - 1), 240);
        assert_string_equal(target, deep);
    }
    buf_free(&archive);
}

/* ---- archives made by hand ---- */

static void entry(struct buf *b, const char *name, char type, const char *link, const char *content)
{
    char h[512] = {0};
    size_t len = content ? strlen(content) : 0;
    snprintf(h, 100, "%s", name);
    memcpy(h + 100, "0000644", 7);
    snprintf(h + 124, 12, "%011o", (unsigned)len & 0xffffff);
    memcpy(h + 136, "00000000000", 11);
    h[156] = type;
    if (link)
        snprintf(h + 157, 100, "%s", link);
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    memset(h + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    buf_append(b, h, sizeof h);
    if (len) {
        static const char zeros[512];
        buf_append(b, content, len);
        buf_append(b, zeros, -len % 512);
    }
}

static void end(struct buf *b)
{
    static const char zeros[1024];
    buf_append(b, zeros, sizeof zeros);
}

/* The archive is refused, and nothing but "in" and the canary is in the working directory. */
static void assert_refused(void **state, struct buf *b, enum error_kind kind)
{
    struct tar_reader_config config = config_of(state);
    struct error err = {0};
    end(b);
    assert_int_equal(unpack(&config, b, 100, &err, NULL), -1);
    assert_int_equal(err.kind, kind);
    assert_int_equal(access("escaped", F_OK), -1);
    buf_free(b);
}

static void test_names_that_leave(void **state)
{
    static const char *const names[] = {"../escaped", "/tmp/cloister-escaped", "a/../../escaped", "..",
                                        "a/..",       "./../escaped"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct buf b;
        buf_init(&b, 0);
        entry(&b, names[i], '0', NULL, "bad");
        assert_refused(state, &b, ERROR_DENIED);
        assert_int_equal(access("/tmp/cloister-escaped", F_OK), -1);
    }
}

static void test_links_that_leave(void **state)
{
    static const char *const targets[] = {"/etc", "..", "../x", "d/../../x", "a/../b", "", "d/.."};
    struct buf b;
    struct error err = {0};
    uint64_t skipped;
    buf_init(&b, 0);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char name[8] = {'l', (char)('0' + i), '\0'};
        entry(&b, name, '2', targets[i], NULL);
    }
    entry(&b, "d/ok", '2', "../x", NULL);
    entry(&b, "fine", '2', "d/ok", NULL);
    end(&b);
    struct tar_reader_config config = config_of(state);
    assert_int_equal(unpack(&config, &b, 512, &err, &skipped), 0);
    assert_int_equal(skipped, sizeof targets / sizeof *targets);
    struct stat st;
    assert_int_equal(lstat("in/l0", &st), -1);
    assert_int_equal(lstat("in/d/ok", &st), 0);
    assert_int_equal(lstat("in/fine", &st), 0);
    buf_free(&b);
}

static void test_writing_through_links(void **state)
{
    struct buf b;
    assert_int_equal(mkdir("canary", 0755) | symlink("../canary", "in/out"), 0);
    buf_init(&b, 0);
    entry(&b, "out/f", '0', NULL, "bad");
    assert_refused(state, &b, ERROR_SYSTEM);
    assert_int_equal(access("canary/f", F_OK), -1);
    buf_init(&b, 0);
    entry(&b, "in2", '2', "d", NULL);
    entry(&b, "in2/f", '0', NULL, "bad");
    assert_refused(state, &b, ERROR_SYSTEM);
}

static void test_file_replaces_link(void **state)
{
    struct tar_reader_config config = config_of(state);
    struct error err = {0};
    struct buf b;
    put("canary", "safe", 4);
    assert_int_equal(symlink("../canary", "in/f"), 0);
    buf_init(&b, 0);
    entry(&b, "f", '0', NULL, "new");
    end(&b);
    assert_int_equal(unpack(&config, &b, 512, &err, NULL), 0);
    assert_true(same("canary", "safe", 4));
    assert_true(same("in/f", "new", 3));
    buf_free(&b);
}

static void test_hard_links(void **state)
{
    struct tar_reader_config config = config_of(state);
    struct error err = {0};
    struct buf b;
    struct stat a, c;
    put("canary", "safe", 4);
    buf_init(&b, 0);
    entry(&b, "a", '0', NULL, "one");
    entry(&b, "d/c", '1', "a", NULL);
    end(&b);
    assert_int_equal(unpack(&config, &b, 512, &err, NULL), 0);
    assert_int_equal(stat("in/a", &a) | stat("in/d/c", &c), 0);
    assert_int_equal(a.st_ino, c.st_ino);
    buf_free(&b);
    buf_init(&b, 0);
    entry(&b, "x", '1', "../canary", NULL);
    assert_refused(state, &b, ERROR_DENIED);
    assert_int_equal(symlink("../canary", "in/l"), 0);
    buf_init(&b, 0);
    entry(&b, "x", '1', "l", NULL);
    assert_refused(state, &b, ERROR_DENIED);
}

static void test_special_files(void **state)
{
    struct tar_reader_config config = config_of(state);
    struct error err = {0};
    struct buf b;
    uint64_t skipped;
    buf_init(&b, 0);
    entry(&b, "c", '3', NULL, NULL);
    entry(&b, "b", '4', NULL, NULL);
    entry(&b, "p", '6', NULL, NULL);
    end(&b);
    assert_int_equal(unpack(&config, &b, 512, &err, &skipped), 0);
    assert_int_equal(skipped, 3);
    assert_int_equal(access("in/p", F_OK), -1);
    buf_free(&b);
}

static void test_limits(void **state)
{
    struct tar_reader_config config = config_of(state);
    struct error err = {0};
    struct buf b;
    config.max_bytes = 5;
    buf_init(&b, 0);
    entry(&b, "a", '0', NULL, "123");
    entry(&b, "b", '0', NULL, "123");
    end(&b);
    assert_int_equal(unpack(&config, &b, 512, &err, NULL), -1);
    assert_int_equal(err.kind, ERROR_LIMIT);
    config.max_bytes = 100;
    config.max_entries = 1;
    assert_int_equal(unpack(&config, &b, 512, &err, NULL), -1);
    assert_int_equal(err.kind, ERROR_LIMIT);
    buf_free(&b);
}

static void test_malformed(void **state)
{
    static const char *const pax[] = {"9 path-x\n", "99 path=x\n",  "x path=a\n",        "7 path=\n",
                                      "3 \n",       "10 size=-1\n", "999999999999 a=b\n"};
    struct buf b;
    for (size_t i = 0; i < sizeof pax / sizeof *pax; i++) {
        buf_init(&b, 0);
        entry(&b, "PaxHeader", 'x', NULL, pax[i]);
        entry(&b, "", '0', NULL, "x");
        assert_refused(state, &b, ERROR_CORRUPT);
    }
    buf_init(&b, 0);
    entry(&b, "f", '0', NULL, "x");
    b.data[0] ^= 1;
    assert_refused(state, &b, ERROR_CORRUPT);
}

static void test_cut_short(void **state)
{
    struct tar_reader_config config = config_of(state);
    struct buf b;
    buf_init(&b, 0);
    entry(&b, "f", '0', NULL, "some content");
    end(&b);
    for (size_t len = 0; len <= 1024; len += 128) {
        struct error err = {0};
        struct buf cut = {.data = b.data, .len = len};
        assert_int_equal(unpack(&config, &cut, 512, &err, NULL), -1);
        assert_int_equal(err.kind, ERROR_CORRUPT);
    }
    buf_free(&b);
}

static void test_one_file(void **state)
{
    struct tar_reader_config config = config_of(state);
    struct error err = {0};
    struct buf b;
    config.as = "wanted";
    buf_init(&b, 0);
    entry(&b, "whatever", '0', NULL, "x");
    end(&b);
    assert_int_equal(unpack(&config, &b, 512, &err, NULL), 0);
    assert_true(same("in/wanted", "x", 1));
    assert_int_equal(access("in/whatever", F_OK), -1);
    buf_free(&b);
    buf_init(&b, 0);
    entry(&b, "d", '5', NULL, NULL);
    end(&b);
    assert_int_equal(unpack(&config, &b, 512, &err, NULL), -1);
    buf_free(&b);
}

static void test_file_that_shrinks(void **state)
{
    struct tar_writer *w = NULL;
    struct error err = {0};
    uint8_t chunk[512];
    ssize_t n;
    put("f", "0123456789", 10);
    assert_int_equal(tar_writer_open(&w, "f", "f", &err), 0);
    assert_true(tar_writer_read(w, chunk, sizeof chunk, &err) > 0);
    assert_int_equal(truncate("f", 3), 0);
    while ((n = tar_writer_read(w, chunk, sizeof chunk, &err)) > 0)
        ;
    assert_int_equal(n, -1);
    assert_non_null(strstr(err.message, "shorter"));
    tar_writer_free(w);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),         TEST(test_names_that_leave),
        TEST(test_links_that_leave),   TEST(test_writing_through_links),
        TEST(test_file_replaces_link), TEST(test_hard_links),
        TEST(test_special_files),      TEST(test_limits),
        TEST(test_malformed),          TEST(test_cut_short),
        TEST(test_one_file),           TEST(test_file_that_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
