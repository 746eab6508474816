/* SQL of the worker. UNTRUSTED INPUT: statements, parameters, and what the tables hold. What a statement may
 * do is decided in storage_rules.c. */
#include "app/storage_internal.h"

#include "base/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- reading the text ---- */

/* Past white space, comments and empty statements. */
static const char *skip_blank(const char *p, const char *end)
{
    while (p < end) {
        if (*p == ' ' || *p == ';' || (*p >= '\t' && *p <= '\r')) {
            p++;
        } else if (p + 1 < end && p[0] == '-' && p[1] == '-') {
            while (p < end && *p != '\n')
                p++;
        } else if (p + 1 < end && p[0] == '/' && p[1] == '*') {
            const char *close = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
            p = close ? close + 2 : end;
        } else {
            break;
        }
    }
    return p;
}

static bool begins_with(const char *p, const char *end, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(end - p) >= len && strncasecmp(p, word, len) == 0;
}

/* ---- values ---- */

/* SQLite does not check that its texts are UTF-8; what is sent must be. */
static void put_text(struct buf *b, const char *text, size_t len)
{
    struct buf clean;
    if (utf8_valid(text, len)) {
        cbor_put_text_n(b, text, len);
        return;
    }
    buf_init(&clean, STORAGE_ANSWER_MAX);
    for (size_t i = 0; i < len;) {
        size_t n = 1;
        while (n <= 4 && i + n <= len && !utf8_valid(text + i, n))
            n++;
        if (n <= 4 && i + n <= len) {
            buf_append(&clean, text + i, n);
            i += n;
        } else {
            buf_append_str(&clean, "\xef\xbf\xbd");
            i++;
        }
    }
    if (clean.failed)
        b->failed = true;
    else
        cbor_put_text_n(b, (const char *)clean.data, clean.len);
    buf_free(&clean);
}

static void put_column(struct buf *b, sqlite3_stmt *q, int i)
{
    switch (sqlite3_column_type(q, i)) {
    case SQLITE_INTEGER:
        cbor_put_int(b, sqlite3_column_int64(q, i));
        break;
    case SQLITE_FLOAT:
        cbor_put_double(b, sqlite3_column_double(q, i));
        break;
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(q, i);
        put_text(b, text ? text : "", (size_t)sqlite3_column_bytes(q, i));
        break;
    }
    case SQLITE_BLOB: {
        const void *bytes = sqlite3_column_blob(q, i);
        cbor_put_bytes(b, bytes ? bytes : "", (size_t)sqlite3_column_bytes(q, i));
        break;
    }
    default:
        cbor_put_null(b);
    }
}

static int bind_one(sqlite3_stmt *q, int at, struct cbor_reader *r, struct error *err)
{
    struct cbor_item it;
    int result = SQLITE_ERROR;
    if (cbor_next(r, &it) < 0)
        return error_field(err, "params", "params: malformed");
    switch (it.type) {
    case CBOR_NULL:
        result = sqlite3_bind_null(q, at);
        break;
    case CBOR_UINT:
        if (it.u64 <= INT64_MAX)
            result = sqlite3_bind_int64(q, at, (int64_t)it.u64);
        break;
    case CBOR_NINT:
        if (it.u64 <= INT64_MAX)
            result = sqlite3_bind_int64(q, at, -1 - (int64_t)it.u64);
        break;
    case CBOR_DOUBLE:
        result = sqlite3_bind_double(q, at, it.number);
        break;
    case CBOR_TEXT:
        result = sqlite3_bind_text64(q, at, (const char *)it.data, it.len, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case CBOR_BYTES:
        result = sqlite3_bind_blob64(q, at, it.len ? (const void *)it.data : "", it.len, SQLITE_TRANSIENT);
        break;
    default:
        return error_field(err, "params", "params: expected null, numbers, texts or bytes");
    }
    if (result == SQLITE_TOOBIG)
        return error_set(err, ERROR_LIMIT, "string or blob too big: SQLITE_TOOBIG");
    return result == SQLITE_OK ? 0 : error_field(err, "params", "params: a number is out of range");
}

static int bind_all(sqlite3_stmt *q, struct cbor_reader *params, uint64_t count, struct error *err)
{
    if ((uint64_t)sqlite3_bind_parameter_count(q) != count)
        return error_field(err, "params",
                           "Wrong number of parameter bindings for SQL query: %d expected, %llu given",
                           sqlite3_bind_parameter_count(q), (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        if (bind_one(q, (int)i + 1, params, err) < 0)
            return -1;
    return 0;
}

/* ---- running ---- */

struct run {
    struct storage_object *object;
    sqlite3_stmt *statement;
    bool altered, guarded;
    int64_t changes_before;
};

/* A renamed table has a name that the authorizer did not see. */
static int check_names_after(struct storage_object *o, struct error *err)
{
    static const char find[] =
        "SELECT name FROM sqlite_schema WHERE (name LIKE '\\_cloister\\_%' ESCAPE '\\' OR"
        " name LIKE '\\_cf\\_%' ESCAPE '\\')"
        " AND name NOT IN ('_cloister_kv', '_cloister_alarm') LIMIT 1";
    sqlite3_stmt *q = NULL;
    o->internal = true;
    int r = sqlite3_prepare_v2(o->db, find, -1, &q, NULL), found = 0;
    o->internal = false;
    if (r == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        found = 1;
    sqlite3_finalize(q);
    if (r != SQLITE_OK)
        return storage_object_error(o, err);
    return found ? error_set(
                       err, ERROR_DENIED,
                       "not authorized: names that begin with _cloister_ or _cf_ are reserved: SQLITE_AUTH")
                 : 0;
}

static int prepare(struct run *run, const char **text, const char *end, struct error *err)
{
    struct storage_object *o = run->object;
    if (begins_with(*text, end, "VACUUM"))
        return error_set(err, ERROR_DENIED, "not authorized: VACUUM: SQLITE_AUTH");
    storage_rules_begin(o);
    storage_object_start_clock(o);
    if (sqlite3_prepare_v2(o->db, *text, (int)(end - *text), &run->statement, text) != SQLITE_OK)
        return storage_object_error(o, err);
    run->altered = o->saw_alter;
    run->changes_before = sqlite3_total_changes64(o->db);
    if (!run->statement)
        return error_set(err, ERROR_INVALID, "SQL code did not contain a statement.");
    if (sqlite3_stmt_readonly(run->statement) || o->saw_pragma)
        return 0;
    if (storage_object_write(o, err) < 0)
        return -1;
    if (run->altered && storage_object_begin(o, false, err) < 0)
        return -1;
    run->guarded = run->altered;
    storage_object_start_clock(o); /* our own statements have no limit, and took it away */
    return 0;
}

static int step(struct run *run, struct error *err)
{
    int r = sqlite3_step(run->statement);
    if (r == SQLITE_ROW)
        return 1;
    return r == SQLITE_DONE ? 0 : storage_object_error(run->object, err);
}

/* After the last row, or a failure: `result` as it stands. */
static int finish(struct run *run, int result, struct error *err)
{
    struct storage_object *o = run->object;
    sqlite3_finalize(run->statement);
    run->statement = NULL;
    storage_object_stop_clock(o);
    if (run->guarded && o->in_transaction) {
        if (result == 0)
            result = check_names_after(o, err);
        if (storage_object_release(o, result < 0, result < 0 ? NULL : err) < 0)
            result = -1;
    }
    return result;
}

/* All statements of a text but the last run to their end, without parameters. */
static int run_leading(struct storage_object *o, const char **text, const char *end, struct run *ret_last,
                       struct error *err)
{
    for (;;) {
        struct run run = {.object = o};
        int r = prepare(&run, text, end, err);
        *text = skip_blank(*text, end);
        if (r == 0 && *text == end) {
            *ret_last = run;
            return 0;
        }
        if (r == 0 && sqlite3_bind_parameter_count(run.statement) > 0)
            r = error_field(err, "params", "only the last statement of a query may have parameters");
        while (r == 0 && (r = step(&run, err)) == 1)
            r = 0;
        /* step() gave 0 at the end of the statement, and so ended the loop only when it was not 1 */
        if (finish(&run, r, err) < 0)
            return -1;
    }
}

/* ---- rows ---- */

static void put_row(struct buf *b, sqlite3_stmt *q)
{
    int columns = sqlite3_column_count(q);
    cbor_put_array(b, (uint64_t)columns);
    for (int i = 0; i < columns; i++)
        put_column(b, q, i);
}

/* Rows from the present one on, until they fill an answer (or, `whole`, all): their number in *ret_count. 1:
 * there are more; the statement stands on the next. */
static int collect(struct run *run, int at, bool whole, struct buf *rows, uint64_t *ret_count,
                   struct error *err)
{
    int r = at;
    while (r == 1) {
        if (!whole && *ret_count > 0 && rows->len >= STORAGE_ANSWER_SOFT)
            return 1;
        put_row(rows, run->statement);
        if (rows->failed)
            return error_set(err, ERROR_LIMIT, "the statement returned more than %zu MiB",
                             STORAGE_ANSWER_MAX >> 20);
        ++*ret_count;
        r = step(run, err);
    }
    return r;
}

static uint64_t rows_read(sqlite3_stmt *q, uint64_t returned)
{
    uint64_t scanned = (uint64_t)sqlite3_stmt_status(q, SQLITE_STMTSTATUS_FULLSCAN_STEP, 0);
    return scanned + 1 > returned && scanned > 0 ? scanned + 1 : returned;
}

static void put_rows(struct buf *answer, const struct buf *rows, uint64_t count)
{
    cbor_put_text(answer, "rows");
    cbor_put_array(answer, count);
    buf_append(answer, rows->data, rows->len);
}

static void put_columns(struct buf *answer, sqlite3_stmt *q)
{
    int columns = sqlite3_column_count(q);
    cbor_put_text(answer, "columns");
    cbor_put_array(answer, (uint64_t)columns);
    for (int i = 0; i < columns; i++) {
        const char *name = sqlite3_column_name(q, i);
        put_text(answer, name ? name : "", name ? strlen(name) : 0);
    }
}

/* ---- cursors ---- */

static void drop_cursor(struct storage_cursor **at)
{
    struct storage_cursor *c = *at;
    *at = c->next;
    sqlite3_finalize(c->statement);
    free(c);
}

void storage_cursors_close(struct storage_object *o)
{
    while (o->cursors)
        drop_cursor(&o->cursors);
}

/* The newest first; the oldest goes when there are too many. */
static struct storage_cursor *keep_cursor(struct storage_object *o, sqlite3_stmt *q, uint64_t rows)
{
    unsigned n = 0;
    struct storage_cursor *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c =
        (struct storage_cursor){.next = o->cursors, .statement = q, .number = o->next_cursor++, .rows = rows};
    o->cursors = c;
    for (struct storage_cursor **at = &o->cursors; *at;)
        if (++n > STORAGE_MAX_CURSORS)
            drop_cursor(at);
        else
            at = &(*at)->next;
    return c;
}

static struct storage_cursor **find_cursor(struct storage_object *o, const struct cbor_reader *args)
{
    uint64_t number = 0;
    struct storage_cursor **at = &o->cursors;
    if (cbor_map_uint(args, "cursor", UINT32_MAX, 0, &number) < 0)
        number = 0;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

/* ---- the calls ---- */

/* 1 as `more`: the statement becomes a cursor. */
static int answer_exec(struct run *run, const struct buf *rows, uint64_t count, int more, struct buf *answer,
                       struct error *err)
{
    struct storage_object *o = run->object;
    struct storage_cursor *c = NULL;
    if (more && !(c = keep_cursor(o, run->statement, count)))
        return error_oom(err);
    cbor_put_map(answer, c ? 6 : 5);
    put_columns(answer, run->statement);
    put_rows(answer, rows, count);
    cbor_put_text(answer, "read");
    cbor_put_uint(answer, rows_read(run->statement, count));
    cbor_put_text(answer, "written");
    cbor_put_uint(answer, (uint64_t)(sqlite3_total_changes64(o->db) - run->changes_before));
    cbor_put_text(answer, "dirty");
    cbor_put_bool(answer, o->in_transaction);
    if (c) {
        cbor_put_text(answer, "cursor");
        cbor_put_uint(answer, c->number);
        run->statement = NULL;
    }
    return 0;
}

static int exec_last(struct run *run, struct cbor_reader *params, uint64_t count, struct buf *answer,
                     struct error *err)
{
    struct buf rows;
    uint64_t sent = 0;
    bool whole = !sqlite3_stmt_readonly(run->statement) || run->object->saw_pragma;
    if (bind_all(run->statement, params, count, err) < 0)
        return -1;
    buf_init(&rows, STORAGE_ANSWER_MAX);
    int r = step(run, err);
    if (r >= 0)
        r = collect(run, r, whole, &rows, &sent, err);
    if (r >= 0)
        r = answer_exec(run, &rows, sent, r, answer, err);
    buf_free(&rows);
    return r;
}

int storage_sql_exec(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                     struct error *err)
{
    struct cbor_reader r, params;
    struct cbor_item query;
    struct run last;
    uint64_t count = 0;
    if (!cbor_map_find(args, "query", &r) || cbor_next(&r, &query) < 0 || query.type != CBOR_TEXT)
        return error_field(err, "query", "query: expected a text");
    if (cbor_map_find(args, "params", &params) && cbor_get_array(&params, CBOR_MAX_ITEMS, &count) < 0)
        return error_field(err, "params", "params: expected an array");
    if (query.len > 100000)
        return error_set(err, ERROR_LIMIT, "the query has %zu bytes, more than 100000: SQLITE_TOOBIG",
                         query.len);
    if (memchr(query.data, 0, query.len))
        return error_field(err, "query", "query: holds a null character");
    /* offsets in error messages count from the text as the worker gave it */
    const char *text = (const char *)query.data, *end = text + query.len;
    if (o->in_transaction && storage_short_of_memory(o->storage))
        return storage_memory_error(o->storage, err); /* what it holds goes with the transaction */
    if (skip_blank(text, end) == end)
        return error_set(err, ERROR_INVALID, "SQL code did not contain a statement.");
    if (run_leading(o, &text, end, &last, err) < 0)
        return -1;
    return finish(&last, exec_last(&last, &params, count, answer, err), err);
}

int storage_sql_next(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                     struct error *err)
{
    struct storage_cursor **at = find_cursor(o, args), *c = *at;
    struct buf rows;
    uint64_t count = 0;
    if (!c)
        return error_set(
            err, ERROR_GONE,
            "the cursor is closed: more than %u were open, the object's storage was deleted, its "
            "transaction was undone, or a statement met its time limit",
            STORAGE_MAX_CURSORS);
    struct run run = {.object = o, .statement = c->statement};
    buf_init(&rows, STORAGE_ANSWER_MAX);
    storage_object_start_clock(o);
    int more = collect(&run, 1, false, &rows, &count, err);
    if (more >= 0) {
        c->rows += count;
        cbor_put_map(answer, more ? 3 : 2);
        put_rows(answer, &rows, count);
        cbor_put_text(answer, "read");
        cbor_put_uint(answer, rows_read(c->statement, c->rows));
        if (more) {
            cbor_put_text(answer, "cursor");
            cbor_put_uint(answer, c->number);
        }
    }
    if (more <= 0)
        drop_cursor(at);
    storage_object_stop_clock(o);
    buf_free(&rows);
    return more < 0 ? -1 : 0;
}

int storage_sql_close(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                      struct error *err)
{
    struct storage_cursor **at = find_cursor(o, args);
    if (*at)
        drop_cursor(at);
    cbor_put_null(answer);
    return 0;
}

static int64_t pragma_number(struct storage_object *o, const char *sql)
{
    sqlite3_stmt *q = NULL;
    int64_t n = 0;
    o->internal = true;
    if (sqlite3_prepare_v2(o->db, sql, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    o->internal = false;
    return n;
}

int storage_sql_size(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                     struct error *err)
{
    int64_t pages = pragma_number(o, "PRAGMA page_count") - pragma_number(o, "PRAGMA freelist_count");
    cbor_put_map(answer, 1);
    cbor_put_text(answer, "bytes");
    cbor_put_int(answer, pages * pragma_number(o, "PRAGMA page_size"));
    return 0;
}
