#include "daemon/json_cbor.h"

#include <math.h>

static json_t *read_value(struct cbor_reader *r, unsigned depth, struct error *err);

static json_t *refuse(struct error *err, const char *what)
{
    error_set(err, ERROR_INVALID, "the arguments hold %s", what);
    return NULL;
}

static json_t *read_list(struct cbor_reader *r, uint64_t count, unsigned depth, struct error *err)
{
    json_t *list = json_array();
    for (uint64_t i = 0; list && i < count; i++) {
        json_t *v = read_value(r, depth, err);
        if (!v || json_array_append_new(list, v) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *read_map(struct cbor_reader *r, uint64_t count, unsigned depth, struct error *err)
{
    json_t *map = json_object();
    struct cbor_item key;
    for (uint64_t i = 0; map && i < count; i++) {
        json_t *v = NULL, *done = NULL;
        if (cbor_next(r, &key) < 0 || key.type != CBOR_TEXT)
            done = refuse(err, "a key that is no text");
        else if (json_object_getn(map, (const char *)key.data, key.len))
            done = refuse(err, "a key twice");
        else if ((v = read_value(r, depth, err)) &&
                 json_object_setn_new(map, (const char *)key.data, key.len, v) == 0)
            continue;
        json_decref(map);
        return done;
    }
    return map;
}

static json_t *read_value(struct cbor_reader *r, unsigned depth, struct error *err)
{
    struct cbor_item it;
    if (depth > JSON_CBOR_MAX_DEPTH)
        return refuse(err, "values that are nested too deeply");
    if (cbor_next(r, &it) < 0)
        return refuse(err, "something malformed");
    switch (it.type) {
    case CBOR_TEXT:
        return json_stringn((const char *)it.data, it.len);
    case CBOR_UINT:
        return it.u64 <= INT64_MAX ? json_integer((json_int_t)it.u64) : refuse(err, "a number out of range");
    case CBOR_NINT:
        return it.u64 <= INT64_MAX ? json_integer(-1 - (json_int_t)it.u64)
                                   : refuse(err, "a number out of range");
    case CBOR_DOUBLE:
        return isfinite(it.number) ? json_real(it.number) : refuse(err, "a number that is not finite");
    case CBOR_BOOL:
        return json_boolean(it.boolean);
    case CBOR_NULL:
        return json_null();
    case CBOR_ARRAY:
        return read_list(r, it.count, depth + 1, err);
    case CBOR_MAP:
        return read_map(r, it.count, depth + 1, err);
    default:
        return refuse(err, "bytes, or something else that has no place there");
    }
}

json_t *json_from_cbor(struct cbor_reader *r, struct error *err)
{
    struct error why = {0};
    json_t *v = read_value(r, 0, &why);
    if (!v) {
        if (why.kind)
            *err = why;
        else
            error_oom(err);
    }
    return v;
}
