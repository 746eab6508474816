/* A worker process that was taken over, at the other end of a link: what it does costs it its life, with the
 * exact reason, and nobody else anything. hostile_worker.c is the process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/worker.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct outcome {
    struct worker *worker;
    struct error why;
    unsigned ended, lines, answers;
};

static uv_loop_t *loop;
static struct workers *workers;

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct outcome *o = user;
    o->answers++;
}

static void call(struct outcome *o)
{
    assert_int_not_equal(link_call(worker_link(o->worker), 0, "init", NULL, 0, on_answer, o), 0);
}

static void on_ready(void *user)
{
    call(user);
}

static void on_ended(void *user, const struct error *why)
{
    struct outcome *o = user;
    o->ended++;
    o->why = *why;
    uv_stop(loop);
}

static void on_log(void *user, int level, int64_t ms, const char *text)
{
    struct outcome *o = user;
    o->lines++;
}

static void on_timeout(uv_timer_t *t)
{
    uv_stop(loop);
}

static struct outcome run(const char *mode)
{
    struct outcome o = {0};
    char path[4096];
    uv_timer_t limit;
    snprintf(path, sizeof path, "%s.mode", getenv("HOSTILE_WORKER"));
    assert_int_equal(file_replace(AT_FDCWD, path, mode, strlen(mode), 0600, NULL), 0);
    struct worker_config c = {.name = mode, .ready = on_ready, .ended = on_ended, .log = on_log, .user = &o};
    o.worker = worker_start(workers, &c);
    assert_non_null(o.worker);
    if (worker_link(o.worker))
        call(&o);
    uv_timer_init(loop, &limit);
    uv_timer_start(&limit, on_timeout, 20000, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
    assert_int_equal(o.ended, 1);
    worker_release(o.worker);
    uv_run(loop, UV_RUN_NOWAIT);
    return o;
}

static void assert_end(const char *mode, const char *why)
{
    struct outcome o = run(mode);
    assert_string_equal(o.why.message, why);
    assert_int_equal(o.answers, 1); /* exactly one, whatever it did */
}

static void test_forged_capability(void **state)
{
    assert_end("forge", "Worker process ended unexpectedly (it broke the protocol: CALL on capability 42, "
                        "which was never given).");
}

static void test_malformed_answer(void **state)
{
    assert_end("garbage", "Worker process ended unexpectedly (it broke the protocol: RETURN frame whose body "
                          "is not one CBOR value).");
}

static void test_answers_twice(void **state)
{
    assert_end("twice", "Worker process ended unexpectedly (it broke the protocol: RETURN for call 1, which "
                        "was answered already).");
}

static void test_foreign_stream(void **state)
{
    assert_end("stray", "Worker process ended unexpectedly (it broke the protocol: END for stream 200, which "
                        "was never opened).");
}

static void test_exit(void **state)
{
    assert_end("exit", "Worker process ended unexpectedly (exit status 7).");
}

static void test_log_flood(void **state)
{
    struct outcome o = run("flood");
    assert_string_equal(o.why.message, "Worker process ended unexpectedly (exit status 7).");
    assert_true(o.lines >= 1000 && o.lines < 20000); /* of 100,000 */
}

static int set_up(void **state)
{
    struct error err = {0};
    loop = uv_default_loop();
    struct workers_config c = {.loop = loop, .program = getenv("HOSTILE_WORKER")};
    if (workers_open(&workers, &c, &err) == 0)
        return 0;
    print_error("%s\n", err.message);
    return -1;
}

static int tear_down(void **state)
{
    workers_close(workers);
    uv_run(loop, UV_RUN_NOWAIT);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forged_capability),
        cmocka_unit_test(test_malformed_answer),
        cmocka_unit_test(test_answers_twice),
        cmocka_unit_test(test_foreign_stream),
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_log_flood),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
