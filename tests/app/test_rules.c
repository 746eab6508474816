/* The rules that decide by themselves: addresses, names of hosts, reasons, close codes, lists of headers, the
 * cache of compiled modules. Each refusal beside its legal twin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/compile_cache.h"
#include "app/cron.h"
#include "app/header.h"
#include "app/ingress_internal.h"
#include "app/reach.h"
#include "app/reason.h"
#include "app/websocket.h"
#include "link/worker_protocol.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static bool is_public(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return reach_is_public((const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return reach_is_public((const struct sockaddr *)&v6);
}

static void test_addresses(void **state)
{
    static const char *const refused[] = {"127.0.0.1",
                                          "127.255.255.254",
                                          "0.0.0.0",
                                          "10.1.2.3",
                                          "100.64.0.1",
                                          "169.254.169.254",
                                          "172.16.0.1",
                                          "172.31.255.255",
                                          "192.168.1.1",
                                          "198.18.0.1",
                                          "224.0.0.1",
                                          "255.255.255.255",
                                          "168.63.129.16",
                                          "::1",
                                          "::",
                                          "::ffff:127.0.0.1",
                                          "::ffff:10.0.0.1",
                                          "::127.0.0.1",
                                          "64:ff9b::7f00:1",
                                          "2002:7f00:1::",
                                          "fe80::1",
                                          "fc00::1",
                                          "fd00:ec2::254",
                                          "ff02::1",
                                          "2001:db8::1",
                                          "2001::1"};
    static const char *const allowed[] = {"1.1.1.1",         "172.15.0.1",     "172.32.0.1",
                                          "100.128.0.1",     "::ffff:1.1.1.1", "2606:4700:4700::1111",
                                          "64:ff9b::101:101"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_public(refused[i]))
            fail_msg("%s counts as public", refused[i]);
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!is_public(allowed[i]))
            fail_msg("%s does not count as public", allowed[i]);
}

static bool host_ok(const struct ingress_config *c, const char *host)
{
    return host_check(c, host, strlen(host));
}

static void test_host_names(void **state)
{
    static const char *const own[] = {"shop.test", NULL};
    struct ingress_config c = {0};
    assert_true(host_ok(&c, "localhost"));
    assert_true(host_ok(&c, "LocalHost:8787"));
    assert_true(host_ok(&c, "127.0.0.1:1"));
    assert_true(host_ok(&c, "[::1]:8787"));
    assert_true(host_ok(&c, "app.localhost:8787"));
    assert_false(host_ok(&c, "shop.test"));
    assert_false(host_ok(&c, "localhost.evil.test"));
    assert_false(host_ok(&c, "127.0.0.1.evil.test:8787"));
    assert_false(host_ok(&c, "evillocalhost"));
    assert_false(host_ok(&c, ""));
    c.hosts = own;
    assert_true(host_ok(&c, "shop.test:80"));
    assert_false(host_ok(&c, "other.test"));
    c.any_host = true;
    assert_true(host_ok(&c, "other.test"));
}

static void test_host_forms(void **state)
{
    static const char *const good[] = {"a",        "a.b-c:0", "localhost:65535", "[::1]",
                                       "[::1]:80", "a:",      "127.0.0.1:1"};
    static const char *const bad[] = {"",           "a:65536", "a:99999999999999999999",
                                      "a:-1",       "a:8a",    "[::1]x",
                                      "a b",        "a@b",     "a/b",
                                      "a?b",        "a#b",     "a%41",
                                      "a\\b",       ":80",     "a\x80",
                                      "[::1]:65536"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!host_is_valid(good[i], strlen(good[i])))
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (host_is_valid(bad[i], strlen(bad[i])))
            fail_msg("%s is taken", bad[i]);
}

static void assert_reason(int status, enum error_kind kind, const char *text)
{
    struct error e = {0};
    reason_from_status(status, (uint64_t)128 << 20, 50, &e);
    assert_string_equal(e.message, text);
    assert_int_equal(e.kind, kind);
}

static void test_reasons(void **state)
{
    assert_reason(WORKER_EXIT_MEMORY << 8, ERROR_LIMIT, "Worker exceeded its memory limit of 128 MiB.");
    assert_reason(WORKER_EXIT_CPU << 8, ERROR_LIMIT, "Worker exceeded its CPU time limit of 50 ms.");
    assert_reason(11, ERROR_GONE, "Worker process ended unexpectedly (signal 11).");
    assert_reason(3 << 8, ERROR_GONE, "Worker process ended unexpectedly (exit status 3).");
}

static void test_close_codes(void **state)
{
    static const unsigned bad[] = {0, 999, 1004, 1005, 1006, 1015, 2999, 5000},
                          good[] = {1000, 1001, 1011, 3000, 4999};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(websocket_code_ok(bad[i]));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(websocket_code_ok(good[i]));
    char accept[32];
    websocket_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept); /* the example of RFC 6455 */
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void test_headers(void **state)
{
    static const char list[] = "host\nlocalhost\nconnection\nkeep-alive, Upgrade\nodd";
    size_t n = 0;
    const char *v = header_find(list, sizeof list - 1, "connection", &n);
    assert_non_null(v);
    assert_true(header_has_word(v, n, "upgrade", HEADER_ANY_CASE));
    assert_false(header_has_word(v, n, "up", HEADER_ANY_CASE));
    assert_true(header_has_word(v, n, "Upgrade", HEADER_SAME_CASE));
    assert_false(header_has_word(v, n, "upgrade", HEADER_SAME_CASE));
    assert_null(header_find(list, sizeof list - 1, "odd", &n));
    assert_null(header_find(list, sizeof list - 1, "localhost", &n));
}

static void test_cache(void **state)
{
    struct compile_cache *c = compile_cache_new(4096);
    struct modules m = {0};
    struct compile_key keys[32], other;
    uint8_t bytes[200] = {0};
    for (unsigned i = 0; i < 32; i++) {
        bytes[0] = (uint8_t)i;
        assert_int_equal(modules_add(&m, "a.js", MODULE_JS, bytes, sizeof bytes, NULL), 0);
        compile_key(&keys[i], &m.all[i]);
        compile_cache_put(c, &keys[i], m.all[i].code);
    }
    assert_null(compile_cache_get(c, &keys[0])); /* what was used longest ago has gone */
    struct code *last = compile_cache_get(c, &keys[31]);
    assert_ptr_equal(last, m.all[31].code);
    code_unref(last);
    m.all[31].type = MODULE_CJS; /* the same source, compiled differently */
    compile_key(&other, &m.all[31]);
    assert_null(compile_cache_get(c, &other));
    compile_cache_free(c);
    modules_free(&m);
}

/* 2024-02-29 is a Thursday. */
#define LEAP_DAY INT64_C(1709164800000)
#define DAY INT64_C(86400000)
#define HOUR INT64_C(3600000)
#define MINUTE INT64_C(60000)

static void test_crons(void **state)
{
    static const struct {
        const char *text;
        int64_t at;
        bool matches;
    } cases[] = {{"* * * * *", LEAP_DAY + 59999, true},
                 {"0 0 29 2 *", LEAP_DAY, true},
                 {"0 0 29 FEB *", LEAP_DAY + MINUTE, false},
                 {"*/15 * * * *", LEAP_DAY + 45 * MINUTE, true},
                 {"*/15 * * * *", LEAP_DAY + 46 * MINUTE, false},
                 {"5/20 * * * *", LEAP_DAY + 45 * MINUTE, true},
                 {"10-20/5,59 * * * *", LEAP_DAY + 20 * MINUTE, true},
                 {"10-20/5,59 * * * *", LEAP_DAY + 59 * MINUTE, true},
                 {"10-20/5,59 * * * *", LEAP_DAY + 25 * MINUTE, false},
                 {"0 17 * * 5", LEAP_DAY + 17 * HOUR, true}, /* Thursday: 1 is Sunday */
                 {"0 17 * * thu", LEAP_DAY + 17 * HOUR, true},
                 {"0 17 * * MON-WED", LEAP_DAY + 17 * HOUR, false},
                 {"0 0 1 * THU", LEAP_DAY, true}, /* either day */
                 {"0 0 1 * FRI", LEAP_DAY, false},
                 {"0 0 L * *", LEAP_DAY, true},
                 {"0 0 L * *", LEAP_DAY - DAY, false},
                 {"0 0 L * *", LEAP_DAY + 31 * DAY, true}};
    static const char *const refused[] = {"",           "* * * *",       "* * * * * *",   "60 * * * *",
                                          "* 24 * * *", "* * 0 * *",     "* * 32 * *",    "* * * 13 *",
                                          "* * * * 0",  "* * * * 8",     "5-1 * * * *",   "*/0 * * * *",
                                          "1, * * * *", "-1 * * * *",    "a * * * *",     "100 * * * *",
                                          "* * LW * *", "* * * * MON#2", "* * * * FRIDAY"};
    struct cron c;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(cron_parse(&c, cases[i].text, NULL), 0);
        if (cron_matches(&c, cases[i].at) != cases[i].matches)
            fail_msg("%s", cases[i].text);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct error err = {0};
        if (cron_parse(&c, refused[i], &err) == 0)
            fail_msg("\"%s\" was taken", refused[i]);
        assert_string_equal(err.field, "triggers.crons");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),   cmocka_unit_test(test_host_names),
        cmocka_unit_test(test_host_forms),  cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_close_codes), cmocka_unit_test(test_headers),
        cmocka_unit_test(test_cache),       cmocka_unit_test(test_crons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
