/* The objects that are known, their sessions, and what is flushed. */
#include "app/storage_internal.h"

#include "base/clock.h"
#include "base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_MAX 256u
#define DEFAULT_OPEN 64u

int storage_open(struct storage **ret, const struct storage_config *config, struct error *err)
{
    if (paths_private_dir(config->dir, err) < 0)
        return -1;
    if (!sqlite3_threadsafe())
        return error_set(err, ERROR_UNSUPPORTED,
                         "SQLite was built without support of threads: use another build");
    struct storage *s = calloc(1, sizeof *s);
    if (s)
        s->dir = strdup(config->dir);
    if (!s || !s->dir) {
        free(s);
        return error_oom(err);
    }
    pthread_mutex_init(&s->running_lock, NULL);
    s->max_open = config->max_open ? config->max_open : DEFAULT_OPEN;
    s->max_bytes = config->max_bytes ? config->max_bytes : STORAGE_BYTES_DEFAULT;
    s->max_memory = config->max_memory ? config->max_memory : STORAGE_MEMORY_DEFAULT;
    s->statement_ms = config->statement_ms ? config->statement_ms : STORAGE_STATEMENT_MS;
    s->next_seq = clock_wall_ms() * 1000; /* greater than any that an earlier run gave out */
    if (storage_temp_open(&s->temp, s->dir, s->max_bytes, err) < 0) {
        pthread_mutex_destroy(&s->running_lock);
        free(s->dir);
        free(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void storage_set_alarm_ops(struct storage *s, const struct storage_alarm_ops *ops, void *user)
{
    s->alarm_ops = ops;
    s->alarm_user = user;
}

/* ---- objects ---- */

static unsigned hash(const char *class_name, const char *id)
{
    uint32_t h = 2166136261u;
    for (; *class_name; class_name++)
        h = (h ^ (uint8_t)*class_name) * 16777619u;
    for (; *id; id++)
        h = (h ^ (uint8_t)*id) * 16777619u;
    return h % STORAGE_BUCKETS;
}

bool storage_valid_name(const char *class_name, const char *id)
{
    size_t len = strlen(class_name);
    return len > 0 && len <= CLASS_MAX && strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64;
}

/* A directory name that every class has for itself: no '/', no leading '.', and case as it is. */
static void escape_class(const char *class_name, char to[3 * CLASS_MAX + 1])
{
    for (; *class_name; class_name++) {
        unsigned char c = (unsigned char)*class_name;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
            c == '$')
            *to++ = (char)c;
        else
            to += sprintf(to, "=%02X", c);
    }
    *to = '\0';
}

static int make_path(struct storage_object *o, struct error *err)
{
    char dir[3 * CLASS_MAX + 1], *path;
    escape_class(o->class_name, dir);
    if (strlen(dir) > 255)
        return error_field(err, "class", "class: %.64s: the name is too long", o->class_name);
    if (asprintf(&path, "%s/%s", o->storage->dir, dir) < 0)
        return error_oom(err);
    int r = paths_private_dir(path, err);
    free(path);
    if (r < 0)
        return -1;
    if (asprintf(&o->path, "%s/%s/%s.sqlite", o->storage->dir, dir, o->id) < 0) {
        o->path = NULL;
        return error_oom(err);
    }
    return 0;
}

static void free_object(struct storage_object *o)
{
    free(o->class_name);
    free(o->path);
    free(o);
}

static struct storage_object *find_object(struct storage *s, const char *class_name, const char *id)
{
    struct storage_object *o = s->buckets[hash(class_name, id)];
    while (o && (strcmp(o->id, id) != 0 || strcmp(o->class_name, class_name) != 0))
        o = o->bucket_next;
    return o;
}

static int get_object(struct storage *s, const char *class_name, const char *id, struct storage_object **ret,
                      struct error *err)
{
    if (!storage_valid_name(class_name, id))
        return error_field(err, "id", "id: expected a class and 64 lower-case hex digits");
    struct storage_object *o = find_object(s, class_name, id);
    if (!o) {
        o = calloc(1, sizeof *o);
        if (!o)
            return error_oom(err);
        o->storage = s;
        o->next_cursor = 1;
        memcpy(o->id, id, sizeof o->id);
        o->class_name = strdup(class_name);
        if (!o->class_name) {
            free(o);
            return error_oom(err);
        }
        if (make_path(o, err) < 0) {
            free_object(o);
            return -1;
        }
        struct storage_object **bucket = &s->buckets[hash(class_name, id)];
        o->bucket_next = *bucket;
        *bucket = o;
    }
    *ret = o;
    return 0;
}

/* Forgets an object that nothing needs any more. */
static void settle_object(struct storage_object *o)
{
    if (o->session || o->db || o->listed_dirty || o->alarm_running)
        return;
    struct storage_object **at = &o->storage->buckets[hash(o->class_name, o->id)];
    while (*at != o)
        at = &(*at)->bucket_next;
    *at = o->bucket_next;
    free_object(o);
}

int storage_flush(struct storage *s, struct error *err)
{
    int result = 0;
    struct storage_object *list = s->dirty, *kept = NULL;
    s->dirty = NULL;
    while (list) {
        struct storage_object *o = list;
        list = o->dirty_next;
        if (o->in_transaction && o->depth > 0) { /* the outermost savepoint's end is waited for */
            o->dirty_next = kept;
            kept = o;
            continue;
        }
        o->listed_dirty = false;
        if (storage_object_commit(o, result == 0 ? err : NULL) < 0)
            result = -1;
        settle_object(o);
    }
    s->dirty = kept;
    return result;
}

/* ---- another thread ---- */

bool storage_dirty(const struct storage *s)
{
    return s->dirty != NULL;
}

bool storage_flush_is_long(const struct storage *s)
{
    for (const struct storage_object *o = s->dirty; o; o = o->dirty_next)
        if (o->depth == 0 && storage_object_is_large(o))
            return true;
    return false;
}

bool storage_lent(const struct storage *s)
{
    return s->lent;
}

void storage_lend(struct storage *s)
{
    atomic_store(&s->stop, STORAGE_RUNS);
    s->lent = true;
}

void storage_take_back(struct storage *s)
{
    s->lent = false;
    atomic_store(&s->stop, STORAGE_RUNS);
    while (s->ending) {
        struct storage_session *session = s->ending;
        s->ending = session->next_ending;
        storage_session_end(session);
    }
}

void storage_stop(struct storage *s, bool gone)
{
    if (gone || atomic_load(&s->stop) != STORAGE_UNWANTED)
        atomic_store(&s->stop, gone ? STORAGE_UNWANTED : STORAGE_OUT_OF_TIME);
    pthread_mutex_lock(&s->running_lock);
    if (s->running)
        sqlite3_interrupt(s->running);
    pthread_mutex_unlock(&s->running_lock);
}

void storage_close(struct storage *s)
{
    if (!s)
        return;
    storage_flush(s, NULL);
    s->dirty = NULL;
    for (unsigned i = 0; i < STORAGE_BUCKETS; i++)
        while (s->buckets[i]) {
            struct storage_object *o = s->buckets[i];
            s->buckets[i] = o->bucket_next;
            storage_object_close(o);
            free_object(o);
        }
    sqlite3_close(s->plain);
    storage_temp_close(&s->temp);
    pthread_mutex_destroy(&s->running_lock);
    free(s->dir);
    free(s);
}

/* ---- sessions ---- */

static void undo_session(struct storage_object *o)
{
    if (o->db)
        storage_object_undo(o);
    storage_cursors_close(o);
    error_clear(&o->broken);
    if (o->session)
        o->session->object = NULL;
    o->session = NULL;
}

int storage_session_begin(struct storage *s, const char *class_name, const char *id,
                          struct storage_session **ret, struct error *err)
{
    struct storage_object *o = NULL;
    if (get_object(s, class_name, id, &o, err) < 0)
        return -1;
    struct storage_session *session = calloc(1, sizeof *session);
    if (!session) {
        settle_object(o);
        return error_oom(err);
    }
    undo_session(o);
    session->storage = s;
    session->object = o;
    o->session = session;
    if (storage_object_use(o, err) < 0) {
        o->session = NULL;
        free(session);
        settle_object(o);
        return -1;
    }
    *ret = session;
    return 0;
}

void storage_session_end(struct storage_session *session)
{
    if (!session)
        return;
    if (session->storage->lent) {
        session->next_ending = session->storage->ending;
        session->storage->ending = session;
        return;
    }
    struct storage_object *o = session->object;
    if (o) {
        undo_session(o);
        settle_object(o);
    }
    free(session);
}

int storage_session_alarm(struct storage_session *session, int64_t *ret, struct error *err)
{
    int64_t seq = 0;
    struct storage_object *o = session->object;
    if (!o)
        return error_set(err, ERROR_GONE, "a newer instance of the object has taken over");
    if (storage_object_use(o, err) < 0 || storage_alarm_read(o, ret, &seq, err) < 0)
        return -1;
    if (seq == 0 || (o->alarm_running && seq == o->alarm_running_seq))
        *ret = STORAGE_NO_ALARM;
    return 0;
}

/* ---- alarms: begin and end of a run ---- */

int storage_alarm_begin(struct storage *s, const char *class_name, const char *id, int64_t now,
                        int64_t *ret_at, struct error *err)
{
    struct storage_object *o = NULL;
    int64_t seq = 0;
    if (get_object(s, class_name, id, &o, err) < 0)
        return -1;
    int r = storage_object_use(o, err);
    if (r == 0)
        r = storage_alarm_read(o, ret_at, &seq, err);
    if (r == 0 && seq == 0)
        *ret_at = STORAGE_NO_ALARM;
    if (r == 0 && seq != 0 && *ret_at <= now && !o->alarm_running) {
        o->alarm_running = true;
        o->alarm_no_retry = false;
        o->alarm_running_seq = seq;
        r = 1;
    }
    settle_object(o);
    return r;
}

static int finish_alarm(struct storage_object *o, enum storage_alarm_end how, int64_t *ret_at,
                        bool *ret_again, struct error *err)
{
    int64_t seq = 0;
    *ret_again = false;
    if (storage_object_use(o, err) < 0 || storage_alarm_read(o, ret_at, &seq, err) < 0)
        return -1;
    bool same = seq != 0 && seq == o->alarm_running_seq;
    if (seq == 0)
        *ret_at = STORAGE_NO_ALARM;
    if (!same)
        return 0;
    if (how == STORAGE_ALARM_RETRY && !o->alarm_no_retry) {
        *ret_again = true;
        return 0;
    }
    *ret_at = STORAGE_NO_ALARM;
    if (storage_object_write(o, err) < 0)
        return -1;
    sqlite3_stmt *q = storage_object_statement(o, ST_ALARM_DELETE, err);
    if (!q)
        return -1;
    if (storage_object_step(o, q) != SQLITE_DONE)
        return storage_object_error(o, err);
    sqlite3_reset(q);
    return o->depth > 0 ? 0 : storage_object_commit(o, err);
}

int storage_alarm_finish(struct storage *s, const char *class_name, const char *id,
                         enum storage_alarm_end how, int64_t *ret_at, bool *ret_again, struct error *err)
{
    struct storage_object *o = find_object(s, class_name, id);
    if (!o || !o->alarm_running)
        return error_set(err, ERROR_STATE, "no alarm handler of %.64s runs", class_name);
    int r = finish_alarm(o, how, ret_at, ret_again, err);
    o->alarm_running = false;
    settle_object(o);
    return r;
}
