#include "app/assets.h"

#include "app/blob.h"
#include "app/byte_range.h"
#include "app/header.h"
#include "app/http_conn.h"
#include "app/ingress_internal.h"
#include "app/mime.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "link/cbor.h"
#include "link/worker_protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define METHOD_MAX 64u /* a longer one is neither GET nor HEAD */

struct assets {
    const struct app_assets *config;
    int dir;
};

/* What a path comes to. */
struct found {
    unsigned status;
    char location[PATH_MAX]; /* 307: where the file's proper address is */
    char etag[64];
    const char *type;
    uint8_t *data;     /* malloc'ed; NULL: no body */
    size_t size;       /* of the file */
    size_t first, len; /* what is sent of it */
};

int assets_open(struct assets **ret, const struct app_assets *config, struct error *err)
{
    struct assets *a = calloc(1, sizeof *a);
    if (!a)
        return error_oom(err);
    a->config = config;
    a->dir = open(config->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (a->dir < 0) {
        error_field(err, "assets.directory", "assets.directory: cannot open %s: %s", config->directory,
                    strerror(errno));
        free(a);
        return -1;
    }
    *ret = a;
    return 0;
}

void assets_reload(struct assets *a, const struct app_assets *config)
{
    int dir = config->present ? open(config->directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    a->config = config;
    if (dir >= 0) {
        close(a->dir);
        a->dir = dir;
    }
}

void assets_free(struct assets *a)
{
    if (!a)
        return;
    close(a->dir);
    free(a);
}

/* ---- paths: UNTRUSTED INPUT ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The decoded path, without its first slash and without a query; false when it cannot name a file of ours. */
static bool decode(const char *path, char *to, size_t cap)
{
    size_t n = 0;
    if (*path != '/')
        return false;
    for (path++; *path && *path != '?' && *path != '#'; path++) {
        char c = *path;
        if (c == '%') {
            int high = hex(path[1]), low = high < 0 ? -1 : hex(path[2]);
            if (low < 0)
                return false;
            c = (char)(high << 4 | low);
            path += 2;
        }
        if (c == '\0' || n + 1 >= cap)
            return false;
        to[n++] = c;
    }
    to[n] = '\0';
    /* Hidden files (.dev.vars, .git), and every kind of dots. */
    return to[0] != '.' && !strstr(to, "/.") && to[0] != '/' && !strstr(to, "//");
}

static int open_file(struct assets *a, const char *path, struct stat *st)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, a->dir, *path ? path : ".", &how, sizeof how);
    if (fd < 0)
        return -1;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && (uint64_t)st->st_size <= ASSET_MAX)
        return fd;
    close(fd);
    return -1;
}

static bool read_file(struct assets *a, const char *path, bool body, unsigned status, struct found *ret)
{
    struct stat st;
    cleanup_close int fd = open_file(a, path, &st);
    if (fd < 0)
        return false;
    ret->status = status;
    ret->type = mime_type(path);
    ret->size = ret->len = (size_t)st.st_size;
    snprintf(ret->etag, sizeof ret->etag, "\"%llx-%llx\"",
             (unsigned long long)st.st_mtim.tv_sec * 1000000000ull + (unsigned long long)st.st_mtim.tv_nsec,
             (unsigned long long)st.st_size);
    if (!body)
        return true;
    ret->data = malloc(ret->len + 1);
    ssize_t n = ret->data ? fd_read_full(fd, ret->data, ret->len) : -1;
    if (n < 0) {
        free(ret->data);
        ret->data = NULL;
        return false;
    }
    ret->size = ret->len = (size_t)n;
    return true;
}

static bool exists(struct assets *a, const char *path)
{
    struct stat st;
    int fd = open_file(a, path, &st);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool redirect(struct found *ret, const char *path, bool slash)
{
    ret->status = 307;
    snprintf(ret->location, sizeof ret->location, "/%s%s", path, slash ? "/" : "");
    return true;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* The rules of html_handling: which address a page has. */
static bool find_page(struct assets *a, char *path, bool body, struct found *ret)
{
    char other[PATH_MAX];
    enum app_html_handling how = a->config->html_handling;
    size_t n = strlen(path);
    if (how == APP_HTML_NONE || n + 16 > sizeof other)
        return false;
    bool slash = n == 0 || path[n - 1] == '/';
    if (slash) {
        snprintf(other, sizeof other, "%sindex.html", path);
        if (n == 0 || how != APP_HTML_DROP_SLASH)
            if (read_file(a, other, body, 200, ret))
                return true;
        if (n == 0)
            return false;
        path[n - 1] = '\0';
        snprintf(other, sizeof other, "%s.html", path);
        if (how == APP_HTML_FORCE_SLASH)
            return read_file(a, other, body, 200, ret);
        char index[PATH_MAX];
        snprintf(index, sizeof index, "%s/index.html", path);
        return (exists(a, other) || exists(a, index)) && redirect(ret, path, false);
    }
    snprintf(other, sizeof other, "%s.html", path);
    if (how == APP_HTML_FORCE_SLASH ? exists(a, other) : read_file(a, other, body, 200, ret))
        return how == APP_HTML_FORCE_SLASH ? redirect(ret, path, true) : true;
    snprintf(other, sizeof other, "%s/index.html", path);
    if (how == APP_HTML_DROP_SLASH)
        return read_file(a, other, body, 200, ret);
    return exists(a, other) && redirect(ret, path, true);
}

/* An address that spells ".html" out goes to the page's proper one. */
static bool find_spelled(struct assets *a, char *path, struct found *ret)
{
    size_t n = strlen(path);
    if (a->config->html_handling == APP_HTML_NONE || !ends_with(path, ".html") || !exists(a, path))
        return false;
    bool index = strcmp(path, "index.html") == 0 || ends_with(path, "/index.html"),
         force = a->config->html_handling == APP_HTML_FORCE_SLASH;
    path[n - (index ? 10 : 5)] = '\0';
    n = strlen(path);
    if (index && a->config->html_handling == APP_HTML_DROP_SLASH && n > 0)
        path[n - 1] = '\0';
    return redirect(ret, path, force && !index);
}

static bool find(struct assets *a, const char *target, bool body, struct found *ret)
{
    char path[PATH_MAX];
    *ret = (struct found){0};
    if (!decode(target, path, sizeof path))
        return false;
    return find_spelled(a, path, ret) ||
           (*path && !ends_with(path, "/") && read_file(a, path, body, 200, ret)) ||
           find_page(a, path, body, ret);
}

/* The rules of not_found_handling: the nearest 404.html upwards, or the one page of an application in the
 * browser. */
static bool find_fallback(struct assets *a, const char *target, bool body, struct found *ret)
{
    char path[PATH_MAX], page[PATH_MAX + 16];
    *ret = (struct found){0};
    if (a->config->not_found == APP_NOT_FOUND_SPA)
        return read_file(a, "index.html", body, 200, ret);
    if (a->config->not_found != APP_NOT_FOUND_404_PAGE || !decode(target, path, sizeof path))
        return false;
    for (;;) {
        char *slash = strrchr(path, '/');
        *(slash ? slash : path) = '\0';
        snprintf(page, sizeof page, "%s%s404.html", path, *path ? "/" : "");
        if (read_file(a, page, body, 404, ret))
            return true;
        if (!slash)
            return false;
    }
}

static void put_headers(struct buf *b, const struct found *f)
{
    buf_init(b, 2 * PATH_MAX);
    if (f->status == 405) {
        buf_printf(b, "allow\nGET, HEAD\n");
        return;
    }
    if (f->status == 404 && !f->type)
        return;
    if (f->status == 416) {
        buf_printf(b, "content-range\nbytes */%zu\n", f->size);
        return;
    }
    if (f->status == 307) {
        buf_printf(b, "location\n");
        for (const unsigned char *p = (const unsigned char *)f->location; *p; p++)
            if (*p <= 0x20 || *p >= 0x7f || strchr("%?#\"<>\\^`{|}", *p))
                buf_printf(b, "%%%02X", *p);
            else
                buf_append(b, p, 1);
        buf_append_str(b, "\n");
        return;
    }
    buf_printf(b, "content-type\n%s\netag\n%s\ncache-control\npublic, max-age=0, must-revalidate\n", f->type,
               f->etag);
    if (f->status == 206)
        buf_printf(b, "content-range\nbytes %zu-%zu/%zu\n", f->first, f->first + f->len - 1, f->size);
    if (f->status == 200 || f->status == 206)
        buf_printf(b, "accept-ranges\nbytes\n");
}

/* Does If-None-Match name what we have? */
static bool is_known(const char *headers, size_t len, const struct found *f)
{
    size_t n;
    const char *v = header_find(headers, len, "if-none-match", &n);
    char text[256];
    if (!v || f->status != 200 || n >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)n, v);
    return strstr(text, f->etag) != NULL;
}

/* The part that a GET asks for. If-Range has to name what we have: by its ETag, since we tell no date. */
static void select_range(const char *headers, size_t len, struct found *f)
{
    size_t n, m;
    const char *range = header_find(headers, len, "range", &n),
               *same = header_find(headers, len, "if-range", &m);
    if (!range || f->status != 200 || (same && (m != strlen(f->etag) || memcmp(same, f->etag, m) != 0)))
        return;
    enum byte_range what = byte_range_read(range, n, f->size, &f->first, &f->len);
    if (what == BYTE_RANGE_PART)
        f->status = 206;
    if (what != BYTE_RANGE_UNSATISFIABLE)
        return;
    f->status = 416;
    f->len = 0;
}

/* What the request's method and headers make of what its path has come to. */
static void negotiate(const char *method, const char *headers, size_t len, struct found *f)
{
    bool get = strcmp(method, "GET") == 0;
    if (!get && strcmp(method, "HEAD") != 0)
        f->status = 405;
    else if (is_known(headers, len, f))
        f->status = 304;
    else if (get)
        select_range(headers, len, f);
    if (f->status == 405 || f->status == 304)
        f->len = 0;
}

/* ---- clients ---- */

static bool matches(const char *pattern, const char *path)
{
    while (*pattern && *pattern != '*') {
        if (*pattern++ != *path++)
            return false;
    }
    if (!*pattern)
        return !*path || *path == '?';
    for (pattern++;; path++) {
        if (matches(pattern, path))
            return true;
        if (!*path || *path == '?')
            return false;
    }
}

/* A path can be spelled in many ways, and what a pattern guards must not be reached by another: the Worker is
 * asked when either spelling, as sent or decoded, is meant to reach it, and passed over only when both are.
 */
static bool any_matches(char **routes, bool excluded, const char *path)
{
    for (char **r = routes; r && *r; r++)
        if (((*r)[0] == '!') == excluded && matches(*r + excluded, path))
            return true;
    return false;
}

static bool worker_first(const struct app_assets *c, const char *target)
{
    char **routes = c->run_worker_first_routes, decoded[PATH_MAX] = "/";
    bool named = decode(target, decoded + 1, sizeof decoded - 1); /* else it is no file */
    if (any_matches(routes, true, target) && (!named || any_matches(routes, true, decoded)))
        return false;
    return c->run_worker_first || any_matches(routes, false, target) ||
           (named && any_matches(routes, false, decoded));
}

/* A browser goes to that address, rather than a script asking for it. */
static bool is_navigation(const struct http_request *r)
{
    size_t n;
    const char *mode = header_find(r->headers, r->headers_len, "sec-fetch-mode", &n);
    return mode && n == strlen("navigate") && memcmp(mode, "navigate", n) == 0;
}

bool assets_serve(struct assets *a, struct http_conn *c, const struct http_request *r, bool has_worker)
{
    struct found f;
    bool get = strcmp(r->method, "GET") == 0, head = strcmp(r->method, "HEAD") == 0;
    if (!a->config->present || (!get && !head && has_worker) ||
        (has_worker && worker_first(a->config, r->target)))
        return false;
    bool fallback = !has_worker || (a->config->navigation && is_navigation(r));
    if (!find(a, r->target, get, &f) && (!fallback || !find_fallback(a, r->target, get, &f)))
        return false;
    struct buf b;
    negotiate(r->method, r->headers, r->headers_len, &f);
    put_headers(&b, &f);
    http_conn_head(c, f.status, NULL, (const char *)b.data, b.len, f.len, NULL);
    if (f.data)
        http_conn_write(c, f.data + f.first, f.len);
    http_conn_end(c);
    buf_free(&b);
    free(f.data);
    return true;
}

/* ---- Workers ---- */

void assets_call(struct assets *a, struct link_call *call, struct cbor_reader args)
{
    struct blob_outbox outbox = {0};
    struct error err = {0};
    struct found f = {0};
    struct cbor_reader r;
    const uint8_t *headers = (const uint8_t *)"";
    size_t headers_len = 0;
    struct buf b, h;
    cleanup_free char *path = cbor_map_dup(&args, "path", HTTP_MAX_TARGET),
                      *method = cbor_map_dup(&args, "method", METHOD_MAX);
    bool get = method && strcmp(method, "GET") == 0;
    if (cbor_map_find(&args, "headers", &r))
        cbor_get_bytes(&r, &headers, &headers_len);
    if (!path || (!find(a, path, get, &f) && !find_fallback(a, path, get, &f)))
        f.status = 404;
    else
        negotiate(method ? method : "", (const char *)headers, headers_len, &f);
    put_headers(&h, &f);
    buf_init(&b, (size_t)1 << 20);
    bool body = f.data && (f.len > 0 || f.status == 200), small = f.len <= WORKER_INLINE_MAX;
    cbor_put_map(&b, body ? 3 : 2);
    cbor_put_text(&b, "status");
    cbor_put_uint(&b, f.status);
    cbor_put_text(&b, "headers");
    cbor_put_text_n(&b, (const char *)h.data, h.len);
    if (body) {
        cbor_put_text(&b, "body");
        if (small) {
            cbor_put_bytes(&b, f.data + f.first, f.len);
        } else {
            memmove(f.data, f.data + f.first, f.len);
            uint32_t stream = blob_send(&outbox, link_call_link(call), steal_pointer(&f.data), f.len, &err);
            cbor_put_uint(&b, stream);
        }
    }
    if (err.kind)
        link_throw(call, &err);
    else
        link_return(call, b.data, b.len);
    blob_start(&outbox);
    buf_free(&b);
    buf_free(&h);
    free(f.data);
}
