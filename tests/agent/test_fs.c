/* Every file operation and its errors, and nothing that leads out. */
#include "harness.h"

#include "base/fd.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct box *box;

static int setup(void **state)
{
    (void)state;
    box = box_started(NULL);
    free(sh(box, "mkdir -p /data && chmod 755 /data"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    box_free(box);
    return 0;
}

/* Arguments by pairs: "key", value kind, value; ends with NULL. Kinds: 's' text, 'u' number, 'b' true, 'x'
 * bytes of 32. */
struct arg {
    const char *key;
    char kind;
    const char *text;
    uint64_t number;
    const uint8_t *bytes;
};
#define S(k, v) {.key = k, .kind = 's', .text = v}
#define U(k, v) {.key = k, .kind = 'u', .number = v}
#define B(k) {.key = k, .kind = 'b'}
#define X(k, v) {.key = k, .kind = 'x', .bytes = v}

static struct buf args_make(const struct arg *args)
{
    struct buf b;
    size_t n = 0;
    while (args[n].key)
        n++;
    buf_init(&b, 0);
    cbor_put_map(&b, n);
    for (size_t i = 0; i < n; i++) {
        cbor_put_text(&b, args[i].key);
        if (args[i].kind == 's')
            cbor_put_string(&b, args[i].text);
        else if (args[i].kind == 'u')
            cbor_put_uint(&b, args[i].number);
        else if (args[i].kind == 'b')
            cbor_put_bool(&b, true);
        else
            cbor_put_bytes(&b, args[i].bytes, 32);
    }
    return b;
}

/* The answer's code, "OK" when it worked. */
static const char *fs(const char *method, struct answer *a, const struct arg *args)
{
    static struct answer mine;
    static char code[64];
    struct buf b = args_make(args);
    if (!a) {
        answer_free(&mine);
        a = &mine;
    }
    box_call(box, 0, method, &b, a);
    snprintf(code, sizeof code, "%s", a->failed ? error_code(&a->err) : "OK");
    return code;
}
#define FS(method, a, ...) fs(method, a, (const struct arg[]){__VA_ARGS__, {0}})

static bool text_of(const struct answer *a, const char *key, char *to, size_t cap)
{
    struct cbor_reader r, v;
    cbor_reader_init(&r, a->value.data, a->value.len);
    return cbor_map_find(&r, key, &v) && cbor_get_string(&v, to, cap) == 0;
}

static uint64_t number_of(const struct answer *a, const char *key)
{
    uint64_t v = UINT64_MAX;
    answer_uint(a, key, &v);
    return v;
}

static void assert_digest(const struct answer *a, const void *data, size_t len)
{
    struct cbor_reader r, v;
    const uint8_t *p;
    size_t n;
    uint8_t digest[32];
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, data, len);
    sha256_end(&hash, digest);
    cbor_reader_init(&r, a->value.data, a->value.len);
    assert_true(cbor_map_find(&r, "sha256", &v) && cbor_get_bytes(&v, &p, &n) == 0 && n == 32);
    assert_memory_equal(p, digest, 32);
}

/* A whole "fs.read" and the like. */
static const char *receive(const char *method, const char *path, struct sink *s, struct answer *a)
{
    sink_open(box, s, true);
    const char *code = FS(method, a, S("path", path), U("stream", s->stream));
    assert_true(box_until(box, &s->ended, 5000));
    assert_int_equal(s->reset, a->failed);
    return code;
}

static const char *send_bytes(const struct arg *extra, const char *method, const char *path, const void *data,
                              size_t len, struct answer *a)
{
    struct arg args[16] = {S("path", path)};
    struct feed f = {0};
    static char code[64];
    int n = 1;
    feed_open(box, &f, data, len);
    args[n++] = (struct arg)U("stream", f.stream);
    for (; extra && extra->key; extra++)
        args[n++] = *extra;
    struct buf b = args_make(args);
    box_call_start(box, 0, method, &b, a);
    feed_more(&f, data, len);
    assert_true(box_until(box, &a->done, 20000));
    assert_true(box_until(box, &f.ended, 5000));
    snprintf(code, sizeof code, "%s", a->failed ? error_code(&a->err) : "OK");
    return code;
}
#define SEND(method, path, data, len, a, ...)                                                                \
    send_bytes((const struct arg[]){__VA_ARGS__ __VA_OPT__(, ){0}}, method, path, data, len, a)

static void shell(const char *script)
{
    free(sh(box, script));
}

static void expect_shell(const char *script, const char *expected)
{
    char *text = sh(box, script);
    assert_string_equal(text, expected);
    free(text);
}

static void stat_kinds(void **state)
{
    (void)state;
    shell("cd /data; printf 12345 > file; chmod 640 file; chown 7:8 file; ln -s file link; ln -s nowhere "
          "dangling;"
          "mkfifo fifo; mkdir dir; touch -d '2001-02-03 04:05:06.789 UTC' file");
    struct answer a;
    char text[64];
    assert_string_equal(FS("fs.stat", &a, S("path", "/data/file")), "OK");
    assert_true(text_of(&a, "type", text, sizeof text));
    assert_string_equal(text, "file");
    assert_int_equal(number_of(&a, "size"), 5);
    assert_int_equal(number_of(&a, "mode"), 0640);
    assert_int_equal(number_of(&a, "uid"), 7);
    assert_int_equal(number_of(&a, "gid"), 8);
    assert_true(number_of(&a, "mtimeNs") == 981173106789000000u);
    answer_free(&a);
    static const char *const kinds[][2] = {{"/data/fifo", "fifo"},
                                           {"/data/dir", "directory"},
                                           {"/dev/null", "char"},
                                           {"/data/link", "file"},
                                           {"/", "directory"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_string_equal(FS("fs.stat", &a, S("path", kinds[i][0])), "OK");
        assert_true(text_of(&a, "type", text, sizeof text));
        assert_string_equal(text, kinds[i][1]);
        answer_free(&a);
    }
    struct buf b;
    buf_init(&b, 0);
    cbor_put_map(&b, 2);
    cbor_put_text(&b, "path");
    cbor_put_text(&b, "/data/dangling");
    cbor_put_text(&b, "follow");
    cbor_put_bool(&b, false);
    box_call(box, 0, "fs.stat", &b, &a);
    assert_false(a.failed);
    assert_true(text_of(&a, "target", text, sizeof text));
    assert_string_equal(text, "nowhere");
    answer_free(&a);
    assert_string_equal(FS("fs.stat", NULL, S("path", "/data/dangling")), "ENOENT");
    assert_string_equal(FS("fs.stat", NULL, S("path", "/data/file/x")), "ENOTDIR");
    assert_string_equal(FS("fs.stat", NULL, S("path", "relative")), "INVALID_ARGUMENT");
    assert_string_equal(FS("fs.stat", NULL, B("recursive"), S("path", "/")), "INVALID_ARGUMENT");
    assert_string_equal(FS("fs.frob", NULL, S("path", "/")), "NOT_FOUND");
}

static void read_whole_and_range(void **state)
{
    (void)state;
    shell("seq 1 200000 > /data/numbers");
    struct sink s;
    struct answer a;
    assert_string_equal(receive("fs.read", "/data/numbers", &s, &a), "OK");
    assert_int_equal(number_of(&a, "size"), s.total);
    assert_int_equal(number_of(&a, "sent"), s.total);
    assert_digest(&a, s.bytes.data, s.bytes.len);
    char *expected = sh(box, "cat /data/numbers");
    assert_int_equal(strlen(expected), s.bytes.len);
    assert_memory_equal(expected, s.bytes.data, s.bytes.len);
    free(expected);
    answer_free(&a);
    sink_free(&s);
    sink_open(box, &s, true);
    assert_string_equal(
        FS("fs.read", &a, S("path", "/data/numbers"), U("stream", s.stream), U("offset", 2), U("length", 6)),
        "OK");
    assert_true(box_until(box, &s.ended, 1000));
    assert_memory_equal(s.bytes.data, "2\n3\n4\n", 6);
    assert_int_equal(s.bytes.len, 6);
    answer_free(&a);
    sink_free(&s);
}

static void read_refusals(void **state)
{
    (void)state;
    shell("cd /data; [ -p fifo ] || mkfifo fifo; ln -sf loop1 loop2; ln -sf loop2 loop1; ln -sf "
          "/proc/1/environ env;"
          "ln -sf /dev/zero zero; ln -sf /proc/self/fd/0 fd; ln -sf /dev/null null;"
          "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/data/sock\")'");
    static const char *const cases[][2] = {
        {"/data/fifo", "EINVAL"},        {"/data/dir", "EISDIR"},
        {"/data/zero", "EINVAL"},        {"/data/null", "EINVAL"},
        {"/data/loop1", "ELOOP"},        {"/data/none", "ENOENT"},
        {"/data/sock", "EINVAL"},        {"/proc/version", "EACCES"},
        {"/proc/1/environ", "EACCES"},   {"/data/env", "EACCES"},
        {"/sys/kernel/notes", "EACCES"}, {"/data/fd", "ELOOP"},
        {"/proc/self/exe", "ELOOP"},     {"/proc/1/root/etc/passwd", "EACCES"},
        {"/dev/ptmx", "EINVAL"},         {"/data", "EISDIR"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sink s;
        struct answer a;
        const char *code = receive("fs.read", cases[i][0], &s, &a);
        if (strcmp(code, cases[i][1]) != 0)
            fail_msg("%s: %s, %s expected", cases[i][0], code, cases[i][1]);
        assert_int_equal(s.total, 0);
        answer_free(&a);
        sink_free(&s);
    }
}

static void read_cancelled(void **state)
{
    (void)state;
    shell("truncate -s 1T /data/sparse");
    struct sink s;
    struct answer a;
    sink_open(box, &s, false);
    struct arg args[] = {S("path", "/data/sparse"), U("stream", s.stream), {0}};
    struct buf b = args_make(args);
    uint32_t call = box_call_start(box, 0, "fs.read", &b, &a);
    box_run(box, 100);
    assert_true(s.total > 0);
    link_cancel(box_link(box), call);
    assert_true(box_until(box, &s.ended, 2000));
    assert_true(s.reset);
    box_run(box, 50);
    expect_shell("ps -eo comm= | grep -c cloister-init || true", "1\n"); /* the child is gone */
    shell("rm /data/sparse");
    sink_free(&s);
}

static void write_modes(void **state)
{
    (void)state;
    struct answer a;
    shell("cd /data; rm -f new; printf old > old; chown 5:6 old; chmod 4751 old; ln -sf old tolink; ln -sf "
          "/data/made tonew");
    assert_string_equal(SEND("fs.write", "/data/new", "hello", 5, &a), "OK");
    assert_int_equal(number_of(&a, "size"), 5);
    assert_digest(&a, "hello", 5);
    answer_free(&a);
    expect_shell("cat /data/new; stat -c ' %a %u' /data/new", "hello 644 0\n");
    assert_string_equal(SEND("fs.write", "/data/old", "new", 3, &a), "OK");
    expect_shell("cat /data/old; stat -c ' %a %u %g' /data/old", "new 4751 5 6\n");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/old", "x", 1, &a, U("mode", 0600)), "OK");
    expect_shell("stat -c '%a' /data/old", "600\n");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/tolink", "by link", 7, &a), "OK");
    expect_shell("cat /data/old; readlink /data/tolink", "by linkold\n");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/tonew", "made", 4, &a), "OK");
    expect_shell("cat /data/made; readlink /data/tonew", "made/data/made\n");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/a/b/c", "deep", 4, &a, B("parents")), "OK");
    expect_shell("cat /data/a/b/c", "deep");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/new", "more", 4, &a, B("append")), "OK");
    expect_shell("cat /data/new", "hellomore");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/fresh", "first", 5, &a, B("append")), "OK");
    expect_shell("cat /data/fresh", "first");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/empty", "", 0, &a), "OK");
    expect_shell("stat -c %s /data/empty", "0\n");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/once", "1", 1, &a, B("exclusive")), "OK");
    answer_free(&a);
    assert_string_equal(SEND("fs.write", "/data/once", "2", 1, &a, B("exclusive")), "EEXIST");
    assert_string_equal(SEND("fs.write", "/data/tolink", "2", 1, &a, B("exclusive")), "EEXIST");
}

static void write_refusals(void **state)
{
    (void)state;
    struct answer a;
    shell("cd /data; printf keep > kept; rm -rf ro; mkdir -p dir");
    assert_string_equal(SEND("fs.write", "/data/dir", "x", 1, &a), "EISDIR");
    assert_string_equal(SEND("fs.write", "/data/fifo", "x", 1, &a), "EINVAL");
    assert_string_equal(SEND("fs.write", "/dev/null", "x", 1, &a), "EINVAL");
    assert_string_equal(SEND("fs.write", "/data/none/x", "x", 1, &a), "ENOENT");
    assert_string_equal(SEND("fs.write", "/proc/sys/kernel/hostname", "x", 1, &a), "EACCES");
    assert_string_equal(SEND("fs.write", "/sys/x", "x", 1, &a), "EACCES");
    assert_string_equal(SEND("fs.write", "/data/loop1", "x", 1, &a), "ELOOP");
    assert_string_equal(SEND("fs.write", "/data/kept", "four", 4, &a, U("size", 5)), "CORRUPT");
    assert_string_equal(a.err.field, "size");
    assert_string_equal(SEND("fs.write", "/data/kept", "four", 4, &a, U("size", 3)), "CORRUPT");
    static const uint8_t wrong[32] = {1};
    assert_string_equal(SEND("fs.write", "/data/kept", "four", 4, &a, X("sha256", wrong)), "CORRUPT");
    assert_string_equal(a.err.field, "sha256");
    assert_string_equal(SEND("fs.write", "/data/kept", "four", 4, &a, B("append"), U("size", 9)), "CORRUPT");
    assert_string_equal(SEND("fs.write", "/data/kept/", "x", 1, &a), "EISDIR");
    assert_string_equal(SEND("fs.write", "/", "x", 1, &a), "EBUSY");
    assert_string_equal(SEND("fs.write", "/data/..", "x", 1, &a), "EINVAL");
    expect_shell("cat /data/kept; ls -A /data | grep -c cloister || true",
                 "keep0\n"); /* nothing half-written, nothing left over */
}

static void write_no_space(void **state)
{
    (void)state;
    struct answer a;
    size_t len = 80u << 20;
    uint8_t *data = calloc(1, len);
    assert_string_equal(SEND("fs.write", "/run/big", data, len, &a), "ENOSPC");
    expect_shell("ls -A /run | wc -l", "0\n");
    free(data);
}

static void write_reset_and_cancelled(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct feed f = {.keep_open = true};
        struct answer a;
        feed_open(box, &f, "partial", 7);
        struct arg args[] = {S("path", "/data/partial"), U("stream", f.stream), {0}};
        struct buf b = args_make(args);
        uint32_t call = box_call_start(box, 0, "fs.write", &b, &a);
        feed_more(&f, "partial", 7);
        box_run(box, 100);
        if (cancel) {
            link_cancel(box_link(box), call);
        } else {
            struct error why = {0};
            error_set(&why, ERROR_GONE, "the client went away");
            link_stream_reset(box_link(box), f.stream, &why);
            assert_true(box_until(box, &a.done, 2000));
            assert_string_equal(error_code(&a.err), "ECANCELED");
        }
        box_run(box, 400);
        expect_shell("ls -A /data | grep -E -c 'partial|cloister' || true", "0\n");
    }
}

static void list_tree(void **state)
{
    (void)state;
    shell("rm -rf /data/l; mkdir -p /data/l/sub/deep; cd /data/l; touch a .hidden sub/b; ln -s /etc sub/etc;"
          "touch \"$(printf 'bad\\377name')\"");
    for (int recursive = 0; recursive < 2; recursive++) {
        struct sink s;
        struct answer a;
        sink_open(box, &s, true);
        if (recursive)
            FS("fs.list", &a, S("path", "/data/l"), U("stream", s.stream), B("recursive"));
        else
            FS("fs.list", &a, S("path", "/data/l"), U("stream", s.stream));
        assert_false(a.failed);
        assert_true(box_until(box, &s.ended, 2000));
        char names[512] = "";
        size_t count = 0;
        struct cbor_reader r;
        cbor_reader_init(&r, s.bytes.data, s.bytes.len);
        while (!cbor_at_end(&r)) {
            struct cbor_reader v;
            char path[256];
            assert_true(cbor_map_find(&r, "path", &v) && cbor_get_string(&v, path, sizeof path) == 0);
            strcat(strcat(names, "|"), path);
            assert_int_equal(cbor_skip(&r), 0);
            count++;
        }
        strcat(names, "|");
        assert_int_equal(count, recursive ? 7 : 4);
        assert_int_equal(number_of(&a, "count"), count);
        assert_non_null(strstr(names, "|.hidden|"));
        assert_non_null(strstr(names, "|bad\377name|"));
        if (recursive)
            assert_non_null(strstr(names, "|sub/etc|"));
        answer_free(&a);
        sink_free(&s);
    }
    struct sink s;
    struct answer a;
    assert_string_equal(receive("fs.list", "/data/l/a", &s, &a), "ENOTDIR");
    assert_string_equal(receive("fs.list", "/proc", &s, &a), "EACCES");
    assert_string_equal(receive("fs.list", "/data/none", &s, &a), "ENOENT");
}

static void change_names(void **state)
{
    (void)state;
    shell("rm -rf /data/n; mkdir /data/n; cd /data/n; touch f; mkdir d full; touch full/x");
    assert_string_equal(FS("fs.mkdir", NULL, S("path", "/data/n/m"), U("mode", 0777)), "OK");
    assert_string_equal(FS("fs.mkdir", NULL, S("path", "/data/n/m")), "EEXIST");
    assert_string_equal(FS("fs.mkdir", NULL, S("path", "/data/n/m"), B("parents")), "OK");
    assert_string_equal(FS("fs.mkdir", NULL, S("path", "/data/n/f"), B("parents")), "EEXIST");
    assert_string_equal(FS("fs.mkdir", NULL, S("path", "/data/n/p/q/r")), "ENOENT");
    assert_string_equal(FS("fs.mkdir", NULL, S("path", "/data/n/p/q/r"), B("parents")), "OK");
    assert_string_equal(FS("fs.mkdir", NULL, S("path", "/data/n/f/q"), B("parents")), "ENOTDIR");
    expect_shell("stat -c %a /data/n/m /data/n/p/q/r", "777\n755\n");
    assert_string_equal(FS("fs.rename", NULL, S("from", "/data/n/f"), S("to", "/data/n/g")), "OK");
    assert_string_equal(FS("fs.rename", NULL, S("from", "/data/n/f"), S("to", "/data/n/g")), "ENOENT");
    assert_string_equal(FS("fs.rename", NULL, S("from", "/data/n/d"), S("to", "/data/n/full")), "ENOTEMPTY");
    assert_string_equal(FS("fs.rename", NULL, S("from", "/data/n/g"), S("to", "/data/n/full")), "EISDIR");
    assert_string_equal(FS("fs.rename", NULL, S("from", "/data/n/g"), S("to", "/run/g")), "EXDEV");
    assert_string_equal(FS("fs.symlink", NULL, S("path", "/data/n/s"), S("target", "../../etc/passwd")),
                        "OK");
    assert_string_equal(FS("fs.symlink", NULL, S("path", "/data/n/s"), S("target", "x")), "EEXIST");
    expect_shell("readlink /data/n/s", "../../etc/passwd\n");
    assert_string_equal(FS("fs.chmod", NULL, S("path", "/data/n/g"), U("mode", 0751)), "OK");
    expect_shell("stat -c %a /data/n/g", "751\n");
    assert_string_equal(FS("fs.chmod", NULL, S("path", "/data/n/g")), "INVALID_ARGUMENT");
    assert_string_equal(FS("fs.chmod", NULL, S("path", "/data/n/g"), U("mode", 010000)), "INVALID_ARGUMENT");
    assert_string_equal(FS("fs.chmod", NULL, S("path", "/proc/version"), U("mode", 0777)), "EACCES");
}

static void remove_things(void **state)
{
    (void)state;
    shell("rm -rf /data/r; mkdir -p /data/r/t/u; cd /data/r; touch f t/x t/u/y; mkdir e; ln -s /etc t/etc; "
          "mkdir /run/keep 2>/dev/null; touch /run/keep/it");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/data/r/none")), "ENOENT");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/data/r/none"), B("force")), "OK");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/data/none/none"), B("force")), "OK");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/data/r/f")), "OK");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/data/r/e")), "OK");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/data/r/t")), "ENOTEMPTY");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/data/r/t"), B("recursive")), "OK");
    expect_shell("ls -A /data/r | wc -l; ls /etc/passwd",
                 "0\n/etc/passwd\n"); /* links are removed, not followed */
    assert_string_equal(FS("fs.remove", NULL, S("path", "/run"), B("recursive")), "EBUSY");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/"), B("recursive")), "EBUSY");
    expect_shell("ls /run/keep; rm -r /run/keep", "it\n");
}

static void remove_very_deep(void **state)
{
    (void)state;
    shell("python3 -c '\nimport os\nos.mkdir(\"/data/deep\"); os.chdir(\"/data/deep\")\nfor i in "
          "range(3000):\n os.mkdir(\"dd\"); os.chdir(\"dd\")\n'");
    assert_string_equal(FS("fs.remove", NULL, S("path", "/data/deep"), B("recursive")), "OK");
    expect_shell("ls -d /data/deep 2>/dev/null | wc -l", "0\n");
}

/* Directories of a lower layer change their identity when the first thing in them is removed. */
static void remove_lower_layer(void **state)
{
    (void)state;
    assert_string_equal(FS("fs.remove", NULL, S("path", "/usr/share/doc"), B("recursive")), "OK");
    expect_shell(
        "ls -d /usr/share/doc 2>/dev/null | wc -l; mkdir /usr/share/doc; ls -A /usr/share/doc | wc -l",
        "0\n0\n");
}

static void make_case_tree(void)
{
    shell("rm -rf /data/x; mkdir -p /data/x/.tools/mods/a/vendor /data/x/.tools/mods/b/deep/vendor "
          "/data/x/vendor /data/x/src "
          "/data/x/empty; cd /data/x; for f in .tools/state.json .tools/mods/a/page.md "
          ".tools/mods/a/vendor/m.js "
          ".tools/mods/b/deep/vendor/n.js vendor/x.js src/main.js src/vendor_notes.txt; do printf $f > $f; "
          "done;"
          "ln -s ../.tools/state.json src/link; printf x > run.sh; chmod 750 run.sh; ln run.sh src/same; "
          "mkfifo pipe;"
          "touch -d '2002-03-04 05:06:07.123456789 UTC' run.sh src; chown 11:12 src/main.js;"
          "mkdir -p /data/x/long/$(printf 'n%.0s' $(seq 1 200)); printf l > /data/x/long/$(printf 'n%.0s' "
          "$(seq 1 200))/$(printf 'm%.0s' $(seq 1 200))");
}

static void export_and_import(void **state)
{
    (void)state;
    make_case_tree();
    struct sink s;
    struct answer a;
    assert_string_equal(receive("fs.export", "/data/x", &s, &a), "OK");
    assert_int_equal(number_of(&a, "sent"), s.total);
    assert_digest(&a, s.bytes.data, s.bytes.len);
    answer_free(&a);
    assert_string_equal(
        SEND("fs.import", "/data/y/z", s.bytes.data, s.bytes.len, &a, B("parents"), U("size", s.bytes.len)),
        "OK");
    assert_digest(&a, s.bytes.data, s.bytes.len);
    answer_free(&a);
    expect_shell("cd /data; list() { (cd $1; find . -printf '%p %y %m %U %G %l %n %T@ ' ! -type d -printf "
                 "'%s\\n' -o -printf '\\n' | sort; find . -type f -exec sha256sum {} + | sort); };"
                 "list x > /run/1; list y/z > /run/2; cmp /run/1 /run/2 && wc -l < /run/1 | grep -c .; rm "
                 "/run/1 /run/2",
                 "1\n");
    /* other programs read what we write */
    shell("rm -rf /data/t; mkdir /data/t");
    assert_string_equal(SEND("fs.write", "/data/x.tar", s.bytes.data, s.bytes.len, &a), "OK");
    expect_shell("tar -C /data/t -xf /data/x.tar && diff -r /data/x/.tools /data/t/.tools && stat -c '%a %Y' "
                 "/data/t/run.sh",
                 "750 1015218367\n");
    sink_free(&s);
}

static void export_excludes(void **state)
{
    (void)state;
    make_case_tree();
    struct sink s;
    struct answer a;
    struct buf b;
    sink_open(box, &s, true);
    buf_init(&b, 0);
    cbor_put_map(&b, 3);
    cbor_put_text(&b, "path");
    cbor_put_text(&b, "/data/x");
    cbor_put_text(&b, "stream");
    cbor_put_uint(&b, s.stream);
    cbor_put_text(&b, "exclude");
    cbor_put_array(&b, 2);
    cbor_put_text(&b, "/vendor");
    cbor_put_text(&b, ".tools/mods/*/vendor");
    box_call(box, 0, "fs.export", &b, &a);
    assert_false(a.failed);
    assert_true(box_until(box, &s.ended, 2000));
    answer_free(&a);
    shell("rm -rf /data/e; mkdir /data/e");
    assert_string_equal(SEND("fs.import", "/data/e", s.bytes.data, s.bytes.len, &a), "OK");
    expect_shell("cd /data/e; ls -d .tools/state.json .tools/mods/a/page.md src/main.js src/vendor_notes.txt "
                 "src/link empty run.sh"
                 " .tools/mods/b/deep/vendor vendor .tools/mods/a/vendor 2>/dev/null | tr '\\n' ' '",
                 ".tools/mods/a/page.md .tools/mods/b/deep/vendor .tools/state.json empty run.sh src/link "
                 "src/main.js src/vendor_notes.txt ");
    sink_free(&s);
}

static void export_one_file(void **state)
{
    (void)state;
    struct sink s;
    struct answer a;
    shell("printf content > /data/single; rm -rf /data/o; mkdir /data/o");
    assert_string_equal(receive("fs.export", "/data/single", &s, &a), "OK");
    assert_int_equal(number_of(&a, "entries"), 1);
    answer_free(&a);
    assert_string_equal(SEND("fs.import", "/data/o", s.bytes.data, s.bytes.len, &a), "OK");
    expect_shell("cat /data/o/single", "content");
    sink_free(&s);
    assert_string_equal(receive("fs.export", "/data/fifo", &s, &a), "EINVAL");
    assert_string_equal(receive("fs.export", "/proc", &s, &a), "EACCES");
}

/* Archives that other programs write. */
static void import_gnu_tar(void **state)
{
    (void)state;
    struct answer a;
    static const char *const formats[] = {"gnu", "pax", "ustar", "v7"};
    for (size_t i = 0; i < 4; i++) {
        char script[512];
        snprintf(script, sizeof script,
                 "rm -rf /data/g /data/h; mkdir -p /data/g/dir /data/h; cd /data/g; printf 1 > dir/one; ln "
                 "dir/one two; ln -s dir three;"
                 "%s tar --format=%s -cf /data/g.tar . 2>&1",
                 i < 2 ? "printf x > $(printf 'n%.0s' $(seq 1 230));" : "", formats[i]);
        shell(script);
        struct sink s;
        assert_string_equal(receive("fs.read", "/data/g.tar", &s, &a), "OK");
        answer_free(&a);
        assert_string_equal(SEND("fs.import", "/data/h", s.bytes.data, s.bytes.len, &a), "OK");
        answer_free(&a);
        expect_shell("diff -r /data/g /data/h && stat -c %h /data/h/two", "2\n");
        sink_free(&s);
    }
}

static void import_python(const char *script, struct sink *s)
{
    char text[2048];
    struct answer a;
    snprintf(text, sizeof text,
             "cat > /run/t.py <<'END'\nimport tarfile, io\nt = tarfile.open('/run/t.tar', 'w')\n"
             "def add(name, type=tarfile.REGTYPE, link='', data=b'bad', mode=0o644):\n i = "
             "tarfile.TarInfo(name); i.type = type; i.linkname = link; i.mode = mode\n"
             " i.size = len(data) if type == tarfile.REGTYPE else 0\n t.addfile(i, "
             "io.BytesIO(data))\n%s\nt.close()\nEND\npython3 /run/t.py",
             script);
    shell(text);
    assert_string_equal(receive("fs.read", "/run/t.tar", s, &a), "OK");
    answer_free(&a);
}

static void import_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *script, *code;
    } cases[] = {
        {"add('../../canary/up')", "DENIED"},
        {"add('a/../../canary/up')", "DENIED"},
        {"add('door', tarfile.SYMTYPE, '/canary'); add('door/in')", "ENOENT"}, /* resolved below the target */
        {"add('door2', tarfile.SYMTYPE, '../../canary'); add('door2/in')", "ENOENT"},
        {"add('/canary/abs')", "OK"}, /* below the target */
        {"add('peek', tarfile.LNKTYPE, '../../etc/hostname')", "DENIED"},
        {"add('peek', tarfile.LNKTYPE, '/etc/hostname')", "ENOENT"},
        {"add('canary', tarfile.SYMTYPE, '/canary/file'); add('canary')", "OK"}, /* replaces the link */
        {"add('dev', tarfile.CHRTYPE)", "DENIED"},
        {"add('disk', tarfile.BLKTYPE)", "DENIED"},
        {"add('f'); add('f/x')", "ENOTDIR"},
        {"add('d', tarfile.DIRTYPE); add('d')", "EISDIR"},
        {"add('l', tarfile.SYMTYPE, 'l'); add('l/x')", "ELOOP"},
        {"add('m', tarfile.SYMTYPE, '/proc/self/root'); add('m/canary/up')", "ENOENT"},
        {"add('n' * 300)", "ENAMETOOLONG"},
        {"add('/'.join(['p'] * 3000))", "CORRUPT"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sink s;
        struct answer a;
        shell("rm -rf /canary /data/i; mkdir -p /canary /data/i/in; printf safe > /canary/file");
        import_python(cases[i].script, &s);
        const char *code = SEND("fs.import", "/data/i/in", s.bytes.data, s.bytes.len, &a);
        if (strcmp(code, cases[i].code) != 0)
            fail_msg("%s: %s (%s)", cases[i].script, code, a.err.message);
        expect_shell("find /canary -mindepth 1; cat /canary/file; ls -A /data/i", "/canary/file\nsafein\n");
        answer_free(&a);
        sink_free(&s);
    }
}

static void import_damaged(void **state)
{
    (void)state;
    struct sink s;
    struct answer a;
    shell("mkdir -p /data/d");
    import_python("add('ok', data=b'x' * 5000)", &s);
    assert_string_equal(SEND("fs.import", "/data/d", s.bytes.data, 3000, &a), "CORRUPT");
    assert_string_equal(SEND("fs.import", "/data/d", s.bytes.data, 0, &a), "CORRUPT");
    assert_string_equal(SEND("fs.import", "/data/d", "junk", 4, &a), "CORRUPT");
    assert_string_equal(SEND("fs.import", "/data/d", s.bytes.data, s.bytes.len, &a, U("size", 1)), "CORRUPT");
    assert_string_equal(SEND("fs.import", "/data/none", s.bytes.data, s.bytes.len, &a), "ENOENT");
    s.bytes.data[0] ^= 1;
    assert_string_equal(SEND("fs.import", "/data/d", s.bytes.data, s.bytes.len, &a), "CORRUPT");
    sink_free(&s);
}

/* Waits until the watch has told something that holds `text`. */
static bool told(struct sink *s, const char *event, const char *path)
{
    for (int i = 0; i < 150; i++) {
        struct cbor_reader r;
        cbor_reader_init(&r, s->bytes.data, s->bytes.len);
        while (!cbor_at_end(&r)) {
            struct cbor_reader v;
            char e[32], p[256];
            if (!cbor_map_find(&r, "event", &v) || cbor_get_string(&v, e, sizeof e) < 0)
                break;
            if (!cbor_map_find(&r, "path", &v) || cbor_get_string(&v, p, sizeof p) < 0)
                break;
            if (strcmp(e, event) == 0 && strcmp(p, path) == 0)
                return true;
            if (cbor_skip(&r) < 0)
                break;
        }
        box_run(box, 10);
    }
    return false;
}

static void watch_tree(void **state)
{
    (void)state;
    struct sink s;
    struct answer a;
    shell("rm -rf /data/w; mkdir -p /data/w/sub");
    sink_open(box, &s, true);
    struct arg args[] = {S("path", "/data/w"), U("stream", s.stream), B("recursive"), {0}};
    struct buf b = args_make(args);
    box_call_start(box, 0, "fs.watch", &b, &a);
    assert_true(told(&s, "ready", ""));
    shell("cd /data/w; touch sub/file; echo x >> sub/file; chmod 600 sub/file; mv sub/file moved; mkdir -p "
          "new/er; touch new/er/deep");
    assert_true(told(&s, "create", "sub/file"));
    assert_true(told(&s, "modify", "sub/file"));
    assert_true(told(&s, "attrib", "sub/file"));
    assert_true(told(&s, "rename", "sub/file"));
    assert_true(told(&s, "create", "new"));
    assert_true(told(&s, "create", "new/er"));
    assert_true(told(&s, "create", "new/er/deep"));
    shell("mv /data/w/moved /data/out");
    assert_true(told(&s, "delete", "moved"));
    assert_false(a.done);
    shell("rm -rf /data/w");
    assert_true(told(&s, "delete", "new"));
    assert_true(box_until(box, &a.done, 3000)); /* the path is gone */
    assert_false(a.failed);
    assert_true(box_until(box, &s.ended, 1000));
    answer_free(&a);
    sink_free(&s);
}

static void watch_cancelled(void **state)
{
    (void)state;
    struct sink s;
    struct answer a;
    sink_open(box, &s, true);
    struct arg args[] = {S("path", "/data"), U("stream", s.stream), {0}};
    struct buf b = args_make(args);
    uint32_t call = box_call_start(box, 0, "fs.watch", &b, &a);
    assert_true(told(&s, "ready", ""));
    link_cancel(box_link(box), call);
    assert_true(box_until(box, &s.ended, 2000));
    box_run(box, 50);
    expect_shell("ps -eo comm= | grep -c cloister-init || true", "1\n");
    sink_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_kinds),         cmocka_unit_test(read_whole_and_range),
        cmocka_unit_test(read_refusals),      cmocka_unit_test(read_cancelled),
        cmocka_unit_test(write_modes),        cmocka_unit_test(write_refusals),
        cmocka_unit_test(write_no_space),     cmocka_unit_test(write_reset_and_cancelled),
        cmocka_unit_test(list_tree),          cmocka_unit_test(change_names),
        cmocka_unit_test(remove_things),      cmocka_unit_test(remove_very_deep),
        cmocka_unit_test(remove_lower_layer), cmocka_unit_test(export_and_import),
        cmocka_unit_test(export_excludes),    cmocka_unit_test(export_one_file),
        cmocka_unit_test(import_gnu_tar),     cmocka_unit_test(import_hostile),
        cmocka_unit_test(import_damaged),     cmocka_unit_test(watch_tree),
        cmocka_unit_test(watch_cancelled),
    };
    return cmocka_run_group_tests_name("agent files", tests, setup, teardown);
}
