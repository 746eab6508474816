#include "cli/client/http.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <stdarg.h>
#include <string.h>

#define ANSWER_MAX ((size_t)64 << 20)
#define ERROR_MAX ((size_t)64 << 10)
#define CHUNK (256L << 10) /* of a stream, each way; libcurl takes 16 KiB by itself */

struct http {
    CURL *easy;
    char *socket;
    struct curl_slist *headers;
    char detail[CURL_ERROR_SIZE];
};

int http_open(struct http **ret, const char *socket_path, struct error *err)
{
    struct http *h = calloc(1, sizeof *h);
    if (!h)
        return error_oom(err);
    curl_global_init(CURL_GLOBAL_NOTHING);
    h->socket = strdup(socket_path);
    h->easy = curl_easy_init();
    h->headers = curl_slist_append(NULL, "Content-Type: application/json");
    /* libcurl would wait a second for "100 Continue" before each larger body. */
    if (!h->socket || !h->easy || !h->headers || !curl_slist_append(h->headers, "Expect:")) {
        http_close(h);
        return error_oom(err);
    }
    *ret = h;
    return 0;
}

void http_close(struct http *h)
{
    if (!h)
        return;
    if (h->easy)
        curl_easy_cleanup(h->easy);
    curl_slist_free_all(h->headers);
    free(h->socket);
    free(h);
    curl_global_cleanup();
}

const char *http_socket(const struct http *h)
{
    return h->socket;
}

/* ---- addresses ---- */

static void put_encoded(struct buf *b, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    for (; *text; text++) {
        if (strchr(plain, *text))
            buf_append(b, text, 1);
        else
            buf_printf(b, "%%%02X", (unsigned char)*text);
    }
}

char *url_make(const char *fmt, ...)
{
    struct buf b;
    va_list ap;
    buf_init(&b, 1 << 20);
    va_start(ap, fmt);
    for (; *fmt; fmt++) {
        if (fmt[0] == '%' && fmt[1] == 's') {
            put_encoded(&b, va_arg(ap, const char *));
            fmt++;
        } else {
            buf_append(&b, fmt, 1);
        }
    }
    va_end(ap);
    if (buf_str(&b))
        return (char *)b.data;
    buf_free(&b);
    return NULL;
}

/* ---- errors ---- */

int http_error(long status, const void *body, size_t len, struct error *err)
{
    json_t *j = json_loadb(body ? body : "", len, 0, NULL);
    json_t *e = json_object_get(j, "error");
    const char *code = json_string_value(json_object_get(e, "code"));
    const char *text = json_string_value(json_object_get(e, "message"));
    const char *field = json_string_value(json_object_get(e, "field"));
    if (code && text) {
        error_from_code(err, code, text);
        if (field)
            snprintf(err->field, sizeof err->field, "%s", field);
    } else {
        error_set(err, ERROR_PROTOCOL, "the daemon answered with status %ld", status);
    }
    json_decref(j);
    return -1;
}

int http_transport_error(struct http *h, CURLcode code, const char *detail, struct error *err)
{
    const char *why = detail && detail[0] ? detail : curl_easy_strerror(code);
    if (code == CURLE_COULDNT_CONNECT)
        return error_set(err, ERROR_GONE, "no daemon answers at %s; start it with \"cloister serve\"",
                         h->socket);
    return error_set(err, ERROR_GONE, "the connection to the daemon at %s failed: %s", h->socket, why);
}

/* ---- transfers ---- */

static int set_up(struct http *h, CURL *c, const char *method, const char *url)
{
    cleanup_free char *whole = NULL;
    if (asprintf(&whole, "http://localhost%s", url) < 0) {
        whole = NULL;
        return -1;
    }
    return curl_easy_setopt(c, CURLOPT_URL, whole) ||
                   curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, h->socket) ||
                   curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method) ||
                   curl_easy_setopt(c, CURLOPT_BUFFERSIZE, CHUNK) ||
                   curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, CHUNK) ||
                   curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) || curl_easy_setopt(c, CURLOPT_PROXY, "") ||
                   curl_easy_setopt(c, CURLOPT_HTTPHEADER, h->headers)
               ? -1
               : 0;
}

CURL *http_handle(struct http *h, const char *method, const char *url, struct error *err)
{
    CURL *c = curl_easy_init();
    if (c && set_up(h, c, method, url) == 0)
        return c;
    if (c)
        curl_easy_cleanup(c);
    error_oom(err);
    return NULL;
}

/* What the callbacks of one transfer share. */
struct transfer {
    CURL *easy;
    struct buf answer; /* of an error, or where there is no sink */
    http_sink sink;
    http_source source;
    void *user;
    struct error *err;
    bool gave_up;
};

static size_t on_write(char *data, size_t size, size_t n, void *user)
{
    struct transfer *t = user;
    size_t len = size * n;
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!t->sink || status >= 300) {
        if (status >= 300 && t->answer.len + len > ERROR_MAX)
            return len; /* an error's text that long says nothing more */
        return buf_append(&t->answer, data, len) < 0 ? 0 : len;
    }
    if (t->sink(t->user, data, len, t->err) == 0)
        return len;
    t->gave_up = true;
    return 0;
}

static size_t on_read(char *to, size_t size, size_t n, void *user)
{
    struct transfer *t = user;
    ssize_t got = t->source(t->user, to, size * n, t->err);
    if (got >= 0)
        return (size_t)got;
    t->gave_up = true;
    return CURL_READFUNC_ABORT;
}

static int perform(struct http *h, struct transfer *t, struct error *err)
{
    long status = 0;
    h->detail[0] = '\0';
    curl_easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->detail);
    curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, t);
    CURLcode code = curl_easy_perform(h->easy);
    if (t->gave_up)
        return -1; /* the error is filled */
    curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    /* An upload that the daemon cuts short with an error still has an answer. */
    if (code != CURLE_OK && !(status >= 300 && t->answer.len > 0))
        return http_transport_error(h, code, h->detail, err);
    return status >= 300 ? http_error(status, t->answer.data, t->answer.len, err) : 0;
}

static int parse_answer(const struct transfer *t, json_t **ret, struct error *err)
{
    if (!ret)
        return 0;
    *ret = NULL;
    if (t->answer.len == 0)
        return 0;
    *ret = json_loadb((const char *)t->answer.data, t->answer.len, JSON_ALLOW_NUL, NULL);
    return *ret ? 0 : error_set(err, ERROR_PROTOCOL, "the daemon's answer is not JSON");
}

int http_json(struct http *h, const char *method, const char *url, json_t *body, json_t **ret,
              struct error *err)
{
    struct transfer t = {.easy = h->easy, .err = err};
    cleanup_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (body && !text)
        return error_oom(err);
    curl_easy_reset(h->easy);
    buf_init(&t.answer, ANSWER_MAX);
    if (set_up(h, h->easy, method, url) < 0)
        return error_oom(err);
    if (text || strcmp(method, "POST") == 0) {
        curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(text ? strlen(text) : 0));
        curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, text ? text : "");
    }
    int r = perform(h, &t, err);
    if (r == 0)
        r = parse_answer(&t, ret, err);
    buf_free(&t.answer);
    return r;
}

int http_download(struct http *h, const char *url, const char *accept, http_sink sink, void *user,
                  struct error *err)
{
    struct transfer t = {.easy = h->easy, .sink = sink, .user = user, .err = err};
    struct curl_slist *headers = NULL;
    char line[128];
    curl_easy_reset(h->easy);
    buf_init(&t.answer, ERROR_MAX + 1);
    if (set_up(h, h->easy, "GET", url) < 0)
        return error_oom(err);
    if (accept) {
        snprintf(line, sizeof line, "Accept: %s", accept);
        headers = curl_slist_append(NULL, line);
        curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, headers);
    }
    int r = perform(h, &t, err);
    curl_slist_free_all(headers);
    buf_free(&t.answer);
    return r;
}

int http_upload(struct http *h, const char *url, http_source source, void *user, json_t **ret,
                struct error *err)
{
    struct transfer t = {.easy = h->easy, .source = source, .user = user, .err = err};
    curl_easy_reset(h->easy);
    buf_init(&t.answer, ANSWER_MAX);
    if (set_up(h, h->easy, "PUT", url) < 0)
        return error_oom(err);
    curl_easy_setopt(h->easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(h->easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(h->easy, CURLOPT_READDATA, &t);
    int r = perform(h, &t, err);
    if (r == 0)
        r = parse_answer(&t, ret, err);
    buf_free(&t.answer);
    return r;
}
