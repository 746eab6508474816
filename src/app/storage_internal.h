/* What the files of storage.h share. */
#ifndef CLOISTER_APP_STORAGE_INTERNAL_H
#define CLOISTER_APP_STORAGE_INTERNAL_H

#include "app/storage.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#define STORAGE_MAX_CURSORS 64u
#define STORAGE_MAX_DEPTH 64u
#define STORAGE_BUCKETS 1024u
#define STORAGE_PREFIX "_cloister_" /* of internal tables; "_cf_" is reserved beside it */

/* A read whose rows did not fit one answer. */
struct storage_cursor {
    struct storage_cursor *next;
    sqlite3_stmt *statement;
    uint32_t number;
    bool pending; /* a row has been stepped to and not yet been sent */
    uint64_t rows;
};

enum storage_statement {
    ST_GET,
    ST_PUT,
    ST_DELETE,
    ST_ALARM_GET,
    ST_ALARM_SET,
    ST_ALARM_DELETE,
    ST_COUNT,
};

struct storage_object {
    struct storage_object *bucket_next;
    struct storage_object *older, *newer; /* of the open ones, by use */
    struct storage_object *dirty_next;
    struct storage *storage;
    unsigned refs;
    char *class_name, *path;
    char id[65];

    sqlite3 *db; /* NULL: closed */
    sqlite3_stmt *statements[ST_COUNT];
    struct storage_cursor *cursors;
    uint32_t next_cursor;
    unsigned depth; /* open savepoints */
    int wal_pages;  /* committed and not in the database file yet, as far as is known */
    bool in_transaction, listed_dirty;
    struct error broken;
    struct storage_session *session;

    /* authorizer: what the statement that is being prepared does */
    bool internal, saw_alter, saw_pragma, saw_vacuum;
    char refusal[160];
    int64_t deadline_ns;
    bool timed_out, took_memory, clocked; /* clocked: between start_clock() and stop_clock() */

    bool alarm_changed; /* in the open transaction */
    bool alarm_running, alarm_no_retry;
    int64_t alarm_running_seq;
};

struct storage_session {
    struct storage_session *next_ending; /* while the storage is lent */
    struct storage_object *object;       /* NULL: replaced by a newer one */
    struct storage *storage;
};

enum storage_stopping { STORAGE_RUNS, STORAGE_OUT_OF_TIME, STORAGE_UNWANTED };

/* storage_temp.c: the files that SQLite makes for itself. */
struct storage_temp {
    sqlite3_vfs vfs, *real;
    char name[40];
    const char *dir;
    uint64_t bytes, max_bytes; /* of all together */
};

struct storage {
    char *dir;
    struct storage_temp temp;
    bool lent;
    struct storage_session *ending; /* to be ended once it is not lent any more */
    int64_t deadline_ns;            /* of the call under way */
    atomic_int stop;                /* enum storage_stopping */
    pthread_mutex_t running_lock;
    sqlite3 *running; /* in a statement of the worker that may be interrupted; or NULL */
    unsigned max_open, open_count, statement_ms;
    uint64_t max_bytes, max_memory;
    struct storage_object *buckets[STORAGE_BUCKETS];
    struct storage_object *oldest, *newest;
    struct storage_object *dirty;
    const struct storage_alarm_ops *alarm_ops;
    void *alarm_user;
    int64_t next_seq;
    sqlite3 *plain; /* a connection without data, for storage_functions.c; NULL: not needed yet */
};

/* ---- storage_db.c: files, transactions ---- */
/* Opens the file if it is closed, and marks it as used last. */
int storage_object_use(struct storage_object *o, struct error *err);
void storage_object_close(struct storage_object *o);
/* Joins, or begins, the transaction that storage_flush() commits. */
int storage_object_write(struct storage_object *o, struct error *err);
int storage_object_commit(struct storage_object *o, struct error *err);
/* Undoes everything that was not flushed. */
void storage_object_undo(struct storage_object *o);
int storage_object_begin(struct storage_object *o, bool apart, struct error *err);
int storage_object_release(struct storage_object *o, bool undo, struct error *err);
/* Runs internal SQL without results. */
int storage_object_run(struct storage_object *o, const char *sql, struct error *err);
/* The prepared internal statement, reset; NULL on failure. */
sqlite3_stmt *storage_object_statement(struct storage_object *o, enum storage_statement which,
                                       struct error *err);
/* Steps an internal statement: SQLite prepares it anew, under the authorizer, when the schema has changed. */
int storage_object_step(struct storage_object *o, sqlite3_stmt *q);
/* From what SQLite says now; notices when it has undone the transaction, and breaks the session then. */
int storage_object_error(struct storage_object *o, struct error *err);
/* SQLite holds more than a statement of the worker may make it hold. */
bool storage_short_of_memory(const struct storage *s);
int storage_memory_error(const struct storage *s, struct error *err);
/* From here on the statement may be stopped: by the clock of the call, or storage_stop(). */
void storage_object_start_clock(struct storage_object *o);
/* Until here. When it has been stopped, no statement of the object is left open. The one that ran must have
 * been finalized. */
void storage_object_stop_clock(struct storage_object *o);
/* So much is to be brought to disk, or to its place there, that it takes a while. */
bool storage_object_is_large(const struct storage_object *o);

/* ---- storage_rules.c ---- */
void storage_rules_install(struct storage_object *o);
/* Of the statement at `sql` that is to be prepared. */
void storage_rules_begin(struct storage_object *o);
bool storage_name_reserved(const char *name);

/* ---- storage_temp.c ---- */
int storage_temp_open(struct storage_temp *t, const char *dir, uint64_t max_bytes, struct error *err);
/* Every file has been closed. */
void storage_temp_close(struct storage_temp *t);

/* ---- storage_functions.c ---- */
int storage_functions_install(struct storage_object *o, struct error *err);

/* ---- storage_kv.c: answers as in link/worker_protocol.h. UNTRUSTED INPUT ---- */
int storage_kv_get(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                   struct error *err);
int storage_kv_list(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                    struct error *err);
int storage_kv_put(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                   struct error *err);
int storage_kv_delete(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                      struct error *err);
int storage_kv_delete_all(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                          struct error *err);

/* ---- storage_sql.c: likewise ---- */
int storage_sql_exec(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                     struct error *err);
int storage_sql_next(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                     struct error *err);
int storage_sql_close(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                      struct error *err);
int storage_sql_size(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                     struct error *err);
void storage_cursors_close(struct storage_object *o);

/* ---- storage_alarm.c: likewise ---- */
int storage_alarm_set(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                      struct error *err);
int storage_alarm_get(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                      struct error *err);
int storage_alarm_delete(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                         struct error *err);
/* The row: time and sequence number; 0 in *ret_seq: none. */
int storage_alarm_read(struct storage_object *o, int64_t *ret_at, int64_t *ret_seq, struct error *err);

#endif
