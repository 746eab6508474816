#include "daemon/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/registry.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA_VERSION 1
#define TIDY_PAGES 256

struct state {
    sqlite3 *db;
    sqlite3_stmt *put, *delete;
    int wal_pages;
    struct list soon; /* cells to be written at the end of this turn */
    uv_prepare_t prepare;
};

static const char *const schema[SCHEMA_VERSION] = {
    "CREATE TABLE containers ("
    " name TEXT PRIMARY KEY, auto_named INTEGER NOT NULL, live INTEGER NOT NULL, id TEXT NOT NULL,"
    " image TEXT, image_id TEXT, snapshot TEXT, spec TEXT, entrypoint TEXT, labels TEXT,"
    " memory_bytes INTEGER, cpu_milli INTEGER, disk_bytes INTEGER, pids INTEGER, open_files INTEGER, wall_ms "
    "INTEGER,"
    " created_ms INTEGER NOT NULL, started_ms INTEGER, stopped_ms INTEGER, inactivity_ms INTEGER NOT NULL,"
    " stop_reason TEXT, stop_by_itself INTEGER, stop_code INTEGER, stop_signal INTEGER, stop_detail TEXT, "
    "grade TEXT"
    ") WITHOUT ROWID, STRICT;",
};

#define COLUMNS                                                                                              \
    "name, auto_named, live, id, image, image_id, snapshot, spec, entrypoint, labels, memory_bytes, "        \
    "cpu_milli, "                                                                                            \
    "disk_bytes, pids, open_files, wall_ms, created_ms, started_ms, stopped_ms, inactivity_ms, "             \
    "stop_reason, "                                                                                          \
    "stop_by_itself, stop_code, stop_signal, stop_detail, grade"

static int sql_error(struct state *s, const char *what, struct error *err)
{
    return error_set(err, ERROR_CORRUPT, "state.db: %s: %s", what,
                     s->db ? sqlite3_errmsg(s->db) : "out of memory");
}

static int get_version(struct state *s, int *ret, struct error *err)
{
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL) != SQLITE_OK ||
        sqlite3_step(q) != SQLITE_ROW) {
        sqlite3_finalize(q);
        return sql_error(s, "cannot read", err);
    }
    *ret = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    return 0;
}

static int migrate(struct state *s, struct error *err)
{
    int version = 0;
    if (get_version(s, &version, err) < 0)
        return -1;
    if (version > SCHEMA_VERSION)
        return error_set(err, ERROR_UNSUPPORTED,
                         "state.db is of version %d, this program knows %d; use the newer program", version,
                         SCHEMA_VERSION);
    for (; version < SCHEMA_VERSION; version++) {
        char mark[64];
        snprintf(mark, sizeof mark, "PRAGMA user_version = %d", version + 1);
        if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
            sqlite3_exec(s->db, schema[version], NULL, NULL, NULL) != SQLITE_OK ||
            sqlite3_exec(s->db, mark, NULL, NULL, NULL) != SQLITE_OK ||
            sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
            return sql_error(s, "cannot bring the schema up to date", err);
    }
    return 0;
}

static int on_commit(void *user, sqlite3 *db, const char *name, int pages)
{
    struct state *s = user;
    s->wal_pages = pages;
    return SQLITE_OK;
}

static void flush(uv_prepare_t *p)
{
    struct state *s = p->data;
    list_each(it, tmp, &s->soon)
    {
        struct cell *c = list_entry(it, struct cell, unsaved);
        state_put(s, c);
    }
}

static void on_prepare_closed(uv_handle_t *h)
{
    free(h->data);
}

int state_open(struct state **ret, const char *path, uv_loop_t *loop, struct error *err)
{
    static const char put[] = "INSERT OR REPLACE INTO containers (" COLUMNS
                              ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return error_oom(err);
    list_init(&s->soon);
    uv_prepare_init(loop, &s->prepare);
    s->prepare.data = s;
    uv_prepare_start(&s->prepare, flush);
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(s->db, 2000) != SQLITE_OK ||
        sqlite3_exec(s->db,
                     "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = "
                     "NORMAL; PRAGMA trusted_schema = OFF",
                     NULL, NULL, NULL) != SQLITE_OK)
        sql_error(s, "cannot open", err);
    else if (migrate(s, err) < 0)
        ;
    else if (sqlite3_prepare_v2(s->db, put, -1, &s->put, NULL) != SQLITE_OK ||
             sqlite3_prepare_v2(s->db, "DELETE FROM containers WHERE name = ?", -1, &s->delete, NULL) !=
                 SQLITE_OK)
        sql_error(s, "unexpected schema", err);
    else {
        sqlite3_wal_hook(s->db, on_commit,
                         s); /* replaces the automatic checkpoint, which would wait for the disk */
        *ret = s;
        return 0;
    }
    state_close(s);
    return -1;
}

void state_close(struct state *s)
{
    if (!s)
        return;
    flush(&s->prepare);
    sqlite3_finalize(s->put);
    sqlite3_finalize(s->delete);
    sqlite3_close(s->db);
    uv_close((uv_handle_t *)&s->prepare, on_prepare_closed);
}

/* ---- writing ---- */

static void bind_json(sqlite3_stmt *q, int at, const json_t *v)
{
    char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    sqlite3_bind_text(q, at, text, -1, free);
}

static void bind_strv(sqlite3_stmt *q, int at, char *const *v)
{
    json_t *a = v ? json_array() : NULL;
    for (; a && *v; v++)
        json_array_append_new(a, json_string_nocheck(*v));
    bind_json(q, at, a);
    json_decref(a);
}

static void bind_cell(sqlite3_stmt *q, const struct cell *c)
{
    sqlite3_bind_text(q, 1, c->name, -1, SQLITE_STATIC);
    sqlite3_bind_int(q, 2, c->auto_named);
    sqlite3_bind_int(q, 3, c->state != CELL_STOPPED);
    sqlite3_bind_text(q, 4, c->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 5, c->image, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 6, c->image_id, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 7, c->snapshot, -1, SQLITE_STATIC);
    bind_json(q, 8, c->spec);
    bind_strv(q, 9, c->entrypoint);
    bind_json(q, 10, c->labels);
    sqlite3_bind_int64(q, 11, (int64_t)c->limits.memory_bytes);
    sqlite3_bind_int64(q, 12, c->limits.cpu_milli);
    sqlite3_bind_int64(q, 13, (int64_t)c->limits.disk_bytes);
    sqlite3_bind_int64(q, 14, c->limits.pids);
    sqlite3_bind_int64(q, 15, c->limits.open_files);
    sqlite3_bind_int64(q, 16, (int64_t)c->limits.wall_ms);
    sqlite3_bind_int64(q, 17, c->created_ms);
    sqlite3_bind_int64(q, 18, c->started_ms);
    sqlite3_bind_int64(q, 19, c->stopped_ms);
    sqlite3_bind_int64(q, 20, (int64_t)c->inactivity_ms);
    sqlite3_bind_text(q, 21, c->stop.reason, -1, SQLITE_STATIC);
    sqlite3_bind_int(q, 22, c->stop.by_itself);
    sqlite3_bind_int(q, 23, c->stop.code);
    sqlite3_bind_int(q, 24, c->stop.signal);
    sqlite3_bind_text(q, 25, c->stop.detail, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 26, c->grade, -1, SQLITE_STATIC);
}

static void run(struct state *s, sqlite3_stmt *q, const char *name)
{
    if (sqlite3_step(q) != SQLITE_DONE)
        log_error("state.db: cannot store container %s: %s", name, sqlite3_errmsg(s->db));
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
}

void state_put_soon(struct state *s, struct cell *c)
{
    list_del(&c->unsaved);
    list_append(&s->soon, &c->unsaved);
}

void state_put(struct state *s, struct cell *c)
{
    list_del(&c->unsaved);
    bind_cell(s->put, c);
    run(s, s->put, c->name);
}

void state_delete(struct state *s, struct cell *c)
{
    list_del(&c->unsaved);
    sqlite3_bind_text(s->delete, 1, c->name, -1, SQLITE_STATIC);
    run(s, s->delete, c->name);
}

void state_tidy(struct state *s)
{
    if (s->wal_pages < TIDY_PAGES)
        return;
    s->wal_pages = 0;
    sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* ---- loading ---- */

static const char *text_at(sqlite3_stmt *q, int at)
{
    const char *t = (const char *)sqlite3_column_text(q, at);
    return t ? t : "";
}

static char *dup_at(sqlite3_stmt *q, int at)
{
    const char *t = (const char *)sqlite3_column_text(q, at);
    return t ? strdup(t) : NULL;
}

static json_t *json_at(sqlite3_stmt *q, int at)
{
    return json_loads(text_at(q, at), JSON_ALLOW_NUL, NULL);
}

static char **strv_at(sqlite3_stmt *q, int at)
{
    json_t *a = json_at(q, at);
    size_t n = json_array_size(a);
    const char **v = calloc(n + 1, sizeof *v);
    for (size_t i = 0; v && i < n; i++) {
        const char *s = json_string_value(json_array_get(a, i));
        v[i] = s ? s : "";
    }
    char **copy = v ? strv_copy(v) : NULL;
    free(v);
    json_decref(a);
    return copy;
}

static struct cell *load_cell(sqlite3_stmt *q, struct daemon *d)
{
    struct cell *c = cell_new(d, text_at(q, 0));
    if (!c)
        return NULL;
    c->auto_named = sqlite3_column_int(q, 1);
    snprintf(c->id, sizeof c->id, "%s", text_at(q, 3));
    c->image = dup_at(q, 4);
    c->image_id = dup_at(q, 5);
    snprintf(c->snapshot, sizeof c->snapshot, "%s", text_at(q, 6));
    c->spec = json_at(q, 7);
    c->entrypoint = strv_at(q, 8);
    c->labels = json_at(q, 9);
    c->limits.memory_bytes = (uint64_t)sqlite3_column_int64(q, 10);
    c->limits.cpu_milli = (uint32_t)sqlite3_column_int64(q, 11);
    c->limits.disk_bytes = (uint64_t)sqlite3_column_int64(q, 12);
    c->limits.pids = (uint32_t)sqlite3_column_int64(q, 13);
    c->limits.open_files = (uint32_t)sqlite3_column_int64(q, 14);
    c->limits.wall_ms = (uint64_t)sqlite3_column_int64(q, 15);
    c->created_ms = sqlite3_column_int64(q, 16);
    c->started_ms = sqlite3_column_int64(q, 17);
    c->stopped_ms = sqlite3_column_int64(q, 18);
    c->inactivity_ms = (uint64_t)sqlite3_column_int64(q, 19);
    snprintf(c->stop.reason, sizeof c->stop.reason, "%s", text_at(q, 20));
    c->stop.by_itself = sqlite3_column_int(q, 21);
    c->stop.code = sqlite3_column_int(q, 22);
    c->stop.signal = sqlite3_column_int(q, 23);
    snprintf(c->stop.detail, sizeof c->stop.detail, "%s", text_at(q, 24));
    snprintf(c->grade, sizeof c->grade, "%s", text_at(q, 25));
    c->ran = true;
    return c;
}

/* What ran when the last daemon died is gone with it. */
static void ended_by_restart(struct cell *c)
{
    memset(&c->stop, 0, sizeof c->stop);
    snprintf(c->stop.reason, sizeof c->stop.reason, "%s", stop_reason_name(STOP_RESTART));
    c->stopped_ms = clock_wall_ms();
}

int state_load(struct state *s, struct daemon *d, struct error *err)
{
    sqlite3_stmt *q = NULL;
    int restarted = 0, r;
    if (sqlite3_prepare_v2(s->db, "SELECT " COLUMNS " FROM containers ORDER BY created_ms, name", -1, &q,
                           NULL) != SQLITE_OK)
        return sql_error(s, "unexpected schema", err);
    while ((r = sqlite3_step(q)) == SQLITE_ROW) {
        struct cell *c = load_cell(q, d);
        if (!c)
            continue;
        if (sqlite3_column_int(q, 2)) {
            ended_by_restart(c);
            restarted++;
        }
        registry_adopt(d->registry, c);
    }
    sqlite3_finalize(q);
    if (r != SQLITE_DONE)
        return sql_error(s, "cannot read", err);
    char text[256];
    snprintf(text, sizeof text,
             "UPDATE containers SET live = 0, stop_reason = '%s', stop_by_itself = 0, stopped_ms = %lld "
             "WHERE live",
             stop_reason_name(STOP_RESTART), (long long)clock_wall_ms());
    if (sqlite3_exec(s->db, text, NULL, NULL, NULL) != SQLITE_OK)
        return sql_error(s, "cannot write", err);
    return restarted;
}
