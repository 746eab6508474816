#include "app/alarms.h"

#include "base/clock.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define LATER_MS 30000 /* until an object whose file could not be read is looked at again */
#define LONGEST_WAIT_MS ((int64_t)24 * 3600 * 1000)

struct running {
    struct running *next;
    unsigned retries;
    bool ended, failed; /* its handler has, while the storage was lent */
    char id[65];
    char class_name[];
};

enum statement { ST_FIND, ST_PUT, ST_DELETE, ST_DUE, ST_COUNT };

static const char *const statement_text[ST_COUNT] = {
    [ST_FIND] = "SELECT due, retries FROM alarms WHERE class = ?1 AND id = ?2",
    [ST_PUT] = "INSERT OR REPLACE INTO alarms (class, id, due, retries) VALUES (?1, ?2, ?3, ?4)",
    [ST_DELETE] = "DELETE FROM alarms WHERE class = ?1 AND id = ?2",
    [ST_DUE] = "SELECT class, id, due, retries FROM alarms ORDER BY due LIMIT ?1",
};

static const char schema[] =
    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
    "PRAGMA trusted_schema = OFF;"
    "CREATE TABLE IF NOT EXISTS alarms (class TEXT NOT NULL, id TEXT NOT NULL, due INTEGER NOT NULL,"
    " retries INTEGER NOT NULL, PRIMARY KEY (class, id)) WITHOUT ROWID, STRICT;"
    "CREATE INDEX IF NOT EXISTS alarms_due ON alarms (due);";

struct alarms {
    struct alarms_config config;
    sqlite3 *db;
    sqlite3_stmt *statements[ST_COUNT];
    struct running *running;
    unsigned running_count;
    bool postponed; /* something came up while the storage was lent */
    uv_timer_t timer;
};

/* ---- the index ---- */

static int sql_error(struct alarms *a, struct error *err)
{
    return error_set(err, ERROR_SYSTEM, "the index of alarms: %s",
                     a->db ? sqlite3_errmsg(a->db) : "out of memory");
}

static sqlite3_stmt *bound(struct alarms *a, enum statement which, const char *class_name, const char *id)
{
    sqlite3_stmt *q = a->statements[which];
    sqlite3_reset(q);
    sqlite3_bind_text(q, 1, class_name, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, id, -1, SQLITE_STATIC);
    return q;
}

static int find(struct alarms *a, const char *class_name, const char *id, int64_t *ret_due,
                unsigned *ret_retries)
{
    sqlite3_stmt *q = bound(a, ST_FIND, class_name, id);
    int found = sqlite3_step(q) == SQLITE_ROW;
    if (found) {
        *ret_due = sqlite3_column_int64(q, 0);
        *ret_retries = (unsigned)sqlite3_column_int(q, 1);
    }
    sqlite3_reset(q);
    return found;
}

/* STORAGE_NO_ALARM removes the entry. */
static int write_entry(struct alarms *a, const char *class_name, const char *id, int64_t due,
                       unsigned retries, struct error *err)
{
    sqlite3_stmt *q = bound(a, due == STORAGE_NO_ALARM ? ST_DELETE : ST_PUT, class_name, id);
    if (due != STORAGE_NO_ALARM) {
        sqlite3_bind_int64(q, 3, due);
        sqlite3_bind_int(q, 4, (int)retries);
    }
    int r = sqlite3_step(q) == SQLITE_DONE ? 0 : sql_error(a, err);
    sqlite3_reset(q);
    return r;
}

static bool is_running(const struct alarms *a, const char *class_name, const char *id)
{
    for (const struct running *r = a->running; r; r = r->next)
        if (strcmp(r->id, id) == 0 && strcmp(r->class_name, class_name) == 0)
            return true;
    return false;
}

/* ---- the clock ---- */

static void on_time(uv_timer_t *t);

static void set_timer(struct alarms *a)
{
    sqlite3_stmt *q = a->statements[ST_DUE];
    int64_t due = STORAGE_NO_ALARM;
    if (a->running_count >= ALARM_MAX_RUNNING) {
        uv_timer_stop(&a->timer);
        return; /* the end of one looks again */
    }
    sqlite3_reset(q);
    sqlite3_bind_int64(q, 1, a->running_count + 1);
    while (due == STORAGE_NO_ALARM && sqlite3_step(q) == SQLITE_ROW)
        if (!is_running(a, (const char *)sqlite3_column_text(q, 0), (const char *)sqlite3_column_text(q, 1)))
            due = sqlite3_column_int64(q, 2);
    sqlite3_reset(q);
    if (due == STORAGE_NO_ALARM) {
        uv_timer_stop(&a->timer);
        return;
    }
    int64_t wait = due - clock_wall_ms();
    wait = wait < 0 ? 0 : wait > LONGEST_WAIT_MS ? LONGEST_WAIT_MS : wait;
    uv_update_time(a->config.loop);
    uv_timer_start(&a->timer, on_time, (uint64_t)wait, 0);
}

/* ---- what the storage tells ---- */

static int on_promise(void *user, const char *class_name, const char *id, int64_t at, struct error *err)
{
    struct alarms *a = user;
    int64_t due;
    unsigned retries;
    if (find(a, class_name, id, &due, &retries) && due <= at)
        return 0;
    /* Only here the disk is waited for. */
    sqlite3_exec(a->db, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
    int r = write_entry(a, class_name, id, at, 0, err);
    sqlite3_exec(a->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    return r;
}

static void on_changed(void *user, const char *class_name, const char *id, int64_t at)
{
    struct alarms *a = user;
    write_entry(a, class_name, id, at, 0, NULL);
    if (storage_lent(a->config.storage))
        a->postponed = true; /* this is another thread */
    else
        set_timer(a);
}

static const struct storage_alarm_ops alarm_ops = {.promise = on_promise, .changed = on_changed};

/* ---- running ---- */

static int run_one(struct alarms *a, const char *class_name, const char *id, unsigned retries)
{
    int64_t at = STORAGE_NO_ALARM, now = clock_wall_ms();
    struct running *r = calloc(1, sizeof *r + strlen(class_name) + 1);
    if (!r)
        return -1;
    strcpy(r->class_name, class_name);
    memcpy(r->id, id, sizeof r->id);
    r->retries = retries;
    int begun = storage_alarm_begin(a->config.storage, class_name, id, now, &at, NULL);
    if (begun != 1) {
        write_entry(a, class_name, id, begun == 0 ? at : now + LATER_MS, retries, NULL);
        free(r);
        return 0;
    }
    r->next = a->running;
    a->running = r;
    a->running_count++;
    if (a->config.run(a->config.user, class_name, id, at, retries) < 0)
        alarms_ran(a, class_name, id, true);
    return 0;
}

struct due {
    char *class_name;
    char id[65];
    unsigned retries;
};

/* The next that is due and does not run. 0: none. */
static int next_due(struct alarms *a, struct due *ret)
{
    sqlite3_stmt *q = a->statements[ST_DUE];
    int64_t now = clock_wall_ms();
    int found = 0;
    sqlite3_reset(q);
    sqlite3_bind_int64(q, 1, a->running_count + 1);
    while (!found && sqlite3_step(q) == SQLITE_ROW && sqlite3_column_int64(q, 2) <= now) {
        const char *class_name = (const char *)sqlite3_column_text(q, 0),
                   *id = (const char *)sqlite3_column_text(q, 1);
        if (strlen(id) != 64 || is_running(a, class_name, id))
            continue;
        ret->class_name = strdup(class_name);
        memcpy(ret->id, id, 65);
        ret->retries = (unsigned)sqlite3_column_int(q, 3);
        found = ret->class_name != NULL;
    }
    sqlite3_reset(q);
    return found;
}

static void on_time(uv_timer_t *t)
{
    struct alarms *a = t->data;
    struct due due;
    unsigned budget = ALARM_MAX_RUNNING; /* of one turn of the loop */
    if (storage_lent(a->config.storage)) {
        a->postponed = true;
        return;
    }
    while (budget-- > 0 && a->running_count < ALARM_MAX_RUNNING && next_due(a, &due)) {
        int r = run_one(a, due.class_name, due.id, due.retries);
        free(due.class_name);
        if (r < 0)
            break;
    }
    set_timer(a);
}

static void finish(struct alarms *a, const struct running *r, bool failed)
{
    int64_t at = STORAGE_NO_ALARM;
    bool again = false, retry = failed && r->retries < ALARM_RETRIES;
    enum storage_alarm_end how = retry ? STORAGE_ALARM_RETRY : STORAGE_ALARM_DONE;
    if (storage_alarm_finish(a->config.storage, r->class_name, r->id, how, &at, &again, NULL) < 0)
        write_entry(a, r->class_name, r->id, clock_wall_ms() + LATER_MS, r->retries, NULL);
    else if (again)
        write_entry(a, r->class_name, r->id, clock_wall_ms() + ((int64_t)ALARM_FIRST_DELAY_MS << r->retries),
                    r->retries + 1, NULL);
    else
        write_entry(a, r->class_name, r->id, at, 0, NULL);
}

void alarms_ran(struct alarms *a, const char *class_name, const char *id, bool failed)
{
    struct running **at = &a->running;
    while (*at && (strcmp((*at)->id, id) != 0 || strcmp((*at)->class_name, class_name) != 0))
        at = &(*at)->next;
    if (!*at)
        return;
    struct running *r = *at;
    if (storage_lent(a->config.storage)) {
        a->postponed = r->ended = true;
        r->failed = failed;
        return;
    }
    *at = r->next;
    a->running_count--;
    finish(a, r, failed);
    free(r);
    set_timer(a);
}

void alarms_go_on(struct alarms *a)
{
    if (!a->postponed)
        return;
    a->postponed = false;
    for (struct running **at = &a->running; *at;) {
        struct running *r = *at;
        if (!r->ended) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        a->running_count--;
        finish(a, r, r->failed);
        free(r);
    }
    set_timer(a);
}

/* ---- life ---- */

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void alarms_close(struct alarms *a)
{
    if (!a)
        return;
    storage_set_alarm_ops(a->config.storage, NULL, NULL);
    while (a->running) {
        struct running *r = a->running;
        a->running = r->next;
        free(r);
    }
    for (int i = 0; i < ST_COUNT; i++)
        sqlite3_finalize(a->statements[i]);
    sqlite3_close(a->db);
    uv_close((uv_handle_t *)&a->timer, on_closed);
}

int alarms_open(struct alarms **ret, const struct alarms_config *config, struct error *err)
{
    struct alarms *a = calloc(1, sizeof *a);
    if (!a)
        return error_oom(err);
    a->config = *config;
    uv_timer_init(config->loop, &a->timer);
    uv_unref((uv_handle_t *)&a->timer);
    a->timer.data = a;
    int r = sqlite3_open_v2(config->file, &a->db,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_exec(a->db, schema, NULL, NULL, NULL);
    for (int i = 0; i < ST_COUNT && r == SQLITE_OK; i++)
        r = sqlite3_prepare_v3(a->db, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT, &a->statements[i],
                               NULL);
    if (r != SQLITE_OK) {
        sql_error(a, err);
        alarms_close(a);
        return -1;
    }
    a->config.file = NULL;
    storage_set_alarm_ops(config->storage, &alarm_ops, a);
    set_timer(a);
    *ret = a;
    return 0;
}
