#include "store.h"

#include <signal.h>
#include <sys/wait.h>

static void put_get_delete(void **state)
{
    struct store t;
    store_begin(&t);
    assert_null(store_get(&t, "a"));
    store_ok(&t, store_put(&t, "a", "1"));
    assert_string_equal(store_get(&t, "a"), "1");
    store_ok(&t, store_put(&t, "a", ""));
    assert_string_equal(store_get(&t, "a"), "");
    store_ok(&t, store_call(&t, "delete", "{t[ttt]}", "keys", "a", "b", "a"));
    assert_int_equal(store_int(&t, "count"), 1);
    assert_null(store_get(&t, "a"));
    store_end(&t);
}

static const char *keys_of(struct store *t)
{
    static struct buf out;
    uint64_t n;
    struct cbor_reader r = store_answer(t, "entries");
    buf_clear(&out);
    assert_int_equal(cbor_get_array(&r, 1000, &n), 0);
    for (uint64_t i = 0; i < n; i += 2) {
        struct cbor_item key, value;
        assert_int_equal(cbor_next(&r, &key), 0);
        assert_int_equal(cbor_next(&r, &value), 0);
        buf_append_str(&out, i ? " " : "");
        buf_append(&out, key.data, key.len);
    }
    return buf_str(&out);
}

static void list_ranges(void **state)
{
    struct store t;
    store_begin(&t);
    store_ok(&t, store_call(&t, "put", "{t[tbtbtbtbtb]}", "entries", "foo", "1", "bar", "2", "baz", "3", "b",
                            "4", "b\xc3\xa9", "5"));
    store_ok(&t, store_call(&t, "list", "{}"));
    assert_string_equal(keys_of(&t), "b bar baz b\xc3\xa9 foo");
    store_ok(&t, store_call(&t, "list", "{tT}", "reverse"));
    assert_string_equal(keys_of(&t), "foo b\xc3\xa9 baz bar b");
    store_ok(&t, store_call(&t, "list", "{tt}", "prefix", "ba"));
    assert_string_equal(keys_of(&t), "bar baz");
    store_ok(&t, store_call(&t, "list", "{tttt}", "start", "bar", "end", "foo"));
    assert_string_equal(keys_of(&t), "bar baz b\xc3\xa9");
    store_ok(&t, store_call(&t, "list", "{tttt}", "startAfter", "bar", "end", "baz"));
    assert_string_equal(keys_of(&t), "");
    store_ok(&t, store_call(&t, "list", "{tttt}", "prefix", "b", "startAfter", "bar"));
    assert_string_equal(keys_of(&t), "baz b\xc3\xa9");
    store_ok(&t, store_call(&t, "list", "{tttt}", "prefix", "b", "start", "a"));
    assert_string_equal(keys_of(&t), "b bar baz b\xc3\xa9");
    store_ok(&t, store_call(&t, "list", "{tttt}", "prefix", "b", "end", "baz"));
    assert_string_equal(keys_of(&t), "b bar");
    store_ok(&t, store_call(&t, "list", "{titT}", "limit", (int64_t)2, "reverse"));
    assert_string_equal(keys_of(&t), "foo b\xc3\xa9");
    assert_int_equal(store_call(&t, "list", "{ti}", "prefix", (int64_t)1), -1);
    assert_string_equal(t.err.message, "prefix: expected a text");
    store_end(&t);
}

/* More than an answer holds comes in several, and nothing twice. */
static void long_lists_continue(void **state)
{
    struct store t;
    char key[16], *value = calloc(1, 200001), last[16] = "";
    int seen = 0;
    store_begin(&t);
    memset(value, 'x', 200000);
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        store_ok(&t, store_put(&t, key, value));
    }
    for (bool more = true; more;) {
        uint64_t n;
        store_ok(&t, store_call(&t, "list", "{tt}", "startAfter", last));
        struct cbor_reader entries = store_answer(&t, "entries"), m = store_answer(&t, "more");
        assert_int_equal(cbor_get_bool(&m, &more), 0);
        assert_int_equal(cbor_get_array(&entries, 100, &n), 0);
        assert_true(n > 0 && t.answer.len < STORAGE_ANSWER_SOFT + 300000);
        for (uint64_t i = 0; i < n; i += 2, seen++) {
            assert_int_equal(cbor_get_string(&entries, last, sizeof last), 0);
            assert_int_equal(cbor_skip(&entries), 0);
        }
    }
    assert_int_equal(seen, 10);
    uint64_t n;
    store_ok(&t, store_call(&t, "get", "{t[ttttt]}", "keys", "k0", "k1", "k2", "k3", "k4"));
    struct cbor_reader values = store_answer(&t, "values");
    assert_int_equal(cbor_get_array(&values, 5, &n), 0);
    assert_int_equal(n, 3);
    free(value);
    store_end(&t);
}

static void key_and_value_limits(void **state)
{
    struct store t;
    char *big = malloc(STORAGE_VALUE_MAX + 1), key[STORAGE_KEY_MAX + 2];
    store_begin(&t);
    memset(big, 'v', STORAGE_VALUE_MAX);
    big[STORAGE_VALUE_MAX] = '\0';
    memset(key, 'k', STORAGE_KEY_MAX + 1);
    key[STORAGE_KEY_MAX + 1] = '\0';
    assert_int_equal(store_put(&t, key, "v"), -1);
    assert_string_equal(t.err.message, "a key has 2049 bytes, more than 2048");
    key[STORAGE_KEY_MAX] = '\0';
    store_ok(&t, store_put(&t, key, "v"));
    assert_int_equal(store_put(&t, "k", big), -1);
    assert_string_equal(t.err.message, "key and value have 2097153 bytes together, more than 2097152");
    store_ok(&t, store_put(&t, "k", big + 1));
    /* all or none */
    assert_int_equal(store_call(&t, "put", "{t[tbtb]}", "entries", "one", "1", "two", big), -1);
    assert_null(store_get(&t, "one"));
    free(big);
    store_end(&t);
}

static void flushed_is_durable_and_the_rest_is_not(void **state)
{
    struct store t;
    int ready[2];
    store_begin(&t);
    store_close(&t);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        store_open(&t);
        store_put(&t, "flushed", "1");
        store_sql(&t, "CREATE TABLE t (v)");
        store_sql(&t, "INSERT INTO t VALUES (1)");
        if (storage_flush(t.storage, &t.err) < 0)
            _exit(1);
        store_put(&t, "lost", "2");
        store_sql(&t, "INSERT INTO t VALUES (2)");
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    store_open(&t);
    assert_string_equal(store_get(&t, "flushed"), "1");
    assert_null(store_get(&t, "lost"));
    assert_string_equal(store_rows(&t, "SELECT v FROM t"), "1");
    store_end(&t);
}

static void savepoints_nest(void **state)
{
    struct store t;
    store_begin(&t);
    store_ok(&t, store_sql(&t, "CREATE TABLE t (v INTEGER)"));
    store_ok(&t, store_call(&t, "begin", "{}"));
    store_ok(&t, store_sql(&t, "INSERT INTO t VALUES (1)"));
    store_ok(&t, store_call(&t, "begin", "{}"));
    store_ok(&t, store_sql(&t, "INSERT INTO t VALUES (2)"));
    store_ok(&t, store_call(&t, "rollback", "{}"));
    store_ok(&t, store_sql(&t, "INSERT INTO t VALUES (3)"));
    assert_string_equal(store_rows(&t, "SELECT v FROM t"), "1;3");
    store_ok(&t, store_call(&t, "commit", "{}"));
    assert_string_equal(store_rows(&t, "SELECT v FROM t"), "1;3");
    store_ok(&t, store_call(&t, "begin", "{}"));
    store_ok(&t, store_call(&t, "begin", "{}"));
    store_ok(&t, store_sql(&t, "INSERT INTO t VALUES (4)"));
    store_ok(&t, store_call(&t, "commit", "{}"));
    store_ok(&t, store_call(&t, "rollback", "{}"));
    assert_string_equal(store_rows(&t, "SELECT v FROM t"), "1;3");
    assert_int_equal(store_call(&t, "commit", "{}"), -1);
    assert_string_equal(t.err.message, "no transaction is open");
    for (int i = 0; i < 64; i++)
        store_ok(&t, store_call(&t, "begin", "{}"));
    assert_int_equal(store_call(&t, "begin", "{}"), -1);
    assert_string_equal(t.err.message, "transactions are nested deeper than 64");
    store_end(&t);
}

/* A flush leaves a transaction that is open alone; one that outlives the turn has what came before it
 * flushed. */
static void open_transactions_are_not_flushed(void **state)
{
    struct store t;
    store_begin(&t);
    store_ok(&t, store_put(&t, "before", "1"));
    store_ok(&t, store_call(&t, "begin", "{tT}", "apart"));
    store_ok(&t, store_put(&t, "inside", "1"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    store_close(&t); /* as when the process dies */
    store_open(&t);
    assert_string_equal(store_get(&t, "before"), "1");
    assert_null(store_get(&t, "inside"));
    store_ok(&t, store_call(&t, "begin", "{tT}", "apart"));
    store_ok(&t, store_put(&t, "inside", "2"));
    store_ok(&t, store_call(&t, "commit", "{}"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    store_close(&t);
    store_open(&t);
    assert_string_equal(store_get(&t, "inside"), "2");
    store_ok(&t, store_put(&t, "undone", "2"));
    store_ok(&t, store_call(&t, "undo", "{}"));
    assert_null(store_get(&t, "undone"));
    store_end(&t);
}

static void a_new_session_takes_over(void **state)
{
    struct store t;
    store_begin(&t);
    struct storage_session *old = t.session;
    store_ok(&t, store_put(&t, "a", "unflushed"));
    assert_int_equal(storage_session_begin(t.storage, "Counter", ID_A, &t.session, &t.err), 0);
    assert_null(store_get(&t, "a"));
    struct storage_session *new = t.session;
    t.session = old;
    assert_int_equal(store_put(&t, "a", "1"), -1);
    assert_int_equal(t.err.kind, ERROR_GONE);
    assert_string_equal(t.err.message, "a newer instance of the object has taken its storage over");
    t.session = new;
    store_ok(&t, store_put(&t, "a", "2"));
    storage_session_end(old);
    assert_string_equal(store_get(&t, "a"), "2");
    store_end(&t);
}

static void objects_are_apart(void **state)
{
    struct store t;
    struct storage_session *first, *second;
    store_begin(&t);
    first = t.session;
    store_ok(&t, store_put(&t, "a", "1"));
    assert_int_equal(storage_session_begin(t.storage, "Counter", ID_B, &second, &t.err), 0);
    t.session = second;
    assert_null(store_get(&t, "a"));
    assert_int_equal(storage_session_begin(t.storage, "../Counter", ID_A, &t.session, &t.err), 0);
    assert_null(store_get(&t, "a"));
    storage_session_end(t.session);
    assert_int_equal(storage_session_begin(t.storage, "Counter", "../" ID_A, &t.session, &t.err), -1);
    assert_string_equal(t.err.message, "id: expected a class and 64 lower-case hex digits");
    assert_int_equal(storage_session_begin(t.storage, "", ID_A, &t.session, &t.err), -1);
    storage_session_end(second);
    t.session = first;
    char path[256];
    snprintf(path, sizeof path, "%s/=2E=2E=2FCounter/%s.sqlite", t.path, ID_A);
    assert_int_equal(access(path, F_OK), 0);
    store_end(&t);
}

/* Fewer files may be open than objects are used: nothing is lost by closing them. */
static void files_are_closed_and_opened_again(void **state)
{
    struct store t;
    struct storage_session *sessions[8];
    char id[65];
    store_begin(&t);
    store_close(&t);
    t.config.max_open = 2;
    store_open(&t);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 8; i++) {
            if (round == 0) {
                snprintf(id, sizeof id, "%064x", i);
                assert_int_equal(storage_session_begin(t.storage, "Many", id, &sessions[i], &t.err), 0);
            }
            struct storage_session *own = t.session;
            char value[8];
            snprintf(value, sizeof value, "%d", i);
            t.session = sessions[i];
            if (round == 0)
                store_ok(&t, store_put(&t, "i", value));
            else
                assert_string_equal(store_get(&t, "i"), value);
            assert_int_equal(storage_flush(t.storage, &t.err), 0);
            t.session = own;
        }
    for (int i = 0; i < 8; i++)
        storage_session_end(sessions[i]);
    store_end(&t);
}

static void database_size_is_limited(void **state)
{
    struct store t;
    store_begin(&t);
    store_close(&t);
    t.config.max_bytes = 64 * 4096;
    store_open(&t);
    store_ok(&t, store_put(&t, "kept", "1"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    store_ok(&t, store_put(&t, "gone", "1"));
    store_ok(&t, store_sql(&t, "CREATE TABLE t (v)"));
    assert_int_equal(store_sql(&t, "INSERT INTO t VALUES (zeroblob(1000000))"), -1);
    assert_string_equal(t.err.message, "database or disk is full: SQLITE_FULL");
    assert_int_equal(t.err.kind, ERROR_LIMIT);
    /* SQLite has undone the whole transaction: the instance is told so at every call until there is a new one
     */
    assert_int_equal(store_put(&t, "later", "1"), -1);
    assert_string_equal(t.err.message, "database or disk is full: SQLITE_FULL");
    store_close(&t);
    store_open(&t);
    assert_string_equal(store_get(&t, "kept"), "1");
    assert_null(store_get(&t, "gone"));
    store_end(&t);
}

static void deferred_constraints_break_the_session(void **state)
{
    struct store t;
    store_begin(&t);
    store_ok(&t, store_sql(&t, "CREATE TABLE b (id INTEGER PRIMARY KEY);"
                               "CREATE TABLE a (b REFERENCES b (id) DEFERRABLE INITIALLY DEFERRED)"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    store_ok(&t, store_sql(&t, "INSERT INTO a VALUES (7)"));
    assert_int_equal(storage_flush(t.storage, &t.err), -1);
    assert_string_equal(t.err.message, "FOREIGN KEY constraint failed: SQLITE_CONSTRAINT");
    assert_int_equal(store_put(&t, "a", "1"), -1);
    assert_string_equal(t.err.message, "FOREIGN KEY constraint failed: SQLITE_CONSTRAINT");
    storage_session_end(t.session);
    assert_int_equal(storage_session_begin(t.storage, "Counter", ID_A, &t.session, &t.err), 0);
    assert_string_equal(store_rows(&t, "SELECT * FROM a"), "");
    store_end(&t);
}

static void delete_all_leaves_nothing(void **state)
{
    struct store t;
    store_begin(&t);
    store_ok(&t, store_put(&t, "a", "1"));
    store_ok(&t, store_sql(&t, "CREATE TABLE b (id INTEGER PRIMARY KEY);"
                               "CREATE TABLE \"odd \"\" name\" (b REFERENCES b (id));"
                               "INSERT INTO b VALUES (1); INSERT INTO \"odd \"\" name\" VALUES (1);"
                               "CREATE VIEW v AS SELECT * FROM b;"
                               "CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('text')"));
    store_ok(&t, store_call(&t, "setAlarm", "{ti}", "at", (int64_t)5000));
    store_ok(&t, store_call(&t, "begin", "{}"));
    assert_int_equal(store_call(&t, "deleteAll", "{}"), -1);
    assert_string_equal(t.err.message, "deleteAll() cannot be called within a transaction");
    store_ok(&t, store_call(&t, "commit", "{}"));
    store_ok(&t, store_call(&t, "deleteAll", "{}"));
    assert_null(store_get(&t, "a"));
    assert_string_equal(
        store_rows(&t, "SELECT name FROM sqlite_schema WHERE name NOT LIKE '\\_cloister%' ESCAPE '\\'"
                       " AND name NOT LIKE 'sqlite%'"),
        "");
    store_ok(&t, store_call(&t, "getAlarm", "{}"));
    assert_int_equal(store_int(&t, "at"), 5000);
    store_ok(&t, store_call(&t, "deleteAll", "{tT}", "alarm"));
    store_ok(&t, store_call(&t, "getAlarm", "{}"));
    struct cbor_reader r = store_answer(&t, "at");
    struct cbor_item it;
    assert_int_equal(cbor_next(&r, &it), 0);
    assert_int_equal(it.type, CBOR_NULL);
    /* foreign keys are enforced again */
    store_ok(&t,
             store_sql(&t, "CREATE TABLE b (id INTEGER PRIMARY KEY); CREATE TABLE a (b REFERENCES b (id))"));
    store_refused(&t, "INSERT INTO a VALUES (7)", "FOREIGN KEY constraint failed: SQLITE_CONSTRAINT");
    store_end(&t);
}

static void unknown_and_malformed_calls(void **state)
{
    struct store t;
    store_begin(&t);
    assert_int_equal(store_call(&t, "format", "{}"), -1);
    assert_string_equal(t.err.message, "storage has no method format");
    assert_int_equal(store_call(&t, "get", "n"), -1);
    assert_string_equal(t.err.message, "keys: expected an array");
    assert_int_equal(store_call(&t, "get", "{t[i]}", "keys", (int64_t)1), -1);
    assert_string_equal(t.err.message, "keys: expected texts");
    assert_int_equal(store_call(&t, "put", "{t[t]}", "entries", "a"), -1);
    assert_string_equal(t.err.message, "entries: a key is without its value");
    assert_int_equal(store_call(&t, "put", "{t[tt]}", "entries", "a", "b"), -1);
    assert_string_equal(t.err.message, "entries: expected bytes after each key");
    assert_int_equal(store_call(&t, "setAlarm", "{ti}", "at", (int64_t)-1), -1);
    assert_string_equal(t.err.message, "at: expected milliseconds since the epoch");
    assert_int_equal(store_call(&t, "next", "{ti}", "cursor", (int64_t)9), -1);
    assert_int_equal(t.err.kind, ERROR_GONE);
    store_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_get_delete),
        cmocka_unit_test(list_ranges),
        cmocka_unit_test(long_lists_continue),
        cmocka_unit_test(key_and_value_limits),
        cmocka_unit_test(flushed_is_durable_and_the_rest_is_not),
        cmocka_unit_test(savepoints_nest),
        cmocka_unit_test(open_transactions_are_not_flushed),
        cmocka_unit_test(a_new_session_takes_over),
        cmocka_unit_test(objects_are_apart),
        cmocka_unit_test(files_are_closed_and_opened_again),
        cmocka_unit_test(database_size_is_limited),
        cmocka_unit_test(deferred_constraints_break_the_session),
        cmocka_unit_test(delete_all_leaves_nothing),
        cmocka_unit_test(unknown_and_malformed_calls),
    };
    return cmocka_run_group_tests_name("app_storage", tests, NULL, NULL);
}
