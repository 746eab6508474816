/* CBOR (RFC 8949) in the strict subset the link uses: a writer into a struct buf and a pull reader over
 * UNTRUSTED INPUT.
 *
 * Subset: unsigned and negative integers of 64 bits, byte strings, text strings (well-formed UTF-8), arrays
 * and maps of definite length, tags, false/true/null/undefined, double floats. Refused: indefinite lengths,
 * reserved additional information, integers not in their shortest form, half and single floats (encoders here
 * always write doubles), text that is not UTF-8, nesting deeper than CBOR_MAX_DEPTH, more than CBOR_MAX_ITEMS
 * items in one value, bytes after the top-level item. The reader never allocates and never reads past `len`.
 */
#ifndef CLOISTER_LINK_CBOR_H
#define CLOISTER_LINK_CBOR_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CBOR_MAX_DEPTH 64
#define CBOR_MAX_ITEMS 1000000u
/* Private tag (first-come range of the registry, unassigned): the content is an unsigned capability number.
 */
#define CBOR_TAG_CAPABILITY 0x436c6f69u

enum cbor_type {
    CBOR_UINT,
    CBOR_NINT, /* value is -1 - u64 */
    CBOR_BYTES,
    CBOR_TEXT,
    CBOR_ARRAY,
    CBOR_MAP,
    CBOR_TAG,
    CBOR_BOOL,
    CBOR_NULL,
    CBOR_UNDEFINED,
    CBOR_DOUBLE,
};

/* One item as the reader meets it. For arrays and maps `count` is the number of elements (pairs); their
 * content follows as further items. */
struct cbor_item {
    enum cbor_type type;
    uint64_t u64;        /* UINT, NINT, TAG number */
    double number;       /* DOUBLE */
    bool boolean;        /* BOOL */
    const uint8_t *data; /* BYTES, TEXT: points into the input, not NUL-terminated */
    size_t len;          /* BYTES, TEXT */
    uint64_t count;      /* ARRAY, MAP */
};

struct cbor_reader {
    const uint8_t *p, *end;
    uint32_t items;
};

/* --- writer: errors are sticky in the buf --- */
void cbor_put_uint(struct buf *b, uint64_t v);
void cbor_put_int(struct buf *b, int64_t v);
void cbor_put_bytes(struct buf *b, const void *data, size_t len);
void cbor_put_text(struct buf *b, const char *text); /* must be UTF-8; see cbor_put_string */
void cbor_put_text_n(struct buf *b, const char *text, size_t len);
/* Text when the bytes are UTF-8, else a byte string: for file names and other kernel strings. */
void cbor_put_string(struct buf *b, const char *s);
void cbor_put_array(struct buf *b, uint64_t count);
void cbor_put_map(struct buf *b, uint64_t pairs);
void cbor_put_tag(struct buf *b, uint64_t tag);
void cbor_put_bool(struct buf *b, bool v);
void cbor_put_null(struct buf *b);
void cbor_put_undefined(struct buf *b);
void cbor_put_double(struct buf *b, double v);

/* --- reader --- */
void cbor_reader_init(struct cbor_reader *r, const void *data, size_t len);
/* Next item header. 0, or -1 when the input is malformed or ends here. */
int cbor_next(struct cbor_reader *r, struct cbor_item *ret);
/* Skips one whole value, however deep (bounded). */
int cbor_skip(struct cbor_reader *r);
bool cbor_at_end(const struct cbor_reader *r);
/* Checks one complete value and nothing after it: structure, depth, count, UTF-8. */
bool cbor_well_formed(const void *data, size_t len);

/* Typed getters: -1 unless the next item is of that type and in range. cbor_get_string copies text or bytes
 * that hold no NUL into `to` (NUL-terminated), failing when it does not fit in `cap`. */
int cbor_get_uint(struct cbor_reader *r, uint64_t max, uint64_t *ret);
int cbor_get_int(struct cbor_reader *r, int64_t *ret);
int cbor_get_bool(struct cbor_reader *r, bool *ret);
int cbor_get_bytes(struct cbor_reader *r, const uint8_t **ret, size_t *ret_len); /* bytes or text */
int cbor_get_string(struct cbor_reader *r, char *to, size_t cap);
char *cbor_dup_string(struct cbor_reader *r, size_t max_len); /* as above, malloc'ed; NULL on failure */
int cbor_get_array(struct cbor_reader *r, uint64_t max, uint64_t *ret_count);
int cbor_get_map(struct cbor_reader *r, uint64_t max, uint64_t *ret_pairs);
/* In a map whose keys are text: positions a copy of the reader at the value of `key`. `map` must be a reader
 * placed at the map item. False when the key is absent or the map is malformed. A key that occurs twice is
 * malformed. */
bool cbor_map_find(const struct cbor_reader *map, const char *key, struct cbor_reader *ret_value);
/* Shorthands over cbor_map_find; `fallback` (or false) when the key is absent; -1 when present but of another
 * type. */
int cbor_map_uint(const struct cbor_reader *map, const char *key, uint64_t max, uint64_t fallback,
                  uint64_t *ret);
int cbor_map_bool(const struct cbor_reader *map, const char *key, bool fallback, bool *ret);
char *cbor_map_dup(const struct cbor_reader *map, const char *key,
                   size_t max_len); /* NULL: absent or wrong */

#endif
