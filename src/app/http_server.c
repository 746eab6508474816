#include "app/http_internal.h"

#include "base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define READ_SIZE (64u << 10)
#define ACCEPT_BATCH 64
#define CLOCK_MS 1000u
#define IDLE_MS 75000u
#define SEND_MS 60000u /* a client that reads nothing for so long is cut off */
#define LINGER_MS 2000u
/* What waits in the kernel unsent (TCP_NOTSENT_LOWAT, tcp(7)). It would take up to 4 MiB for each, of memory
 * that all connections of the machine share: some 1000 clients that do not read would slow down every other.
 */
#define UNSENT_MAX (256 << 10)
#define IN_MAX ((size_t)256 << 10)
#define OUT_MAX ((size_t)64 << 20)
#define LITTLE ((size_t)64 << 10) /* to hold so much is nothing */
#define WARN_MS 10000u

static void on_conn_closed(uv_handle_t *h)
{
    struct http_conn *c = h->data;
    close(c->fd);
    buf_free(&c->in);
    buf_free(&c->out);
    buf_free(&c->target);
    buf_free(&c->head);
    free(c);
}

static void undirty(struct http_conn *c)
{
    for (struct http_conn **p = &c->server->dirty; *p; p = &(*p)->next_dirty)
        if (*p == c) {
            *p = c->next_dirty;
            break;
        }
    c->dirty = false;
}

static void on_prepare(uv_prepare_t *p);

static void on_idle(uv_idle_t *i)
{
}

/* on_prepare() is to run before the loop sleeps. */
static void wake(struct http_server *s)
{
    uv_prepare_start(&s->prepare, on_prepare);
    uv_idle_start(&s->idle, on_idle);
}

/* ---- what they hold ---- */

void http_conn_account(struct http_conn *c)
{
    struct http_server *s = c->server;
    size_t now = c->dead ? 0 : c->out.len + c->in.len + c->elsewhere;
    s->held = s->held - c->counted + now;
    c->counted = now;
    if (now <= LITTLE)
        c->since = 0;
    else if (!c->since)
        c->since = uv_now(s->config.loop);
    if (s->held > HTTP_HELD_MAX)
        wake(s);
}

void http_conn_hold(struct http_conn *c, size_t bytes)
{
    c->elsewhere = bytes;
    if (!c->dead)
        http_conn_account(c);
}

static void enforce(struct http_server *s)
{
    uint64_t now = uv_now(s->config.loop);
    while (s->held > HTTP_HELD_MAX) {
        struct http_conn *oldest = NULL;
        for (struct http_conn *c = s->first; c; c = c->next)
            if (c->since && (!oldest || c->since <= oldest->since))
                oldest = c;
        if (!oldest)
            return;
        if (!s->warned || now - s->warned > WARN_MS)
            log_warn("clients that do not read are cut off: what is held for all of them exceeds %zu MiB",
                     HTTP_HELD_MAX >> 20);
        s->warned = now;
        http_conn_close(oldest);
    }
}

/* Memory of a large exchange is not kept while nothing goes on. */
static void shrink(struct buf *b)
{
    size_t max = b->max;
    if (b->len > 0 || b->cap <= LITTLE)
        return;
    buf_free(b);
    buf_init(b, max);
}

/* ---- connections ---- */

static void listen_again(struct http_server *s);

void http_conn_close(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (c->dead)
        return;
    c->dead = true;
    if (c->dirty)
        undirty(c);
    *(c->prev ? &c->prev->next : &s->first) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->count--;
    http_conn_account(c);
    uv_close((uv_handle_t *)&c->poll, on_conn_closed);
    void *exchange = c->exchange;
    bool open = c->open;
    c->open = false;
    c->exchange = NULL;
    if (open && exchange)
        s->config.handler.gone(exchange);
    listen_again(s);
}

void http_conn_wait(struct http_conn *c, uint64_t ms)
{
    c->deadline = ms ? uv_now(c->server->config.loop) + ms : 0;
}

static void on_poll(uv_poll_t *p, int status, int events);

void http_conn_watch(struct http_conn *c)
{
    /* What is not read now is still looked at for the client's leaving. */
    bool read = c->closing || (!c->paused && c->in.len < IN_MAX / 2);
    int events =
        (read ? UV_READABLE : UV_DISCONNECT) | (http_conn_pending(c) > 0 && !c->dirty ? UV_WRITABLE : 0);
    if (c->dead || events == c->events)
        return;
    c->events = events;
    uv_poll_start(&c->poll, events, on_poll);
}

static void flush(struct http_conn *c)
{
    if (c->out.failed) {
        http_conn_close(c);
        return;
    }
    while (http_conn_pending(c) > 0) {
        ssize_t n = send(c->fd, c->out.data + c->out_start, http_conn_pending(c), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            http_conn_close(c);
            return;
        }
        if (n < 0)
            break;
        c->out_start += (size_t)n;
        c->stalled = 0;
    }
    if (c->stalled == 0 && http_conn_pending(c) > 0)
        c->stalled = uv_now(c->server->config.loop) + SEND_MS;
    if (http_conn_pending(c) == 0) {
        buf_clear(&c->out);
        c->out_start = 0;
        c->stalled = 0;
        if (c->closing && !c->lingering) {
            /* Closed with something unread, the kernel would send a reset, which can overtake the answer. */
            shutdown(c->fd, SHUT_WR);
            c->lingering = true;
            http_conn_wait(c, LINGER_MS);
        }
    } else if (c->out_start > OUT_MAX / 64) {
        buf_consume(&c->out, c->out_start);
        c->out_start = 0;
    }
    http_conn_account(c);
    http_conn_drained(c);
    if (!c->dead)
        http_conn_watch(c);
}

static void on_prepare(uv_prepare_t *p)
{
    struct http_server *s = p->data;
    struct http_conn *c;
    while ((c = s->dirty)) {
        s->dirty = c->next_dirty;
        c->dirty = false;
        flush(c);
    }
    enforce(s);
    if (s->dirty) /* made so by those that were cut off */
        return;
    uv_prepare_stop(p);
    uv_idle_stop(&s->idle);
}

void http_conn_dirty(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (c->dirty || c->dead)
        return;
    c->dirty = true;
    c->next_dirty = s->dirty;
    s->dirty = c;
    wake(s);
}

static void on_poll(uv_poll_t *p, int status, int events)
{
    struct http_conn *c = p->data;
    if (status < 0 || (events & UV_DISCONNECT && !(events & UV_READABLE))) {
        http_conn_close(c);
        return;
    }
    if (events & UV_WRITABLE)
        http_conn_dirty(c); /* written with everything else of this turn: see the output gate */
    if (events & UV_READABLE)
        http_conn_readable(c);
}

static void add_conn(struct http_server *s, int fd)
{
    int on = 1, unsent = UNSENT_MAX;
    struct http_conn *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    c->server = s;
    c->fd = fd;
    buf_init(&c->in, IN_MAX);
    buf_init(&c->out, OUT_MAX);
    buf_init(&c->target, HTTP_MAX_TARGET);
    buf_init(&c->head, HTTP_MAX_HEAD);
    http_parser_init(&c->parser, HTTP_REQUEST);
    c->parser.data = c;
    if (uv_poll_init(s->config.loop, &c->poll, fd) < 0) {
        close(fd);
        free(c);
        return;
    }
    c->poll.data = c;
    c->next = s->first;
    if (c->next)
        c->next->prev = c;
    s->first = c;
    s->count++;
    http_conn_wait(c, IDLE_MS);
    http_conn_watch(c);
}

/* ---- the server ---- */

static void on_listener(uv_poll_t *p, int status, int events)
{
    struct http_server *s = p->data;
    for (int i = 0; i < ACCEPT_BATCH && s->count < HTTP_MAX_CONNECTIONS; i++) {
        int fd = accept4(s->config.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            add_conn(s, fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            break;
    }
    if (s->count >= HTTP_MAX_CONNECTIONS) {
        uv_poll_stop(p);
        s->listening = false;
    }
}

static void listen_again(struct http_server *s)
{
    if (s->listening || s->closing || s->count >= HTTP_MAX_CONNECTIONS)
        return;
    s->listening = true;
    uv_poll_start(&s->listener, UV_READABLE, on_listener);
}

static void on_clock(uv_timer_t *t)
{
    struct http_server *s = t->data;
    uint64_t now = uv_now(s->config.loop);
    for (struct http_conn *c = s->first, *next; c; c = next) {
        next = c->next;
        if ((c->deadline && now > c->deadline) || (c->stalled && now > c->stalled)) {
            http_conn_close(c);
            continue;
        }
        if (!c->open && !c->raw) {
            shrink(&c->out);
            shrink(&c->in);
        }
    }
}

const char *http_server_date(struct http_server *s)
{
    time_t now = time(NULL);
    struct tm tm;
    if ((uint64_t)now != s->date_second) {
        s->date_second = (uint64_t)now;
        gmtime_r(&now, &tm);
        strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    }
    return s->date;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct http_server *s = h->data;
    if (--s->open_handles > 0)
        return;
    close(s->config.fd);
    free(s->buffer);
    free(s);
}

int http_server_open(struct http_server **ret, const struct http_server_config *config, struct error *err)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (!s || !(s->buffer = malloc(READ_SIZE))) {
        free(s);
        return error_oom(err);
    }
    s->config = *config;
    int r = uv_poll_init(config->loop, &s->listener, config->fd);
    if (r < 0) {
        free(s->buffer);
        free(s);
        return error_system(err, -r, "cannot watch the listening socket");
    }
    uv_timer_init(config->loop, &s->clock);
    uv_prepare_init(config->loop, &s->prepare);
    uv_idle_init(config->loop, &s->idle);
    s->listener.data = s->clock.data = s->prepare.data = s->idle.data = s;
    s->open_handles = 4;
    uv_timer_start(&s->clock, on_clock, CLOCK_MS, CLOCK_MS);
    listen_again(s);
    *ret = s;
    return 0;
}

void http_server_close(struct http_server *s)
{
    if (!s)
        return;
    s->closing = true;
    while (s->first)
        http_conn_close(s->first);
    uv_close((uv_handle_t *)&s->listener, on_handle_closed);
    uv_close((uv_handle_t *)&s->clock, on_handle_closed);
    uv_close((uv_handle_t *)&s->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&s->idle, on_handle_closed);
}
