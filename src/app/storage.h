/* Durable Object storage: one SQLite file for each object below the application's state directory, opened on
 * demand and closed again when too many are open.
 *
 *   <dir>/<class>/<id>.sqlite      class: its name, with bytes other than letters, digits, '$' and '_' as
 * "=XX"
 *
 * Transactions. The first write of an object opens a transaction, and the writes that follow join it, until
 * storage_flush() makes them durable. The owner of the worker's link calls storage_flush() before anything
 * that the worker sent after a write has an effect outside (group commit). begin/commit/rollback of the
 * worker nest inside it as savepoints; what is inside an open savepoint is not flushed until the outermost
 * one ends.
 *
 * Sessions. An object has one session at a time: the instance that uses it. A new session ends the one
 * before, whose unflushed writes are undone. A session breaks when SQLite had to undo its transaction (disk
 * full, a deferred constraint): from then on every call fails with that error.
 *
 * Threads. Calls of this header come from one thread at a time. What may take long runs on another one than
 * the owner's loop: the storage is lent to that for the time (storage_lend()).
 *
 * Bounds of what a call may take. Memory: some MiB of SQLite's caches (2 MiB of each open file, and of each
 * table or sort that a statement needs for itself); what does not fit goes to temporary files, which are in
 * `dir`, have no name, and are together at most `max_bytes` long. What has no bound of its own (a full-text
 * index in the making) ends at max_memory. Time: see statement_ms.
 *
 * Tables named _cloister_* hold the key-value pairs and the alarm; SQL of the worker cannot reach them. */
#ifndef CLOISTER_APP_STORAGE_H
#define CLOISTER_APP_STORAGE_H

#include "base/buf.h"
#include "base/error.h"
#include "link/cbor.h"

#include <stdbool.h>
#include <stdint.h>

struct storage;
struct storage_object;
struct storage_session;

#define STORAGE_KEY_MAX 2048u
#define STORAGE_VALUE_MAX ((size_t)2 << 20)
#define STORAGE_ANSWER_SOFT ((size_t)512 << 10)      /* answers that can be continued are cut about here */
#define STORAGE_ANSWER_MAX ((size_t)16 << 20)        /* an answer that cannot (rows that a write returned) */
#define STORAGE_STATEMENT_MS 5000u                   /* default of statement_ms */
#define STORAGE_BYTES_DEFAULT ((uint64_t)1 << 30)    /* default of max_bytes */
#define STORAGE_MEMORY_DEFAULT ((uint64_t)512 << 20) /* default of max_memory */
#define STORAGE_NO_ALARM INT64_MIN

struct storage_config {
    const char *dir;       /* made, 0700, if it is not there; its parent must exist */
    unsigned max_open;     /* database files open at once; 0: 64 */
    uint64_t max_bytes;    /* of one database; 0: default */
    uint64_t max_memory;   /* of SQLite in this process, while statements of the worker run; 0: default */
    unsigned statement_ms; /* the statements of one call, or one continuation of a cursor; 0: default */
};

int storage_open(struct storage **ret, const struct storage_config *config, struct error *err);
/* Flushes what can be flushed and closes all. Every session must have been ended. */
void storage_close(struct storage *s);
/* Commits every object that has uncommitted writes outside savepoints. Cheap when there are none. An object
 * whose commit fails is broken; -1 with the first such error, after all were tried. */
int storage_flush(struct storage *s, struct error *err);

/* True when `class_name` and `id` can name an object (id: 64 lower-case hex digits). */
bool storage_valid_name(const char *class_name, const char *id);
/* Begins a session, ending the object's former one. */
int storage_session_begin(struct storage *s, const char *class_name, const char *id,
                          struct storage_session **ret, struct error *err);
/* Undoes what was not flushed. NULL is fine. */
void storage_session_end(struct storage_session *session);
/* The alarm that is set: milliseconds since the epoch, or STORAGE_NO_ALARM. */
int storage_session_alarm(struct storage_session *session, int64_t *ret, struct error *err);

/* A call of the worker: UNTRUSTED INPUT. Appends the CBOR answer to `answer`; see link/worker_protocol.h. */
int storage_call(struct storage_session *session, const char *method, struct cbor_reader args,
                 struct buf *answer, struct error *err);

/* ---- another thread ---- */

/* Whether the call may take longer than the owner's loop should stand still. args_len: all of its arguments.
 */
bool storage_call_is_long(const struct storage_session *session, const char *method, size_t args_len);
/* Something was written and is not on disk. */
bool storage_dirty(const struct storage *s);
/* The same for storage_flush(). */
bool storage_flush_is_long(const struct storage *s);
/* One call, or one storage_flush(), is about to be made from another thread: until storage_take_back()
 * nothing of this header may be called from here but storage_session_end() (which takes effect then),
 * storage_lent() and storage_stop(). */
void storage_lend(struct storage *s);
void storage_take_back(struct storage *s);
bool storage_lent(const struct storage *s);
/* The statements of the worker that run now are to end, as at their time limit or (`gone`) because nobody
 * waits for them. Statements of ours are not affected. SQLite looks between two steps and inside the long
 * ones, but not everywhere at once: to be repeated until the call has ended. */
void storage_stop(struct storage *s, bool gone);

/* ---- alarms: for alarms.c ---- */

struct storage_alarm_ops {
    /* Before a commit that sets the object's alarm to `at`: make sure that it is looked at by then, even
     * after a crash. */
    int (*promise)(void *user, const char *class_name, const char *id, int64_t at, struct error *err);
    /* After the commit: this is how it is now (STORAGE_NO_ALARM: none). */
    void (*changed)(void *user, const char *class_name, const char *id, int64_t at);
};
void storage_set_alarm_ops(struct storage *s, const struct storage_alarm_ops *ops, void *user);

/* The handler is about to run for the alarm that is set, if that is due at `now`: 1, its time in *ret_at;
 * from now on the object sees no alarm, until it sets one. 0: there is none that is due; *ret_at is the one
 * that is set. */
int storage_alarm_begin(struct storage *s, const char *class_name, const char *id, int64_t now,
                        int64_t *ret_at, struct error *err);
enum storage_alarm_end {
    STORAGE_ALARM_DONE,  /* the handler succeeded, or gave up: an alarm that it has not set anew is removed */
    STORAGE_ALARM_RETRY, /* it stays as it is, unless the handler set it anew or deleted it */
};
/* *ret_at: what is set now; *ret_again: it is the one that failed, to be tried again. */
int storage_alarm_finish(struct storage *s, const char *class_name, const char *id,
                         enum storage_alarm_end how, int64_t *ret_at, bool *ret_again, struct error *err);

#endif
