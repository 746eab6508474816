#include "app/outgoing.h"

#include "app/outgoing_internal.h"

#include <stdlib.h>

#define MAX_CONNECTIONS 64L /* of one worker at once; more requests wait */

/* A socket of libcurl's that the loop watches. */
struct watch {
    uv_poll_t poll;
    struct outgoing_user *user;
    curl_socket_t fd;
};

int outgoing_open(struct outgoing **ret, uv_loop_t *loop, struct error *err)
{
    struct outgoing *o = calloc(1, sizeof *o);
    if (!o)
        return error_oom(err);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(o);
        return error_set(err, ERROR_INTERNAL, "the HTTP client library cannot be initialised");
    }
    o->loop = loop;
    *ret = o;
    return 0;
}

void outgoing_close(struct outgoing *o)
{
    if (!o)
        return;
    curl_global_cleanup();
    free(o);
}

/* ---- the library on the loop ---- */

static void collect(struct outgoing_user *u)
{
    CURLMsg *m;
    int left;
    while (!u->freed && (m = curl_multi_info_read(u->multi, &left))) {
        struct transfer *t = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode r = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        transfer_stop(t);
        transfer_done(t, r);
    }
}

static void on_ready(uv_poll_t *p, int status, int events)
{
    struct watch *w = p->data;
    struct outgoing_user *u = w->user;
    int flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0) |
                (status < 0 ? CURL_CSELECT_ERR : 0);
    int running;
    curl_multi_socket_action(u->multi, w->fd, flags, &running);
    collect(u);
}

static void on_watch_closed(uv_handle_t *h)
{
    free(h->data);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *assigned)
{
    struct outgoing_user *u = user;
    struct watch *w = assigned;
    if (what == CURL_POLL_REMOVE) {
        if (w) {
            uv_poll_stop(&w->poll);
            uv_close((uv_handle_t *)&w->poll, on_watch_closed);
            curl_multi_assign(u->multi, fd, NULL);
        }
        return 0;
    }
    if (!w) {
        w = calloc(1, sizeof *w);
        if (!w)
            return -1;
        w->user = u;
        w->fd = fd;
        if (uv_poll_init_socket(u->outgoing->loop, &w->poll, fd) < 0) {
            free(w);
            return -1;
        }
        w->poll.data = w;
        curl_multi_assign(u->multi, fd, w);
    }
    uv_poll_start(&w->poll,
                  (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0),
                  on_ready);
    return 0;
}

static void on_timer(uv_timer_t *timer)
{
    struct outgoing_user *u = timer->data;
    int running;
    curl_multi_socket_action(u->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect(u);
}

static int on_timeout(CURLM *multi, long ms, void *user)
{
    struct outgoing_user *u = user;
    if (ms < 0)
        uv_timer_stop(u->timer);
    else
        uv_timer_start(u->timer, on_timer, (uint64_t)ms, 0);
    return 0;
}

/* ---- who asks ---- */

static void on_timer_closed(uv_handle_t *h)
{
    free(h);
}

/* libcurl's part, when the first request comes: most workers make none. */
static int prepare(struct outgoing_user *u)
{
    if (u->multi)
        return 0;
    u->timer = malloc(sizeof *u->timer);
    u->multi = u->timer ? curl_multi_init() : NULL;
    if (!u->multi) {
        free(u->timer);
        u->timer = NULL;
        return -1;
    }
    uv_timer_init(u->outgoing->loop, u->timer);
    u->timer->data = u;
    curl_multi_setopt(u->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(u->multi, CURLMOPT_SOCKETDATA, u);
    curl_multi_setopt(u->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    curl_multi_setopt(u->multi, CURLMOPT_TIMERDATA, u);
    curl_multi_setopt(u->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, MAX_CONNECTIONS);
    return 0;
}

struct outgoing_user *outgoing_user_new(struct outgoing *o, enum reach reach)
{
    struct outgoing_user *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->outgoing = o;
    u->reach = reach;
    return u;
}

void outgoing_user_free(struct outgoing_user *u)
{
    if (!u)
        return;
    u->freed = true;
    while (u->first)
        transfer_free(u->first);
    if (u->multi)
        curl_multi_cleanup(u->multi);
    if (u->timer)
        uv_close((uv_handle_t *)u->timer, on_timer_closed);
    free(u);
}

void transfer_start(struct transfer *t)
{
    if (prepare(t->user) < 0 || curl_multi_add_handle(t->user->multi, t->easy) != CURLM_OK) {
        transfer_done(t, CURLE_OUT_OF_MEMORY);
        return;
    }
    t->running = true;
}

void transfer_stop(struct transfer *t)
{
    if (t->running)
        curl_multi_remove_handle(t->user->multi, t->easy);
    t->running = false;
}

void outgoing_connect(struct outgoing_user *u, struct link_call *call, struct cbor_reader args)
{
    struct error err = {0};
    error_set(&err, ERROR_UNSUPPORTED, "connect() is not supported by this version of Cloister; use fetch()");
    link_throw(call, &err);
}
