#include "store.h"

#include "app/alarms.h"
#include "base/clock.h"

struct world {
    struct store t;
    uv_loop_t loop;
    struct alarms *alarms;
    char file[96];
    int runs;
    unsigned retry_count;
    int64_t scheduled, ran_at;
    int (*handler)(struct world *w); /* 0: done, 1: failed, -1: not called at all */
};

static int on_run(void *user, const char *class_name, const char *id, int64_t scheduled_ms,
                  unsigned retry_count)
{
    struct world *w = user;
    assert_string_equal(class_name, "Counter");
    assert_string_equal(id, ID_A);
    w->runs++;
    w->retry_count = retry_count;
    w->scheduled = scheduled_ms;
    w->ran_at = clock_wall_ms();
    int r = w->handler ? w->handler(w) : 0;
    if (r >= 0) {
        assert_int_equal(storage_flush(w->t.storage, &w->t.err), 0);
        alarms_ran(w->alarms, class_name, id, r == 1);
    }
    uv_stop(&w->loop);
    return 0;
}

static void open_alarms(struct world *w)
{
    struct error err = {0};
    struct alarms_config config = {
        .loop = &w->loop, .file = w->file, .storage = w->t.storage, .run = on_run, .user = w};
    if (alarms_open(&w->alarms, &config, &err) < 0)
        fail_msg("%s", err.message);
}

static void begin(struct world *w)
{
    memset(w, 0, sizeof *w);
    store_begin(&w->t);
    snprintf(w->file, sizeof w->file, "%s/alarms.sqlite", w->t.dir);
    uv_loop_init(&w->loop);
    open_alarms(w);
}

static void end(struct world *w)
{
    alarms_close(w->alarms);
    store_end(&w->t);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

static void on_time(uv_timer_t *t)
{
    uv_stop(t->loop);
}

static void close_timer(uv_timer_t *t)
{
    uv_close((uv_handle_t *)t, NULL);
}

/* Until the next run, or for so long. */
static void wait_ms(struct world *w, uint64_t ms)
{
    uv_timer_t t;
    uv_timer_init(&w->loop, &t);
    uv_timer_start(&t, on_time, ms, 0);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    close_timer(&t);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

static void set_alarm(struct world *w, int64_t at)
{
    store_ok(&w->t, store_call(&w->t, "setAlarm", "{ti}", "at", at));
}

static int64_t get_alarm(struct world *w)
{
    int64_t at;
    store_ok(&w->t, store_call(&w->t, "getAlarm", "{}"));
    struct cbor_reader r = store_answer(&w->t, "at");
    return cbor_get_int(&r, &at) < 0 ? -1 : at;
}

static int see_none(struct world *w)
{
    return get_alarm(w) == -1 ? 0 : 1;
}

static void fires_once_and_not_early(void **state)
{
    struct world w;
    int64_t at = clock_wall_ms() + 60;
    begin(&w);
    w.handler = see_none;
    set_alarm(&w, at);
    assert_int_equal(get_alarm(&w), at);
    assert_int_equal(storage_flush(w.t.storage, &w.t.err), 0);
    wait_ms(&w, 3000);
    assert_int_equal(w.runs, 1);
    assert_int_equal(w.scheduled, at);
    assert_true(w.ran_at >= at);
    assert_int_equal(get_alarm(&w), -1);
    wait_ms(&w, 50);
    assert_int_equal(w.runs, 1);
    end(&w);
}

static void unflushed_and_deleted_alarms_do_not_fire(void **state)
{
    struct world w;
    begin(&w);
    set_alarm(&w, clock_wall_ms());
    store_ok(&w.t, store_call(&w.t, "undo", "{}"));
    assert_int_equal(get_alarm(&w), -1);
    set_alarm(&w, clock_wall_ms() + 30);
    assert_int_equal(storage_flush(w.t.storage, &w.t.err), 0);
    store_ok(&w.t, store_call(&w.t, "deleteAlarm", "{}"));
    assert_int_equal(storage_flush(w.t.storage, &w.t.err), 0);
    wait_ms(&w, 100);
    assert_int_equal(w.runs, 0);
    end(&w);
}

static int chain(struct world *w)
{
    assert_int_equal(get_alarm(w), -1);
    if (w->runs < 3)
        set_alarm(w, clock_wall_ms() - 60000);
    return 0;
}

static void set_again_inside_the_handler(void **state)
{
    struct world w;
    begin(&w);
    w.handler = chain;
    set_alarm(&w, clock_wall_ms());
    assert_int_equal(storage_flush(w.t.storage, &w.t.err), 0);
    for (int i = 0; i < 3; i++)
        wait_ms(&w, 1000);
    assert_int_equal(w.runs, 3);
    assert_int_equal(w.retry_count, 0);
    assert_int_equal(get_alarm(&w), -1);
    end(&w);
}

static int fail_once(struct world *w)
{
    return w->runs == 1 ? 1 : 0;
}

static void failures_are_tried_again_after_two_seconds(void **state)
{
    struct world w;
    begin(&w);
    w.handler = fail_once;
    int64_t at = clock_wall_ms();
    set_alarm(&w, at);
    assert_int_equal(storage_flush(w.t.storage, &w.t.err), 0);
    wait_ms(&w, 1000);
    int64_t first = w.ran_at;
    assert_int_equal(w.runs, 1);
    assert_int_equal(get_alarm(&w), at);
    wait_ms(&w, 5000);
    assert_int_equal(w.runs, 2);
    assert_int_equal(w.retry_count, 1);
    assert_int_equal(w.scheduled, at);
    assert_true(w.ran_at - first >= 2000 && w.ran_at - first < 4500);
    assert_int_equal(get_alarm(&w), -1);
    end(&w);
}

static int delete_and_fail(struct world *w)
{
    store_ok(&w->t, store_call(&w->t, "deleteAlarm", "{}"));
    return 1;
}

static void deleting_inside_the_handler_prevents_another_try(void **state)
{
    struct world w;
    begin(&w);
    w.handler = delete_and_fail;
    set_alarm(&w, clock_wall_ms());
    assert_int_equal(storage_flush(w.t.storage, &w.t.err), 0);
    wait_ms(&w, 1000);
    assert_int_equal(w.runs, 1);
    assert_int_equal(get_alarm(&w), -1);
    end(&w);
}

static int never_ends(struct world *w)
{
    return w->runs == 1 ? -1 : 0;
}

/* One that is set, and one whose handler ran when all ended, are there again afterwards. */
static void alarms_survive(void **state)
{
    struct world w;
    begin(&w);
    w.handler = never_ends;
    set_alarm(&w, clock_wall_ms());
    assert_int_equal(storage_flush(w.t.storage, &w.t.err), 0);
    for (int i = 0; i < 2; i++) {
        alarms_close(w.alarms);
        store_close(&w.t);
        uv_run(&w.loop, UV_RUN_NOWAIT);
        store_open(&w.t);
        open_alarms(&w);
        wait_ms(&w, 1000);
        assert_int_equal(w.runs, i + 1);
    }
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fires_once_and_not_early),
        cmocka_unit_test(unflushed_and_deleted_alarms_do_not_fire),
        cmocka_unit_test(set_again_inside_the_handler),
        cmocka_unit_test(failures_are_tried_again_after_two_seconds),
        cmocka_unit_test(deleting_inside_the_handler_prevents_another_try),
        cmocka_unit_test(alarms_survive),
    };
    return cmocka_run_group_tests_name("app_alarms", tests, NULL, NULL);
}
