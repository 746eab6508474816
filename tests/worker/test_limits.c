/* What a worker may use, and what becomes of one that uses more. */
#include "harness.h"

#include "base/clock.h"
#include "link/cbor.h"
#include "link/worker_protocol.h"

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

static void set_memory_limit(struct peer *p, unsigned mib)
{
    struct buf args;
    struct answer a;
    buf_init(&args, 0);
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "limits");
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "memoryMib");
    cbor_put_uint(&args, mib);
    peer_call(p, "init", &args, &a);
    assert_int_equal(a.err.kind, ERROR_NONE);
    answer_free(&a);
    buf_free(&args);
}

static void assert_runs_out_of_memory(const char *source)
{
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    set_memory_limit(&p, 128);
    assert_string_equal(peer_eval(&p, 10000, source), "!GONE: the link was closed");
    assert_int_equal(peer_wait_end(&p), WORKER_EXIT_MEMORY << 8);
    assert_non_null(strstr(buf_str(&p.log), "Worker exceeded its memory limit of 128 MiB."));
    peer_close(&p);
}

static void ends_a_worker_that_hoards_memory(void **state)
{
    (void)state;
    assert_runs_out_of_memory("const a = []; for (;;) a.push(new Array(1e4).fill(1.5));");
    assert_runs_out_of_memory("const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1));");
    assert_runs_out_of_memory("const m = new Map(); for (let i = 0;; i++) m.set('key' + i, { i });");
    assert_runs_out_of_memory(
        "new Promise(() => { const a = []; T.on.timer = () => { a.push(new Uint8Array(1 << 20).fill(1));"
        " T.natives.timer(1, 0); }; T.natives.timer(1, 0); })");
}

static void garbage_is_no_hoard(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    set_memory_limit(&p, 128);
    assert_string_equal(
        peer_eval(
            &p, 20000,
            "let s = 0; for (let i = 0; i < 3e6; i++) { const o = { i, a: [i, i] }; s += o.a.length; } s"),
        "6000000");
    assert_string_equal(
        peer_eval(&p, 20000, "for (let i = 0; i < 500; i++) new Uint8Array(1 << 20).fill(1); 'done'"),
        "done");
    assert_string_equal(peer_eval(&p, 20000,
                                  "for (let i = 0; i < 2000; i++) JSON.parse(JSON.stringify(new "
                                  "Array(2000).fill('text'))); 'done'"),
                        "done");
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
        cmocka_unit_test(ends_a_worker_that_hoards_memory),
        cmocka_unit_test(garbage_is_no_hoard),
        cmocka_unit_test(a_flood_of_log_lines_is_thinned),
    };
    return cmocka_run_group_tests(tests, open_zygote, close_zygote);
}
