/* Storage that is lent to another thread: long steps can be stopped, and take bounded memory and disk. */
#include "store.h"

#include "base/clock.h"

#include <dirent.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#define NUMBERS(n) "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < " #n ") "

struct query {
    struct store *store;
    const char *text;
    int result;
    atomic_bool done;
};

static void *run_query(void *user)
{
    struct query *q = user;
    q->result = store_sql(q->store, q->text);
    atomic_store(&q->done, true);
    return NULL;
}

/* How long it took to end after it was told to, which is `ms` after its beginning. */
static uint64_t stop_after(struct store *t, const char *text, unsigned ms, bool gone)
{
    struct query q = {.store = t, .text = text};
    pthread_t thread;
    storage_lend(t->storage);
    assert_int_equal(pthread_create(&thread, NULL, run_query, &q), 0);
    usleep(ms * 1000);
    if (atomic_load(&q.done))
        print_message("# too quick to be stopped: %s\n", text);
    uint64_t from = clock_monotonic_ns();
    while (!atomic_load(&q.done)) {
        storage_stop(t->storage, gone);
        usleep(20000);
    }
    pthread_join(thread, NULL);
    uint64_t took = (clock_monotonic_ns() - from) / 1000000;
    storage_take_back(t->storage);
    if (q.result == 0)
        fail_msg("not stopped: %s", text);
    return took;
}

/* Each of these is one step of SQLite's machine, or few: the clock between steps says nothing. */
static void long_steps_can_be_stopped(void **state)
{
    static const char *const queries[] = {
        "SELECT count(*) FROM (SELECT a FROM big ORDER BY b, a DESC)",
        "INSERT INTO f(f) VALUES('rebuild')",
        "SELECT count(*) FROM f WHERE f MATCH 'w* NEAR w* NEAR w*'",
        "CREATE INDEX i ON big (b, a)",
        NUMBERS(100000000) "SELECT x FROM n ORDER BY -x",
    };
    struct store t;
    store_begin(&t);
    store_close(&t);
    t.config.statement_ms = 120000;
    store_open(&t);
    store_ok(&t, store_sql(&t, "CREATE TABLE big (a, b); CREATE VIRTUAL TABLE f USING fts5(t);" NUMBERS(
                                   300000) "INSERT INTO big SELECT hex(randomblob(20)), random() FROM "
                                           "n;" NUMBERS(60000) "INSERT INTO f SELECT format('w%d w%d w%d "
                                                               "w%d', x, random() % 5000, "
                                                               "random() % 5000, x % 77) FROM n"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        uint64_t took = stop_after(&t, queries[i], 40, i % 2);
        if (took > 1500)
            fail_msg("%s: ended only %llu ms after it was told to", queries[i], (unsigned long long)took);
        assert_string_equal(t.err.message,
                            i % 2 ? "nobody waits for the statement any more: SQLITE_INTERRUPT"
                                  : "the statement ran longer than its limit of 120000 ms: SQLITE_INTERRUPT");
        /* a write that was stopped has undone the transaction, which breaks the session */
        storage_session_end(t.session);
        assert_int_equal(storage_session_begin(t.storage, "Counter", ID_A, &t.session, &t.err), 0);
        assert_string_equal(store_rows(&t, "SELECT count(*) FROM big"), "300000");
    }
    store_end(&t);
}

/* The mark that SQLite sets for an interruption hits nothing that comes later. */
static void stopping_leaves_nothing_behind(void **state)
{
    struct store t;
    store_begin(&t);
    store_close(&t);
    t.config.statement_ms = 120000;
    store_open(&t);
    store_ok(
        &t, store_sql(&t, "CREATE TABLE t (a); " NUMBERS(100) "INSERT INTO t SELECT zeroblob(20000) FROM n"));
    store_ok(&t, store_sql(&t, "SELECT a FROM t"));
    int64_t cursor = store_int(&t, "cursor");
    stop_after(&t, NUMBERS(1000000000) "SELECT count(*) FROM n", 50, false);
    assert_int_equal(t.err.kind, ERROR_LIMIT);
    assert_int_equal(store_call(&t, "next", "{ti}", "cursor", cursor), -1);
    assert_int_equal(t.err.kind, ERROR_GONE);
    assert_string_equal(store_rows(&t, "SELECT count(*) FROM t"), "100");
    store_ok(&t, store_put(&t, "a", "1"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    assert_string_equal(store_get(&t, "a"), "1");
    store_end(&t);
}

static int files_in(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void sorting_takes_bounded_memory(void **state)
{
    struct store t;
    store_begin(&t);
    store_close(&t);
    t.config.statement_ms = 120000;
    store_open(&t);
    sqlite3_memory_highwater(1);
    int64_t before = sqlite3_memory_used();
    /* 60 MB, by all three ways: a sort, a table for DISTINCT, one for a subquery that is used twice */
    assert_string_equal(
        store_rows(
            &t,
            NUMBERS(30000) "SELECT length(max(h)) FROM (SELECT DISTINCT h FROM (SELECT hex(randomblob(500))"
                           " AS h, x FROM n ORDER BY 1) ORDER BY h DESC)"),
        "1000");
    assert_true(sqlite3_memory_highwater(0) - before < 24 << 20);
    assert_int_equal(files_in(t.path), 1); /* the class's directory: temporary files have no names */
    store_end(&t);
}

static void temporary_files_are_bounded(void **state)
{
    struct store t;
    store_begin(&t);
    store_close(&t);
    t.config.max_bytes = 8 << 20;
    store_open(&t);
    store_ok(&t, store_put(&t, "a", "1"));
    for (int i = 0; i < 3; i++)
        store_refused(&t, NUMBERS(30000) "SELECT hex(randomblob(500)) FROM n ORDER BY 1",
                      "database or disk is full: SQLITE_FULL");
    assert_int_equal(t.err.kind, ERROR_LIMIT);
    /* within it, also after the others; those of a cursor count as long as it is open */
    for (int i = 0; i < 3; i++) {
        store_ok(&t, store_sql(&t, NUMBERS(4000) "SELECT hex(randomblob(500)) FROM n ORDER BY 1"));
        store_ok(&t, store_call(&t, "close", "{ti}", "cursor", store_int(&t, "cursor")));
    }
    assert_string_equal(store_get(&t, "a"), "1");
    assert_int_equal(files_in(t.path), 1);
    store_end(&t);
}

/* An index in the making is in memory, as much as its owner says. */
static void full_text_indexes_take_bounded_memory(void **state)
{
    static const char message[] = "statements took more than 16 MiB of memory together: SQLITE_NOMEM";
    struct store t;
    store_begin(&t);
    store_close(&t);
    t.config.max_memory = 16 << 20;
    t.config.statement_ms = 120000;
    store_open(&t);
    store_ok(&t,
             store_sql(&t, "CREATE VIRTUAL TABLE f USING fts5(t); INSERT INTO f(f, rank) VALUES ('hashsize', "
                           "1000000000)"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    store_refused(&t, NUMBERS(1000000) "INSERT INTO f SELECT format('w%d', x) FROM n", message);
    assert_int_equal(t.err.kind, ERROR_LIMIT);
    storage_session_end(t.session);
    assert_int_equal(storage_session_begin(t.storage, "Counter", ID_A, &t.session, &t.err), 0);
    /* many small ones do not add up */
    for (int i = 0; i < 40; i++)
        store_ok(&t, store_sql(&t, NUMBERS(5000) "INSERT INTO f SELECT format('w%d', random()) FROM n"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    assert_string_equal(store_rows(&t, "SELECT count(*) FROM f"), "200000");
    store_end(&t);
}

/* A session that ends while its storage is lent ends afterwards, without what it wrote. */
static void sessions_end_later(void **state)
{
    struct store t;
    store_begin(&t);
    store_ok(&t, store_put(&t, "kept", "1"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    store_ok(&t, store_put(&t, "lost", "1"));
    assert_true(storage_dirty(t.storage));
    storage_lend(t.storage);
    assert_true(storage_lent(t.storage));
    storage_session_end(t.session);
    store_ok(&t, store_put(&t, "lost", "2")); /* what the thread was at */
    storage_take_back(t.storage);
    assert_false(storage_lent(t.storage));
    assert_int_equal(storage_session_begin(t.storage, "Counter", ID_A, &t.session, &t.err), 0);
    assert_string_equal(store_get(&t, "kept"), "1");
    assert_null(store_get(&t, "lost"));
    store_end(&t);
}

static void what_is_long(void **state)
{
    struct store t;
    store_begin(&t);
    assert_true(storage_call_is_long(t.session, "sql", 20));
    assert_true(storage_call_is_long(t.session, "deleteAll", 20));
    assert_false(storage_call_is_long(t.session, "get", 20));
    assert_false(storage_call_is_long(t.session, "put", 4096));
    assert_true(storage_call_is_long(t.session, "put", 4097));
    assert_false(storage_call_is_long(t.session, "stage", 1 << 20));
    store_ok(&t, store_put(&t, "a", "1"));
    assert_false(storage_call_is_long(t.session, "sync", 1));
    assert_false(storage_flush_is_long(t.storage));
    store_ok(&t, store_sql(
                     &t, "CREATE TABLE t (a); " NUMBERS(20) "INSERT INTO t SELECT zeroblob(1000000) FROM n"));
    assert_true(storage_call_is_long(t.session, "sync", 1));
    assert_true(storage_call_is_long(t.session, "undo", 1));
    assert_true(storage_flush_is_long(t.storage));
    /* here without a thread: it is left to one to bring it to its place */
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    assert_true(storage_call_is_long(t.session, "sync", 1));
    storage_lend(t.storage);
    store_ok(&t, store_call(&t, "sync", "{}"));
    storage_take_back(t.storage);
    assert_false(storage_call_is_long(t.session, "sync", 1));
    store_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_steps_can_be_stopped),
        cmocka_unit_test(stopping_leaves_nothing_behind),
        cmocka_unit_test(sorting_takes_bounded_memory),
        cmocka_unit_test(temporary_files_are_bounded),
        cmocka_unit_test(full_text_indexes_take_bounded_memory),
        cmocka_unit_test(sessions_end_later),
        cmocka_unit_test(what_is_long),
    };
    return cmocka_run_group_tests_name("storage_thread", tests, NULL, NULL);
}
