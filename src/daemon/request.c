#include "daemon/request.h"

#include "base/log.h"
#include "base/parse.h"
#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/json_in.h"
#include "daemon/json_out.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bodies of refused requests are read this far, so that the client gets to see the refusal. */
#define MAX_DISCARD ((uint64_t)64 << 20)
#define STREAM_BLOCK ((size_t)64 << 10)

const char *request_header(const struct request *r, const char *name)
{
    return MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

bool request_length(const struct request *r, uint64_t *ret)
{
    const char *text = request_header(r, "Content-Length");
    if (text)
        return parse_u64(text, "content-length", 0, UINT64_MAX, ret, NULL) == 0;
    *ret = 0;
    return !request_header(r, "Transfer-Encoding");
}

/* ---- answers ---- */

void request_add_header(struct request *r, const char *name, const char *value)
{
    if (r->header_count == (int)(sizeof r->headers / sizeof *r->headers))
        return;
    snprintf(r->headers[r->header_count].name, sizeof r->headers->name, "%s", name);
    snprintf(r->headers[r->header_count].value, sizeof r->headers->value, "%s", value);
    r->header_count++;
}

static void answer(struct request *r, int status, const char *type, struct MHD_Response *response)
{
    if (!response) { /* no memory, not even to say so: the connection is closed */
        r->gone = true;
        server_resume(r);
        return;
    }
    if (r->answered || r->gone) {
        MHD_destroy_response(response);
        return;
    }
    if (type)
        MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (int i = 0; i < r->header_count; i++)
        MHD_add_response_header(response, r->headers[i].name, r->headers[i].value);
    r->status = status;
    r->response = response;
    r->answered = true;
    server_resume(r);
}

void request_json(struct request *r, int status, struct buf *json)
{
    buf_append(json, "\n", 1);
    if (json->failed) {
        struct error err = {0};
        buf_free(json);
        error_set(&err, ERROR_LIMIT, "the answer is larger than %zu MiB",
                  (json->max ? json->max : BUF_DEFAULT_MAX) >> 20);
        request_error(r, &err);
        return;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(json->len, json->data, MHD_RESPMEM_MUST_FREE);
    if (response)
        json->data = NULL; /* freed with the response */
    buf_free(json);
    answer(r, status, "application/json", response);
}

void request_empty(struct request *r, int status)
{
    answer(r, status, NULL,
           MHD_create_response_from_buffer(0, (void *)(uintptr_t)"", MHD_RESPMEM_PERSISTENT));
}

int error_status(const struct error *err)
{
    static const struct {
        const char *code;
        int status;
    } table[] = {
        {"INVALID_ARGUMENT", 400},
        {"EINVAL", 400},
        {"ENAMETOOLONG", 400},
        {"DENIED", 403},
        {"EACCES", 403},
        {"EPERM", 403},
        {"EROFS", 403},
        {"NOT_FOUND", 404},
        {"ENOENT", 404},
        {"ALREADY_EXISTS", 409},
        {"WRONG_STATE", 409},
        {"EEXIST", 409},
        {"ENOTEMPTY", 409},
        {"EISDIR", 409},
        {"ENOTDIR", 409},
        {"ELOOP", 409},
        {"EBUSY", 409},
        {"EXDEV", 409},
        {"GONE", 410},
        {"LIMIT_EXCEEDED", 413},
        {"EFBIG", 413},
        {"UNSUPPORTED", 501},
        {"TIMEOUT", 504},
        {"ENOSPC", 507},
        {"EDQUOT", 507},
    };
    const char *code = error_code(err);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].code, code) == 0)
            return table[i].status;
    return 500;
}

void request_error_status(struct request *r, int status, const struct error *err)
{
    struct buf b;
    buf_init(&b, 0);
    json_open(&b, '{');
    json_put_error(&b, "error", err);
    json_close(&b, '}');
    if (b.failed)
        request_empty(r, 500);
    else
        request_json(r, status, &b);
    buf_free(&b);
}

void request_error(struct request *r, const struct error *err)
{
    request_error_status(r, error_status(err), err);
}

void request_stream(struct request *r, int status, const char *type, int64_t size)
{
    uint64_t length = size < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)size;
    request_no_timeout(r);
    answer(r, status, type, MHD_create_response_from_callback(length, STREAM_BLOCK, server_pull, r, NULL));
}

bool request_sendable(const struct request *r)
{
    return r->chunked && r->answered && !r->gone && (r->pulling || r->suspended) && r->rest.len == 0;
}

bool request_send(struct request *r, const struct iovec *pieces, int count)
{
    return server_send(r, pieces, count);
}

bool request_move(struct request *r, struct iovec head, int pipe, const struct iovec *copy, int count)
{
    return server_move(r, head, pipe, copy, count);
}

void request_more(struct request *r)
{
    server_resume(r);
}

void request_no_timeout(struct request *r)
{
    MHD_set_connection_option(r->conn, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
}

/* ---- admission ---- */

/* Browsers announce themselves with headers that no page can suppress or forge; none of them has business
 * here, and a Host that is a real domain name is what DNS rebinding looks like. */
static int judge_origin(const struct request *r, struct error *err)
{
    static const char *const telling[] = {"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"};
    for (size_t i = 0; i < sizeof telling / sizeof *telling; i++)
        if (request_header(r, telling[i]))
            return error_set(err, ERROR_DENIED,
                             "requests with a header %s come from web pages and are refused", telling[i]);
    const char *host = request_header(r, "Host");
    size_t len = host ? strcspn(host, ":") : 0;
    if (host && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") < len)
        return error_set(err, ERROR_DENIED, "the header Host must be a plain word such as \"localhost\"");
    return 0;
}

static int refuse_browsers(const struct request *r, struct error *err)
{
    if (judge_origin(r, err) == 0)
        return 0;
    uint64_t n = ++r->daemon->refused;
    if ((n & (n - 1)) == 0) /* a page can send as many as it likes; the log is not its */
        log_warn("refused a request: %s (%llu so far)", err->message, (unsigned long long)n);
    return -1;
}

static int check_body(const struct request *r, struct error *err)
{
    uint64_t length = 0;
    bool known = request_length(r, &length);
    if (r->route->body == BODY_NONE && (!known || length > 0))
        return error_field(err, "body", "body: %s %s takes none", r->route->method, r->route->pattern);
    if (r->route->body != BODY_JSON && r->route->body != BODY_JSON_OPTIONAL)
        return 0;
    if (known && length > REQUEST_MAX_JSON)
        return error_set(err, ERROR_LIMIT, "body: JSON of at most %zu bytes", REQUEST_MAX_JSON);
    const char *type = request_header(r, "Content-Type");
    if (type && strncasecmp(type, "application/json", 16) != 0)
        return error_field(err, "content-type", "content-type: expected application/json");
    return 0;
}

static int find_cell(struct request *r, struct error *err)
{
    if (!r->name || strcmp(r->uri.segments[1], "containers") != 0)
        return 0;
    if (parse_name(r->name, "name", err) < 0)
        return -1;
    r->cell = registry_find(r->daemon->registry, r->name);
    if (!r->cell)
        return error_set(err, ERROR_NOT_FOUND, "there is no container named %s", r->name);
    cell_ref(r->cell);
    if (!(r->route->flags & ROUTE_PASSIVE))
        cell_busy(r->cell);
    return 0;
}

static int admit(struct request *r, const char *method, struct error *err)
{
    char allow[64] = "";
    if (r->uri_error.kind) {
        *err = r->uri_error;
        return -1;
    }
    if (refuse_browsers(r, err) < 0)
        return -1;
    if (routes_match(r, method, allow, sizeof allow, err) < 0) {
        if (allow[0]) {
            struct buf b;
            buf_init(&b, 0);
            buf_append_str(&b, "{\"error\":{\"code\":\"METHOD_NOT_ALLOWED\",");
            json_put_str(&b, "message", err->message);
            buf_append_str(&b, "}}");
            request_add_header(r, "Allow", allow);
            request_json(r, 405, &b);
        }
        return -1;
    }
    return routes_check_query(r, err) < 0 || check_body(r, err) < 0 || find_cell(r, err) < 0 ? -1 : 0;
}

void request_begin(struct request *r, const char *method)
{
    struct error err = {0};
    buf_init(&r->text, REQUEST_MAX_JSON + 1);
    buf_init(&r->rest, 0);
    if (admit(r, method, &err) < 0) {
        if (!r->answered)
            request_error(r, &err);
        return;
    }
    if (r->route->body == BODY_STREAM)
        r->route->handle(r);
}

size_t request_take(struct request *r, const uint8_t *data, size_t len)
{
    struct error err = {0};
    if (!r->answered && r->route->body == BODY_STREAM) {
        size_t n = r->on_body(r, data, len);
        return r->answered ? len : n;
    }
    if (!r->answered && r->route->body == BODY_NONE) {
        error_field(&err, "body", "body: %s %s takes none", r->route->method, r->route->pattern);
        request_error(r, &err);
    } else if (!r->answered && (buf_append(&r->text, data, len) < 0 || r->text.len > REQUEST_MAX_JSON)) {
        error_set(&err, ERROR_LIMIT, "body: JSON of at most %zu bytes", REQUEST_MAX_JSON);
        request_error(r, &err);
    }
    if (r->answered)
        r->discarded += len;
    return r->discarded > MAX_DISCARD ? REQUEST_REFUSED : len;
}

void request_complete(struct request *r)
{
    struct error err = {0};
    if (r->complete || r->answered)
        return;
    r->complete = true;
    if (r->route->body == BODY_STREAM) {
        r->on_body_end(r);
        return;
    }
    bool optional = r->route->body != BODY_JSON && r->text.len == 0;
    if (!optional) {
        r->body = json_in_parse(r->text.data ? (char *)r->text.data : "", r->text.len, &err);
        buf_free(&r->text);
        if (!r->body) {
            request_error(r, &err);
            return;
        }
    }
    r->route->handle(r);
}

void request_finish(struct request *r)
{
    if (r->on_close)
        r->on_close(r);
    if (r->cell) {
        if (!(r->route->flags & ROUTE_PASSIVE))
            cell_idle(r->cell);
        cell_unref(r->cell);
    }
    if (r->response)
        MHD_destroy_response(r->response);
    MHD_set_connection_option(r->conn, MHD_CONNECTION_OPTION_TIMEOUT, SERVER_IDLE_SECONDS);
    json_decref(r->body);
    buf_free(&r->text);
    buf_free(&r->rest);
    uri_free(&r->uri);
}
