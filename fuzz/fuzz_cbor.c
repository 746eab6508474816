/* The CBOR reader over arbitrary bytes. What it calls well-formed must come out byte for byte the same when
 * it is written again, since every value of the subset has one encoding only. */
#include "link/cbor.h"
#include "link/link.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void write_again(struct buf *b, const struct cbor_item *it)
{
    switch (it->type) {
    case CBOR_UINT:
        cbor_put_uint(b, it->u64);
        break;
    case CBOR_NINT:
        if (it->u64 <= INT64_MAX) {
            cbor_put_int(b, -1 - (int64_t)it->u64);
        } else { /* beyond what the writer offers */
            buf_append(b, "\x3b", 1);
            for (int shift = 56; shift >= 0; shift -= 8)
                buf_append(b, &(uint8_t){(uint8_t)(it->u64 >> shift)}, 1);
        }
        break;
    case CBOR_BYTES:
        cbor_put_bytes(b, it->data, it->len);
        break;
    case CBOR_TEXT:
        cbor_put_text_n(b, (const char *)it->data, it->len);
        break;
    case CBOR_ARRAY:
        cbor_put_array(b, it->count);
        break;
    case CBOR_MAP:
        cbor_put_map(b, it->count);
        break;
    case CBOR_TAG:
        cbor_put_tag(b, it->u64);
        break;
    case CBOR_BOOL:
        cbor_put_bool(b, it->boolean);
        break;
    case CBOR_NULL:
        cbor_put_null(b);
        break;
    case CBOR_UNDEFINED:
        cbor_put_undefined(b);
        break;
    case CBOR_DOUBLE:
        cbor_put_double(b, it->number);
        break;
    }
}

static void try_getters(const uint8_t *data, size_t len)
{
    struct cbor_reader r, value;
    struct error err;
    uint64_t u;
    int64_t i;
    bool v;
    uint32_t cap;
    char text[16];
    cbor_reader_init(&r, data, len);
    struct cbor_reader at = r;
    if (cbor_get_uint(&at, 1000, &u) == 0)
        check(u <= 1000);
    at = r;
    cbor_get_int(&at, &i);
    at = r;
    if (cbor_get_string(&at, text, sizeof text) == 0)
        check(strlen(text) < sizeof text);
    at = r;
    char *dup = cbor_dup_string(&at, 100);
    check(!dup || strlen(dup) <= 100);
    free(dup);
    if (cbor_map_uint(&r, "a", 1000, 5, &u) == 0)
        check(u <= 1000);
    cbor_map_bool(&r, "a", true, &v);
    if (cbor_map_find(&r, "message", &value))
        check(value.p >= data && value.p <= value.end && value.end == data + len);
    free(cbor_map_dup(&r, "code", 100));
    at = r;
    if (link_get_capability(&at, &cap) == 0)
        check(cap != 0);
    link_get_error(r, &err);
    check(err.kind != ERROR_NONE && err.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    try_getters(data, len);
    if (!cbor_well_formed(data, len))
        return 0;
    struct cbor_reader r;
    struct cbor_item it;
    struct buf b;
    buf_init(&b, 0);
    cbor_reader_init(&r, data, len);
    while (!cbor_at_end(&r)) {
        check(cbor_next(&r, &it) == 0);
        write_again(&b, &it);
    }
    check(!b.failed && b.len == len && memcmp(b.data, data, len) == 0);
    buf_free(&b);
    return 0;
}
