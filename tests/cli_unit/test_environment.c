/* src/cli/environment.c, limit_options.c and outcome.c */
#include "cli/environment.h"
#include "cli/limit_options.h"
#include "cli/outcome.h"
#include "testing.h"

#include <errno.h>

static void test_replace(void **state)
{
    struct environment e = {0};
    struct error err = {0};
    assert_int_equal(environment_set(&e, "A=1", &err), 0);
    assert_int_equal(environment_set(&e, "AB=2", &err), 0);
    assert_int_equal(environment_set(&e, "A=3=4", &err), 0);
    assert_int_equal(e.count, 2);
    assert_string_equal(e.items[0], "A=3=4");
    assert_null(e.items[2]);
    assert_true(environment_has(&e, "AB"));
    assert_false(environment_has(&e, "B"));
    assert_int_equal(environment_set(&e, "=x", &err), -1);
    assert_int_equal(environment_set(&e, "novalue", &err), -1);
    environment_free(&e);
}

static void test_term(void **state)
{
    static const struct {
        const char *given, *want;
    } cases[] = {{"vt220", "TERM=vt220"},
                 {"a b", "TERM=xterm"},
                 {"../x", "TERM=xterm"},
                 {"", "TERM=xterm"},
                 {NULL, "TERM=xterm"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct environment e = {0};
        if (cases[i].given)
            setenv("TERM", cases[i].given, 1);
        else
            unsetenv("TERM");
        assert_int_equal(environment_set_term(&e, NULL), 0);
        assert_string_equal(e.items[0], cases[i].want);
        environment_free(&e);
    }
}

static void test_sizes(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *want;
    } cases[] = {{0, "0B"}, {1023, "1023B"}, {1024, "1K"}, {512u << 20, "512M"}, {(uint64_t)3 << 29, "1.5G"}};
    char text[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(size_text(cases[i].bytes, text), cases[i].want);
}

static int outcome(enum error_kind kind, int errnum, const char *field, const char *says)
{
    struct error err = {.kind = kind, .errnum = errnum, .message = "original"};
    strcpy(err.field, field);
    int code = outcome_of_error(&err, "prog", "host");
    assert_non_null(strstr(err.message, says));
    return code;
}

static void test_outcomes(void **state)
{
    assert_int_equal(outcome(ERROR_SYSTEM, ENOENT, "argv", "prog: command not found in host"), 127);
    assert_int_equal(outcome(ERROR_SYSTEM, EACCES, "argv", "prog: cannot be executed"), 126);
    assert_int_equal(outcome(ERROR_SYSTEM, ENOEXEC, "cmd", "prog: cannot be executed"), 126);
    assert_int_equal(outcome(ERROR_SYSTEM, ENOENT, "cwd", "original"), 125);
    assert_int_equal(outcome(ERROR_SYSTEM, E2BIG, "argv", "original"), 125);
    assert_int_equal(outcome(ERROR_INVALID, 0, "env", "original"), 125);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_term),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_outcomes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
