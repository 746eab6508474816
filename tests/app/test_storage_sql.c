/* What SQL of a worker may and may not do, and how rows come. */
#include "store.h"

#include "base/clock.h"

static void statements_and_values(void **state)
{
    struct store t;
    store_begin(&t);
    assert_string_equal(store_rows(&t, "SELECT 1, -2, 1.5, 'x', null, x'6162'"), "1,-2,1.5,x,null,ab");
    store_ok(&t, store_sql(
                     &t, "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2); INSERT INTO t VALUES (3, 4);"));
    assert_int_equal(store_int(&t, "written"), 1);
    assert_string_equal(store_rows(&t, "SELECT a, b FROM t ; -- done\n /* really */ ;"), "1,2;3,4");
    assert_int_equal(store_int(&t, "read"), 2);
    store_ok(&t, store_call(&t, "sql", "{ttt[tid]}", "query", "SELECT ?, ?, ?", "params", "\xc3\xa9",
                            (int64_t)-5, 0.25));
    assert_string_equal(store_rows(&t, "INSERT INTO t VALUES (5, 6) RETURNING b, a"), "6,5");
    assert_string_equal(store_rows(&t, "SELECT CAST(x'41ff42' AS TEXT)"), "A\xef\xbf\xbd"
                                                                          "B");
    assert_string_equal(store_rows(&t, "SELECT cos(0), json('{\"a\": 2}') -> '$.a'"), "1,2");
    store_end(&t);
}

/* Ours give what SQLite's give. */
static void functions_of_our_own(void **state)
{
    static const char *const cases[][2] = {
        {"SELECT instr('h\xc3\xa9llo', 'llo'), instr('abc', ''), instr('abc', 'x'), instr(x'c3a9ff', x'ff'), "
         "instr(NULL, 'a'), instr(12345, 34), instr('', 'a')",
         "3,1,0,3,null,3,0"},
        {"SELECT replace('aXbXc', 'X', '--'), replace('abc', '', 'x'), replace('aaa', 'aa', ''), "
         "replace('abc', "
         "NULL, 'x'), replace('', 'a', 'b'), length(replace('aa', 'a', ''))",
         "a--b--c,abc,a,null,,0"},
        {"SELECT trim('  a b  ') || '|', ltrim('  a ') || '|', rtrim(' a  ') || '|', trim('xyaxy', 'yx'), "
         "ltrim('\xc3\xa9\xc3\xa8z', '\xc3\xa8\xc3\xa9'), rtrim('a\xc3\xa9', '\xc3\xa9'), trim('aaa', 'a'), "
         "trim('a', ''), trim(NULL), trim('a', NULL)",
         "a b|,a |, a|,a,z,a,,a,null,null"},
        {"SELECT printf('%05.1f %s %d%%', 3.14159, 'x', 7), format('%*d|', 5, 42), format('%,d', 1234567), "
         "printf(NULL), format('%q', 'it''s'), format('%.3c', 'z')",
         "003.1 x 7%,   42|,1,234,567,null,it''s,zzz"},
        {"SELECT json_patch('{\"a\":1,\"b\":2}', '{\"b\":null,\"c\":[3]}'), "
         "json_array(json_patch('{}', '{\"d\":4}'))",
         "{\"a\":1,\"c\":[3]},[{\"d\":4}]"},
    };
    struct store t;
    (void)state;
    store_begin(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(store_rows(&t, cases[i][0]), cases[i][1]);
    store_end(&t);
}

/* Nothing takes longer than its arguments are long: the clock is looked at between functions only. */
static void functions_take_no_time(void **state)
{
    static const struct {
        const char *query, *message; /* NULL: it works */
    } cases[] = {
        {"SELECT instr(printf('%.*c', 100000, 'a'), printf('%.*c', 50000, 'a') || 'b')", NULL},
        {"SELECT instr(hex(zeroblob(900000)), hex(zeroblob(450000)) || '1')", NULL},
        {"SELECT length(replace(hex(zeroblob(900000)), hex(zeroblob(450000)) || '1', 'x'))", NULL},
        {"SELECT ltrim(hex(zeroblob(10000)), hex(zeroblob(10000)) || 'a')",
         "ltrim(): the arguments are too long together: SQLITE_ERROR"},
        {"SELECT rtrim(hex(zeroblob(10000)), hex(zeroblob(10000)) || 'a')",
         "rtrim(): the arguments are too long together: SQLITE_ERROR"},
        {"SELECT trim(hex(zeroblob(10000)), hex(zeroblob(10000)) || 'a')",
         "trim(): the arguments are too long together: SQLITE_ERROR"},
        {"SELECT trim(hex(zeroblob(900000)), '0123')", NULL},
        {"SELECT printf('%.*c', 2000000000, 'x')",
         "format(): a width or precision is more than 100000: SQLITE_ERROR"},
        {"SELECT format('%.2000000000c', 'x')",
         "format(): a width or precision is more than 100000: SQLITE_ERROR"},
        {"SELECT format('%%%-*.3d', -2000000000, 1)",
         "format(): a width or precision is more than 100000: SQLITE_ERROR"},
        {"SELECT replace(hex(zeroblob(900000)), '0', '00')", "string or blob too big: SQLITE_TOOBIG"},
        {"SELECT json_patch('{\"a\":\"' || hex(zeroblob(90000)) || '\"}', '{\"a\":\"' || "
         "hex(zeroblob(90000)) || "
         "'\"}')",
         "json_patch(): the arguments are too long together: SQLITE_ERROR"},
    };
    struct store t;
    (void)state;
    store_begin(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t start = clock_monotonic_ns();
        if (cases[i].message)
            store_refused(&t, cases[i].query, cases[i].message);
        else
            store_ok(&t, store_sql(&t, cases[i].query));
        /* Each took minutes; under the sanitizers, some seconds are theirs. */
        assert_true(clock_monotonic_ns() - start < 10000000000u);
    }
    store_end(&t);
}

static void mistakes_are_named(void **state)
{
    struct store t;
    store_begin(&t);
    store_refused(&t, "", "SQL code did not contain a statement.");
    store_refused(&t, " ; -- nothing", "SQL code did not contain a statement.");
    store_refused(&t, "SELECT * bunk", "near \"bunk\": syntax error at offset 9: SQLITE_ERROR");
    store_refused(&t, "SELECT * FROM nowhere", "no such table: nowhere: SQLITE_ERROR");
    store_refused(&t, "SELECT ?", "Wrong number of parameter bindings for SQL query: 1 expected, 0 given");
    store_refused(&t, "SELECT ?; SELECT 1", "only the last statement of a query may have parameters");
    assert_int_equal(store_call(&t, "sql", "{ttt[T]}", "query", "SELECT ?", "params"), -1);
    assert_string_equal(t.err.message, "params: expected null, numbers, texts or bytes");
    store_ok(&t, store_sql(&t, "CREATE TABLE t (n TEXT)"));
    store_refused(&t, "INSERT INTO t (rowid, n) VALUES ('yeah', 'nah')",
                  "datatype mismatch: SQLITE_MISMATCH");
    store_refused(&t, "SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6",
                  "too many terms in compound SELECT: SQLITE_ERROR");
    store_end(&t);
}

#define BY_SQL "; use ctx.storage.transactionSync() or ctx.storage.transaction(): SQLITE_AUTH"
#define RESERVED "not authorized: names that begin with _cloister_ or _cf_ are reserved: "

static void refusals(void **state)
{
    static const struct {
        const char *query, *message;
    } cases[] = {
        {"BEGIN TRANSACTION", "not authorized: transactions are not begun or ended by SQL (BEGIN)" BY_SQL},
        {"COMMIT", "not authorized: transactions are not begun or ended by SQL (COMMIT)" BY_SQL},
        {"ROLLBACK", "not authorized: transactions are not begun or ended by SQL (ROLLBACK)" BY_SQL},
        {"SAVEPOINT foo", "not authorized: transactions are not begun or ended by SQL (SAVEPOINT)" BY_SQL},
        {"RELEASE foo", "not authorized: transactions are not begun or ended by SQL (SAVEPOINT)" BY_SQL},
        {"ATTACH '/etc/passwd' AS x", "not authorized: ATTACH or VACUUM: SQLITE_AUTH"},
        {"DETACH main", "not authorized: DETACH: SQLITE_AUTH"},
        {"VACUUM", "not authorized: VACUUM: SQLITE_AUTH"},
        {"vacuum INTO '/tmp/x'", "not authorized: VACUUM: SQLITE_AUTH"},
        {"SELECT 1; /* */ VACUUM INTO '/tmp/x'", "not authorized: VACUUM: SQLITE_AUTH"},
        {"EXPLAIN VACUUM; VACUUM", "not authorized: VACUUM: SQLITE_AUTH"},
        {"SELECT load_extension('x')", "not authorized to use function: load_extension: SQLITE_AUTH"},
        {"SELECT sqlite_version()", "not authorized to use function: sqlite_version: SQLITE_AUTH"},
        {"SELECT fts3_tokenizer('simple')", "not authorized to use function: fts3_tokenizer: SQLITE_AUTH"},
        {"PRAGMA hard_heap_limit = 1024", "not authorized: PRAGMA hard_heap_limit: SQLITE_AUTH"},
        {"PRAGMA writable_schema = ON", "not authorized: PRAGMA writable_schema: SQLITE_AUTH"},
        {"PRAGMA journal_mode = DELETE", "not authorized: PRAGMA journal_mode: SQLITE_AUTH"},
        {"PRAGMA max_page_count = 9999999", "not authorized: PRAGMA max_page_count: SQLITE_AUTH"},
        {"PRAGMA temp_store_directory = '/tmp'", "not authorized: PRAGMA temp_store_directory: SQLITE_AUTH"},
        {"PRAGMA data_version = 5", "not authorized: PRAGMA data_version with this argument: SQLITE_AUTH"},
        {"PRAGMA table_info(_cloister_kv)",
         "not authorized: PRAGMA table_info with this argument: SQLITE_AUTH"},
        {"PRAGMA defer_foreign_keys = abcd",
         "not authorized: PRAGMA defer_foreign_keys with this argument: SQLITE_AUTH"},
        {"CREATE TABLE _cf_mine (a)", RESERVED "_cf_mine: SQLITE_AUTH"},
        {"CREATE TABLE _Cloister_mine (a)", RESERVED "_Cloister_mine: SQLITE_AUTH"},
        {"SELECT * FROM _cloister_kv",
         "not authorized: access to _cloister_kv.key is prohibited: SQLITE_AUTH"},
        {"SELECT count(*) FROM _cloister_kv",
         "not authorized: access to _cloister_kv. is prohibited: SQLITE_AUTH"},
        {"DELETE FROM _cloister_kv", RESERVED "_cloister_kv: SQLITE_AUTH"},
        {"UPDATE _cloister_alarm SET at = 1", RESERVED "_cloister_alarm: SQLITE_AUTH"},
        {"INSERT INTO _cloister_kv VALUES ('a', x'00')", RESERVED "_cloister_kv: SQLITE_AUTH"},
        {"DROP TABLE _cloister_kv", RESERVED "_cloister_kv: SQLITE_AUTH"},
        {"ALTER TABLE _cloister_kv RENAME TO mine", RESERVED "_cloister_kv: SQLITE_AUTH"},
        {"ALTER TABLE t RENAME TO _cloister_x", RESERVED "SQLITE_AUTH"},
        {"CREATE INDEX i ON _cloister_kv (value)", RESERVED "_cloister_kv: SQLITE_AUTH"},
        {"CREATE TRIGGER g AFTER INSERT ON _cloister_kv BEGIN SELECT 1; END",
         RESERVED "_cloister_kv: SQLITE_AUTH"},
        {"CREATE TEMP TABLE x (a)",
         "not authorized: temporary tables, views, indexes and triggers: SQLITE_AUTH"},
        {"CREATE TEMP VIEW x AS SELECT 1",
         "not authorized: temporary tables, views, indexes and triggers: SQLITE_AUTH"},
        {"CREATE VIRTUAL TABLE x USING dbstat(main)",
         "not authorized: virtual tables of module dbstat: SQLITE_AUTH"},
        {"CREATE VIRTUAL TABLE x USING csv(filename='/etc/passwd')",
         "not authorized: virtual tables of module csv: SQLITE_AUTH"},
        {"INSERT INTO sqlite_schema VALUES ('table', 'x', 'x', 2, 'x')",
         "table sqlite_master may not be modified: SQLITE_ERROR"},
        {"SELECT * FROM pragma_table_info('_cloister_kv')",
         "not authorized: PRAGMA table_info with this argument: SQLITE_AUTH"},
    };
    struct store t;
    store_begin(&t);
    store_ok(&t, store_sql(&t, "CREATE TABLE t (a)"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (store_sql(&t, cases[i].query) == 0)
            fail_msg("accepted: %s", cases[i].query);
        if (strcmp(t.err.message, cases[i].message) != 0)
            fail_msg("%s: %s", cases[i].query, t.err.message);
    }
    /* none of it did anything */
    assert_string_equal(store_rows(&t, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"),
                        "3");
    assert_string_equal(store_rows(&t, "SELECT count(*) FROM t"), "0");
    store_end(&t);
}

/* Reading through a view or a trigger is reading all the same. */
static void reserved_tables_by_detours(void **state)
{
    struct store t;
    store_begin(&t);
    store_ok(&t, store_put(&t, "secret", "1"));
    if (store_sql(&t, "CREATE VIEW v AS SELECT * FROM _cloister_kv") == 0)
        assert_int_equal(store_sql(&t, "SELECT * FROM v"), -1);
    store_ok(&t, store_sql(&t, "DROP VIEW IF EXISTS v; CREATE TABLE t (a)"));
    if (store_sql(&t, "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM _cloister_kv; END") == 0)
        assert_int_equal(store_sql(&t, "INSERT INTO t VALUES (1)"), -1);
    assert_string_equal(store_get(&t, "secret"), "1");
    store_end(&t);
}

static void what_is_allowed(void **state)
{
    static const char *const queries[] = {"PRAGMA data_version",
                                          "PRAGMA table_list",
                                          "PRAGMA table_info(t)",
                                          "PRAGMA table_xinfo('t')",
                                          "PRAGMA index_list(t)",
                                          "PRAGMA foreign_key_check",
                                          "PRAGMA quick_check",
                                          "PRAGMA quick_check(t)",
                                          "PRAGMA optimize",
                                          "PRAGMA defer_foreign_keys = 'true'",
                                          "PRAGMA case_sensitive_like = off",
                                          "ANALYZE",
                                          "CREATE VIRTUAL TABLE f USING FtS5(x, tokenize = porter)",
                                          "CREATE VIRTUAL TABLE fv USING fts5vocab(f, row)",
                                          "INSERT INTO f VALUES ('contents of this')",
                                          "SELECT highlight(f, 0, '<', '>') FROM f WHERE f MATCH 'content'",
                                          "DROP TABLE fv",
                                          "DROP TABLE f",
                                          "ALTER TABLE t ADD COLUMN b TEXT",
                                          "ALTER TABLE t RENAME COLUMN b TO c",
                                          "ALTER TABLE t DROP COLUMN c",
                                          "ALTER TABLE t RENAME TO u",
                                          "CREATE INDEX i ON u (a)",
                                          "REINDEX i",
                                          "CREATE TRIGGER g AFTER INSERT ON u BEGIN UPDATE u SET a = 2; END",
                                          "INSERT INTO u VALUES (1)",
                                          "CREATE VIEW w AS SELECT a FROM u",
                                          "SELECT * FROM w",
                                          "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 "
                                          "FROM n WHERE x < 5) SELECT sum(x) FROM n",
                                          "EXPLAIN QUERY PLAN SELECT * FROM u",
                                          "SELECT name FROM sqlite_schema",
                                          "SELECT strftime('%Y', 'now'), current_timestamp",
                                          "SELECT row_number() OVER (ORDER BY a) FROM u"};
    struct store t;
    store_begin(&t);
    store_ok(&t, store_sql(&t, "CREATE TABLE t (a)"));
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        if (store_sql(&t, queries[i]) < 0)
            fail_msg("%s: %s", queries[i], t.err.message);
    store_end(&t);
}

static void statements_have_a_time_limit(void **state)
{
    struct store t;
    store_begin(&t);
    store_close(&t);
    t.config.statement_ms = 100;
    store_open(&t);
    store_ok(&t, store_put(&t, "a", "1"));
    store_refused(&t,
                  "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
                  "the statement ran longer than its limit of 100 ms: SQLITE_INTERRUPT");
    assert_int_equal(t.err.kind, ERROR_LIMIT);
    assert_string_equal(store_get(&t, "a"), "1");
    assert_string_equal(store_rows(&t, "SELECT 1"), "1");
    /* one that begins the transaction, and is not the last */
    store_ok(&t, store_sql(&t, "CREATE TABLE t (a)"));
    assert_int_equal(storage_flush(t.storage, &t.err), 0);
    store_refused(
        &t,
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO t SELECT count(*) "
        "FROM n; SELECT 1",
        "the statement ran longer than its limit of 100 ms: SQLITE_INTERRUPT");
    store_end(&t);
}

/* Not one for each. */
static void statements_of_a_text_share_the_limit(void **state)
{
    static const char one[] = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < "
                              "50000) SELECT count(*) FROM n;";
    struct store t;
    struct buf text;
    store_begin(&t);
    store_close(&t);
    t.config.statement_ms = 300;
    store_open(&t);
    buf_init(&text, 0);
    for (int i = 0; i < 500; i++)
        buf_append(&text, one, strlen(one));
    store_ok(&t, store_sql(&t, one));
    store_refused(&t, buf_str(&text), "the statement ran longer than its limit of 300 ms: SQLITE_INTERRUPT");
    buf_free(&text);
    store_end(&t);
}

static void memory_is_limited(void **state)
{
    struct store t;
    store_begin(&t);
    store_refused(&t, "SELECT zeroblob(100000000)", "string or blob too big: SQLITE_TOOBIG");
    store_refused(&t, "SELECT replace(hex(zeroblob(1000000)), '00', 'a long text in its place')",
                  "string or blob too big: SQLITE_TOOBIG");
    store_ok(&t, store_sql(&t, "CREATE TABLE t (a)"));
    store_refused(&t,
                  "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20)"
                  " INSERT INTO t SELECT zeroblob(1000000) FROM n RETURNING a",
                  "the statement returned more than 16 MiB");
    assert_string_equal(store_rows(&t, "SELECT 1"), "1");
    store_end(&t);
}

static void cursors_continue(void **state)
{
    struct store t;
    int64_t rows = 0;
    store_begin(&t);
    store_ok(
        &t,
        store_sql(&t,
                  "CREATE TABLE t (a); WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x"
                  " < 100) INSERT INTO t SELECT zeroblob(20000) FROM n"));
    store_ok(&t, store_sql(&t, "SELECT a FROM t"));
    for (bool more = true; more;) {
        uint64_t n, cursor = 0;
        struct cbor_reader r = store_answer(&t, "rows"), map;
        assert_int_equal(cbor_get_array(&r, 1000, &n), 0);
        rows += (int64_t)n;
        cbor_reader_init(&map, t.answer.data, t.answer.len);
        assert_int_equal(cbor_map_uint(&map, "cursor", UINT32_MAX, 0, &cursor), 0);
        more = cursor != 0;
        if (more) {
            /* writes between, and a flush, do not disturb it */
            store_ok(&t, store_put(&t, "k", "v"));
            assert_int_equal(storage_flush(t.storage, &t.err), 0);
            store_ok(&t, store_call(&t, "next", "{ti}", "cursor", (int64_t)cursor));
        }
    }
    assert_int_equal(rows, 100);
    /* the oldest is closed when there are too many */
    store_ok(&t, store_sql(&t, "SELECT a FROM t"));
    int64_t first = store_int(&t, "cursor");
    for (int i = 0; i < 64; i++)
        store_ok(&t, store_sql(&t, "SELECT a FROM t"));
    int64_t last = store_int(&t, "cursor");
    assert_int_equal(store_call(&t, "next", "{ti}", "cursor", first), -1);
    assert_int_equal(t.err.kind, ERROR_GONE);
    store_ok(&t, store_call(&t, "next", "{ti}", "cursor", last));
    store_ok(&t, store_call(&t, "close", "{ti}", "cursor", last));
    assert_int_equal(store_call(&t, "next", "{ti}", "cursor", last), -1);
    store_end(&t);
}

static void size_follows_content(void **state)
{
    struct store t;
    store_begin(&t);
    store_ok(&t, store_call(&t, "size", "{}"));
    int64_t before = store_int(&t, "bytes");
    assert_true(before > 0 && before % 4096 == 0);
    store_ok(&t, store_sql(&t, "CREATE TABLE one_more (v)"));
    store_ok(&t, store_call(&t, "size", "{}"));
    assert_int_equal(store_int(&t, "bytes"), before + 4096);
    store_ok(&t, store_sql(&t, "DROP TABLE one_more"));
    store_ok(&t, store_call(&t, "size", "{}"));
    assert_int_equal(store_int(&t, "bytes"), before);
    store_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_and_values),
        cmocka_unit_test(functions_of_our_own),
        cmocka_unit_test(functions_take_no_time),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(refusals),
        cmocka_unit_test(reserved_tables_by_detours),
        cmocka_unit_test(what_is_allowed),
        cmocka_unit_test(statements_have_a_time_limit),
        cmocka_unit_test(statements_of_a_text_share_the_limit),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(cursors_continue),
        cmocka_unit_test(size_follows_content),
    };
    return cmocka_run_group_tests_name("app_storage_sql", tests, NULL, NULL);
}
