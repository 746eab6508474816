#include "image/tar_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512
#define PAX_MAX ((uint64_t)1 << 20) /* libarchive refuses larger ones */

enum { AT_HEADER, IN_DATA, IN_PAX, IN_SPARSE, ASIDE };

static const char binary[] = "21 hdrcharset=BINARY\n";

/* Octal, or big-endian binary where the first bit is set. UINT64_MAX when neither. */
static uint64_t field_number(const uint8_t *f, size_t n)
{
    uint64_t v = 0;
    if (f[0] & 0x80) {
        for (size_t i = 1; i < n; i++) {
            if (v >> 55)
                return UINT64_MAX;
            v = v << 8 | f[i];
        }
        return v;
    }
    size_t i = 0;
    while (i < n && f[i] == ' ')
        i++;
    for (; i < n && f[i] >= '0' && f[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(f[i] - '0');
    return v;
}

static unsigned checksum(const uint8_t *b)
{
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? 0u : b[i];
    return sum;
}

static void put_checksum(uint8_t *b)
{
    snprintf((char *)b + 148, 7, "%06o", checksum(b));
    b[155] = ' ';
}

static uint64_t padded(uint64_t n)
{
    return n + (BLOCK - n % BLOCK) % BLOCK;
}

static int emit_block(struct tar_names *t)
{
    t->have = 0;
    return buf_append(&t->out, t->block, BLOCK);
}

/* Behind a header: what follows it, by its type. */
static void after_header(struct tar_names *t)
{
    uint8_t type = t->block[156];
    uint64_t size = field_number(t->block + 124, 12);
    if (type >= '1' && type <= '6')
        size = 0;
    else if (t->has_pax_size && type != 'g' && type != 'L' && type != 'K')
        size = t->pax_size;
    if (type != 'L' && type != 'K' && type != 'g')
        t->has_pax_size = t->has_link = false;
    if (size > INT64_MAX - BLOCK) {
        t->state = ASIDE;
        return;
    }
    t->data_left = padded(size);
    t->state = type == 'S' && t->block[482] ? IN_SPARSE : t->data_left ? IN_DATA : AT_HEADER;
}

static int take_header(struct tar_names *t)
{
    static const uint8_t zeros[BLOCK];
    uint8_t type = t->block[156];
    uint64_t size = field_number(t->block + 124, 12);
    t->ended = memcmp(t->block, zeros, BLOCK) == 0;
    bool sound = !t->ended && field_number(t->block + 148, 8) == checksum(t->block);
    if (!sound) {
        t->state = ASIDE;
        return emit_block(t);
    }
    if (type == 'x' && size > 0 && size <= PAX_MAX) {
        t->data_left = padded(size);
        t->state = IN_PAX;
        buf_clear(&t->pax);
        return 0; /* the header waits for its new size */
    }
    if (t->has_link && t->block[157] == '\0') {
        t->block[157] = 'x';
        put_checksum(t->block);
    }
    after_header(t);
    return emit_block(t);
}

/* Looks at one record "<length> <key>=<value>\n"; its length, 0 when it is none. */
static size_t pax_record(struct tar_names *t, const char *r, size_t len, struct error *err)
{
    char *end;
    errno = 0;
    if (len == 0 || r[0] < '1' || r[0] > '9')
        return 0;
    unsigned long n = strtoul(r, &end, 10); /* the buffer ends with a NUL */
    if (errno || n > len || n < 4 || *end != ' ' || r[n - 1] != '\n')
        return 0;
    const char *key = end + 1, *eq = memchr(key, '=', (size_t)(r + n - key));
    if (!eq)
        return 0;
    size_t key_len = (size_t)(eq - key), value_len = (size_t)(r + n - 1 - (eq + 1));
    bool name = (key_len == 4 && !memcmp(key, "path", 4)) || (key_len == 8 && !memcmp(key, "linkpath", 8)) ||
                (key_len == 15 && !memcmp(key, "GNU.sparse.name", 15));
    if (name && memchr(eq + 1, '\0', value_len)) {
        error_set(err, ERROR_DENIED, "a name holds a NUL byte: \"%.200s\"", eq + 1);
        return SIZE_MAX;
    }
    t->has_link |= key_len == 8 && !memcmp(key, "linkpath", 8);
    if (key_len == 4 && !memcmp(key, "size", 4) && value_len > 0 && value_len < 20) {
        t->pax_size = strtoull(eq + 1, NULL, 10);
        t->has_pax_size = true;
    }
    return n;
}

static int take_pax(struct tar_names *t, struct error *err)
{
    uint64_t size = field_number(t->block + 124, 12);
    const char *text = buf_str(&t->pax);
    if (!text)
        return error_oom(err);
    for (size_t at = 0, n; at < size; at += n) {
        n = pax_record(t, text + at, (size_t)size - at, err);
        if (n == SIZE_MAX)
            return -1;
        if (n == 0)
            break; /* libarchive will say so */
    }
    /* The size in its own field, in octal; at most seven digits. */
    uint64_t longer = size + sizeof binary - 1;
    snprintf((char *)t->block + 124, 12, "%011llo", (unsigned long long)longer);
    put_checksum(t->block);
    static const char zeros[BLOCK];
    if (emit_block(t) < 0 || buf_append(&t->out, binary, sizeof binary - 1) < 0 ||
        buf_append(&t->out, text, (size_t)size) < 0 ||
        buf_append(&t->out, zeros, (size_t)(padded(longer) - longer)) < 0)
        return error_oom(err);
    t->state = AT_HEADER;
    return 0;
}

/* More input into t->piece; 0 at the end. */
static ssize_t fill(struct tar_names *t, struct error *err)
{
    const void *p;
    if (t->piece_left > 0)
        return 1;
    ssize_t n = t->in->next(t->in, &p, err);
    if (n > 0) {
        t->piece = p;
        t->piece_left = (size_t)n;
    }
    return n;
}

static size_t take(struct tar_names *t, uint64_t most, const uint8_t **ret)
{
    size_t n = most < t->piece_left ? (size_t)most : t->piece_left;
    *ret = t->piece;
    t->piece += n;
    t->piece_left -= n;
    return n;
}

/* One step with the input at hand; 1 when there is something to hand out, 0 to go on. */
static int step(struct tar_names *t, const void **ret, size_t *ret_len, struct error *err)
{
    const uint8_t *p;
    size_t n;
    int r = 0;
    switch (t->state) {
    case AT_HEADER:
    case IN_SPARSE:
        n = take(t, BLOCK - t->have, &p);
        memcpy(t->block + t->have, p, n);
        t->have += n;
        if (t->have < BLOCK)
            return 0;
        if (t->state == AT_HEADER) {
            r = take_header(t);
        } else {
            t->state = t->block[504] ? IN_SPARSE : t->data_left ? IN_DATA : AT_HEADER;
            r = emit_block(t);
        }
        break;
    case IN_PAX:
        n = take(t, t->data_left, &p);
        t->data_left -= n;
        if (buf_append(&t->pax, p, n) < 0)
            return error_oom(err);
        if (t->data_left > 0)
            return 0;
        if (take_pax(t, err) < 0)
            return -1;
        break;
    case IN_DATA:
        *ret_len = take(t, t->data_left, &p);
        *ret = p;
        t->data_left -= *ret_len;
        if (t->data_left == 0)
            t->state = AT_HEADER;
        return 1;
    default:
        *ret_len = take(t, t->piece_left, &p);
        *ret = p;
        return 1;
    }
    if (r < 0 || t->out.failed)
        return error_oom(err);
    *ret = t->out.data;
    *ret_len = t->out.len;
    return t->out.len > 0;
}

/* The input has ended: what was being collected goes out as it is. */
static ssize_t flush(struct tar_names *t, const void **ret, struct error *err)
{
    if (t->state == IN_PAX) {
        t->have = BLOCK;
        if (buf_append(&t->out, t->block, BLOCK) < 0 || buf_append(&t->out, t->pax.data, t->pax.len) < 0)
            return error_oom(err);
    } else if (t->have > 0 && buf_append(&t->out, t->block, t->have) < 0) {
        return error_oom(err);
    }
    t->have = 0;
    t->state = ASIDE;
    *ret = t->out.data;
    return (ssize_t)t->out.len;
}

static ssize_t names_next(struct byte_source *source, const void **ret, struct error *err)
{
    struct tar_names *t = (struct tar_names *)source;
    buf_clear(&t->out);
    for (;;) {
        size_t len = 0;
        ssize_t more = fill(t, err);
        if (more <= 0)
            return more < 0 ? -1 : flush(t, ret, err);
        int r = step(t, ret, &len, err);
        if (r != 0)
            return r < 0 ? -1 : (ssize_t)len;
    }
}

void tar_names_init(struct tar_names *t, struct byte_source *in)
{
    *t = (struct tar_names){.source.next = names_next, .in = in};
    buf_init(&t->pax, 2u << 20);
    buf_init(&t->out, 4u << 20);
}

void tar_names_free(struct tar_names *t)
{
    buf_free(&t->pax);
    buf_free(&t->out);
}
