#include "app/wire.h"

#include "app/tls.h"
#include "base/buf.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNSENT_MAX (256 << 10) /* waits in the kernel (TCP_NOTSENT_LOWAT); see http_server.c */
#define READ_SIZE (64u << 10)
#define TLS_PIECE (16u << 10)
#define LINGER_MS 10000u

struct wire {
    const struct wire_ops *ops; /* NULL: closed by its owner */
    void *user;
    uv_poll_t poll;
    uv_timer_t timer;     /* a deadline: of what is expected, then of what is left to send */
    const char *expected; /* what has not happened when it passes */
    int fd, events, handles;
    struct tls *tls;
    struct buf out; /* not sent yet, from out_start */
    size_t out_start;
    bool handshaking, paused, was_full;
    bool delivering;    /* inside `data` */
    bool got_end;       /* the server sends no more */
    bool ending, ended; /* we send no more, once all is out; and have said so */
    bool failed;
    bool dead; /* its handles are closing */
};

/* ---- the end ---- */

static void on_handle_closed(uv_handle_t *h)
{
    struct wire *w = h->data;
    if (--w->handles > 0)
        return;
    close(w->fd);
    tls_free(w->tls);
    buf_free(&w->out);
    free(w);
}

static void die(struct wire *w)
{
    if (w->dead)
        return;
    w->dead = true;
    uv_close((uv_handle_t *)&w->poll, on_handle_closed);
    uv_close((uv_handle_t *)&w->timer, on_handle_closed);
}

static void fail(struct wire *w, const struct error *why)
{
    if (w->failed || w->dead)
        return;
    w->failed = true;
    uv_poll_stop(&w->poll);
    uv_timer_stop(&w->timer);
    w->events = 0;
    if (w->ops)
        w->ops->failed(w->user, why);
    else
        die(w);
}

/* ---- what the loop waits for ---- */

static void on_event(uv_poll_t *p, int status, int events);

static void watch(struct wire *w)
{
    if (w->failed || w->dead)
        return;
    bool reads = w->handshaking || (w->ops && !w->paused && !w->got_end);
    int events =
        (reads ? UV_READABLE : 0) | (wire_pending(w) > 0 || (w->ending && !w->ended) ? UV_WRITABLE : 0);
    if (events == w->events)
        return;
    w->events = events;
    if (events)
        uv_poll_start(&w->poll, events, on_event);
    else
        uv_poll_stop(&w->poll);
}

size_t wire_pending(const struct wire *w)
{
    return w->out.len - w->out_start;
}

/* ---- out ---- */

static void take_tls_output(struct wire *w)
{
    struct error err = {0};
    if (w->tls && tls_output(w->tls, &w->out, &err) < 0)
        fail(w, &err);
}

static void flush(struct wire *w)
{
    struct error err = {0};
    while (wire_pending(w) > 0) {
        ssize_t n = send(w->fd, w->out.data + w->out_start, wire_pending(w), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            error_system(&err, errno, "the connection broke");
            fail(w, &err);
            return;
        }
        w->out_start += (size_t)n;
    }
    if (w->out_start == w->out.len) {
        buf_clear(&w->out);
        w->out_start = 0;
    } else if (w->out_start > WIRE_FULL) {
        buf_consume(&w->out, w->out_start);
        w->out_start = 0;
    }
    if (wire_pending(w) == 0 && w->ending && !w->ended) {
        w->ended = true;
        shutdown(w->fd, SHUT_WR);
    }
    if (wire_pending(w) == 0 && !w->ops) {
        die(w);
    } else if (w->was_full && wire_pending(w) <= WIRE_FULL / 2) {
        w->was_full = false;
        if (w->ops)
            w->ops->room(w->user);
    }
}

void wire_write(struct wire *w, const void *data, size_t len)
{
    struct error err = {0};
    if (w->failed || w->dead || w->ending || len == 0)
        return;
    int r = !w->tls                                  ? buf_append(&w->out, data, len)
            : tls_write(w->tls, data, len, &err) < 0 ? -1
                                                     : tls_output(w->tls, &w->out, &err);
    if (r < 0) { /* out of memory. Told from the loop: the caller may be in the midst of something */
        w->ending = true;
        shutdown(w->fd, SHUT_RDWR);
    }
    if (wire_pending(w) >= WIRE_FULL)
        w->was_full = true;
    watch(w);
}

void wire_end(struct wire *w)
{
    if (w->failed || w->dead || w->ending)
        return;
    if (w->tls && !w->handshaking) {
        tls_end(w->tls);
        take_tls_output(w);
    }
    w->ending = true;
    watch(w);
}

/* ---- in: UNTRUSTED INPUT ---- */

static void tell_end(struct wire *w)
{
    if (w->got_end)
        return;
    w->got_end = true;
    if (w->ops)
        w->ops->end(w->user);
}

static void shake(struct wire *w)
{
    struct error err = {0};
    int r = tls_handshake(w->tls, &err);
    take_tls_output(w);
    if (r < 0) {
        fail(w, &err);
    } else if (r > 0 && !w->failed) {
        w->handshaking = false;
        wire_expect(w, 0, NULL);
        if (w->ops)
            w->ops->secure(w->user);
    }
}

/* What TLS has read, until it is paused. */
static void deliver_tls(struct wire *w)
{
    uint8_t piece[TLS_PIECE];
    struct error err = {0};
    if (w->handshaking)
        shake(w);
    w->delivering = true;
    while (w->ops && !w->handshaking && !w->paused && !w->failed && !w->got_end) {
        bool end = false;
        ssize_t n = tls_read(w->tls, piece, sizeof piece, &end, &err);
        if (n < 0) {
            fail(w, &err);
            break;
        }
        if (end)
            tell_end(w);
        if (n == 0)
            break;
        w->ops->data(w->user, piece, (size_t)n);
    }
    w->delivering = false;
    take_tls_output(w);
}

static void take(struct wire *w, const uint8_t *data, size_t len)
{
    struct error err = {0};
    if (w->tls) {
        if (tls_input(w->tls, data, len, &err) < 0)
            fail(w, &err);
        else
            deliver_tls(w);
        return;
    }
    w->delivering = true;
    w->ops->data(w->user, data, len);
    w->delivering = false;
}

static void on_readable(struct wire *w)
{
    static uint8_t buffer[READ_SIZE];
    struct error err = {0};
    ssize_t n = recv(w->fd, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        error_system(&err, errno, "the connection broke");
        fail(w, &err);
    } else if (n > 0) {
        take(w, buffer, (size_t)n);
    } else if (w->tls && !w->got_end) {
        error_set(&err, ERROR_GONE,
                  w->handshaking ? "TLS: the server closed the connection during the handshake"
                                 : "TLS: the server cut the connection off without an end");
        fail(w, &err);
    } else {
        tell_end(w);
    }
}

/* The loop has seen an error, and does not say which. */
static void on_error(struct wire *w)
{
    struct error err = {0};
    int e = 0;
    socklen_t len = sizeof e;
    w->events = 0; /* it does not watch any more */
    if (w->handshaking || (w->ops && !w->paused && !w->got_end)) {
        on_readable(w); /* what came before the error, or the error */
        return;
    }
    getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &e, &len);
    error_system(&err, e ? e : ECONNRESET, "the connection broke");
    fail(w, &err);
}

static void on_event(uv_poll_t *p, int status, int events)
{
    struct wire *w = p->data;
    if (status < 0)
        on_error(w);
    else if (events & UV_WRITABLE)
        flush(w);
    if (status == 0 && (events & UV_READABLE) && !w->failed && !w->dead && (w->events & UV_READABLE))
        on_readable(w);
    watch(w);
}

void wire_pause(struct wire *w)
{
    w->paused = true;
    watch(w);
}

void wire_resume(struct wire *w)
{
    if (!w->paused || w->failed || w->dead)
        return;
    w->paused = false;
    if (w->tls && !w->delivering)
        deliver_tls(w); /* there may be some that was read already */
    watch(w);
}

/* ---- the beginning ---- */

static void on_timer(uv_timer_t *t)
{
    struct wire *w = t->data;
    struct error err = {0};
    error_set(&err, ERROR_TIMEOUT, "%s", w->expected);
    if (w->ops)
        fail(w, &err);
    else
        die(w);
}

struct wire *wire_open(uv_loop_t *loop, int fd, const struct wire_ops *ops, void *user, struct error *err)
{
    static const int on = 1, unsent = UNSENT_MAX;
    struct wire *w = calloc(1, sizeof *w);
    if (!w || uv_poll_init_socket(loop, &w->poll, fd) < 0) {
        free(w);
        close(fd);
        error_oom(err);
        return NULL;
    }
    uv_timer_init(loop, &w->timer);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    w->handles = 2;
    w->poll.data = w->timer.data = w;
    w->ops = ops;
    w->user = user;
    w->fd = fd;
    buf_init(&w->out, 0);
    watch(w);
    return w;
}

int wire_secure(struct wire *w, SSL_CTX *c, const char *host, const char *protocol, uint64_t ms,
                struct error *err)
{
    if (w->failed || w->got_end || w->ending)
        return error_set(err, ERROR_GONE, "TLS: the connection is closed");
    w->tls = tls_new(c, host, protocol, err);
    if (!w->tls)
        return -1;
    w->handshaking = true;
    w->paused = false;
    if (tls_handshake(w->tls, err) < 0 || tls_output(w->tls, &w->out, err) < 0)
        return -1;
    wire_expect(w, ms, "TLS: the handshake took too long");
    watch(w);
    return 0;
}

void wire_expect(struct wire *w, uint64_t ms, const char *text)
{
    if (w->failed || w->dead)
        return;
    w->expected = text;
    if (ms)
        uv_timer_start(&w->timer, on_timer, ms, 0);
    else
        uv_timer_stop(&w->timer);
}

void wire_close(struct wire *w)
{
    if (!w)
        return;
    if (!w->failed && w->tls && !w->handshaking && !w->ending) {
        tls_end(w->tls);
        take_tls_output(w);
    }
    w->ops = NULL;
    if (w->failed || w->handshaking || wire_pending(w) == 0) {
        die(w);
        return;
    }
    w->ending = true;
    uv_timer_start(&w->timer, on_timer, LINGER_MS, 0);
    watch(w);
}
