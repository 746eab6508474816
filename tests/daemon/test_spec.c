/* The readers of requests: JSON bodies, targets, and the JSON that is written. */
#include "daemon/json_in.h"
#include "daemon/json_out.h"
#include "daemon/spec.h"
#include "daemon/uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct limits defaults = {
    .memory_bytes = 1 << 20, .pids = 7, .disk_bytes = 5000000, .open_files = 99};

static json_t *parse(const char *text)
{
    struct error err = {0};
    json_t *v = json_in_parse(text, strlen(text), &err);
    if (!v)
        fail_msg("%s: %s", text, err.message);
    return v;
}

static void refuse_exec(const char *text, const char *field)
{
    struct exec_request r;
    struct error err = {0};
    assert_int_equal(spec_exec(&r, parse(text), &err), -1);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.field, field);
    assert_non_null(strstr(err.message, field));
}

static void test_exec(void **state)
{
    struct exec_request r;
    struct error err = {0};
    assert_int_equal(
        spec_exec(
            &r,
            parse(
                "{\"cmd\":[\"a\",\"b c\"],\"env\":{\"K\":\"v=w\",\"E\":\"\"},\"cwd\":\"/x\",\"user\":\"1:2\","
                "\"stderr\":\"combined\",\"timeoutMs\":5,\"wait\":true,\"outputLimit\":10}"),
            &err),
        0);
    assert_string_equal(r.cmd[1], "b c");
    assert_null(r.cmd[2]);
    assert_string_equal(r.env[0], "K=v=w");
    assert_string_equal(r.env[1], "E=");
    assert_null(r.env[2]);
    assert_true(r.out && !r.err && r.combined && r.wait && !r.stdin_pipe && !r.pty);
    assert_int_equal(r.timeout_ms, 5);
    assert_int_equal(r.output_limit, 10);
    spec_exec_free(&r);
    assert_int_equal(spec_exec(&r, parse("{\"cmd\":[\"a\"]}"), &err), 0);
    assert_true(r.out && r.err && !r.combined && !r.wait && !r.env && !r.cwd && !r.user);
    assert_int_equal(r.output_limit, SPEC_OUTPUT_DEFAULT);
    assert_int_equal(r.overflow, OVERFLOW_AUTO);
    spec_exec_free(&r);
    assert_int_equal(spec_exec(&r, parse("{\"cmd\":[\"a\"],\"pty\":{\"cols\":80,\"rows\":24}}"), &err), 0);
    assert_true(r.pty && r.stdin_pipe && r.out && !r.err);
    spec_exec_free(&r);
}

static void test_exec_refusals(void **state)
{
    static const char *const bad[][2] = {
        {"{}", "cmd"},
        {"{\"cmd\":[]}", "cmd"},
        {"{\"cmd\":null}", "cmd"},
        {"{\"cmd\":[\"a\",7]}", "cmd[1]"},
        {"{\"cmd\":[\"a\\u0000\"]}", "cmd[0]"},
        {"{\"cmd\":[\"a\"],\"x\":1}", "x"},
        {"{\"cmd\":[\"a\"],\"cwd\":\"x\"}", "cwd"},
        {"{\"cmd\":[\"a\"],\"cwd\":null}", "cwd"},
        {"{\"cmd\":[\"a\"],\"env\":{\"A=\":\"\"}}", "env.A="},
        {"{\"cmd\":[\"a\"],\"env\":{\"\":\"\"}}", "env."},
        {"{\"cmd\":[\"a\"],\"env\":{\"A\":\"\\u0000\"}}", "env.A"},
        {"{\"cmd\":[\"a\"],\"user\":\"4294967295\"}", "user"},
        {"{\"cmd\":[\"a\"],\"user\":\"root:4294967296\"}", "user"},
        {"{\"cmd\":[\"a\"],\"timeoutMs\":0}", "timeoutMs"},
        {"{\"cmd\":[\"a\"],\"timeoutMs\":-1}", "timeoutMs"},
        {"{\"cmd\":[\"a\"],\"timeoutMs\":1e18}", "timeoutMs"},
        {"{\"cmd\":[\"a\"],\"timeoutMs\":9007199254740993}", "timeoutMs"},
        {"{\"cmd\":[\"a\"],\"wait\":1}", "wait"},
        {"{\"cmd\":[\"a\"],\"outputLimit\":0}", "outputLimit"},
        {"{\"cmd\":[\"a\"],\"outputLimit\":67108865}", "outputLimit"},
        {"{\"cmd\":[\"a\"],\"pty\":{\"cols\":80}}", "pty.rows"},
        {"{\"cmd\":[\"a\"],\"pty\":{\"cols\":80,\"rows\":65536}}", "pty.rows"},
        {"{\"cmd\":[\"a\"],\"stdinBase64\":\"abc\"}", "stdinBase64"},
        {"{\"cmd\":[\"a\"],\"stdin\":\"pipe\",\"stdinText\":\"\"}", "stdin"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_exec(bad[i][0], bad[i][1]);
}

static void test_base64(void **state)
{
    static const struct {
        const char *text, *bytes;
        size_t len;
    } table[] = {{"", "", 0},
                 {"AA==", "\0", 1},
                 {"AAE=", "\0\1", 2},
                 {"AAEC", "\0\1\2", 3},
                 {"//79/A==", "\xff\xfe\xfd\xfc", 4}};
    static const char *const bad[] = {"A",    "AA",  "AAA",  "A===", "=AAA",
                                      "AA=A", "AAE", "A A=", "AA-_", "AAEC\n"};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct exec_request r;
        struct error err = {0};
        json_t *body = json_pack("{s:[s], s:s}", "cmd", "a", "stdinBase64", table[i].text);
        assert_int_equal(spec_exec(&r, body, &err), 0);
        assert_int_equal(r.stdin_len, table[i].len);
        assert_memory_equal(r.stdin_data, table[i].bytes, table[i].len);
        spec_exec_free(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct exec_request r;
        struct error err = {0};
        assert_int_equal(spec_exec(&r, json_pack("{s:[s], s:s}", "cmd", "a", "stdinBase64", bad[i]), &err),
                         -1);
        assert_string_equal(err.field, "stdinBase64");
    }
}

static void test_start(void **state)
{
    struct start_request r;
    struct error err = {0};
    assert_int_equal(spec_start(&r, parse("{}"), &defaults, &err), 0);
    assert_string_equal(r.image, "host");
    assert_memory_equal(&r.limits, &defaults, sizeof defaults);
    spec_start_free(&r);
    assert_int_equal(spec_start(&r, parse("{\"instance\":\"lite\",\"hardTimeout\":9,\"stdin\":\"pipe\"}"),
                                &defaults, &err),
                     0);
    assert_int_equal(r.limits.memory_bytes, (uint64_t)256 << 20);
    assert_int_equal(r.limits.cpu_milli, 63);
    assert_int_equal(r.limits.disk_bytes, 2000000000u);
    assert_int_equal(r.limits.pids, 7);
    assert_int_equal(r.limits.wall_ms, 9);
    assert_true(r.stdin_pipe);
    spec_start_free(&r);
    assert_int_equal(
        spec_start(&r,
                   parse("{\"instance\":{\"vcpu\":0.25,\"openFiles\":16},\"mounts\":[{\"snapshot\":"
                         "\"0123456789abcdef0123456789abcdef\",\"target\":\"/w\"}]}"),
                   &defaults, &err),
        0);
    assert_int_equal(r.limits.cpu_milli, 250);
    assert_int_equal(r.limits.open_files, 16);
    assert_int_equal(r.mount_count, 1);
    assert_string_equal(r.mounts[0].target, "/w");
    spec_start_free(&r);
}

static void test_bodies(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "1",
                                      "{",
                                      "{}{}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":NaN}",
                                      "{'a':1}",
                                      "nul",
                                      "{\"a\":1e999}",
                                      "{\"\\u0000\":1}",
                                      "\xff\xfe{}"};
    struct error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error_clear(&err);
        assert_null(json_in_parse(bad[i], strlen(bad[i]), &err));
        assert_string_equal(err.field, "body");
    }
    char deep[2 * 40 + 16] = "{\"a\":";
    size_t at = strlen(deep);
    memset(deep + at, '[', 40);
    memset(deep + at + 40, ']', 40);
    strcpy(deep + at + 80, "}");
    assert_null(json_in_parse(deep, strlen(deep), &err));
    json_decref(parse("{\"a\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"}"));
}

static void test_env_merge(void **state)
{
    static const char *const base_words[] = {"A=1", "BB=2", "C=3", NULL}, *const over_words[] = {
                                                                              "B=x", "A=new", "C=", NULL};
    char **base = strv_copy(base_words), **over = strv_copy(over_words);
    char **v = env_merge(base, over);
    assert_string_equal(v[0], "A=new");
    assert_string_equal(v[1], "BB=2");
    assert_string_equal(v[2], "C=");
    assert_string_equal(v[3], "B=x");
    assert_null(v[4]);
    free(v);
    v = env_merge(NULL, NULL);
    assert_null(v[0]);
    free(v);
    free(base);
    free(over);
}

static void test_targets(void **state)
{
    struct uri u;
    struct error err = {0};
    assert_int_equal(uri_parse(&u, "/v1/images/a%2Fb%25?path=/x+y%2B&flag&n=7", &err), 0);
    assert_int_equal(u.segment_count, 3);
    assert_string_equal(u.segments[2], "a/b%");
    assert_string_equal(uri_query(&u, "path"), "/x y+");
    assert_string_equal(uri_query(&u, "flag"), "");
    assert_null(uri_query(&u, "v1"));
    uint64_t n = 0;
    bool b;
    assert_int_equal(uri_query_u64(&u, "n", 10, &n, &err), 0);
    assert_int_equal(n, 7);
    assert_int_equal(uri_query_u64(&u, "n", 6, &n, &err), -1);
    assert_int_equal(uri_query_bool(&u, "n", &b, &err), -1);
    uri_free(&u);
    static const char *const bad[] = {"",     "/",     "x",       "*",    "http://h/x",
                                      "//x",  "/x//y", "/x/",     "/%",   "/%4",
                                      "/%zz", "/%00",  "/a?x=%0", "/a#b", "/1/2/3/4/5/6/7/8/9/10/11/12/13"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(uri_parse(&u, bad[i], &err), -1);
}

static void put(const char *bytes, size_t len, const char *want)
{
    struct buf b;
    buf_init(&b, 0);
    json_text(&b, bytes, len);
    assert_string_equal(buf_str(&b), want);
    buf_free(&b);
}

static void test_text(void **state)
{
    put("a\"\\\n\x1b\x7f", 6, "\"a\\\"\\\\\\n\\u001b\\u007f\"");
    put("a\0b", 3, "\"a\\u0000b\"");
    put("\xff\xfeok", 4, "\"\xef\xbf\xbd\xef\xbf\xbdok\"");
    put("\xc3\xa9", 2, "\"\xc3\xa9\"");
    put("\xc3", 1, "\"\xef\xbf\xbd\"");
    put("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* a surrogate */
    put("\xc0\x80", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");                 /* overlong */
    put("\xf0\x9f\x99\x82", 4, "\"\xf0\x9f\x99\x82\"");
    put("\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    put("", 0, "\"\"");
}

static void test_writer(void **state)
{
    struct buf b;
    static const char *const words[] = {"x", "y", NULL};
    char **v = strv_copy(words);
    buf_init(&b, 0);
    json_open(&b, '{');
    json_put_str(&b, "s", "{");
    json_put_u64(&b, "n", 5);
    json_put_milli(&b, "m", 1050);
    json_put_strv(&b, "v", v);
    json_key(&b, "list");
    json_open(&b, '[');
    json_open(&b, '{');
    json_close(&b, '}');
    json_open(&b, '{');
    json_put_bool(&b, "t", true);
    json_close(&b, '}');
    json_close(&b, ']');
    json_close(&b, '}');
    assert_string_equal(buf_str(&b),
                        "{\"s\":\"{\",\"n\":5,\"m\":1.050,\"v\":[\"x\",\"y\"],\"list\":[{},{\"t\":true}]}");
    buf_free(&b);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec),    cmocka_unit_test(test_exec_refusals),
        cmocka_unit_test(test_base64),  cmocka_unit_test(test_start),
        cmocka_unit_test(test_bodies),  cmocka_unit_test(test_env_merge),
        cmocka_unit_test(test_targets), cmocka_unit_test(test_text),
        cmocka_unit_test(test_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
