#include "daemon/files.h"

#include "base/parse.h"
#include "daemon/cell.h"
#include "daemon/json_out.h"
#include "daemon/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest item of a sequence: a path, twice, and some numbers. */
#define MAX_ITEM ((size_t)64 << 10)
/* Paths that come back are relative to one that was given, but the guest can nest them deeper. */
#define MAX_PATH_BYTES ((size_t)32 << 10)
/* Text made ahead of a slow client. */
#define AHEAD ((size_t)256 << 10)

static void close_call(struct request *r)
{
    struct file_call *f = r->state;
    if (f->op)
        fs_cancel(f->op);
    buf_free(&f->args);
    buf_free(&f->out);
    buf_free(&f->items);
    free(f);
}

struct file_call *file_call_new(struct request *r)
{
    struct error err = {0};
    struct file_call *f = NULL;
    if (r->cell->state != CELL_RUNNING)
        error_set(&err, ERROR_STATE, "container %s is not running", r->cell->name);
    else if (!(f = calloc(1, sizeof *f)))
        error_oom(&err);
    if (!f) {
        request_error(r, &err);
        return NULL;
    }
    f->request = r;
    buf_init(&f->args, 0);
    buf_init(&f->out, 0);
    buf_init(&f->items, (size_t)2 << 20);
    r->state = f;
    r->on_close = close_call;
    request_no_timeout(r);
    return f;
}

void file_arg_str(struct file_call *f, const char *key, const char *value)
{
    if (!value)
        return;
    cbor_put_text(&f->args, key);
    cbor_put_string(&f->args, value);
    f->pairs++;
}

void file_arg_bool(struct file_call *f, const char *key, bool value)
{
    if (!value)
        return;
    cbor_put_text(&f->args, key);
    cbor_put_bool(&f->args, value);
    f->pairs++;
}

void file_arg_u64(struct file_call *f, const char *key, uint64_t value)
{
    cbor_put_text(&f->args, key);
    cbor_put_uint(&f->args, value);
    f->pairs++;
}

int file_arg_path(struct file_call *f, const char *key, const char *path, const char *field,
                  struct error *err)
{
    if (!path)
        return error_field(err, field, "%s: expected an absolute path", field);
    if (spec_path(path, field, err) < 0)
        return -1;
    file_arg_str(f, key, path);
    return 0;
}

void file_call_fail(struct file_call *f, const struct error *err)
{
    f->failed = f->ended = true;
    if (!f->request->answered)
        request_error(f->request, err);
    else
        request_more(f->request); /* a stream that breaks off */
}

/* ---- sequences ---- */

static void bad_answer(struct file_call *f, const char *what)
{
    struct error err;
    if (f->op)
        fs_cancel(f->op);
    f->op = NULL;
    error_set(&err, ERROR_PROTOCOL, "the container's agent sent %s", what);
    file_call_fail(f, &err);
}

/* Takes whole items off the front. UNTRUSTED INPUT. */
static void take_items(struct file_call *f)
{
    size_t at = 0;
    while (at < f->items.len && !f->failed) {
        struct cbor_reader r, item;
        cbor_reader_init(&r, f->items.data + at, f->items.len - at);
        item = r;
        if (cbor_skip(&r) < 0) {
            if (f->items.len - at > MAX_ITEM)
                bad_answer(f, "a malformed entry");
            break;
        }
        size_t len = (size_t)(r.p - item.p);
        cbor_reader_init(&item, item.p, len);
        f->on_item(f, item);
        at += len;
    }
    buf_consume(&f->items, at);
}

static void on_items(void *user, const uint8_t *data, size_t len)
{
    struct file_call *f = user;
    if (buf_append(&f->items, data, len) < 0) {
        bad_answer(f, "too much");
        return;
    }
    take_items(f);
    if (!f->op)
        return;
    if (f->streaming && f->out.len - f->sent > AHEAD)
        f->withheld += len;
    else
        fs_consumed(f->op, len);
    request_more(f->request);
}

/* ---- bytes ---- */

static void on_bytes(void *user, const uint8_t *data, size_t len)
{
    struct file_call *f = user;
    buf_append(&f->out, data, len); /* bounded by the stream's credit */
    file_call_stream(f, 0, NULL, 0);
    request_more(f->request);
}

static ssize_t pull(struct request *r, uint8_t *to, size_t max)
{
    struct file_call *f = r->state;
    if (f->out.failed)
        return PULL_FAILED;
    size_t n = f->out.len - f->sent;
    if (n == 0)
        return f->failed ? PULL_FAILED : f->ended ? PULL_END : PULL_LATER;
    n = n < max ? n : max;
    memcpy(to, f->out.data + f->sent, n);
    f->sent += n;
    if (f->sent == f->out.len) {
        buf_clear(&f->out);
        f->sent = 0;
    }
    if (f->op && f->credit_on_send)
        fs_consumed(f->op, n);
    if (f->op && f->withheld && f->out.len - f->sent <= AHEAD) {
        size_t give = f->withheld;
        f->withheld = 0;
        fs_consumed(f->op, give);
    }
    return (ssize_t)n;
}

void file_call_stream(struct file_call *f, int status, const char *type, int64_t size)
{
    if (type) {
        f->request->pull = pull;
        f->streaming = true;
        request_stream(f->request, status, type, size);
    } else if (!f->streaming && f->on_value) {
        struct cbor_reader none;
        cbor_reader_init(&none, NULL, 0);
        f->on_value(f, none); /* the first bytes: nothing can be refused any more */
    }
}

/* ---- input ---- */

static size_t take_body(struct request *r, const uint8_t *data, size_t len)
{
    struct file_call *f = r->state;
    ssize_t n = f->op ? fs_write(f->op, data, len) : -1;
    /* A write that fails has its reason on the way: on_done answers, meanwhile the body goes nowhere. */
    return n < 0 ? len : (size_t)n;
}

static void end_body(struct request *r)
{
    struct file_call *f = r->state;
    if (f->op)
        fs_end(f->op);
}

static void on_room(void *user)
{
    struct file_call *f = user;
    request_more(f->request);
}

/* ---- the end ---- */

static void on_done(void *user, const struct error *err, struct cbor_reader value)
{
    struct file_call *f = user;
    f->op = NULL;
    if (err && err->kind == ERROR_CORRUPT && f->request->on_body) { /* the caller's bytes, nobody else's */
        struct error theirs = {0};
        error_field(&theirs, "body", "%s", err->message);
        file_call_fail(f, &theirs);
        return;
    }
    if (err) {
        file_call_fail(f, err);
        return;
    }
    if (f->items.len > 0) {
        bad_answer(f, "half an entry");
        return;
    }
    f->ended = true;
    if (f->on_value && !f->streaming)
        f->on_value(f, value);
    request_more(f->request);
}

void file_call_begin(struct file_call *f, const char *method, enum file_streams streams)
{
    struct error err = {0};
    struct request *r = f->request;
    f->events = (struct fs_events){.on_done = on_done};
    f->credit_on_send = streams == FILE_BYTES;
    if (streams == FILE_BYTES)
        f->events.on_data = on_bytes;
    if (streams == FILE_ITEMS)
        f->events.on_data = on_items;
    if (streams == FILE_INPUT) {
        f->events.on_writable = on_room;
        r->on_body = take_body;
        r->on_body_end = end_body;
    }
    if (r->cell->state != CELL_RUNNING)
        error_set(&err, ERROR_STATE, "container %s is not running", r->cell->name);
    else if (f->args.failed)
        error_oom(&err);
    else
        container_fs(r->cell->container, method, f->args.data, f->args.len, f->pairs, streams == FILE_INPUT,
                     streams == FILE_BYTES || streams == FILE_ITEMS, &f->events, f, &f->op, &err);
    buf_clear(&f->args);
    f->pairs = 0;
    if (err.kind)
        file_call_fail(f, &err);
}

/* ---- values ---- */

int file_put_string(struct buf *b, const struct cbor_reader *map, const char *key)
{
    struct cbor_reader at;
    const uint8_t *data;
    size_t len;
    char exact[48];
    if (!cbor_map_find(map, key, &at))
        return 0;
    if (cbor_get_bytes(&at, &data, &len) < 0 || len > MAX_PATH_BYTES)
        return -1;
    json_key(b, key);
    json_text(b, data, len);
    if (!utf8_valid(data, len)) {
        snprintf(exact, sizeof exact, "%sBase64", key);
        json_key(b, exact);
        json_base64(b, data, len);
    }
    return 1;
}

int file_put_stat(struct buf *b, const struct cbor_reader *map)
{
    static const char *const numbers[] = {"size", "uid", "gid", "nlink", "ino"};
    uint64_t v = 0;
    struct cbor_reader at;
    int64_t ns = 0;
    if (file_put_string(b, map, "type") != 1)
        return -1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (cbor_map_uint(map, numbers[i], UINT64_MAX, 0, &v) < 0)
            return -1;
        json_put_u64(b, numbers[i], v);
    }
    if (cbor_map_uint(map, "mode", 07777, 0, &v) < 0)
        return -1;
    json_key(b, "mode");
    buf_printf(b, "\"%04o\"", (unsigned)v);
    if (cbor_map_find(map, "mtimeNs", &at) && cbor_get_int(&at, &ns) < 0)
        return -1;
    json_put_i64(b, "mtimeMs", ns / 1000000);
    return file_put_string(b, map, "target") < 0 ? -1 : 0;
}
