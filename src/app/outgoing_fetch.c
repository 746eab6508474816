/* One outgoing request. UNTRUSTED INPUT on both sides: the worker's arguments, the server's answer. */
#include "app/outgoing_headers.h"
#include "app/outgoing_internal.h"
#include "base/parse.h"
#include "link/cbor.h"
#include "link/idtable.h"
#include "link/worker_protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_MAX (64u << 10)
#define HEADERS_MAX (128u << 10)
#define MAX_REDIRECTS 20u
#define MAX_TRANSFERS 1000u

/* ---- the end ---- */

static void transfer_done(struct transfer *t, CURLcode r);

static void transfer_start(struct transfer *t)
{
    if (outgoing_begin(t->user, t->easy) < 0)
        transfer_done(t, CURLE_OUT_OF_MEMORY);
    else
        t->running = true;
}

static void transfer_stop(struct transfer *t)
{
    if (t->running)
        curl_multi_remove_handle(t->user->multi, t->easy);
    t->running = false;
}

static void on_done(struct outgoing_job *job, CURLcode r)
{
    struct transfer *t = container_of(job, struct transfer, job);
    transfer_stop(t);
    transfer_done(t, r);
}

void transfer_free(struct transfer *t)
{
    struct error why = {0};
    error_set(&why, ERROR_GONE, "the request was broken off");
    transfer_stop(t);
    if (t->up)
        link_stream_reset(t->link, t->up, &why);
    if (t->down)
        link_stream_reset(t->link, t->down, &why);
    if (t->call)
        link_throw(t->call, &why);
    *(t->prev ? &t->prev->next : &t->user->first) = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->user->count--;
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->list);
    buf_free(&t->body);
    buf_free(&t->head.headers);
    free(t->method);
    free(t->url);
    free(t->headers);
    free(t);
}

static void fail(struct transfer *t, const struct error *err)
{
    struct link_call *call = t->call;
    t->call = NULL;
    if (t->down)
        link_stream_reset(t->link, t->down, err);
    t->down = 0;
    transfer_free(t);
    if (call)
        link_throw(call, err);
}

static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct transfer *t = user;
    return outgoing_open_socket(t->user, a, t->refused);
}

/* ---- the request's body ---- */

static void on_body_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct transfer *t = user;
    if (buf_append(&t->body, data, len) < 0)
        t->body_failed = true; /* more than its credit never comes */
    if (t->send_paused) {
        t->send_paused = false;
        curl_easy_pause(t->easy, t->recv_paused ? CURLPAUSE_RECV : CURLPAUSE_CONT);
    }
}

static void wake_sender(struct transfer *t)
{
    if (!t->send_paused)
        return;
    t->send_paused = false;
    curl_easy_pause(t->easy, t->recv_paused ? CURLPAUSE_RECV : CURLPAUSE_CONT);
}

static void on_body_end(void *user, uint32_t stream)
{
    struct transfer *t = user;
    t->up = 0;
    t->body_ended = true;
    wake_sender(t);
}

static void on_body_reset(void *user, uint32_t stream, const struct error *why)
{
    struct transfer *t = user;
    t->up = 0;
    t->body_failed = true;
    wake_sender(t);
}

static const struct link_stream_ops up_ops = {
    .data = on_body_data, .end = on_body_end, .reset = on_body_reset};

static size_t on_read(char *to, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    size_t left = t->body.len - t->body_sent, n = left < size * count ? left : size * count;
    if (t->body_failed)
        return CURL_READFUNC_ABORT;
    if (n == 0 && !t->inline_body && !t->body_ended) {
        t->send_paused = true;
        return CURL_READFUNC_PAUSE;
    }
    memcpy(to, t->body.data + t->body_sent, n);
    t->body_sent += n;
    if (!t->inline_body) {
        buf_consume(&t->body, t->body_sent);
        t->body_sent = 0;
        if (t->up)
            link_stream_consumed(t->link, t->up, n);
    }
    return n;
}

/* libcurl wants to send the body again (a connection that was kept had been closed). */
static int on_seek(void *user, curl_off_t offset, int origin)
{
    struct transfer *t = user;
    if (!t->inline_body || origin != SEEK_SET || offset < 0 || (size_t)offset > t->body.len)
        return CURL_SEEKFUNC_CANTSEEK;
    t->body_sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- the answer ---- */

static void on_down_writable(void *user, uint32_t stream)
{
    struct transfer *t = user;
    if (!t->recv_paused)
        return;
    t->recv_paused = false;
    curl_easy_pause(t->easy, t->send_paused ? CURLPAUSE_SEND : CURLPAUSE_CONT);
}

static void on_down_reset(void *user, uint32_t stream, const struct error *why)
{
    struct transfer *t = user;
    t->down = 0;
    if (t->busy)
        t->abandoned = true;
    else
        transfer_free(t); /* the worker wants no more */
}

static const struct link_stream_ops down_ops = {.writable = on_down_writable, .reset = on_down_reset};

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    return answer_head_line(&t->head, line, size * count) ? size * count : 0;
}

/* Text, where bytes allow it; the library takes both. */
static void put_text(struct buf *b, const uint8_t *text, size_t len)
{
    if (utf8_valid(text, len))
        cbor_put_text_n(b, (const char *)text, len);
    else
        cbor_put_bytes(b, text, len);
}

/* Answers the call: the head is there. */
static int answer(struct transfer *t, bool body)
{
    struct error err = {0};
    struct buf b;
    char *url = NULL;
    uint32_t stream = body ? link_stream_new(t->link) : 0;
    if (body && link_stream_open_send(t->link, stream, &down_ops, t, &err) < 0)
        return -1;
    t->down = stream;
    curl_easy_getinfo(t->easy, CURLINFO_EFFECTIVE_URL, &url);
    buf_init(&b, HEADERS_MAX * 2 + URL_MAX);
    cbor_put_map(&b, body ? 5 : 4);
    cbor_put_text(&b, "status");
    cbor_put_uint(&b, (uint64_t)t->status);
    cbor_put_text(&b, "statusText");
    cbor_put_text(&b, t->head.reason);
    cbor_put_text(&b, "headers");
    put_text(&b, t->head.headers.data ? t->head.headers.data : (const uint8_t *)"", t->head.headers.len);
    cbor_put_text(&b, "url");
    cbor_put_string(&b, url ? url : t->url);
    if (body) {
        cbor_put_text(&b, "body");
        cbor_put_uint(&b, stream);
    }
    struct link_call *call = t->call;
    t->call = NULL;
    t->answered = true;
    link_return(call, b.data, b.len);
    buf_free(&b);
    return 0;
}

static void take_status(struct transfer *t)
{
    char *location = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->status);
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &location);
    t->follows = is_redirect(t->status) && location && t->redirect != REDIRECT_MANUAL;
}

static size_t take_body(struct transfer *t, const char *data, size_t len)
{
    if (!t->answered && t->status == 0)
        take_status(t);
    if (t->follows)
        return len; /* the body of a redirect is nobody's */
    if (!t->answered && answer(t, true) < 0)
        return 0;
    if (!t->down)
        return 0;
    if (link_stream_writable(t->link, t->down) < len) {
        t->recv_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    return link_stream_write(t->link, t->down, data, len) < 0 ? 0 : len;
}

/* UNTRUSTED INPUT: bytes of the server's body. */
static size_t on_write(char *data, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    t->busy = true;
    size_t n = take_body(t, data, size * count);
    t->busy = false;
    return t->abandoned ? 0 : n;
}

/* ---- redirects ---- */

static bool same_origin(const char *a, const char *b)
{
    size_t n = strcspn(a, "/?#"), m;
    const char *pa = strstr(a, "://"), *pb = strstr(b, "://");
    if (!pa || !pb)
        return false;
    n = (size_t)(pa + 3 - a) + strcspn(pa + 3, "/?#");
    m = (size_t)(pb + 3 - b) + strcspn(pb + 3, "/?#");
    return n == m && strncasecmp(a, b, n) == 0;
}

static int set_up(struct transfer *t, bool cross_origin, struct error *err);

/* To where the answer points; -1: it cannot be followed. */
static int follow(struct transfer *t, struct error *err)
{
    char *location = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &location);
    if (t->redirect == REDIRECT_ERROR)
        return error_set(err, ERROR_DENIED,
                         "the server answered with a redirect to %.300s, and redirect is \"error\"",
                         location);
    if (++t->redirects > MAX_REDIRECTS)
        return error_set(err, ERROR_LIMIT, "more than %u redirects", MAX_REDIRECTS);
    bool becomes_get = (t->status == 303 && strcmp(t->method, "HEAD") != 0) ||
                       ((t->status == 301 || t->status == 302) && strcmp(t->method, "POST") == 0);
    if (becomes_get) {
        free(t->method);
        t->method = strdup("GET");
        t->has_body = false;
    } else if (t->has_body && !t->inline_body) {
        return error_set(
            err, ERROR_STATE,
            "the server answered with status %ld, and a body that is a stream cannot be sent again",
            t->status);
    }
    char *url = strdup(location);
    if (!url || !t->method) {
        free(url);
        return error_oom(err);
    }
    bool cross = !same_origin(t->url, url);
    free(t->url);
    t->url = url;
    t->body_sent = 0;
    t->status = 0;
    t->follows = false;
    buf_clear(&t->head.headers);
    if (set_up(t, cross, err) < 0)
        return -1;
    transfer_start(t);
    return 0;
}

static void explain(struct transfer *t, CURLcode r, struct error *err)
{
    if (t->refused[0])
        outgoing_refused(t->refused, t->url, err);
    else if (r == CURLE_UNSUPPORTED_PROTOCOL)
        error_set(err, ERROR_DENIED, "fetch: only http: and https: addresses can be fetched, not %.200s",
                  t->url);
    else
        error_set(err, ERROR_GONE, "fetch: %s (%.200s)", curl_easy_strerror(r), t->url);
}

static void transfer_done(struct transfer *t, CURLcode r)
{
    struct error err = {0};
    if (r == CURLE_OK && !t->answered && t->status == 0)
        take_status(t);
    if (r != CURLE_OK) {
        explain(t, r, &err);
        fail(t, &err);
        return;
    }
    if (t->follows) {
        if (follow(t, &err) < 0)
            fail(t, &err);
        return;
    }
    if (!t->answered && answer(t, false) < 0) {
        error_set(&err, ERROR_GONE, "the worker has ended");
        fail(t, &err);
        return;
    }
    if (t->down)
        link_stream_end(t->link, t->down);
    t->down = 0;
    transfer_free(t);
}

/* ---- the request's head: UNTRUSTED INPUT ---- */

static bool is_private(const char *name)
{
    return strcasecmp(name, "authorization") == 0 || strcasecmp(name, "cookie") == 0 ||
           strcasecmp(name, "proxy-authorization") == 0;
}

static bool is_of_body(const char *name)
{
    return strncasecmp(name, "content-", 8) == 0;
}

static int add_line(struct transfer *t, const char *line)
{
    struct curl_slist *more = curl_slist_append(t->list, line);
    if (!more)
        return -1;
    t->list = more;
    return 0;
}

static int add_header(void *user, const char *name, const char *value, struct error *err)
{
    struct transfer *t = user;
    if (strcasecmp(name, "content-length") == 0 && t->has_body && !t->inline_body) {
        uint64_t n;
        if (parse_u64(value, "headers", 0, INT64_MAX, &n, NULL) == 0)
            t->announced = n;
    }
    if (header_is_ours(name) || (t->crossed && is_private(name)) || (!t->has_body && is_of_body(name)))
        return 0;
    size_t len = strlen(name) + strlen(value) + 4;
    char *line = malloc(len);
    if (!line)
        return error_oom(err);
    snprintf(line, len, *value ? "%s: %s" : "%s;", name, value); /* libcurl's way to write an empty one */
    int r = add_line(t, line);
    free(line);
    return r < 0 ? error_oom(err) : 0;
}

static int add_headers(struct transfer *t, bool cross_origin, struct error *err)
{
    curl_slist_free_all(t->list);
    t->list = NULL;
    t->announced = UINT64_MAX;
    t->crossed = cross_origin;
    /* What libcurl would add by itself. */
    if (add_line(t, "Expect:") < 0 || add_line(t, "Accept:") < 0)
        return error_oom(err);
    if (t->has_body && add_line(t, "Content-Type:") < 0)
        return error_oom(err);
    return headers_each(t->headers, t->headers_len, add_header, t, err);
}

static void set_method(struct transfer *t)
{
    CURL *e = t->easy;
    curl_easy_setopt(e, CURLOPT_NOBODY, strcmp(t->method, "HEAD") == 0 ? 1L : 0L);
    if (t->has_body) {
        curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
        uint64_t size = t->inline_body ? t->body.len : t->announced;
        curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, size == UINT64_MAX ? (curl_off_t)-1 : (curl_off_t)size);
    } else {
        curl_easy_setopt(e, CURLOPT_UPLOAD, 0L);
        curl_easy_setopt(e, CURLOPT_HTTPGET, strcmp(t->method, "HEAD") == 0 ? 0L : 1L);
    }
    if (strcmp(t->method, "HEAD") == 0)
        curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, strcmp(t->method, "HEAD") == 0 ? NULL : t->method);
}

/* Whom to trust, as tls.c has it. */
static void set_authorities(CURL *e)
{
    const char *file = getenv("SSL_CERT_FILE"), *directory = getenv("SSL_CERT_DIR");
    if (file)
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    if (directory)
        curl_easy_setopt(e, CURLOPT_CAPATH, directory);
}

static int set_up(struct transfer *t, bool cross_origin, struct error *err)
{
    CURL *e = t->easy;
    if (add_headers(t, cross_origin, err) < 0)
        return -1;
    curl_easy_setopt(e, CURLOPT_URL, t->url);
    curl_easy_setopt(e, CURLOPT_PRIVATE, &t->job);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->list);
    curl_easy_setopt(e, CURLOPT_USERAGENT, NULL);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_PROXY, ""); /* no environment of the daemon's decides here */
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(e, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(e, CURLOPT_READDATA, t);
    curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(e, CURLOPT_SEEKDATA, t);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 65536L);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    set_authorities(e);
    set_method(t);
    return 0;
}

static int read_body(struct transfer *t, const struct cbor_reader *args, struct error *err)
{
    struct cbor_reader r, again;
    struct cbor_item it;
    const uint8_t *data;
    size_t len;
    buf_init(&t->body, (size_t)1 << 20);
    if (!cbor_map_find(args, "body", &r))
        return 0;
    again = r;
    if (cbor_next(&r, &it) < 0)
        return error_field(err, "body", "body: malformed");
    if (it.type == CBOR_NULL || it.type == CBOR_UNDEFINED)
        return 0;
    t->has_body = true;
    if (it.type == CBOR_UINT && it.u64 <= UINT32_MAX) {
        if (link_stream_open_receive(t->link, (uint32_t)it.u64, &up_ops, t, err) < 0)
            return -1;
        t->up = (uint32_t)it.u64;
        return 0;
    }
    t->inline_body = true;
    if (cbor_get_bytes(&again, &data, &len) < 0)
        return error_field(err, "body", "body: neither bytes nor a stream");
    return buf_append(&t->body, data, len) < 0 ? error_oom(err) : 0;
}

static int read_redirect(struct transfer *t, const struct cbor_reader *args, struct error *err)
{
    static const char *const names[] = {"follow", "manual", "error"};
    char text[16];
    struct cbor_reader r;
    if (!cbor_map_find(args, "redirect", &r))
        return 0;
    if (cbor_get_string(&r, text, sizeof text) == 0)
        for (int i = 0; i < 3; i++)
            if (strcmp(names[i], text) == 0) {
                t->redirect = i == 0 ? REDIRECT_FOLLOW : i == 1 ? REDIRECT_MANUAL : REDIRECT_ERROR;
                return 0;
            }
    return error_field(err, "redirect", "redirect: expected \"follow\", \"manual\" or \"error\"");
}

static int read_args(struct transfer *t, const struct cbor_reader *args, struct error *err)
{
    t->method = cbor_map_dup(args, "method", 64);
    t->url = cbor_map_dup(args, "url", URL_MAX);
    t->headers = cbor_map_dup(args, "headers", HEADERS_MAX);
    if (read_body(t, args, err) < 0 || read_redirect(t, args, err) < 0)
        return -1;
    if (!t->method || !header_is_token(t->method))
        return error_field(err, "method", "method: a name is expected");
    if (strcasecmp(t->method, "CONNECT") == 0 || strcasecmp(t->method, "TRACE") == 0)
        return error_field(err, "method", "method: %s cannot be sent", t->method);
    if (!t->url)
        return error_field(err, "url", "url: an address of at most %u bytes is expected", URL_MAX);
    if (strncasecmp(t->url, "http://", 7) != 0 && strncasecmp(t->url, "https://", 8) != 0)
        return error_set(err, ERROR_DENIED,
                         "fetch: only http: and https: addresses can be fetched, not %.200s", t->url);
    t->headers_len = t->headers ? strlen(t->headers) : 0;
    return 0;
}

static void on_cancel(void *user)
{
    struct transfer *t = user;
    if (t->call)
        transfer_free(t);
}

void outgoing_fetch(struct outgoing_user *u, struct link_call *call, struct cbor_reader args)
{
    struct error err = {0};
    bool ws = false;
    cbor_map_bool(&args, "ws", false, &ws);
    if (ws) {
        outgoing_upgrade(u, call, args);
        return;
    }
    struct transfer *t = u->count < MAX_TRANSFERS ? calloc(1, sizeof *t) : NULL;
    if (!t) {
        error_set(&err, ERROR_LIMIT, "fetch: %u requests of this Worker are under way; no more can be made",
                  u->count);
        link_throw(call, &err);
        return;
    }
    t->job.done = on_done;
    t->user = u;
    t->next = u->first;
    if (t->next)
        t->next->prev = t;
    u->first = t;
    u->count++;
    t->link = link_call_link(call);
    t->call = call;
    t->easy = curl_easy_init();
    buf_init(&t->head.headers, HEADERS_MAX);
    if (read_args(t, &args, &err) < 0 || !t->easy || set_up(t, false, &err) < 0) {
        if (!err.kind)
            error_oom(&err);
        fail(t, &err);
        return;
    }
    link_call_on_cancel(call, on_cancel, t);
    transfer_start(t);
}
