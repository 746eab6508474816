/* The key-value pairs of an object. UNTRUSTED INPUT: arguments come from the worker. */
#include "app/storage_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    const char *data; /* NULL: absent */
    size_t len;
};

/* The next item as text. */
static int get_text(struct cbor_reader *r, struct text *ret)
{
    struct cbor_item it;
    if (cbor_next(r, &it) < 0 || it.type != CBOR_TEXT)
        return -1;
    ret->data = (const char *)it.data;
    ret->len = it.len;
    return 0;
}

static int get_key(struct cbor_reader *r, struct text *ret, struct error *err)
{
    if (get_text(r, ret) < 0)
        return error_field(err, "keys", "keys: expected texts");
    if (ret->len > STORAGE_KEY_MAX)
        return error_set(err, ERROR_LIMIT, "a key has %zu bytes, more than %u", ret->len, STORAGE_KEY_MAX);
    return 0;
}

static int open_array(const struct cbor_reader *args, const char *name, struct cbor_reader *ret,
                      uint64_t *ret_count, struct error *err)
{
    if (!cbor_map_find(args, name, ret) || cbor_get_array(ret, CBOR_MAX_ITEMS, ret_count) < 0)
        return error_field(err, name, "%s: expected an array", name);
    return 0;
}

static int bind_text(sqlite3_stmt *q, int at, struct text t)
{
    return sqlite3_bind_text(q, at, t.data, (int)t.len, SQLITE_STATIC);
}

/* ---- get ---- */

int storage_kv_get(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                   struct error *err)
{
    struct cbor_reader r;
    uint64_t count, sent = 0;
    struct buf values;
    if (open_array(args, "keys", &r, &count, err) < 0)
        return -1;
    sqlite3_stmt *q = storage_object_statement(o, ST_GET, err);
    if (!q)
        return -1;
    buf_init(&values, STORAGE_ANSWER_MAX);
    int result = 0;
    for (; sent < count && (sent == 0 || values.len < STORAGE_ANSWER_SOFT); sent++) {
        struct text key = {0};
        if ((result = get_key(&r, &key, err)) < 0)
            break;
        bind_text(q, 1, key);
        int step = storage_object_step(o, q);
        if (step == SQLITE_ROW)
            cbor_put_bytes(&values, sqlite3_column_blob(q, 0), (size_t)sqlite3_column_bytes(q, 0));
        else if (step == SQLITE_DONE)
            cbor_put_null(&values);
        else if ((result = storage_object_error(o, err)) < 0)
            break;
        sqlite3_reset(q);
    }
    sqlite3_reset(q);
    cbor_put_map(answer, 1);
    cbor_put_text(answer, "values");
    cbor_put_array(answer, sent);
    buf_append(answer, values.data, values.len);
    if (result == 0 && values.failed)
        result = error_oom(err);
    buf_free(&values);
    return result;
}

/* ---- list ---- */

struct range {
    struct text low, high;
    bool low_open, reverse;
    uint64_t limit;
    char *prefix_end;
};

static int text_compare(struct text a, struct text b)
{
    int c = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int optional_text(const struct cbor_reader *args, const char *name, struct text *ret,
                         struct error *err)
{
    struct cbor_reader r;
    *ret = (struct text){NULL, 0};
    if (!cbor_map_find(args, name, &r))
        return 0;
    return get_text(&r, ret) < 0 ? error_field(err, name, "%s: expected a text", name) : 0;
}

static void raise_low(struct range *g, struct text low, bool open)
{
    int c = low.data && g->low.data ? text_compare(low, g->low) : 0;
    if (!low.data || (g->low.data && (c < 0 || (c == 0 && !open))))
        return;
    g->low = low;
    g->low_open = open;
}

/* The least text that is greater than all that begin with `prefix`: no byte of UTF-8 is 0xff. */
static int apply_prefix(struct range *g, struct text prefix, struct error *err)
{
    if (prefix.len == 0)
        return 0;
    raise_low(g, prefix, false);
    g->prefix_end = malloc(prefix.len);
    if (!g->prefix_end)
        return error_oom(err);
    memcpy(g->prefix_end, prefix.data, prefix.len);
    g->prefix_end[prefix.len - 1]++;
    struct text end = {g->prefix_end, prefix.len};
    if (!g->high.data || text_compare(end, g->high) < 0)
        g->high = end;
    return 0;
}

static int read_range(struct range *g, const struct cbor_reader *args, struct error *err)
{
    struct text start, after, prefix;
    if (optional_text(args, "start", &start, err) < 0 || optional_text(args, "startAfter", &after, err) < 0 ||
        optional_text(args, "end", &g->high, err) < 0 || optional_text(args, "prefix", &prefix, err) < 0)
        return -1;
    if (cbor_map_bool(args, "reverse", false, &g->reverse) < 0)
        return error_field(err, "reverse", "reverse: expected a boolean");
    if (cbor_map_uint(args, "limit", INT64_MAX, INT64_MAX, &g->limit) < 0)
        return error_field(err, "limit", "limit: expected a number");
    raise_low(g, start, false);
    raise_low(g, after, true);
    return apply_prefix(g, prefix, err);
}

static sqlite3_stmt *prepare_list(struct storage_object *o, const struct range *g, struct error *err)
{
    char sql[192];
    sqlite3_stmt *q = NULL;
    snprintf(sql, sizeof sql, "SELECT key, value FROM _cloister_kv WHERE true%s%s ORDER BY key%s LIMIT ?3",
             g->low.data ? g->low_open ? " AND key > ?1" : " AND key >= ?1" : "",
             g->high.data ? " AND key < ?2" : "", g->reverse ? " DESC" : "");
    o->internal = true;
    o->deadline_ns = 0;
    int r = sqlite3_prepare_v2(o->db, sql, -1, &q, NULL);
    o->internal = false;
    if (r != SQLITE_OK) {
        storage_object_error(o, err);
        return NULL;
    }
    if (g->low.data)
        bind_text(q, 1, g->low);
    if (g->high.data)
        bind_text(q, 2, g->high);
    sqlite3_bind_int64(q, 3, (int64_t)g->limit);
    return q;
}

int storage_kv_list(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                    struct error *err)
{
    struct range g = {0};
    struct buf entries;
    uint64_t count = 0;
    bool more = false;
    int result = -1, step = SQLITE_ROW;
    sqlite3_stmt *q = NULL;
    buf_init(&entries, STORAGE_ANSWER_MAX);
    if (read_range(&g, args, err) < 0 || !(q = prepare_list(o, &g, err)))
        goto out;
    while ((step = storage_object_step(o, q)) == SQLITE_ROW) {
        more = count > 0 && entries.len >= STORAGE_ANSWER_SOFT;
        if (more)
            break;
        cbor_put_text_n(&entries, (const char *)sqlite3_column_text(q, 0),
                        (size_t)sqlite3_column_bytes(q, 0));
        cbor_put_bytes(&entries, sqlite3_column_blob(q, 1), (size_t)sqlite3_column_bytes(q, 1));
        count++;
    }
    if (step != SQLITE_DONE && step != SQLITE_ROW) {
        storage_object_error(o, err);
        goto out;
    }
    cbor_put_map(answer, 2);
    cbor_put_text(answer, "entries");
    cbor_put_array(answer, 2 * count);
    buf_append(answer, entries.data, entries.len);
    cbor_put_text(answer, "more");
    cbor_put_bool(answer, more);
    result = entries.failed ? error_oom(err) : 0;
out:
    sqlite3_finalize(q);
    free(g.prefix_end);
    buf_free(&entries);
    return result;
}

/* ---- put, delete ---- */

static int put_one(struct storage_object *o, struct cbor_reader *r, struct error *err)
{
    struct text key;
    struct cbor_item value;
    if (get_key(r, &key, err) < 0)
        return -1;
    if (cbor_next(r, &value) < 0 || value.type != CBOR_BYTES)
        return error_field(err, "entries", "entries: expected bytes after each key");
    if (key.len + value.len > STORAGE_VALUE_MAX)
        return error_set(err, ERROR_LIMIT, "key and value have %zu bytes together, more than %zu",
                         key.len + value.len, STORAGE_VALUE_MAX);
    sqlite3_stmt *q = storage_object_statement(o, ST_PUT, err);
    if (!q)
        return -1;
    bind_text(q, 1, key);
    sqlite3_bind_blob(q, 2, value.len ? (const void *)value.data : "", (int)value.len, SQLITE_STATIC);
    int result = storage_object_step(o, q) == SQLITE_DONE ? 0 : storage_object_error(o, err);
    sqlite3_reset(q);
    return result;
}

/* All of them or none. */
int storage_kv_put(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                   struct error *err)
{
    struct cbor_reader r;
    uint64_t count;
    if (open_array(args, "entries", &r, &count, err) < 0)
        return -1;
    if (count % 2)
        return error_field(err, "entries", "entries: a key is without its value");
    if (storage_object_write(o, err) < 0 || storage_object_begin(o, false, err) < 0)
        return -1;
    int result = 0;
    for (uint64_t i = 0; i < count && result == 0; i += 2)
        result = put_one(o, &r, err);
    if (o->in_transaction && storage_object_release(o, result < 0, result < 0 ? NULL : err) < 0)
        result = -1;
    if (result == 0)
        cbor_put_null(answer);
    return result;
}

int storage_kv_delete(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                      struct error *err)
{
    struct cbor_reader r;
    uint64_t count, deleted = 0;
    if (open_array(args, "keys", &r, &count, err) < 0 || storage_object_write(o, err) < 0 ||
        storage_object_begin(o, false, err) < 0)
        return -1;
    int result = 0;
    for (uint64_t i = 0; i < count && result == 0; i++) {
        struct text key = {0};
        sqlite3_stmt *q = NULL;
        if (get_key(&r, &key, err) < 0 || !(q = storage_object_statement(o, ST_DELETE, err))) {
            result = -1;
            break;
        }
        bind_text(q, 1, key);
        result = storage_object_step(o, q) == SQLITE_DONE ? 0 : storage_object_error(o, err);
        deleted += result == 0 ? (uint64_t)sqlite3_changes64(o->db) : 0;
        sqlite3_reset(q);
    }
    if (o->in_transaction && storage_object_release(o, result < 0, result < 0 ? NULL : err) < 0)
        result = -1;
    cbor_put_map(answer, 1);
    cbor_put_text(answer, "count");
    cbor_put_uint(answer, deleted);
    return result;
}

/* ---- deleteAll ---- */

/* One more table or view to drop: virtual tables first, since their shadow tables go with them. 0: none. */
static int next_to_drop(struct storage_object *o, char **ret_sql, struct error *err)
{
    static const char find[] = "SELECT printf('DROP %s \"%w\"', type, name) FROM sqlite_schema"
                               " WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
                               " AND name NOT IN ('_cloister_kv', '_cloister_alarm')"
                               " ORDER BY type = 'view' DESC, sql LIKE 'CREATE VIRTUAL%' DESC LIMIT 1";
    sqlite3_stmt *q = NULL;
    *ret_sql = NULL;
    o->internal = true;
    int prepared = sqlite3_prepare_v2(o->db, find, -1, &q, NULL);
    o->internal = false;
    if (prepared != SQLITE_OK)
        return storage_object_error(o, err);
    int step = storage_object_step(o, q), result = 0;
    if (step == SQLITE_ROW) {
        *ret_sql = strdup((const char *)sqlite3_column_text(q, 0));
        result = *ret_sql ? 1 : error_oom(err);
    } else if (step != SQLITE_DONE) {
        result = storage_object_error(o, err);
    }
    sqlite3_finalize(q);
    return result;
}

static int drop_everything(struct storage_object *o, struct error *err)
{
    char *sql;
    int r;
    while ((r = next_to_drop(o, &sql, err)) > 0) {
        r = storage_object_run(o, sql, err);
        free(sql);
        if (r < 0)
            break;
    }
    return r < 0 ? -1 : storage_object_run(o, "DELETE FROM _cloister_kv", err);
}

/* Foreign keys are switched off meanwhile, which only works outside a transaction: so what was written before
 * is flushed first. */
int storage_kv_delete_all(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                          struct error *err)
{
    bool alarm = false;
    if (cbor_map_bool(args, "alarm", false, &alarm) < 0)
        return error_field(err, "alarm", "alarm: expected a boolean");
    if (o->depth > 0)
        return error_set(err, ERROR_STATE, "deleteAll() cannot be called within a transaction");
    storage_cursors_close(o);
    if (storage_object_commit(o, err) < 0 || storage_object_run(o, "PRAGMA foreign_keys = OFF", err) < 0)
        return -1;
    int result = storage_object_write(o, err);
    if (result == 0)
        result = drop_everything(o, err);
    if (result == 0 && alarm)
        result = storage_alarm_delete(o, args, answer, err);
    else if (result == 0)
        cbor_put_null(answer);
    if (result < 0)
        storage_object_undo(o);
    else
        result = storage_object_commit(o, err);
    if (storage_object_run(o, "PRAGMA foreign_keys = ON", result < 0 ? NULL : err) < 0)
        result = -1;
    return result;
}
