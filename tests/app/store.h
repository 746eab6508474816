/* A storage in a directory of its own, and calls of it in one line. */
#ifndef CLOISTER_TESTS_APP_STORE_H
#define CLOISTER_TESTS_APP_STORE_H

#include "app/storage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after these */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct store {
    char dir[64], path[96];
    struct storage_config config;
    struct storage *storage;
    struct storage_session *session;
    struct buf answer;
    struct error err;
};

static inline void store_open(struct store *t)
{
    struct error err = {0};
    t->config.dir = t->path;
    if (storage_open(&t->storage, &t->config, &err) < 0 ||
        storage_session_begin(t->storage, "Counter", ID_A, &t->session, &err) < 0)
        fail_msg("%s", err.message);
}

static inline void store_begin(struct store *t)
{
    memset(t, 0, sizeof *t);
    strcpy(t->dir, "/tmp/cloister-test-XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    snprintf(t->path, sizeof t->path, "%s/objects", t->dir);
    buf_init(&t->answer, 0);
    store_open(t);
}

static inline void store_close(struct store *t)
{
    storage_session_end(t->session);
    storage_close(t->storage);
    t->session = NULL;
    t->storage = NULL;
}

static inline void store_end(struct store *t)
{
    char command[128];
    store_close(t);
    buf_free(&t->answer);
    snprintf(command, sizeof command, "rm -rf %s", t->dir);
    assert_int_equal(system(command), 0);
}

/* Arguments from a format of one character a value, in order: '{' and '}' map (keys are given as 't' values),
 * '[' and ']' list, t text, b bytes (const char *), i integer (int64_t), d double, n null, T true, F false.
 */
static inline void put_values(struct buf *b, const char **format, va_list *ap);

static inline uint64_t count_values(const char *format)
{
    uint64_t n = 0;
    int depth = 0;
    for (; *format; format++) {
        if (*format == '}' || *format == ']') {
            if (depth-- == 0)
                break;
            continue;
        }
        n += depth == 0;
        depth += *format == '{' || *format == '[';
    }
    return n;
}

static inline void put_values(struct buf *b, const char **format, va_list *ap)
{
    while (**format && **format != '}' && **format != ']') {
        char c = *(*format)++;
        const char *text;
        switch (c) {
        case '{':
            cbor_put_map(b, count_values(*format) / 2);
            put_values(b, format, ap);
            break;
        case '[':
            cbor_put_array(b, count_values(*format));
            put_values(b, format, ap);
            break;
        case 't':
            cbor_put_text(b, va_arg(*ap, const char *));
            break;
        case 'b':
            text = va_arg(*ap, const char *);
            cbor_put_bytes(b, text, strlen(text));
            break;
        case 'i':
            cbor_put_int(b, va_arg(*ap, int64_t));
            break;
        case 'd':
            cbor_put_double(b, va_arg(*ap, double));
            break;
        case 'n':
            cbor_put_null(b);
            break;
        default:
            cbor_put_bool(b, c == 'T');
        }
    }
    if (**format)
        ++*format;
}

/* 0 or -1; the answer is in t->answer, the error in t->err. */
static inline int store_call(struct store *t, const char *method, const char *format, ...)
{
    struct buf args;
    struct cbor_reader r;
    va_list ap;
    buf_init(&args, 0);
    va_start(ap, format);
    put_values(&args, &format, &ap);
    va_end(ap);
    buf_clear(&t->answer);
    error_clear(&t->err);
    cbor_reader_init(&r, args.data, args.len);
    int result = storage_call(t->session, method, r, &t->answer, &t->err);
    if (result == 0)
        assert_true(cbor_well_formed(t->answer.data, t->answer.len));
    buf_free(&args);
    return result;
}

static inline void store_ok(struct store *t, int result)
{
    if (result < 0)
        fail_msg("%s", t->err.message);
}

static inline struct cbor_reader store_answer(struct store *t, const char *key)
{
    struct cbor_reader map, value;
    cbor_reader_init(&map, t->answer.data, t->answer.len);
    assert_true(cbor_map_find(&map, key, &value));
    return value;
}

static inline int64_t store_int(struct store *t, const char *key)
{
    struct cbor_reader r = store_answer(t, key);
    int64_t n;
    assert_int_equal(cbor_get_int(&r, &n), 0);
    return n;
}

static inline int store_put(struct store *t, const char *key, const char *value)
{
    return store_call(t, "put", "{t[tb]}", "entries", key, value);
}

/* NULL: not there. */
static inline const char *store_get(struct store *t, const char *key)
{
    static char value[256];
    uint64_t n;
    store_ok(t, store_call(t, "get", "{t[t]}", "keys", key));
    struct cbor_reader r = store_answer(t, "values");
    assert_int_equal(cbor_get_array(&r, 1, &n), 0);
    return cbor_get_string(&r, value, sizeof value) < 0 ? NULL : value;
}

static inline int store_sql(struct store *t, const char *query)
{
    return store_call(t, "sql", "{tt}", "query", query);
}

static inline void store_refused(struct store *t, const char *query, const char *message)
{
    assert_int_equal(store_sql(t, query), -1);
    assert_string_equal(t->err.message, message);
}

/* All rows as text: values separated by ',', rows by ';'. */
static inline const char *store_rows(struct store *t, const char *query)
{
    static struct buf out;
    uint64_t rows, columns;
    store_ok(t, store_sql(t, query));
    struct cbor_reader r = store_answer(t, "rows");
    buf_clear(&out);
    assert_int_equal(cbor_get_array(&r, 1000, &rows), 0);
    for (uint64_t i = 0; i < rows; i++) {
        assert_int_equal(cbor_get_array(&r, 100, &columns), 0);
        for (uint64_t k = 0; k < columns; k++) {
            struct cbor_item it;
            assert_int_equal(cbor_next(&r, &it), 0);
            buf_append_str(&out, k ? "," : i ? ";" : "");
            if (it.type == CBOR_TEXT || it.type == CBOR_BYTES)
                buf_append(&out, it.data, it.len);
            else if (it.type == CBOR_DOUBLE)
                buf_printf(&out, "%g", it.number);
            else if (it.type == CBOR_UINT)
                buf_printf(&out, "%llu", (unsigned long long)it.u64);
            else if (it.type == CBOR_NINT)
                buf_printf(&out, "-%llu", (unsigned long long)it.u64 + 1);
            else
                buf_append_str(&out, "null");
        }
    }
    return buf_str(&out);
}

#endif
