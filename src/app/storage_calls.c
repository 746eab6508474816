/* The methods of the storage capability. UNTRUSTED INPUT: names and arguments come from a worker. */
#include "app/storage_internal.h"

#include "base/clock.h"

#include <string.h>

static int transaction_begin(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                             struct error *err)
{
    bool apart = false;
    if (cbor_map_bool(args, "apart", false, &apart) < 0)
        return error_field(err, "apart", "apart: expected a boolean");
    cbor_put_null(answer);
    return storage_object_begin(o, apart, err);
}

static int transaction_commit(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                              struct error *err)
{
    cbor_put_null(answer);
    return storage_object_release(o, false, err);
}

static int transaction_rollback(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                                struct error *err)
{
    cbor_put_null(answer);
    return storage_object_release(o, true, err);
}

static int sync_all(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                    struct error *err)
{
    cbor_put_null(answer);
    return o->depth > 0 ? 0 : storage_object_commit(o, err);
}

static int undo_all(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
                    struct error *err)
{
    cbor_put_null(answer);
    storage_object_undo(o);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct storage_object *o, const struct cbor_reader *args, struct buf *answer,
               struct error *err);
} methods[] = {
    {"get", storage_kv_get},
    {"list", storage_kv_list},
    {"put", storage_kv_put},
    {"delete", storage_kv_delete},
    {"deleteAll", storage_kv_delete_all},
    {"sql", storage_sql_exec},
    {"next", storage_sql_next},
    {"close", storage_sql_close},
    {"size", storage_sql_size},
    {"begin", transaction_begin},
    {"commit", transaction_commit},
    {"rollback", transaction_rollback},
    {"undo", undo_all},
    {"setAlarm", storage_alarm_set},
    {"getAlarm", storage_alarm_get},
    {"deleteAlarm", storage_alarm_delete},
    {"sync", sync_all},
};

/* Arguments of so many bytes name, or hold, little enough for the owner's loop. */
#define SHORT_ARGUMENTS ((size_t)4096)

bool storage_call_is_long(const struct storage_session *session, const char *method, size_t args_len)
{
    static const char *const always[] = {"sql", "next", "list", "deleteAll"};
    static const char *const ending[] = {"sync", "begin", "commit", "rollback", "undo"};
    if (!session->object || strcmp(method, "stage") == 0 || strcmp(method, "piece") == 0)
        return false;
    if (args_len > SHORT_ARGUMENTS)
        return true;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcmp(method, always[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (strcmp(method, ending[i]) == 0)
            return storage_object_is_large(session->object);
    return false;
}

int storage_call(struct storage_session *session, const char *method, struct cbor_reader args,
                 struct buf *answer, struct error *err)
{
    struct storage_object *o = session->object;
    if (!o)
        return error_set(err, ERROR_GONE, "a newer instance of the object has taken its storage over");
    if (o->broken.kind) {
        *err = o->broken;
        return -1;
    }
    o->storage->deadline_ns = (int64_t)clock_monotonic_ns() + (int64_t)o->storage->statement_ms * 1000000;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, method) != 0)
            continue;
        if (storage_object_use(o, err) < 0 || methods[i].run(o, &args, answer, err) < 0)
            return -1;
        return answer->failed ? error_oom(err) : 0;
    }
    return error_set(err, ERROR_INVALID, "storage has no method %.32s", method);
}
