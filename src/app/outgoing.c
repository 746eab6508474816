#include "app/outgoing.h"

#include "app/outgoing_internal.h"
#include "app/reach.h"
#include "app/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_CONNECTIONS 64L /* of one worker at once; more requests wait */
#define MAIL_PORT 25        /* where nobody but a mail server has business */

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
    tls_context_free(o->tls);
    curl_global_cleanup();
    free(o);
}

SSL_CTX *outgoing_tls(struct outgoing *o, struct error *err)
{
    if (!o->tls)
        o->tls = tls_context_new(err);
    return o->tls;
}

/* ---- the library on the loop ---- */

static void collect(struct outgoing_user *u)
{
    CURLMsg *m;
    int left;
    while (!u->freed && (m = curl_multi_info_read(u->multi, &left))) {
        struct outgoing_job *job = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode r = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&job);
        job->done(job, r);
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
    u->held.max = MAX_HELD;
    return u;
}

void outgoing_user_free(struct outgoing_user *u)
{
    if (!u)
        return;
    u->freed = true;
    while (u->first)
        transfer_free(u->first);
    while (u->first_socket)
        u->first_socket->kill(u->first_socket);
    if (u->multi)
        curl_multi_cleanup(u->multi);
    if (u->timer)
        uv_close((uv_handle_t *)u->timer, on_timer_closed);
    free(u);
}

int outgoing_begin(struct outgoing_user *u, CURL *easy)
{
    return prepare(u) < 0 || curl_multi_add_handle(u->multi, easy) != CURLM_OK ? -1 : 0;
}

/* ---- the rule ---- */

static unsigned port_of(const struct curl_sockaddr *a)
{
    return ntohs(a->family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)&a->addr)->sin6_port
                                       : ((const struct sockaddr_in *)(const void *)&a->addr)->sin_port);
}

curl_socket_t outgoing_open_socket(struct outgoing_user *u, const struct curl_sockaddr *a,
                                   char refused[REFUSED_MAX])
{
    if (a->family != AF_INET && a->family != AF_INET6) {
        snprintf(refused, REFUSED_MAX, "an address that is none of the Internet");
        return CURL_SOCKET_BAD;
    }
    if (port_of(a) == MAIL_PORT) {
        snprintf(refused, REFUSED_MAX, "port %d", MAIL_PORT);
        return CURL_SOCKET_BAD;
    }
    if (u->reach == REACH_ALL || reach_is_public(&a->addr))
        return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
    const void *address =
        a->family == AF_INET
            ? (const void *)&((const struct sockaddr_in *)(const void *)&a->addr)->sin_addr
            : (const void *)&((const struct sockaddr_in6 *)(const void *)&a->addr)->sin6_addr;
    if (!inet_ntop(a->family, address, refused, REFUSED_MAX))
        snprintf(refused, REFUSED_MAX, "an address that is none of the Internet");
    return CURL_SOCKET_BAD;
}

int outgoing_refused(const char *refused, const char *where, struct error *err)
{
    if (strncmp(refused, "port ", 5) == 0)
        return error_set(err, ERROR_DENIED,
                         "connections to %s, where mail is delivered, are prohibited (%.200s)", refused,
                         where);
    return error_set(
        err, ERROR_DENIED,
        "a Dynamic Worker may not connect to %s (%.200s): it is no address of the public Internet", refused,
        where);
}

/* ---- sockets ---- */

int outgoing_socket_add(struct outgoing_user *u, struct outgoing_socket *s,
                        void (*kill)(struct outgoing_socket *s), struct error *err)
{
    if (u->sockets >= MAX_SOCKETS)
        return error_set(err, ERROR_LIMIT,
                         "connect: %u connections of this Worker are open; no more can be opened",
                         u->sockets);
    s->user = u;
    s->kill = kill;
    s->prev = NULL;
    s->next = u->first_socket;
    if (s->next)
        s->next->prev = s;
    u->first_socket = s;
    u->sockets++;
    return 0;
}

void outgoing_socket_remove(struct outgoing_socket *s)
{
    struct outgoing_user *u = s->user;
    if (!u)
        return;
    *(s->prev ? &s->prev->next : &u->first_socket) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    s->user = NULL;
    u->sockets--;
}
