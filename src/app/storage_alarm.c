/* The alarm of an object, as its own handler and requests see it. UNTRUSTED INPUT: arguments come from the
 * worker. */
#include "app/storage_internal.h"

int storage_alarm_read(struct storage_object *o, int64_t *ret_at, int64_t *ret_seq, struct error *err)
{
    sqlite3_stmt *q = storage_object_statement(o, ST_ALARM_GET, err);
    if (!q)
        return -1;
    int step = storage_object_step(o, q);
    *ret_at = STORAGE_NO_ALARM;
    *ret_seq = 0;
    if (step == SQLITE_ROW) {
        *ret_at = sqlite3_column_int64(q, 0);
        *ret_seq = sqlite3_column_int64(q, 1);
    }
    int result = step == SQLITE_ROW || step == SQLITE_DONE ? 0 : storage_object_error(o, err);
    sqlite3_reset(q);
    return result;
}

static bool hidden(const struct storage_object *o, int64_t seq)
{
    return o->alarm_running && seq == o->alarm_running_seq;
}

int storage_alarm_get(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                      struct error *err)
{
    int64_t at, seq;
    if (storage_alarm_read(o, &at, &seq, err) < 0)
        return -1;
    cbor_put_map(answer, 1);
    cbor_put_text(answer, "at");
    if (seq == 0 || hidden(o, seq))
        cbor_put_null(answer);
    else
        cbor_put_int(answer, at);
    return 0;
}

int storage_alarm_set(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                      struct error *err)
{
    struct cbor_reader r;
    uint64_t at;
    if (!cbor_map_find(args, "at", &r) || cbor_get_uint(&r, INT64_MAX / 2, &at) < 0)
        return error_field(err, "at", "at: expected milliseconds since the epoch");
    if (storage_object_write(o, err) < 0)
        return -1;
    sqlite3_stmt *q = storage_object_statement(o, ST_ALARM_SET, err);
    if (!q)
        return -1;
    sqlite3_bind_int64(q, 1, (int64_t)at);
    sqlite3_bind_int64(q, 2, ++o->storage->next_seq);
    int result = storage_object_step(o, q) == SQLITE_DONE ? 0 : storage_object_error(o, err);
    sqlite3_reset(q);
    o->alarm_changed = true;
    cbor_put_null(answer);
    return result;
}

/* The one whose handler runs is not there to be deleted; all that this does to it is that it is not tried
 * again. */
int storage_alarm_delete(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                         struct error *err)
{
    int64_t at, seq;
    if (storage_alarm_read(o, &at, &seq, err) < 0)
        return -1;
    cbor_put_null(answer);
    if (seq == 0)
        return 0;
    if (hidden(o, seq)) {
        o->alarm_no_retry = true;
        return 0;
    }
    if (storage_object_write(o, err) < 0)
        return -1;
    sqlite3_stmt *q = storage_object_statement(o, ST_ALARM_DELETE, err);
    if (!q)
        return -1;
    int result = storage_object_step(o, q) == SQLITE_DONE ? 0 : storage_object_error(o, err);
    sqlite3_reset(q);
    o->alarm_changed = true;
    return result;
}
