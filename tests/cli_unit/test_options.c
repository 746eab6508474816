/* src/cli/options.c and suggest.c */
#include "cli/options.h"
#include "cli/suggest.h"
#include "testing.h"

static const struct option_def table[] = {
    {NULL, 0, NULL, "A heading"},
    {"memory", 'm', "SIZE", "memory"},
    {"env", 'e', "K=V", "variables", .many = true},
    {"tty", 't', NULL, "terminal"},
    {"interactive", 'i', NULL, "stdin"},
    {"no-letter", 0, NULL, "no letter"},
    {NULL},
};

struct parsed {
    struct options *o;
    struct error err;
    int result;
};

static struct parsed parse(struct operand_rule rule, const char *const *words)
{
    struct parsed p = {0};
    int n = 0;
    while (words[n])
        n++;
    p.result = options_parse(table, rule, n, (char *const *)words, &p.o, &p.err);
    return p;
}

#define PARSE(rule, ...) parse((struct operand_rule)rule, (const char *const[]){__VA_ARGS__, NULL})
#define COMMAND(n) {n, n, true}
#define OPERANDS(a, b) {a, b, false}

static void refuse(struct parsed p, const char *field, const char *says)
{
    assert_int_equal(p.result, -1);
    assert_null(p.o);
    assert_int_equal(p.err.kind, ERROR_INVALID);
    assert_string_equal(p.err.field, field);
    assert_non_null(strstr(p.err.message, says));
}

static void test_spellings(void **state)
{
    static const char *const spellings[][3] = {
        {"--memory", "5"}, {"--memory=5"}, {"-m", "5"}, {"-m5"}, {"-tm5"}, {"-tm", "5"},
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        struct parsed p = parse((struct operand_rule){0, 0, false}, spellings[i]);
        assert_int_equal(p.result, 0);
        assert_string_equal(options_value(p.o, "memory"), "5");
        options_free(p.o);
    }
}

static void test_flags_and_lists(void **state)
{
    struct parsed p = PARSE(COMMAND(0), "-it", "-e", "A=1", "--env", "B=--tty", "-eC=", "--memory=1", "-m2");
    const char *const *values;
    assert_int_equal(p.result, 0);
    assert_true(options_given(p.o, "tty") && options_given(p.o, "interactive"));
    assert_false(options_given(p.o, "no-letter"));
    assert_int_equal(options_values(p.o, "env", &values), 3);
    assert_string_equal(values[0], "A=1");
    assert_string_equal(values[1], "B=--tty");
    assert_string_equal(values[2], "C=");
    assert_string_equal(options_value(p.o, "memory"), "2");
    assert_null(options_command(p.o));
    options_free(p.o);
}

static void test_command_begins(void **state)
{
    struct parsed p = PARSE(COMMAND(0), "-t", "ls", "-t", "--", "x");
    assert_string_equal(options_command(p.o)[0], "ls");
    assert_string_equal(options_command(p.o)[2], "--");
    options_free(p.o);
    p = PARSE(COMMAND(1), "-t", "box", "-i", "ls", "-l");
    assert_string_equal(options_operand(p.o, 0), "box");
    assert_true(options_given(p.o, "interactive"));
    assert_string_equal(options_command(p.o)[1], "-l");
    options_free(p.o);
    p = PARSE(COMMAND(1), "box", "--", "--tty");
    assert_false(options_given(p.o, "tty"));
    assert_string_equal(options_command(p.o)[0], "--tty");
    options_free(p.o);
    p = PARSE(COMMAND(0), "--");
    assert_int_equal(p.result, 0);
    assert_null(options_command(p.o));
    options_free(p.o);
}

static void test_operands(void **state)
{
    struct parsed p = PARSE(OPERANDS(1, 2), "-", "--", "--tty");
    assert_int_equal(p.result, 0);
    assert_int_equal(options_operand_count(p.o), 2);
    assert_string_equal(options_operand(p.o, 0), "-");
    assert_string_equal(options_operand(p.o, 1), "--tty");
    assert_null(options_operand(p.o, 2));
    options_free(p.o);
    refuse(PARSE(OPERANDS(0, 1), "a", "b"), "operand", "\"b\"");
}

static void test_refused(void **state)
{
    refuse(PARSE(COMMAND(0), "--memroy", "1"), "--memroy", "did you mean \"--memory\"");
    refuse(PARSE(COMMAND(0), "--memroy=1"), "--memroy", "did you mean \"--memory\"");
    refuse(PARSE(COMMAND(0), "--frobnicate"), "--frobnicate", "unknown option");
    refuse(PARSE(COMMAND(0), "-x"), "-x", "unknown option");
    refuse(PARSE(COMMAND(0), "-tx"), "-x", "unknown option");
    refuse(PARSE(COMMAND(0), "--tty=yes"), "--tty", "takes no value");
    refuse(PARSE(COMMAND(0), "--memory"), "--memory", "needs a value");
    refuse(PARSE(COMMAND(0), "--memory", "--tty"), "--memory", "needs a value");
    refuse(PARSE(COMMAND(0), "-m", "--"), "--memory", "needs a value");
    refuse(PARSE(COMMAND(0), "--=x"), "--", "unknown option");
}

static void test_help(void **state)
{
    struct parsed p = PARSE(COMMAND(0), "--help");
    assert_true(options_help(p.o));
    options_free(p.o);
    p = PARSE(COMMAND(0), "-th");
    assert_true(options_help(p.o));
    options_free(p.o);
    p = PARSE(COMMAND(0), "ls", "--help");
    assert_false(options_help(p.o));
    options_free(p.o);
}

static const char *nearest(const char *word)
{
    static const char *const known[] = {"memory", "run", "snapshot", "stats", "stop", "start"};
    struct suggestion s;
    suggest_init(&s, word, strlen(word));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        suggest_offer(&s, known[i]);
    return suggest_best(&s);
}

static void test_suggestions(void **state)
{
    assert_string_equal(nearest("memroy"), "memory");
    assert_string_equal(nearest("mem"), "memory");
    assert_string_equal(nearest("rnu"), "run");
    assert_string_equal(nearest("snapshto"), "snapshot");
    assert_string_equal(nearest("strat"), "start");
    assert_null(nearest("frobnicate"));
    assert_null(nearest(""));
    assert_null(nearest("xyz"));
    assert_null(nearest("a word that is much longer than any command ever was"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings),      cmocka_unit_test(test_flags_and_lists),
        cmocka_unit_test(test_command_begins), cmocka_unit_test(test_operands),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_help),
        cmocka_unit_test(test_suggestions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
