#include "link/cbor.h"

#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

enum { MAJOR_UINT, MAJOR_NINT, MAJOR_BYTES, MAJOR_TEXT, MAJOR_ARRAY, MAJOR_MAP, MAJOR_TAG, MAJOR_SIMPLE };

/* --- writer --- */

static void put_head(struct buf *b, unsigned major, uint64_t v)
{
    uint8_t head[9];
    unsigned extra = v < 24 ? 0 : v <= UINT8_MAX ? 1 : v <= UINT16_MAX ? 2 : v <= UINT32_MAX ? 4 : 8;
    unsigned info = extra == 0 ? (unsigned)v : extra == 1 ? 24 : extra == 2 ? 25 : extra == 4 ? 26 : 27;
    head[0] = (uint8_t)(major << 5 | info);
    for (unsigned i = 0; i < extra; i++)
        head[1 + i] = (uint8_t)(v >> (8 * (extra - 1 - i)));
    buf_append(b, head, 1 + extra);
}

void cbor_put_uint(struct buf *b, uint64_t v)
{
    put_head(b, MAJOR_UINT, v);
}

void cbor_put_int(struct buf *b, int64_t v)
{
    if (v < 0)
        put_head(b, MAJOR_NINT, (uint64_t)(-1 - v));
    else
        put_head(b, MAJOR_UINT, (uint64_t)v);
}

void cbor_put_bytes(struct buf *b, const void *data, size_t len)
{
    put_head(b, MAJOR_BYTES, len);
    buf_append(b, data, len);
}

void cbor_put_text_n(struct buf *b, const char *text, size_t len)
{
    put_head(b, MAJOR_TEXT, len);
    buf_append(b, text, len);
}

void cbor_put_text(struct buf *b, const char *text)
{
    cbor_put_text_n(b, text, strlen(text));
}

void cbor_put_string(struct buf *b, const char *s)
{
    size_t len = strlen(s);
    put_head(b, utf8_valid(s, len) ? MAJOR_TEXT : MAJOR_BYTES, len);
    buf_append(b, s, len);
}

void cbor_put_array(struct buf *b, uint64_t count)
{
    put_head(b, MAJOR_ARRAY, count);
}

void cbor_put_map(struct buf *b, uint64_t pairs)
{
    put_head(b, MAJOR_MAP, pairs);
}

void cbor_put_tag(struct buf *b, uint64_t tag)
{
    put_head(b, MAJOR_TAG, tag);
}

void cbor_put_bool(struct buf *b, bool v)
{
    put_head(b, MAJOR_SIMPLE, v ? 21 : 20);
}

void cbor_put_null(struct buf *b)
{
    put_head(b, MAJOR_SIMPLE, 22);
}

void cbor_put_undefined(struct buf *b)
{
    put_head(b, MAJOR_SIMPLE, 23);
}

void cbor_put_double(struct buf *b, double v)
{
    uint64_t bits;
    uint8_t out[9] = {MAJOR_SIMPLE << 5 | 27};
    memcpy(&bits, &v, 8);
    for (int i = 0; i < 8; i++)
        out[1 + i] = (uint8_t)(bits >> (8 * (7 - i)));
    buf_append(b, out, sizeof out);
}

/* --- reader: UNTRUSTED INPUT from here on --- */

void cbor_reader_init(struct cbor_reader *r, const void *data, size_t len)
{
    static const uint8_t nothing[1];
    r->p = data ? data : nothing;
    r->end = r->p + (data ? len : 0);
    r->items = 0;
}

bool cbor_at_end(const struct cbor_reader *r)
{
    return r->p == r->end;
}

/* Reads initial byte and argument. Refuses reserved and indefinite additional information and, except for the
 * floats of major type 7, arguments that a shorter form could hold. */
static int read_head(struct cbor_reader *r, unsigned *ret_major, unsigned *ret_info, uint64_t *ret_value)
{
    if (r->p == r->end || ++r->items > CBOR_MAX_ITEMS)
        return -1;
    unsigned major = *r->p >> 5, info = *r->p & 31;
    if (info > 27)
        return -1;
    unsigned extra = info < 24 ? 0 : 1u << (info - 24);
    if ((size_t)(r->end - r->p) < 1 + extra)
        return -1;
    uint64_t v = extra ? 0 : info;
    for (unsigned i = 1; i <= extra; i++)
        v = v << 8 | r->p[i];
    static const uint64_t least[] = {24, UINT8_MAX + 1u, UINT16_MAX + 1u, (uint64_t)UINT32_MAX + 1};
    if (major != MAJOR_SIMPLE && info >= 24 && v < least[info - 24])
        return -1;
    r->p += 1 + extra;
    *ret_major = major;
    *ret_info = info;
    *ret_value = v;
    return 0;
}

static int take_string(struct cbor_reader *r, struct cbor_item *it, uint64_t len)
{
    if (len > (uint64_t)(r->end - r->p))
        return -1;
    if (it->type == CBOR_TEXT && !utf8_valid(r->p, (size_t)len))
        return -1;
    it->data = r->p;
    it->len = (size_t)len;
    r->p += len;
    return 0;
}

static int take_simple(struct cbor_item *it, unsigned info, uint64_t v)
{
    switch (info) {
    case 20:
    case 21:
        it->type = CBOR_BOOL;
        it->boolean = info == 21;
        return 0;
    case 22:
        it->type = CBOR_NULL;
        return 0;
    case 23:
        it->type = CBOR_UNDEFINED;
        return 0;
    case 27:
        it->type = CBOR_DOUBLE;
        memcpy(&it->number, &v, 8);
        return 0;
    default:
        return -1; /* unassigned simple values, half and single floats */
    }
}

int cbor_next(struct cbor_reader *r, struct cbor_item *ret)
{
    unsigned major, info;
    uint64_t v;
    if (read_head(r, &major, &info, &v) < 0)
        return -1;
    uint64_t left = (uint64_t)(r->end - r->p);
    struct cbor_item it = {0};
    switch (major) {
    case MAJOR_UINT:
    case MAJOR_NINT:
        it.type = major == MAJOR_UINT ? CBOR_UINT : CBOR_NINT;
        it.u64 = v;
        break;
    case MAJOR_BYTES:
    case MAJOR_TEXT:
        it.type = major == MAJOR_BYTES ? CBOR_BYTES : CBOR_TEXT;
        if (take_string(r, &it, v) < 0)
            return -1;
        break;
    case MAJOR_ARRAY:
    case MAJOR_MAP:
        /* Each element takes at least a byte: a count that can't be true is refused before anyone relies on
         * it. */
        if (v > (major == MAJOR_MAP ? left / 2 : left))
            return -1;
        it.type = major == MAJOR_ARRAY ? CBOR_ARRAY : CBOR_MAP;
        it.count = v;
        break;
    case MAJOR_TAG:
        if (left == 0)
            return -1;
        it.type = CBOR_TAG;
        it.u64 = v;
        break;
    default:
        if (take_simple(&it, info, v) < 0)
            return -1;
    }
    *ret = it;
    return 0;
}

int cbor_skip(struct cbor_reader *r)
{
    uint64_t left[CBOR_MAX_DEPTH]; /* items still to come in each open array, map or tag */
    unsigned depth = 0;
    do {
        struct cbor_item it;
        if (cbor_next(r, &it) < 0)
            return -1;
        uint64_t inner = it.type == CBOR_ARRAY ? it.count
                         : it.type == CBOR_MAP ? it.count * 2
                                               : it.type == CBOR_TAG;
        bool container = it.type == CBOR_ARRAY || it.type == CBOR_MAP || it.type == CBOR_TAG;
        if (container && depth == CBOR_MAX_DEPTH)
            return -1;
        if (inner > 0)
            left[depth++] = inner;
        else
            while (depth > 0 && --left[depth - 1] == 0)
                depth--;
    } while (depth > 0);
    return 0;
}

bool cbor_well_formed(const void *data, size_t len)
{
    struct cbor_reader r;
    cbor_reader_init(&r, data, len);
    return cbor_skip(&r) == 0 && cbor_at_end(&r);
}

/* --- typed getters --- */

static int next_of(struct cbor_reader *r, enum cbor_type type, struct cbor_item *it)
{
    return cbor_next(r, it) < 0 || it->type != type ? -1 : 0;
}

int cbor_get_uint(struct cbor_reader *r, uint64_t max, uint64_t *ret)
{
    struct cbor_item it;
    if (next_of(r, CBOR_UINT, &it) < 0 || it.u64 > max)
        return -1;
    *ret = it.u64;
    return 0;
}

int cbor_get_int(struct cbor_reader *r, int64_t *ret)
{
    struct cbor_item it;
    if (cbor_next(r, &it) < 0 || (it.type != CBOR_UINT && it.type != CBOR_NINT) || it.u64 > INT64_MAX)
        return -1;
    *ret = it.type == CBOR_UINT ? (int64_t)it.u64 : -1 - (int64_t)it.u64;
    return 0;
}

int cbor_get_bool(struct cbor_reader *r, bool *ret)
{
    struct cbor_item it;
    if (next_of(r, CBOR_BOOL, &it) < 0)
        return -1;
    *ret = it.boolean;
    return 0;
}

int cbor_get_bytes(struct cbor_reader *r, const uint8_t **ret, size_t *ret_len)
{
    struct cbor_item it;
    if (cbor_next(r, &it) < 0 || (it.type != CBOR_BYTES && it.type != CBOR_TEXT))
        return -1;
    *ret = it.data;
    *ret_len = it.len;
    return 0;
}

/* Text or bytes without NUL, so that it can become a C string. */
static int get_c_bytes(struct cbor_reader *r, const uint8_t **ret, size_t *ret_len)
{
    return cbor_get_bytes(r, ret, ret_len) < 0 || memchr(*ret, 0, *ret_len) ? -1 : 0;
}

int cbor_get_string(struct cbor_reader *r, char *to, size_t cap)
{
    const uint8_t *data;
    size_t len;
    if (get_c_bytes(r, &data, &len) < 0 || len >= cap)
        return -1;
    memcpy(to, data, len);
    to[len] = '\0';
    return 0;
}

char *cbor_dup_string(struct cbor_reader *r, size_t max_len)
{
    const uint8_t *data;
    size_t len;
    if (get_c_bytes(r, &data, &len) < 0 || len > max_len)
        return NULL;
    char *s = malloc(len + 1);
    if (!s)
        return NULL;
    memcpy(s, data, len);
    s[len] = '\0';
    return s;
}

int cbor_get_array(struct cbor_reader *r, uint64_t max, uint64_t *ret_count)
{
    struct cbor_item it;
    if (next_of(r, CBOR_ARRAY, &it) < 0 || it.count > max)
        return -1;
    *ret_count = it.count;
    return 0;
}

int cbor_get_map(struct cbor_reader *r, uint64_t max, uint64_t *ret_pairs)
{
    struct cbor_item it;
    if (next_of(r, CBOR_MAP, &it) < 0 || it.count > max)
        return -1;
    *ret_pairs = it.count;
    return 0;
}

/* 1: found, 0: absent, -1: not a map with text keys, or the key occurs twice. */
static int map_find(const struct cbor_reader *map, const char *key, struct cbor_reader *ret_value)
{
    struct cbor_reader r = *map;
    size_t key_len = strlen(key);
    uint64_t pairs;
    int found = 0;
    if (cbor_get_map(&r, UINT64_MAX, &pairs) < 0)
        return -1;
    for (; pairs > 0; pairs--) {
        struct cbor_item it;
        if (next_of(&r, CBOR_TEXT, &it) < 0)
            return -1;
        if (it.len == key_len && memcmp(it.data, key, key_len) == 0) {
            if (found++)
                return -1;
            *ret_value = r;
        }
        if (cbor_skip(&r) < 0)
            return -1;
    }
    return found;
}

bool cbor_map_find(const struct cbor_reader *map, const char *key, struct cbor_reader *ret_value)
{
    struct cbor_reader value;
    if (map_find(map, key, &value) != 1)
        return false;
    *ret_value = value;
    return true;
}

int cbor_map_uint(const struct cbor_reader *map, const char *key, uint64_t max, uint64_t fallback,
                  uint64_t *ret)
{
    struct cbor_reader value;
    int found = map_find(map, key, &value);
    if (found == 0)
        *ret = fallback;
    return found < 0 ? -1 : found == 0 ? 0 : cbor_get_uint(&value, max, ret);
}

int cbor_map_bool(const struct cbor_reader *map, const char *key, bool fallback, bool *ret)
{
    struct cbor_reader value;
    int found = map_find(map, key, &value);
    if (found == 0)
        *ret = fallback;
    return found < 0 ? -1 : found == 0 ? 0 : cbor_get_bool(&value, ret);
}

char *cbor_map_dup(const struct cbor_reader *map, const char *key, size_t max_len)
{
    struct cbor_reader value;
    return map_find(map, key, &value) == 1 ? cbor_dup_string(&value, max_len) : NULL;
}
