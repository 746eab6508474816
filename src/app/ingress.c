#include "app/assets.h"
#include "app/header.h"
#include "app/host.h"
#include "app/ingress_internal.h"
#include "app/websocket.h"
#include "base/parse.h"
#include "link/cbor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A body of at most so many bytes goes with the call; a larger one, or one of unknown length, as a stream. */
#define SMALL_BODY (64u << 10)
#define ARGS_MAX (512u << 10)

void exchange_free(struct exchange *x)
{
    struct error why = {0};
    x->ingress->wide -= x->wide;
    host_forget(x->waiter);
    host_cancel_alarm(x->scheduled);
    error_set(&why, ERROR_GONE, "the request is over");
    if (x->link && x->call)
        link_cancel(x->link, x->call);
    if (x->link && x->up)
        link_stream_reset(x->link, x->up, &why);
    if (x->link && x->down)
        link_stream_reset(x->link, x->down, &why);
    buf_free(&x->args);
    buf_free(&x->body);
    free(x->method);
    free(x->url);
    free(x);
}

/* ---- the request's body ---- */

static void send_body(struct exchange *x)
{
    size_t sent = 0;
    while (x->up && sent < x->body.len) {
        size_t room = link_stream_writable(x->link, x->up), left = x->body.len - sent,
               n = left < room ? left : room;
        if (n == 0 || link_stream_write(x->link, x->up, x->body.data + sent, n) < 0)
            break;
        sent += n;
    }
    buf_consume(&x->body, sent);
    if (x->body.len > 0)
        return;
    if (x->up && x->body_done) {
        link_stream_end(x->link, x->up);
        x->up = 0;
    }
    http_conn_resume(x->conn);
}

static void on_writable(void *user, uint32_t stream)
{
    send_body(user);
}

/* The Worker wants no more of the body: the rest is read and thrown away. */
static void on_unwanted(void *user, uint32_t stream, const struct error *why)
{
    struct exchange *x = user;
    x->up = 0;
    buf_clear(&x->body);
    http_conn_resume(x->conn);
}

static const struct link_stream_ops up_ops = {.writable = on_writable, .reset = on_unwanted};

static void begin(struct exchange *x, struct link *l);

static void on_body(void *exchange, const uint8_t *data, size_t len)
{
    struct exchange *x = exchange;
    if (x->websocket)
        return;
    if (x->started && !x->up)
        return; /* unwanted */
    if (buf_append(&x->body, data, len) < 0) {
        struct error err = {0};
        error_oom(&err);
        exchange_fail(x, 500, &err);
        return;
    }
    if (x->small)
        return;
    if (x->started)
        send_body(x);
    if (x->body.len > 0)
        http_conn_pause(x->conn);
}

/* ---- the call ---- */

static int open_body(struct exchange *x, struct buf *args, struct error *err)
{
    if (!x->has_body)
        return 0;
    cbor_put_text(args, "body");
    if (x->small) {
        cbor_put_bytes(args, x->body.data, x->body.len);
        return 0;
    }
    uint32_t stream = link_stream_new(x->link);
    if (link_stream_open_send(x->link, stream, &up_ops, x, err) < 0)
        return -1;
    x->up = stream;
    cbor_put_uint(args, stream);
    return 0;
}

static void begin(struct exchange *x, struct link *l)
{
    struct error err = {0};
    struct buf args;
    buf_init(&args, ARGS_MAX);
    x->link = l;
    cbor_put_map(&args, x->pairs + x->has_body);
    buf_append(&args, x->args.data, x->args.len);
    if (open_body(x, &args, &err) == 0) {
        x->call = args.failed ? 0 : link_call(l, 0, "fetch", args.data, args.len, exchange_answer, x);
        if (!x->call)
            error_set(&err, ERROR_LIMIT, "the Worker has too many requests under way");
    }
    buf_free(&args);
    if (!x->call) {
        exchange_fail(x, 503, &err);
        return;
    }
    x->started = true;
    if (x->small)
        buf_clear(&x->body);
    else if (x->has_body)
        send_body(x);
}

static void on_up(void *user, struct link *l, const struct error *err)
{
    struct exchange *x = user;
    x->waiter = NULL;
    if (err)
        exchange_fail(x, 500, err);
    else
        begin(x, l);
}

static void start(struct exchange *x)
{
    struct host *h = x->ingress->config.host(x->ingress->config.user);
    struct link *l = h ? host_link(h) : NULL;
    struct error err = {0};
    if (l) {
        begin(x, l);
    } else if (h) {
        host_wait(h, on_up, x, &x->waiter);
    } else {
        error_set(&err, ERROR_NOT_FOUND, "not found");
        exchange_fail(x, 404, &err);
    }
}

static void run_scheduled(struct exchange *x);

static void on_body_end(void *exchange)
{
    struct exchange *x = exchange;
    x->body_done = true;
    if (x->hook)
        run_scheduled(x);
    else if (x->small)
        start(x);
    else if (x->started && x->has_body && x->up)
        send_body(x);
}

/* ---- scheduled() by hand, in development ---- */

#define SCHEDULED_PATH "/cdn-cgi/handler/scheduled"

static void on_scheduled(void *user, const struct error *err)
{
    struct exchange *x = user;
    struct http_conn *c = x->conn;
    x->scheduled = NULL;
    if (err) {
        exchange_fail(x, 500, err);
        return;
    }
    exchange_free(x);
    http_conn_text(c, 200, "ok");
}

/* A parameter of the query, decoded. False: it is not there, or malformed. */
static bool query_find(const char *url, const char *name, char *to, size_t cap)
{
    const char *p = strchr(url, '?');
    size_t n = strlen(name), at = 0;
    while (p && !(strncmp(p + 1, name, n) == 0 && p[n + 1] == '='))
        p = strchr(p + 1, '&');
    if (!p)
        return false;
    for (p += n + 2; *p && *p != '&'; p++) {
        unsigned byte = (unsigned char)(*p == '+' ? ' ' : *p);
        if (*p == '%' && sscanf(p + 1, "%2x", &byte) == 1 && p[1] && p[2])
            p += 2;
        if (byte < ' ' || byte > '~' || at + 1 >= cap)
            return false;
        to[at++] = (char)byte;
    }
    to[at] = '\0';
    return true;
}

static void run_scheduled(struct exchange *x)
{
    struct http_conn *c = x->conn;
    struct host *h = x->ingress->config.host(x->ingress->config.user);
    char cron[256], time_text[32];
    uint64_t ms;
    if (!query_find(x->url, "cron", cron, sizeof cron))
        strcpy(cron, "* * * * *");
    if (!query_find(x->url, "time", time_text, sizeof time_text) ||
        parse_u64(time_text, "time", 0, INT64_MAX, &ms, NULL) < 0)
        ms = (uint64_t)time(NULL) * 1000;
    x->scheduled = h ? host_call_scheduled(h, cron, (int64_t)ms, on_scheduled, x) : NULL;
    if (x->scheduled)
        return;
    exchange_free(x);
    http_conn_text(c, 503, "there is no Worker to run\n");
}

/* ---- the head: UNTRUSTED INPUT ---- */

static char *make_url(const char *host, size_t host_len, const char *target)
{
    size_t len = strlen(target) + host_len + 16;
    char *url = malloc(len);
    if (!url)
        return NULL;
    if (target[0] == '/')
        snprintf(url, len, "http://%.*s%s", (int)host_len, host, target);
    else if (strncmp(target, "http://", 7) == 0)
        snprintf(url, len, "%s", target);
    else
        snprintf(url, len, "http://%.*s/%s", (int)host_len, host, target);
    return url;
}

/* Of "http://authority/path". */
static bool authority_is_valid(const char *target)
{
    if (strncmp(target, "http://", 7) != 0)
        return true;
    return host_is_valid(target + 7, strcspn(target + 7, "/?#"));
}

static void read_upgrade(struct exchange *x, const struct http_request *r)
{
    size_t n, k;
    const char *upgrade = header_find(r->headers, r->headers_len, "upgrade", &n);
    if (!r->upgrade || !upgrade || !header_has_word(upgrade, n, "websocket", HEADER_ANY_CASE) ||
        strcmp(r->method, "GET") != 0)
        return;
    const char *version = header_find(r->headers, r->headers_len, "sec-websocket-version", &n);
    const char *key = header_find(r->headers, r->headers_len, "sec-websocket-key", &k);
    if (version && n == 2 && memcmp(version, "13", 2) == 0 && key && k == 24)
        snprintf(x->ws_key, sizeof x->ws_key, "%.*s", (int)k, key);
}

static void put_args(struct exchange *x, const struct http_request *r)
{
    char peer[64];
    struct buf *b = &x->args;
    buf_init(b, ARGS_MAX);
    cbor_put_text(b, "method");
    cbor_put_text(b, x->method);
    cbor_put_text(b, "url");
    cbor_put_string(b, x->url);
    cbor_put_text(b, "headers");
    cbor_put_string(b, r->headers);
    cbor_put_text(b, "peer");
    cbor_put_text(b, http_conn_peer(x->conn, peer, sizeof peer));
    x->pairs = 4;
    if (x->ws_key[0]) {
        cbor_put_text(b, "ws");
        cbor_put_bool(b, true);
        x->pairs++;
    }
}

/* The rest of a URL that names a path: without what follows '?'. */
static bool try_asset(struct exchange *x, const struct http_request *r)
{
    struct assets *a = x->ingress->config.assets ? x->ingress->config.assets(x->ingress->config.user) : NULL;
    bool worker = x->ingress->config.host(x->ingress->config.user) != NULL;
    if (!a || r->target[0] != '/')
        return false;
    return assets_serve(a, x->conn, r, worker);
}

static void *on_request(void *user, struct http_conn *c, const struct http_request *r)
{
    struct ingress *i = user;
    size_t n = 0;
    const char *host = header_find(r->headers, r->headers_len, "host", &n);
    if (!host) {
        host = "localhost";
        n = strlen(host);
    }
    if (!host_is_valid(host, n) || !authority_is_valid(r->target)) {
        http_conn_text(c, 400, "The request names no valid host.\n");
        return NULL;
    }
    if (!host_check(&i->config, host, n)) {
        http_conn_text(c, 421,
                       "This address does not answer to that name. Use localhost, or allow the name with "
                       "--allow-host.\n");
        return NULL;
    }
    struct exchange *x = calloc(1, sizeof *x);
    if (x) {
        x->ingress = i;
        x->conn = c;
        x->method = strdup(r->method);
        x->url = make_url(host, n, r->target);
    }
    if (!x || !x->method || !x->url) {
        if (x)
            exchange_free(x);
        http_conn_text(c, 503, "out of memory\n");
        return NULL;
    }
    x->hook = i->config.verbose && strncmp(r->target, SCHEDULED_PATH, sizeof SCHEDULED_PATH - 1) == 0 &&
              (r->target[sizeof SCHEDULED_PATH - 1] == '\0' || r->target[sizeof SCHEDULED_PATH - 1] == '?');
    if (!x->hook && try_asset(x, r)) {
        exchange_free(x);
        return NULL;
    }
    x->has_body = r->body != HTTP_BODY_NONE;
    x->small = x->hook || !x->has_body || (r->body == HTTP_BODY_LENGTH && r->length <= SMALL_BODY);
    x->head_request = strcmp(r->method, "HEAD") == 0;
    buf_init(&x->body, (size_t)1 << 20);
    read_upgrade(x, r);
    put_args(x, r);
    if (x->has_body && x->small)
        return x; /* with its body: on_body_end() */
    if (x->has_body)
        start(x);
    return x; /* without one: on_body_end() too, at once */
}

static void on_gone(void *exchange)
{
    struct exchange *x = exchange;
    if (x->websocket)
        websocket_gone(x->websocket);
    exchange_free(x);
}

static void on_raw(void *exchange, const uint8_t *data, size_t len)
{
    struct exchange *x = exchange;
    websocket_raw(x->websocket, data, len);
}

static void on_room(void *exchange)
{
    struct exchange *x = exchange;
    size_t n = x->unconsumed;
    if (x->websocket) {
        websocket_room(x->websocket);
        return;
    }
    x->unconsumed = 0;
    if (x->down)
        link_stream_consumed(x->link, x->down, n);
}

int ingress_open(struct ingress **ret, const struct ingress_config *config, struct error *err)
{
    struct ingress *i = calloc(1, sizeof *i);
    if (!i)
        return error_oom(err);
    i->config = *config;
    struct http_server_config sc = {.loop = config->loop,
                                    .fd = config->fd,
                                    .handler = {.request = on_request,
                                                .body = on_body,
                                                .body_end = on_body_end,
                                                .gone = on_gone,
                                                .room = on_room,
                                                .raw = on_raw,
                                                .user = i}};
    if (http_server_open(&i->server, &sc, err) < 0) {
        free(i);
        return -1;
    }
    *ret = i;
    return 0;
}

void ingress_close(struct ingress *i)
{
    if (!i)
        return;
    http_server_close(i->server);
    free(i);
}
