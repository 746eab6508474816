#include "daemon/api.h"

#include "base/parse.h"
#include "daemon/files.h"
#include "daemon/json_in.h"
#include "daemon/json_out.h"
#include "daemon/spec.h"

#include <stdio.h>
#include <string.h>

static struct file_call *begin_path(struct request *r, struct error *err)
{
    struct file_call *f = file_call_new(r);
    if (f && file_arg_path(f, "path", uri_query(&r->uri, "path"), "path", err) < 0) {
        request_error(r, err);
        return NULL;
    }
    return f;
}

/* Query parameters that are passed on as they are. */
static int pass_bools(struct file_call *f, const char *const *keys, struct error *err)
{
    for (; *keys; keys++) {
        bool v = false;
        if (uri_query_bool(&f->request->uri, *keys, &v, err) < 0) {
            request_error(f->request, err);
            return -1;
        }
        file_arg_bool(f, *keys, v);
    }
    return 0;
}

static void malformed(struct file_call *f)
{
    struct error err;
    error_set(&err, ERROR_PROTOCOL, "the container's agent sent a malformed answer");
    file_call_fail(f, &err);
}

static void answer_empty(struct file_call *f, struct cbor_reader value)
{
    request_empty(f->request, 204);
}

/* {"size" or "entries" ..., "sha256"} */
static void answer_written(struct file_call *f, struct cbor_reader value)
{
    static const char *const numbers[] = {"entries", "size"};
    struct cbor_reader at;
    struct buf b;
    const uint8_t *digest;
    size_t len = 0;
    uint64_t v;
    buf_init(&b, 0);
    json_open(&b, '{');
    for (int i = 0; i < 2; i++) {
        if (!cbor_map_find(&value, numbers[i], &at))
            continue;
        if (cbor_get_uint(&at, UINT64_MAX, &v) < 0)
            goto bad;
        json_put_u64(&b, numbers[i], v);
    }
    if (!cbor_map_find(&value, "sha256", &at) || cbor_get_bytes(&at, &digest, &len) < 0)
        goto bad;
    json_key(&b, "sha256");
    if (len == 32) {
        buf_append(&b, "\"", 1);
        for (size_t i = 0; i < len; i++)
            buf_printf(&b, "%02x", digest[i]);
        buf_append(&b, "\"", 1);
    } else {
        json_text(&b, digest, len);
    }
    json_close(&b, '}');
    request_json(f->request, 200, &b);
    return;
bad:
    buf_free(&b);
    malformed(f);
}

/* ---- read ---- */

static void on_first_bytes(struct file_call *f, struct cbor_reader value)
{
    char text[96];
    snprintf(text, sizeof text, "%lld", (long long)f->size);
    request_add_header(f->request, "X-Cloister-Size", text);
    request_add_header(f->request, "Accept-Ranges", "bytes");
    if (f->ranged) {
        snprintf(text, sizeof text, "bytes %llu-%llu/%lld", (unsigned long long)f->offset,
                 (unsigned long long)(f->offset + f->length - 1), (long long)f->size);
        request_add_header(f->request, "Content-Range", text);
    }
    file_call_stream(f, f->ranged ? 206 : 200, "application/octet-stream", (int64_t)f->length);
}

/* "bytes=a-b", "bytes=a-", "bytes=-n". */
static int read_range(struct file_call *f, const char *text, struct error *err)
{
    char first[24] = "", last[24] = "";
    uint64_t a = 0, b = UINT64_MAX, size = (uint64_t)f->size;
    const char *dash = strncmp(text, "bytes=", 6) == 0 ? strchr(text + 6, '-') : NULL;
    if (!dash || dash - text - 6 >= (int)sizeof first || strlen(dash + 1) >= sizeof last)
        return error_field(err, "range", "range: expected one range such as bytes=0-499");
    memcpy(first, text + 6, (size_t)(dash - text - 6));
    strcpy(last, dash + 1);
    if ((!first[0] && !last[0]) || (first[0] && parse_u64(first, "range", 0, INT64_MAX, &a, err) < 0) ||
        (last[0] && parse_u64(last, "range", 0, INT64_MAX, &b, err) < 0))
        return error_field(err, "range", "range: expected one range such as bytes=0-499");
    if (!first[0]) { /* the last b bytes */
        a = b < size ? size - b : 0;
        b = size;
    }
    if (a >= size || b < a)
        return error_field(err, "range", "range: the file has %llu bytes", (unsigned long long)size);
    f->offset = a;
    f->length = b < size ? b - a + 1 : size - a;
    f->ranged = true;
    return 0;
}

/* The file's size is known: which part of it is wanted? -1: the request is answered. */
static int choose_part(struct file_call *f)
{
    struct error err = {0};
    struct request *r = f->request;
    uint64_t length = UINT64_MAX;
    const char *range = request_header(r, "Range");
    if (uri_query_u64(&r->uri, "offset", INT64_MAX, &f->offset, &err) < 0 ||
        uri_query_u64(&r->uri, "length", INT64_MAX, &length, &err) < 0) {
        request_error(r, &err);
        return -1;
    }
    uint64_t rest = f->offset < (uint64_t)f->size ? (uint64_t)f->size - f->offset : 0;
    f->length = length < rest ? length : rest;
    if (range && !uri_query(&r->uri, "offset") && !uri_query(&r->uri, "length") &&
        read_range(f, range, &err) < 0) {
        request_error_status(r, 416, &err);
        return -1;
    }
    return 0;
}

static void on_stat_for_read(struct file_call *f, struct cbor_reader value)
{
    uint64_t size = 0;
    char type[16] = "";
    struct cbor_reader at;
    struct error err;
    if (!cbor_map_find(&value, "type", &at) || cbor_get_string(&at, type, sizeof type) < 0 ||
        cbor_map_uint(&value, "size", INT64_MAX, 0, &size) < 0) {
        malformed(f);
        return;
    }
    if (strcmp(type, "file") != 0) {
        bool directory = strcmp(type, "directory") == 0;
        error_from_code(&err, directory ? "EISDIR" : "EINVAL",
                        directory ? "path: is a directory; read it with /files/archive"
                                  : "path: is not a regular file");
        request_error(f->request, &err);
        return;
    }
    f->size = (int64_t)size;
    if (choose_part(f) < 0)
        return;
    f->on_value = on_first_bytes;
    f->ended = false;
    file_arg_str(f, "path", uri_query(&f->request->uri, "path"));
    file_arg_u64(f, "offset", f->offset);
    file_arg_u64(f, "length", f->length);
    file_call_begin(f, "fs.read", FILE_BYTES);
}

void api_file_read(struct request *r)
{
    struct error err = {0};
    struct file_call *f = begin_path(r, &err);
    if (!f)
        return;
    f->on_value = on_stat_for_read;
    file_call_begin(f, "fs.stat", FILE_NO_STREAM);
}

/* ---- write ---- */

static int pass_digest(struct file_call *f, struct error *err)
{
    const char *hex = uri_query(&f->request->uri, "sha256");
    uint8_t digest[32];
    if (!hex)
        return 0;
    if (strlen(hex) != 64 || strspn(hex, "0123456789abcdefABCDEF") != 64) {
        error_field(err, "sha256", "sha256: expected 64 hex digits");
        request_error(f->request, err);
        return -1;
    }
    for (int i = 0; i < 32; i++) {
        unsigned v;
        sscanf(hex + 2 * i, "%2x", &v);
        digest[i] = (uint8_t)v;
    }
    cbor_put_text(&f->args, "sha256");
    cbor_put_bytes(&f->args, digest, sizeof digest);
    f->pairs++;
    return 0;
}

static int read_mode(const char *text, uint64_t *ret, struct error *err)
{
    size_t len = strlen(text);
    if (len < 1 || len > 5 || strspn(text, "01234567") != len || sscanf(text, "%lo", ret) != 1 ||
        *ret > 07777)
        return error_field(err, "mode", "mode: expected an octal number such as 0644");
    return 0;
}

static void begin_upload(struct file_call *f, const char *method)
{
    uint64_t size;
    if (request_length(f->request, &size))
        file_arg_u64(f, "size", size);
    f->on_value = answer_written;
    file_call_begin(f, method, FILE_INPUT);
}

void api_file_write(struct request *r)
{
    static const char *const bools[] = {"parents", "exclusive", "append", NULL};
    struct error err = {0};
    uint64_t mode = 0;
    const char *mode_text = uri_query(&r->uri, "mode");
    struct file_call *f = begin_path(r, &err);
    if (!f)
        return;
    if (mode_text && read_mode(mode_text, &mode, &err) < 0) {
        request_error(r, &err);
        return;
    }
    if (mode_text)
        file_arg_u64(f, "mode", mode);
    if (pass_bools(f, bools, &err) == 0 && pass_digest(f, &err) == 0)
        begin_upload(f, "fs.write");
}

void api_file_import(struct request *r)
{
    static const char *const bools[] = {"parents", NULL};
    struct error err = {0};
    struct file_call *f = begin_path(r, &err);
    if (f && pass_bools(f, bools, &err) == 0 && pass_digest(f, &err) == 0)
        begin_upload(f, "fs.import");
}

static void on_first_tar_bytes(struct file_call *f, struct cbor_reader value)
{
    file_call_stream(f, 200, "application/x-tar", -1);
}

void api_file_export(struct request *r)
{
    struct error err = {0};
    uint64_t excludes = 0;
    struct file_call *f = begin_path(r, &err);
    if (!f)
        return;
    for (size_t i = 0; i < r->uri.query_count; i++)
        excludes += strcmp(r->uri.query[i].key, "exclude") == 0;
    if (excludes) {
        cbor_put_text(&f->args, "exclude");
        cbor_put_array(&f->args, excludes);
        f->pairs++;
    }
    for (size_t i = 0; i < r->uri.query_count; i++)
        if (strcmp(r->uri.query[i].key, "exclude") == 0)
            cbor_put_string(&f->args, r->uri.query[i].value);
    f->on_value = on_first_tar_bytes;
    file_call_begin(f, "fs.export", FILE_BYTES);
}

/* ---- small ones ---- */

void api_file_remove(struct request *r)
{
    static const char *const bools[] = {"recursive", "force", NULL};
    struct error err = {0};
    struct file_call *f = begin_path(r, &err);
    if (!f || pass_bools(f, bools, &err) < 0)
        return;
    f->on_value = answer_empty;
    file_call_begin(f, "fs.remove", FILE_NO_STREAM);
}

static void answer_stat(struct file_call *f, struct cbor_reader value)
{
    struct buf b;
    buf_init(&b, 0);
    json_open(&b, '{');
    if (file_put_stat(&b, &value) < 0) {
        buf_free(&b);
        malformed(f);
        return;
    }
    json_close(&b, '}');
    request_json(f->request, 200, &b);
}

void api_file_stat(struct request *r)
{
    struct error err = {0};
    bool follow = true;
    struct file_call *f = begin_path(r, &err);
    if (!f)
        return;
    if (uri_query_bool(&r->uri, "follow", &follow, &err) < 0) {
        request_error(r, &err);
        return;
    }
    if (!follow) {
        cbor_put_text(&f->args, "follow");
        cbor_put_bool(&f->args, false);
        f->pairs++;
    }
    f->on_value = answer_stat;
    file_call_begin(f, "fs.stat", FILE_NO_STREAM);
}

void api_file_mkdir(struct request *r)
{
    static const char *const known[] = {"path", "parents", "mode", NULL};
    const char *path = NULL, *mode_text = NULL;
    bool parents = false;
    uint64_t mode = 0;
    struct error err = {0};
    struct file_call *f = file_call_new(r);
    if (!f)
        return;
    if (json_in_known(r->body, "", known, &err) < 0 ||
        json_in_string(r->body, "", "path", SPEC_MAX_PATH, &path, &err) < 0 ||
        json_in_bool(r->body, "", "parents", &parents, &err) < 0 ||
        json_in_string(r->body, "", "mode", 8, &mode_text, &err) < 0 ||
        (mode_text && read_mode(mode_text, &mode, &err) < 0) ||
        file_arg_path(f, "path", path, "path", &err) < 0) {
        request_error(r, &err);
        return;
    }
    file_arg_bool(f, "parents", parents);
    if (mode_text)
        file_arg_u64(f, "mode", mode);
    f->on_value = answer_empty;
    file_call_begin(f, "fs.mkdir", FILE_NO_STREAM);
}

void api_file_rename(struct request *r)
{
    static const char *const known[] = {"from", "to", NULL};
    const char *from = NULL, *to = NULL;
    struct error err = {0};
    struct file_call *f = file_call_new(r);
    if (!f)
        return;
    if (json_in_known(r->body, "", known, &err) < 0 ||
        json_in_string(r->body, "", "from", SPEC_MAX_PATH, &from, &err) < 0 ||
        json_in_string(r->body, "", "to", SPEC_MAX_PATH, &to, &err) < 0 ||
        file_arg_path(f, "from", from, "from", &err) < 0 || file_arg_path(f, "to", to, "to", &err) < 0) {
        request_error(r, &err);
        return;
    }
    f->on_value = answer_empty;
    file_call_begin(f, "fs.rename", FILE_NO_STREAM);
}

/* ---- sequences: list and watch ---- */

static bool is_hidden(const struct cbor_reader *entry)
{
    struct cbor_reader at;
    const uint8_t *path;
    size_t len;
    if (!cbor_map_find(entry, "path", &at) || cbor_get_bytes(&at, &path, &len) < 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if (path[i] == '.' && (i == 0 || path[i - 1] == '/'))
            return true;
    return false;
}

static void on_entry(struct file_call *f, struct cbor_reader item)
{
    if (!f->show_hidden && is_hidden(&item))
        return;
    json_open(&f->out, '{');
    if (file_put_string(&f->out, &item, "path") != 1 || file_put_stat(&f->out, &item) < 0) {
        malformed(f);
        return;
    }
    json_close(&f->out, '}');
    f->count++;
    if (f->streaming)
        buf_append(&f->out, "\n", 1);
}

/* Lists one after the other: only here the whole answer is collected. */
static void answer_list(struct file_call *f, struct cbor_reader value)
{
    json_close(&f->out, ']');
    json_put_u64(&f->out, "count", f->count);
    json_close(&f->out, '}');
    request_json(f->request, 200, &f->out);
}

static void answer_lines(struct file_call *f, struct cbor_reader value)
{
    if (!f->streaming)
        file_call_stream(f, 200, "application/x-ndjson", -1);
}

static void on_line(struct file_call *f, struct cbor_reader item)
{
    answer_lines(f, item);
    on_entry(f, item);
}

void api_file_list(struct request *r)
{
    static const char *const bools[] = {"recursive", NULL};
    struct error err = {0};
    const char *accept = request_header(r, "Accept");
    struct file_call *f = begin_path(r, &err);
    if (!f || pass_bools(f, bools, &err) < 0)
        return;
    f->show_hidden = true;
    if (uri_query_bool(&r->uri, "hidden", &f->show_hidden, &err) < 0) {
        request_error(r, &err);
        return;
    }
    if (accept && strstr(accept, "application/x-ndjson")) {
        f->on_value = answer_lines;
        f->on_item = on_line;
    } else {
        f->on_value = answer_list;
        f->on_item = on_entry;
        buf_append_str(&f->out, "{\"entries\":[");
    }
    file_call_begin(f, "fs.list", FILE_ITEMS);
}

static bool is_ready(const struct cbor_reader *item)
{
    struct cbor_reader event;
    char text[8];
    return cbor_map_find(item, "event", &event) && cbor_get_string(&event, text, sizeof text) == 0 &&
           strcmp(text, "ready") == 0;
}

/* The answer begins when the agent watches, not before and not only with the first change: who has seen the
 * head misses nothing. */
static void on_change(struct file_call *f, struct cbor_reader item)
{
    bool directory = false;
    answer_lines(f, item);
    if (is_ready(&item))
        return;
    json_open(&f->out, '{');
    if (file_put_string(&f->out, &item, "event") != 1 || file_put_string(&f->out, &item, "path") < 0 ||
        file_put_string(&f->out, &item, "to") < 0 ||
        cbor_map_bool(&item, "isDirectory", false, &directory) < 0) {
        malformed(f);
        return;
    }
    json_put_bool(&f->out, "isDirectory", directory);
    json_close(&f->out, '}');
    buf_append(&f->out, "\n", 1);
}

void api_file_watch(struct request *r)
{
    static const char *const bools[] = {"recursive", NULL};
    struct error err = {0};
    struct file_call *f = begin_path(r, &err);
    if (!f || pass_bools(f, bools, &err) < 0)
        return;
    f->on_item = on_change;
    f->on_value = answer_lines;
    file_call_begin(f, "fs.watch", FILE_ITEMS);
}
