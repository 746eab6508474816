#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "testing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- parse --- */

static void parse_u64_is_strict(void **state)
{
    uint64_t v = 7;
    struct error err = {0};
    assert_int_equal(parse_u64("0", "n", 0, 10, &v, &err), 0);
    assert_int_equal(v, 0);
    assert_int_equal(parse_u64("18446744073709551615", "n", 0, UINT64_MAX, &v, &err), 0);
    assert_true(v == UINT64_MAX);
    static const char *const bad[] = {"",   " 1", "1 ", "+1", "-1", "0x10", "1e3", "18446744073709551616",
                                      "1.0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char want[100];
        snprintf(want, sizeof want, "n: expected a whole number, got \"%s\"", bad[i]);
        v = 7;
        assert_int_equal(parse_u64(bad[i], "n", 0, UINT64_MAX, &v, &err), -1);
        assert_error(&err, ERROR_INVALID, want);
        assert_string_equal(err.field, "n");
        assert_int_equal(v, 7);
    }
    assert_int_equal(parse_u64("11", "n", 1, 10, &v, &err), -1);
    assert_error(&err, ERROR_INVALID, "n: expected 1 to 10, got 11");
    assert_int_equal(parse_u64("0", "n", 1, 10, &v, NULL), -1);
}

static void parse_size_knows_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"512", 512},
                {"512B", 512},
                {"1k", 1024},
                {"1K", 1024},
                {"1KB", 1024},
                {"1KiB", 1024},
                {"64M", 64u << 20},
                {"1.5G", 3ull << 29},
                {"0.25M", 1u << 18},
                {"2T", 2ull << 40},
                {"16777215T", 16777215ull << 40}};
    static const char *const bad[] = {"",           "M",   "1X",        "1 M",
                                      "-1M",        "1.M", ".5M",       "1.5.5M",
                                      "1MM",        "1iB", "16777216T", "99999999999999999999",
                                      "1.1234567M", "1M "};
    struct error err = {0};
    uint64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(parse_size(good[i].text, "memory", &v, &err), 0);
        assert_true(v == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char want[100];
        snprintf(want, sizeof want, "memory: expected a size such as 512M or 2G, got \"%s\"", bad[i]);
        assert_int_equal(parse_size(bad[i], "memory", &v, &err), -1);
        assert_error(&err, ERROR_INVALID, want);
    }
}

static void parse_duration_knows_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"250ms", 250},    {"30s", 30000},  {"30", 30000},    {"1.5s", 1500}, {"5m", 300000},
                {"0.5h", 1800000}, {"2h", 7200000}, {"1d", 86400000}, {"0", 0},       {"0.0005", 0}};
    static const char *const bad[] = {"", "s", "1w", "1 s", "-1s", "1S", "1ms ", "213503982335d", "1e3"};
    struct error err = {0};
    uint64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(parse_duration(good[i].text, "timeout", &v, &err), 0);
        assert_true(v == good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char want[100];
        snprintf(want, sizeof want, "timeout: expected a duration such as 500ms, 30s or 5m, got \"%s\"",
                 bad[i]);
        assert_int_equal(parse_duration(bad[i], "timeout", &v, &err), -1);
        assert_error(&err, ERROR_INVALID, want);
    }
}

static void parse_cpus_has_bounds(void **state)
{
    struct error err = {0};
    uint32_t v;
    assert_int_equal(parse_cpus("1.25", "cpus", &v, &err), 0);
    assert_int_equal(v, 1250);
    assert_int_equal(parse_cpus("0.01", "cpus", &v, &err), 0);
    assert_int_equal(v, 10);
    assert_int_equal(parse_cpus("1024", "cpus", &v, &err), 0);
    assert_int_equal(parse_cpus("0.009", "cpus", &v, &err), -1);
    assert_error(&err, ERROR_INVALID, "cpus: expected 0.01 to 1024 CPUs, got \"0.009\"");
    assert_int_equal(parse_cpus("1024.001", "cpus", &v, &err), -1);
    assert_int_equal(parse_cpus("two", "cpus", &v, &err), -1);
    assert_error(&err, ERROR_INVALID, "cpus: expected a number of CPUs such as 0.5 or 2, got \"two\"");
}

static void parse_name_refuses_what_could_mislead(void **state)
{
    char longest[65];
    memset(longest, 'a', 64);
    longest[64] = '\0';
    const char *const bad[] = {"", "A", "-a", ".a", "_a", "..", "a/b", "a b", "a\n", "\xc3\xa4", longest};
    struct error err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error_clear(&err);
        assert_int_equal(parse_name(bad[i], "name", &err), -1);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_string_equal(err.field, "name");
    }
    longest[63] = '\0';
    assert_int_equal(parse_name(longest, "name", &err), 0);
    assert_int_equal(parse_name("0", "name", &err), 0);
    assert_int_equal(parse_name("a.b_c-9", "name", &err), 0);
}

static void parse_env_wants_a_key(void **state)
{
    struct error err = {0};
    assert_int_equal(parse_env("A=", "env", &err), 0);
    assert_int_equal(parse_env("A=b=c", "env", &err), 0);
    assert_int_equal(parse_env("A", "env", &err), -1);
    assert_error(&err, ERROR_INVALID, "env: expected KEY=VALUE, got \"A\"");
    assert_int_equal(parse_env("=b", "env", &err), -1);
    assert_error(&err, ERROR_INVALID, "env: the name before '=' is empty");
}

static void utf8_is_strict(void **state)
{
    static const char *const good[] = {"",
                                       "abc",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x41",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xe2\x82",
                                      "\xe2\x82\x41"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(utf8_valid(bad[i], strlen(bad[i])));
}

static void utf8_prefix_stops_before_a_cut_sequence(void **state)
{
    assert_int_equal(utf8_whole_prefix("", 0), 0);
    assert_int_equal(utf8_whole_prefix("ab", 2), 2);
    assert_int_equal(utf8_whole_prefix("a\xc3", 2), 1);
    assert_int_equal(utf8_whole_prefix("a\xe2\x82", 3), 1);
    assert_int_equal(utf8_whole_prefix("a\xf0\x9f\xa6", 4), 1);
    assert_int_equal(utf8_whole_prefix("\xf0", 1), 0);
    assert_int_equal(utf8_whole_prefix("a\xc3\xa4", 3), 3);
    assert_int_equal(utf8_whole_prefix("\xf0\x9f\xa6\x8a", 4), 4);
    assert_int_equal(utf8_whole_prefix("\x80\x80\x80\x80", 4), 4); /* malformed, but not cut */
}

/* --- buf --- */

static void buf_grows_to_its_maximum(void **state)
{
    struct buf b;
    buf_init(&b, 1000);
    for (int i = 0; i < 100; i++)
        assert_int_equal(buf_append(&b, "0123456789", 10), 0);
    assert_int_equal(b.len, 1000);
    assert_memory_equal(b.data + 990, "0123456789", 10);
    assert_int_equal(buf_append(&b, NULL, 0), 0);
    assert_int_equal(buf_append(&b, "x", 1), -1);
    assert_true(b.failed);
    buf_consume(&b, 500);
    assert_int_equal(buf_append(&b, "x", 1), -1); /* sticky */
    assert_int_equal(buf_append(&b, NULL, 0), -1);
    buf_clear(&b);
    assert_int_equal(buf_append_str(&b, "again"), 0);
    assert_string_equal(buf_str(&b), "again");
    assert_int_equal(b.len, 5);
    buf_free(&b);
    assert_null(b.data);
}

static void buf_refuses_impossible_sizes(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    assert_null(buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    buf_clear(&b);
    assert_non_null(buf_reserve(&b, 10));
    buf_commit(&b, 10);
    assert_null(buf_reserve(&b, SIZE_MAX - 5)); /* would wrap round */
    buf_free(&b);
}

static void buf_prints_and_consumes(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    assert_int_equal(buf_printf(&b, "%s-%d", "a", 12), 0);
    assert_int_equal(buf_printf(&b, "%0300d", 7), 0);
    assert_int_equal(b.len, 304);
    buf_consume(&b, 2);
    assert_memory_equal(b.data, "12000", 5);
    buf_consume(&b, SIZE_MAX);
    assert_int_equal(b.len, 0);
    buf_free(&b);
}

/* --- error --- */

static void errors_carry_kind_field_and_context(void **state)
{
    struct error err = {0};
    assert_int_equal(error_set(&err, ERROR_STATE, "is %s", "running"), -1);
    assert_error(&err, ERROR_STATE, "is running");
    error_wrap(&err, "container %d", 7);
    assert_error(&err, ERROR_STATE, "container 7: is running");
    error_field(&err, "env", "bad %s", "x");
    assert_error(&err, ERROR_INVALID, "bad x");
    assert_string_equal(err.field, "env");
    error_system(&err, ENOENT, "cannot open %s", "/x");
    assert_error(&err, ERROR_SYSTEM, "cannot open /x: No such file or directory");
    assert_string_equal(err.field, "");
    assert_string_equal(error_code(&err), "ENOENT");
    error_clear(&err);
    assert_int_equal(err.kind, ERROR_NONE);
    assert_int_equal(error_set(NULL, ERROR_STATE, "x"), -1);
    assert_int_equal(error_wrap(NULL, "x"), -1);
    error_clear(NULL);
}

static void long_messages_are_cut(void **state)
{
    struct error err = {0};
    char text[2000];
    memset(text, 'm', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&err, ERROR_INVALID, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    error_system(&err, ENOENT, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    error_wrap(&err, "context");
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_memory_equal(err.message, "context: mm", 11);
    error_field(&err, text, "x");
    assert_int_equal(strlen(err.field), sizeof err.field - 1);
}

static void codes_survive_the_round_trip(void **state)
{
    for (int kind = ERROR_NONE; kind <= ERROR_INTERNAL; kind++) {
        if (kind == ERROR_SYSTEM)
            continue;
        struct error a = {.kind = (enum error_kind)kind}, b = {0};
        error_from_code(&b, error_code(&a), "text");
        assert_error(&b, a.kind, "text");
        assert_int_equal(b.errnum, 0);
    }
    struct error err = {0};
    error_from_code(&err, "EISDIR", "text");
    assert_int_equal(err.kind, ERROR_SYSTEM);
    assert_int_equal(err.errnum, EISDIR);
    error_from_code(&err, "WHATEVER", "text");
    assert_error(&err, ERROR_INTERNAL, "text");
    assert_string_equal(errno_name(ENOTEMPTY), "ENOTEMPTY");
    assert_string_equal(errno_name(99999), "EIO");
    assert_int_equal(errno_from_name("ELOOP"), ELOOP);
    assert_int_equal(errno_from_name("eloop"), 0);
}

/* --- fd --- */

struct dir {
    char path[64];
    int fd;
};

static int dir_setup(void **state)
{
    struct dir *d = calloc(1, sizeof *d);
    assert_non_null(d);
    snprintf(d->path, sizeof d->path, "/tmp/cloister-test-XXXXXX");
    assert_non_null(mkdtemp(d->path));
    d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(d->fd >= 0);
    *state = d;
    return 0;
}

static int dir_teardown(void **state)
{
    struct dir *d = *state;
    struct error err = {0};
    close(d->fd);
    assert_int_equal(dir_remove(AT_FDCWD, d->path, &err), 0);
    assert_int_equal(access(d->path, F_OK), -1);
    free(d);
    return 0;
}

static void files_are_replaced_and_read(void **state)
{
    struct dir *d = *state;
    struct error err = {0};
    char *text = NULL;
    size_t len;
    struct stat st;
    assert_int_equal(file_replace(d->fd, "f", "one", 3, 0640, &err), 0);
    assert_int_equal(file_replace(d->fd, "f", "a\0b", 3, 0600, &err), 0);
    assert_int_equal(fstatat(d->fd, "f", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(file_slurp(d->fd, "f", 3, &text, &len, &err), 0);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    text = NULL;
    assert_int_equal(file_slurp(d->fd, "f", 2, &text, &len, &err), -1);
    assert_error(&err, ERROR_LIMIT, "f is larger than 2 bytes");
    assert_null(text);
    assert_int_equal(file_slurp(d->fd, "none", 2, &text, NULL, &err), -1);
    assert_error(&err, ERROR_SYSTEM, "cannot open none: No such file or directory");
    assert_int_equal(file_replace(d->fd, "no/f", "x", 1, 0600, &err), -1);
    assert_int_equal(err.errnum, ENOENT);
}

static void large_files_are_read_whole(void **state)
{
    struct dir *d = *state;
    struct error err = {0};
    char *text, *big = malloc(100000);
    size_t len;
    assert_non_null(big);
    for (int i = 0; i < 100000; i++)
        big[i] = (char)(i * 7);
    for (size_t size = 4095; size <= 100000; size = size < 8193 ? size + 1366 : size + 91807) {
        assert_int_equal(file_replace(d->fd, "f", big, size, 0600, &err), 0);
        assert_int_equal(file_slurp(d->fd, "f", 100000, &text, &len, &err), 0);
        assert_int_equal(len, size);
        assert_memory_equal(text, big, size);
        free(text);
    }
    free(big);
}

static void controls_are_put_into_existing_files_only(void **state)
{
    struct dir *d = *state;
    struct error err = {0};
    char *text;
    assert_int_equal(file_put(d->fd, "f", "max"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(file_replace(d->fd, "f", "", 0, 0600, &err), 0);
    assert_int_equal(file_put(d->fd, "f", "max"), 0);
    assert_int_equal(file_slurp(d->fd, "f", 10, &text, NULL, &err), 0);
    assert_string_equal(text, "max");
    free(text);
}

static void pipes_are_read_to_the_end(void **state)
{
    int fds[2];
    char text[100];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fd_set_nonblock(fds[0], true), 0);
    assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fd_set_nonblock(fds[0], false), 0);
    assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fd_set_cloexec(fds[0], true), 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(fd_set_cloexec(fds[0], false), 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), 0);
    assert_int_equal(fd_write_all(fds[1], "hello", 5), 0);
    close(fds[1]);
    assert_int_equal(fd_read_full(fds[0], text, sizeof text), 5);
    assert_memory_equal(text, "hello", 5);
    close(fds[0]);
    assert_int_equal(fd_read_full(fds[0], text, 1), -1);
    assert_int_equal(fd_write_all(fds[0], text, 1), -1);
}

static void directories_are_made_with_parents(void **state)
{
    struct dir *d = *state;
    struct error err = {0};
    char path[200];
    snprintf(path, sizeof path, "%s/a/b//c/", d->path);
    assert_int_equal(dir_make(path, 0755, &err), 0);
    assert_int_equal(dir_make(path, 0755, &err), 0);
    assert_int_equal(faccessat(d->fd, "a/b/c", F_OK, 0), 0);
    assert_int_equal(file_replace(d->fd, "file", "", 0, 0600, &err), 0);
    snprintf(path, sizeof path, "%s/file/x", d->path);
    assert_int_equal(dir_make(path, 0755, &err), -1);
    assert_int_equal(err.errnum, ENOTDIR);
    assert_int_equal(dir_make("", 0755, &err), -1);
}

static void removal_follows_no_link(void **state)
{
    struct dir *d = *state;
    struct error err = {0};
    assert_int_equal(mkdirat(d->fd, "keep", 0755), 0);
    assert_int_equal(file_replace(d->fd, "keep/f", "x", 1, 0600, &err), 0);
    assert_int_equal(mkdirat(d->fd, "tree", 0755), 0);
    assert_int_equal(symlinkat("../keep", d->fd, "tree/link"), 0);
    assert_int_equal(symlinkat("nowhere", d->fd, "tree/dangling"), 0);
    assert_int_equal(mkfifoat(d->fd, "tree/fifo", 0600), 0);
    assert_int_equal(dir_remove(d->fd, "tree", &err), 0);
    assert_int_equal(faccessat(d->fd, "tree", F_OK, 0), -1);
    assert_int_equal(faccessat(d->fd, "keep/f", F_OK, 0), 0);
    assert_int_equal(dir_remove(d->fd, "tree", &err), 0); /* missing: fine */
    assert_int_equal(symlinkat("keep", d->fd, "link"), 0);
    assert_int_equal(dir_remove(d->fd, "link", &err), -1);
    assert_int_equal(faccessat(d->fd, "keep/f", F_OK, 0), 0);
}

/* A guest can nest directories deeper than a process has descriptors; removal must cope, and in the way of
 * its names too. */
static void very_deep_trees_are_removed(void **state)
{
    struct dir *d = *state;
    struct error err = {0};
    assert_int_equal(mkdirat(d->fd, "tree", 0755), 0);
    assert_int_equal(mkdirat(d->fd, "tree/.lifted-0", 0755), 0);
    assert_int_equal(mkdirat(d->fd, "tree/.lifted-0/x", 0755), 0);
    assert_int_equal(file_replace(d->fd, "tree/.lifted-1", "x", 1, 0600, &err), 0);
    int fd = openat(d->fd, "tree", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 1500; i++) {
        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        if (i % 100 == 0)
            assert_int_equal(symlinkat("/", fd, "link"), 0);
        int next = openat(fd, "d", O_RDONLY | O_CLOEXEC);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    close(fd);
    struct rlimit old, low = {.rlim_cur = 100, .rlim_max = 0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int r = dir_remove(d->fd, "tree", &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_string_equal(err.message, "");
    assert_int_equal(r, 0);
    assert_int_equal(faccessat(d->fd, "tree", F_OK, 0), -1);
}

/* Runs as an ordinary user, for whom modes count. */
static int remove_as_user(const char *path)
{
    struct error err = {0};
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(2);
        char tree[100];
        snprintf(tree, sizeof tree, "%s/tree", path);
        if (dir_make(tree, 0755, &err) < 0)
            _exit(3);
        int fd = open(tree, O_RDONLY | O_CLOEXEC);
        if (mkdirat(fd, "unreadable", 0755) < 0 || mkdirat(fd, "unreadable/x", 0755) < 0 ||
            mkdirat(fd, "readonly", 0755) < 0 || mkdirat(fd, "readonly/empty", 0) < 0 ||
            symlinkat("/", fd, "readonly/link") < 0 || fchmodat(fd, "unreadable", 0, 0) < 0 ||
            fchmodat(fd, "readonly", 0555, 0) < 0)
            _exit(4);
        _exit(dir_remove(AT_FDCWD, tree, &err) < 0 ? 5 : access(tree, F_OK) == 0 ? 6 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void modes_do_not_stop_the_owner(void **state)
{
    struct dir *d = *state;
    assert_int_equal(chmod(d->path, 0777), 0);
    assert_int_equal(remove_as_user(d->path), 0);
}

static void stolen_things_are_left_alone(void **state)
{
    int kept;
    {
        cleanup_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        kept = steal_fd(&fd);
        assert_int_equal(fd, -1);
    }
    assert_int_not_equal(fcntl(kept, F_GETFD), -1);
    {
        cleanup_close int fd = kept;
        (void)fd;
    }
    assert_int_equal(fcntl(kept, F_GETFD), -1);
    char *text;
    {
        cleanup_free char *owned = strdup("x");
        text = steal_pointer(&owned);
        assert_null(owned);
    }
    assert_string_equal(text, "x");
    free(text);
}

int main(void)
{
#define D(fn) cmocka_unit_test_setup_teardown(fn, dir_setup, dir_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_u64_is_strict),
        cmocka_unit_test(parse_size_knows_units),
        cmocka_unit_test(parse_duration_knows_units),
        cmocka_unit_test(parse_cpus_has_bounds),
        cmocka_unit_test(parse_name_refuses_what_could_mislead),
        cmocka_unit_test(parse_env_wants_a_key),
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(utf8_prefix_stops_before_a_cut_sequence),
        cmocka_unit_test(buf_grows_to_its_maximum),
        cmocka_unit_test(buf_refuses_impossible_sizes),
        cmocka_unit_test(buf_prints_and_consumes),
        cmocka_unit_test(errors_carry_kind_field_and_context),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(codes_survive_the_round_trip),
        D(files_are_replaced_and_read),
        D(large_files_are_read_whole),
        D(controls_are_put_into_existing_files_only),
        cmocka_unit_test(pipes_are_read_to_the_end),
        D(directories_are_made_with_parents),
        D(removal_follows_no_link),
        D(very_deep_trees_are_removed),
        D(modes_do_not_stop_the_owner),
        cmocka_unit_test(stolen_things_are_left_alone),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
