/* What a worker may use, and what becomes of one that uses more. */
#include "harness.h"

#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define KILLED "!LIMIT_EXCEEDED: Worker exceeded its CPU time limit of 100 ms."

static struct zygote_process zygote;

static int open_zygote(void **state)
{
    (void)state;
    zygote_open(&zygote);
    return 0;
}

static int close_zygote(void **state)
{
    (void)state;
    zygote_close(&zygote);
    return 0;
}

/* The request ends with the limit's name, in time, and the worker lives on. */
static void assert_stopped(const char *source)
{
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(peer_eval(&p, 100, "1"), "1");
    uint64_t start = clock_monotonic_ns();
    assert_string_equal(peer_eval(&p, 100, source), KILLED);
    assert_true(clock_monotonic_ns() - start < 5000000000u);
    assert_string_equal(peer_eval(&p, 100, "1 + 1"), "2");
    peer_close(&p);
    assert_int_equal(p.status, 0);
}

static void stops_an_endless_loop(void **state)
{
    (void)state;
    assert_stopped("while (true);");
}

static void stops_a_loop_that_catches_everything(void **state)
{
    (void)state;
    assert_stopped("for (;;) { try { while (true); } catch {} finally { continue; } }");
}

static void stops_a_catastrophic_regular_expression(void **state)
{
    (void)state;
    assert_stopped("/(a+)+$/.test('a'.repeat(64) + 'b'); /(x+x+)+y/.test('x'.repeat(64)); while (true);");
}

static void stops_loops_in_callbacks(void **state)
{
    (void)state;
    assert_stopped("[2, 1, 3].sort(() => { while (true); })");
    assert_stopped("JSON.stringify({ toJSON() { while (true); } })");
    assert_stopped("new Proxy({}, { get() { while (true); } }).x");
    assert_stopped("(async () => { await null; while (true); })()");
}

static void stops_an_endless_chain_of_microtasks(void **state)
{
    (void)state;
    assert_stopped("(async () => { while (true) await null; })()");
    assert_stopped("new Promise(() => { (function f() { Promise.resolve().then(f); })(); })");
}

static void counts_what_many_entries_use(void **state)
{
    (void)state;
    /* 5 ms an entry, by a timer each. */
    assert_stopped("new Promise(() => { T.on.timer = () => { const end = Date.now() + 5; while (Date.now() < "
                   "end); T.natives.timer(1, 0); };"
                   " T.natives.timer(1, 0); })");
}

static void lets_work_within_the_limit_pass(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(
        peer_eval(&p, 2000, "{ const end = Date.now() + 300; while (Date.now() < end); } 'done'"), "done");
    /* Waiting is not working. */
    assert_string_equal(
        peer_eval(&p, 50, "new Promise((r) => { T.on.timer = () => r('waited'); T.natives.timer(1, 400); })"),
        "waited");
    peer_close(&p);
}

static void one_request_does_not_take_another_with_it(void **state)
{
    (void)state;
    struct peer p;
    struct answer waiting;
    peer_open(&p, &zygote, NULL, NULL);
    peer_eval_start(&p, 0,
                    "new Promise((r) => { T.on.timer = () => r('still here'); T.natives.timer(1, 300); })",
                    &waiting);
    assert_string_equal(peer_eval(&p, 100, "while (true);"), KILLED);
    peer_pump_until(&p, &waiting.done);
    assert_int_equal(waiting.err.kind, ERROR_NONE);
    answer_free(&waiting);
    peer_close(&p);
}

static void deep_recursion_is_a_range_error(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(peer_eval(&p, 5000, "(function f() { f(); })()"),
                        "!INTERNAL: RangeError: Maximum call stack size exceeded.");
    assert_string_equal(peer_eval(&p, 5000,
                                  "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; try { "
                                  "JSON.stringify(a) } catch (e) { e.name }"),
                        "RangeError");
    assert_string_equal(
        peer_eval(&p, 5000,
                  "try { new RegExp('('.repeat(1e5) + ')'.repeat(1e5)).test('') } catch (e) { 'caught' }"),
        "caught");
    assert_string_equal(peer_eval(&p, 5000, "try { eval('['.repeat(1e5)) } catch (e) { 'caught' }"),
                        "caught");
    assert_string_equal(peer_eval(&p, 100, "1 + 1"), "2");
    peer_close(&p);
}

static void huge_strings_are_range_errors(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(peer_eval(&p, 5000, "try { let s = 'x'; for (;;) s += s; } catch (e) { e.name }"),
                        "RangeError");
    assert_string_equal(peer_eval(&p, 5000, "try { 'x'.repeat(2 ** 31) } catch (e) { e.name }"),
                        "RangeError");
    assert_string_equal(peer_eval(&p, 5000, "try { new Uint8Array(2 ** 40) } catch (e) { e.name }"),
                        "RangeError");
    assert_string_equal(peer_eval(&p, 100, "1 + 1"), "2");
    peer_close(&p);
}

static void a_flood_of_log_lines_is_thinned(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(
        peer_eval(&p, 5000, "for (let i = 0; i < 20000; i++) T.natives.log(2, 'line ' + i); 'done'"), "done");
    peer_pump_for(&p, 100);
    assert_true(p.log_lines >= 1000 && p.log_lines < 5000);
    peer_pump_for(&p, 1500);
    peer_eval(&p, 100, "T.natives.log(2, 'after')");
    assert_non_null(strstr(buf_str(&p.log), "lines were left out"));
    assert_non_null(strstr(buf_str(&p.log), "2 after"));
    peer_eval(&p, 1000, "T.natives.log(2, 'y'.repeat(100000))");
    peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_an_endless_loop),
        cmocka_unit_test(stops_a_loop_that_catches_everything),
        cmocka_unit_test(stops_a_catastrophic_regular_expression),
        cmocka_unit_test(stops_loops_in_callbacks),
        cmocka_unit_test(stops_an_endless_chain_of_microtasks),
        cmocka_unit_test(counts_what_many_entries_use),
        cmocka_unit_test(lets_work_within_the_limit_pass),
        cmocka_unit_test(one_request_does_not_take_another_with_it),
        cmocka_unit_test(deep_recursion_is_a_range_error),
        cmocka_unit_test(huge_strings_are_range_errors),
        cmocka_unit_test(a_flood_of_log_lines_is_thinned),
    };
    return cmocka_run_group_tests(tests, open_zygote, close_zygote);
}
