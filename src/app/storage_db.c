/* The file of one object: opening and closing it, and its transactions. */
#include "app/storage_internal.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u
#define CLOCK_STEPS 5000 /* instructions of SQLite between two looks at the clock */
#define CACHE_KIB 2048
/* Pages in the write-ahead log from which on they are brought to their place, which is done on the owner's
 * loop only while there are not too many. */
#define CHECKPOINT_PAGES 1000
#define CHECKPOINT_PAGES_LONG 4000
/* Pages that left the cache for the disk before the commit. */
#define SPILLED_LONG 1000

static const char *const statement_text[ST_COUNT] = {
    [ST_GET] = "SELECT value FROM _cloister_kv WHERE key = ?1",
    [ST_PUT] =
        "INSERT INTO _cloister_kv (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
    [ST_DELETE] = "DELETE FROM _cloister_kv WHERE key = ?1",
    [ST_ALARM_GET] = "SELECT at, seq FROM _cloister_alarm",
    [ST_ALARM_SET] = "INSERT OR REPLACE INTO _cloister_alarm (one, at, seq) VALUES (1, ?1, ?2)",
    [ST_ALARM_DELETE] = "DELETE FROM _cloister_alarm",
};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS _cloister_kv (key TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS _cloister_alarm"
    " (one INTEGER PRIMARY KEY CHECK (one = 1), at INTEGER NOT NULL, seq INTEGER NOT NULL) STRICT;";

/* ---- errors ---- */

static const char *code_name(int code)
{
    switch (code & 0xff) {
    case SQLITE_ERROR:
        return "SQLITE_ERROR";
    case SQLITE_CONSTRAINT:
        return "SQLITE_CONSTRAINT";
    case SQLITE_AUTH:
        return "SQLITE_AUTH";
    case SQLITE_TOOBIG:
        return "SQLITE_TOOBIG";
    case SQLITE_MISMATCH:
        return "SQLITE_MISMATCH";
    case SQLITE_FULL:
        return "SQLITE_FULL";
    case SQLITE_RANGE:
        return "SQLITE_RANGE";
    case SQLITE_CORRUPT:
        return "SQLITE_CORRUPT";
    case SQLITE_IOERR:
        return "SQLITE_IOERR";
    case SQLITE_NOMEM:
        return "SQLITE_NOMEM";
    case SQLITE_INTERRUPT:
        return "SQLITE_INTERRUPT";
    case SQLITE_ABORT:
        return "SQLITE_ABORT";
    case SQLITE_READONLY:
        return "SQLITE_READONLY";
    case SQLITE_LOCKED:
        return "SQLITE_LOCKED";
    default:
        return "SQLITE_OTHER";
    }
}

static enum error_kind code_kind(int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM:
        return ERROR_LIMIT;
    case SQLITE_AUTH:
        return ERROR_DENIED;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERROR_CORRUPT;
    default:
        return ERROR_INVALID;
    }
}

static void describe(struct storage_object *o, struct error *err)
{
    int code = sqlite3_extended_errcode(o->db), at = sqlite3_error_offset(o->db);
    char offset[32] = "";
    int stop = o->clocked ? atomic_load(&o->storage->stop) : STORAGE_RUNS;
    if (at >= 0)
        snprintf(offset, sizeof offset, " at offset %d", at);
    if (stop == STORAGE_UNWANTED)
        error_set(err, ERROR_GONE, "nobody waits for the statement any more: SQLITE_INTERRUPT");
    else if (o->took_memory)
        storage_memory_error(o->storage, err);
    else if (o->timed_out || stop == STORAGE_OUT_OF_TIME)
        error_set(err, ERROR_LIMIT, "the statement ran longer than its limit of %u ms: SQLITE_INTERRUPT",
                  o->storage->statement_ms);
    else if (((code & 0xff) == SQLITE_AUTH || (code & 0xff) == SQLITE_ERROR) && o->refusal[0])
        error_set(err, ERROR_DENIED, "%s: SQLITE_AUTH", o->refusal);
    else
        error_set(err, code_kind(code), "%.400s%s: %s", sqlite3_errmsg(o->db), offset, code_name(code));
}

int storage_object_error(struct storage_object *o, struct error *err)
{
    struct error why = {0};
    describe(o, &why);
    o->timed_out = o->took_memory = false;
    o->refusal[0] = '\0';
    if (o->in_transaction && sqlite3_get_autocommit(o->db)) {
        /* SQLite has undone all that was not flushed, which the worker believes is written. */
        o->in_transaction = false;
        o->depth = 0;
        o->alarm_changed = false;
        o->broken = why;
    }
    if (err)
        *err = why;
    return -1;
}

/* ---- opening ---- */

bool storage_short_of_memory(const struct storage *s)
{
    return (uint64_t)sqlite3_memory_used() > s->max_memory;
}

int storage_memory_error(const struct storage *s, struct error *err)
{
    return error_set(err, ERROR_LIMIT, "statements took more than %llu MiB of memory together: SQLITE_NOMEM",
                     (unsigned long long)(s->max_memory >> 20));
}

static int on_progress(void *user)
{
    struct storage_object *o = user;
    if (o->deadline_ns == 0)
        return 0;
    if (atomic_load(&o->storage->stop) != STORAGE_RUNS)
        return 1;
    o->took_memory = storage_short_of_memory(o->storage);
    if (o->took_memory)
        return 1;
    if ((int64_t)clock_monotonic_ns() < o->deadline_ns)
        return 0;
    o->timed_out = true;
    return 1;
}

static void set_running(struct storage *s, sqlite3 *db)
{
    pthread_mutex_lock(&s->running_lock);
    s->running = db;
    pthread_mutex_unlock(&s->running_lock);
}

void storage_object_start_clock(struct storage_object *o)
{
    o->timed_out = o->took_memory = false;
    o->deadline_ns = o->storage->deadline_ns;
    if (!o->clocked)
        set_running(o->storage, o->db);
    o->clocked = true;
}

/* SQLite's mark of an interruption stays until no statement is open, and would hit the next one. */
void storage_object_stop_clock(struct storage_object *o)
{
    if (!o->clocked)
        return;
    set_running(o->storage, NULL);
    o->clocked = false;
    o->deadline_ns = 0;
    if (atomic_load(&o->storage->stop) != STORAGE_RUNS)
        storage_cursors_close(o);
}

static void set_limits(sqlite3 *db)
{
    static const struct {
        int what, most;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, (int)(STORAGE_VALUE_MAX + 64 * 1024)},
        {SQLITE_LIMIT_SQL_LENGTH, 100000},
        {SQLITE_LIMIT_COLUMN, 100},
        {SQLITE_LIMIT_EXPR_DEPTH, 100},
        {SQLITE_LIMIT_COMPOUND_SELECT, 5},
        {SQLITE_LIMIT_VDBE_OP, 25000},
        {SQLITE_LIMIT_FUNCTION_ARG, 127},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 100},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 10},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(db, limits[i].what, limits[i].most);
}

static int on_wal(void *user, sqlite3 *db, const char *schema_name, int pages)
{
    struct storage_object *o = user;
    o->wal_pages = pages;
    return SQLITE_OK;
}

bool storage_object_is_large(const struct storage_object *o)
{
    int spilled = 0, most;
    if (o->db && o->in_transaction)
        sqlite3_db_status(o->db, SQLITE_DBSTATUS_CACHE_WRITE, &spilled, &most, 0);
    return spilled > SPILLED_LONG || o->wal_pages > CHECKPOINT_PAGES_LONG;
}

/* What SQLite does by itself in every commit, but for when. It cannot while a cursor is open. */
static void checkpoint(struct storage_object *o)
{
    int pages = 0, done = 0;
    if (o->wal_pages < CHECKPOINT_PAGES || (o->wal_pages > CHECKPOINT_PAGES_LONG && !o->storage->lent))
        return;
    if (sqlite3_wal_checkpoint_v2(o->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &done) == SQLITE_OK &&
        done == pages)
        o->wal_pages = 0;
}

static int configure(struct storage_object *o, struct error *err)
{
    char pragmas[512];
    snprintf(pragmas, sizeof pragmas,
             "PRAGMA page_size = %u; PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
             "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
             "PRAGMA temp_store = FILE; PRAGMA cache_size = -%d; PRAGMA max_page_count = %llu",
             PAGE_BYTES, CACHE_KIB, (unsigned long long)(o->storage->max_bytes / PAGE_BYTES));
    if (sqlite3_db_config(o->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) != SQLITE_OK ||
        sqlite3_db_config(o->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL) != SQLITE_OK ||
        sqlite3_exec(o->db, pragmas, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(o->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        return storage_object_error(o, err);
    set_limits(o->db);
    if (storage_functions_install(o, err) < 0)
        return -1;
    sqlite3_wal_hook(o->db, on_wal, o); /* in place of automatic checkpoints */
    sqlite3_progress_handler(o->db, CLOCK_STEPS, on_progress, o);
    storage_rules_install(o);
    return 0;
}

static void unlink_lru(struct storage_object *o)
{
    struct storage *s = o->storage;
    *(o->older ? &o->older->newer : &s->oldest) = o->newer;
    *(o->newer ? &o->newer->older : &s->newest) = o->older;
    o->older = o->newer = NULL;
}

static void link_newest(struct storage_object *o)
{
    struct storage *s = o->storage;
    o->older = s->newest;
    o->newer = NULL;
    *(s->newest ? &s->newest->newer : &s->oldest) = o;
    s->newest = o;
}

void storage_object_close(struct storage_object *o)
{
    if (!o->db)
        return;
    storage_cursors_close(o);
    for (int i = 0; i < ST_COUNT; i++) {
        sqlite3_finalize(o->statements[i]);
        o->statements[i] = NULL;
    }
    sqlite3_close(o->db);
    o->db = NULL;
    o->wal_pages = 0;
    o->in_transaction = false;
    o->depth = 0;
    unlink_lru(o);
    o->storage->open_count--;
}

/* Closes what was used longest ago and is in the middle of nothing. */
static void make_room(struct storage *s)
{
    for (struct storage_object *o = s->oldest, *newer; o && s->open_count >= s->max_open; o = newer) {
        newer = o->newer;
        if (!o->in_transaction && !o->cursors && o->depth == 0)
            storage_object_close(o);
    }
}

int storage_object_use(struct storage_object *o, struct error *err)
{
    struct storage *s = o->storage;
    if (o->db) {
        if (s->newest != o) {
            unlink_lru(o);
            link_newest(o);
        }
        return 0;
    }
    make_room(s);
    int r = sqlite3_open_v2(o->path, &o->db,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, s->temp.name);
    if (r != SQLITE_OK || configure(o, err) < 0) {
        if (r != SQLITE_OK)
            error_set(err, ERROR_SYSTEM, "cannot open the database of %s: %s", o->class_name,
                      o->db ? sqlite3_errmsg(o->db) : "out of memory");
        else
            error_wrap(err, "cannot open the database of %s", o->class_name);
        sqlite3_close(o->db);
        o->db = NULL;
        return -1;
    }
    s->open_count++;
    link_newest(o);
    return 0;
}

/* ---- statements ---- */

int storage_object_run(struct storage_object *o, const char *sql, struct error *err)
{
    o->internal = true;
    o->deadline_ns = 0;
    int r = sqlite3_exec(o->db, sql, NULL, NULL, NULL);
    o->internal = false;
    return r == SQLITE_OK ? 0 : storage_object_error(o, err);
}

sqlite3_stmt *storage_object_statement(struct storage_object *o, enum storage_statement which,
                                       struct error *err)
{
    sqlite3_stmt **q = &o->statements[which];
    o->deadline_ns = 0;
    if (*q) {
        sqlite3_reset(*q);
        sqlite3_clear_bindings(*q);
        return *q;
    }
    o->internal = true;
    int r = sqlite3_prepare_v3(o->db, statement_text[which], -1, SQLITE_PREPARE_PERSISTENT, q, NULL);
    o->internal = false;
    if (r == SQLITE_OK)
        return *q;
    storage_object_error(o, err);
    return NULL;
}

int storage_object_step(struct storage_object *o, sqlite3_stmt *q)
{
    o->internal = true;
    int r = sqlite3_step(q);
    o->internal = false;
    return r;
}

/* ---- transactions ---- */

int storage_object_write(struct storage_object *o, struct error *err)
{
    if (o->in_transaction)
        return 0;
    if (storage_object_run(o, "BEGIN IMMEDIATE", err) < 0)
        return -1;
    o->in_transaction = true;
    int written, most; /* counted anew from here: see storage_object_is_large() */
    sqlite3_db_status(o->db, SQLITE_DBSTATUS_CACHE_WRITE, &written, &most, 1);
    if (!o->listed_dirty) {
        o->listed_dirty = true;
        o->dirty_next = o->storage->dirty;
        o->storage->dirty = o;
    }
    return 0;
}

int storage_object_commit(struct storage_object *o, struct error *err)
{
    struct storage *s = o->storage;
    struct error why = {0};
    int64_t at = STORAGE_NO_ALARM, seq = 0;
    if (!o->in_transaction) {
        checkpoint(o);
        return 0;
    }
    bool alarm = o->alarm_changed && s->alarm_ops;
    if (alarm && storage_alarm_read(o, &at, &seq, &why) < 0)
        goto failed;
    if (seq == 0)
        at = STORAGE_NO_ALARM;
    if (alarm && seq != 0 && s->alarm_ops->promise(s->alarm_user, o->class_name, o->id, at, &why) < 0)
        goto failed;
    if (storage_object_run(o, "COMMIT", &why) < 0)
        goto failed;
    o->in_transaction = o->alarm_changed = false;
    checkpoint(o);
    if (alarm && !(o->alarm_running && seq == o->alarm_running_seq))
        s->alarm_ops->changed(s->alarm_user, o->class_name, o->id, at);
    return 0;
failed:
    if (o->in_transaction)
        storage_object_undo(o);
    o->broken = why;
    if (err)
        *err = why;
    return -1;
}

void storage_object_undo(struct storage_object *o)
{
    if (o->in_transaction && !sqlite3_get_autocommit(o->db))
        storage_object_run(o, "ROLLBACK", NULL);
    o->in_transaction = o->alarm_changed = false;
    o->depth = 0;
}

int storage_object_begin(struct storage_object *o, bool apart, struct error *err)
{
    char sql[64];
    if (o->depth >= STORAGE_MAX_DEPTH)
        return error_set(err, ERROR_LIMIT, "transactions are nested deeper than %u", STORAGE_MAX_DEPTH);
    if (apart && o->depth == 0 && storage_object_commit(o, err) < 0)
        return -1;
    if (storage_object_write(o, err) < 0)
        return -1;
    snprintf(sql, sizeof sql, "SAVEPOINT _cloister_%u", o->depth);
    if (storage_object_run(o, sql, err) < 0)
        return -1;
    o->depth++;
    return 0;
}

int storage_object_release(struct storage_object *o, bool undo, struct error *err)
{
    char sql[96];
    if (o->depth == 0)
        return error_set(err, ERROR_STATE, "no transaction is open");
    unsigned n = o->depth - 1;
    if (undo) {
        snprintf(sql, sizeof sql, "ROLLBACK TO _cloister_%u", n);
        if (storage_object_run(o, sql, err) < 0)
            return -1;
    }
    snprintf(sql, sizeof sql, "RELEASE _cloister_%u", n);
    if (storage_object_run(o, sql, err) < 0)
        return -1;
    o->depth = n;
    return 0;
}
