#include "daemon/server.h"

#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/list.h"
#include "daemon/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Memory per connection: bounds the size of request heads, and of the pieces in which bodies come and go. */
#define CONNECTION_MEMORY ((size_t)256 << 10)

struct server {
    struct daemon *daemon;
    struct MHD_Daemon *mhd;
    uv_poll_t mhd_poll, left_poll;
    uv_timer_t timer;
    uv_prepare_t prepare;
    struct list connections;
    int left_fd; /* an epoll of our own that tells when the peer of a connection has left */
    int open_handles;
    bool due;
};

struct connection {
    struct list link;
    struct server *server;
    struct request *request; /* the present one, or NULL */
    int fd;
    bool left;
    bool watches_room, roomy; /* see server_send() */
};

/* ---- driving the library ---- */

static void on_timer(uv_timer_t *t);

static void run(struct server *s)
{
    s->due = false;
    MHD_run(s->mhd);
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(s->mhd, &ms) == MHD_YES)
        uv_timer_start(&s->timer, on_timer, ms, 0);
    else
        uv_timer_stop(&s->timer);
}

static void on_timer(uv_timer_t *t)
{
    run(t->data);
}

static void on_mhd_ready(uv_poll_t *p, int status, int events)
{
    run(p->data);
}

/* Requests that became answerable in this turn of the loop are served before it sleeps. */
static void on_prepare(uv_prepare_t *p)
{
    struct server *s = p->data;
    if (s->due)
        run(s);
}

/* ---- suspension ---- */

static void suspend(struct request *r)
{
    if (r->peer->left) {
        r->gone = true;
        return;
    }
    r->suspended = true;
    MHD_suspend_connection(r->conn);
}

void server_resume(struct request *r)
{
    if (!r->suspended)
        return;
    r->suspended = false;
    MHD_resume_connection(r->conn);
    r->peer->server->due = true;
}

/* ---- past the library ----
 *
 * The library copies what it sends, and suspending and resuming a connection costs it system calls of its
 * own. A stream of large pieces avoids both: when the library asks for more of a body of unknown length,
 * everything before has been sent and it stands between two chunks. There, and until the suspended connection
 * is resumed, whole chunks can be written to its socket. */

#define CHUNK_HEAD_MAX 20
#define DIRECT_BUFFER (512 << 10) /* bytes on their way to a client that reads a flood */

static void watch_room(struct connection *c, bool on)
{
    if (c->watches_room == on)
        return;
    struct epoll_event ev = {.events = EPOLLET | (on ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(c->server->left_fd, EPOLL_CTL_MOD, c->fd, &ev) == 0)
        c->watches_room = on;
}

/* Bytes sent, 0 when the socket is full, -1 when the client has left. */
static ssize_t send_some(struct request *r, struct iovec *iov, int count)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = sendmsg(r->peer->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    if (errno == EAGAIN)
        return 0;
    r->gone = true;
    server_resume(r);
    return -1;
}

/* False: there is still some. */
static bool send_rest(struct request *r)
{
    while (r->rest_sent < r->rest.len) {
        struct iovec iov = {r->rest.data + r->rest_sent, r->rest.len - r->rest_sent};
        ssize_t n = send_some(r, &iov, 1);
        if (n <= 0)
            return false;
        r->rest_sent += (size_t)n;
    }
    buf_clear(&r->rest);
    r->rest_sent = 0;
    return true;
}

static void on_room(struct request *r)
{
    if (r->rest.len == 0 || r->gone || !send_rest(r))
        return;
    watch_room(r->peer, false);
    if (r->suspended && r->on_room)
        r->on_room(r);
}

/* Keeps what follows the first `sent` bytes. */
static bool keep_rest(struct request *r, const struct iovec *iov, int count, size_t sent)
{
    for (int i = 0; i < count; i++) {
        size_t skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;
        sent -= skip;
        buf_append(&r->rest, (const uint8_t *)iov[i].iov_base + skip, iov[i].iov_len - skip);
    }
    if (!r->rest.failed) {
        watch_room(r->peer, true);
        return true;
    }
    r->gone = true; /* a chunk that cannot be completed: the connection is of no use any more */
    server_resume(r);
    return false;
}

static void make_roomy(struct connection *c)
{
    int size = DIRECT_BUFFER;
    if (!c->roomy)
        setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* as far as the machine allows */
    c->roomy = true;
}

/* Puts what HTTP wants around a chunk in front of and behind the pieces in iov[1] to iov[count]. The chunk's
 * length. */
static size_t wrap_chunk(char head[CHUNK_HEAD_MAX], struct iovec *iov, int count)
{
    size_t len = 0;
    for (int i = 1; i <= count; i++)
        len += iov[i].iov_len;
    int n = snprintf(head, CHUNK_HEAD_MAX, "%zx\r\n", len);
    iov[0] = (struct iovec){head, (size_t)n};
    iov[count + 1] = (struct iovec){(char *)(uintptr_t)"\r\n", 2};
    return len + (size_t)n + 2;
}

bool server_send(struct request *r, const struct iovec *pieces, int count)
{
    char head[CHUNK_HEAD_MAX];
    struct iovec iov[8];
    if (count > 6)
        return false;
    make_roomy(r->peer);
    for (int i = 0; i < count; i++)
        iov[i + 1] = pieces[i];
    size_t all = wrap_chunk(head, iov, count);
    ssize_t sent = send_some(r, iov, count + 2);
    if (sent < 0)
        return false;
    return (size_t)sent == all || keep_rest(r, iov, count + 2, (size_t)sent);
}

/* Bytes moved from the pipe into the connection; what is the matter when they are not all shows at the next
 * send. */
static size_t move_some(struct request *r, int pipe, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = splice(pipe, NULL, r->peer->fd, NULL, len - done, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

bool server_move(struct request *r, struct iovec frame, int pipe, const struct iovec *copy, int count)
{
    char head[CHUNK_HEAD_MAX];
    struct iovec iov[8];
    if (count > 5)
        return false;
    make_roomy(r->peer);
    iov[1] = frame;
    for (int i = 0; i < count; i++)
        iov[i + 2] = copy[i];
    size_t all = wrap_chunk(head, iov, count + 1), before = iov[0].iov_len + iov[1].iov_len;
    ssize_t n = send_some(r, iov, 2);
    if (n < 0)
        return false;
    size_t sent = (size_t)n;
    if (sent == before)
        sent += move_some(r, pipe, all - before - 2);
    if (sent == all - 2) {
        n = send_some(r, &iov[count + 2], 1);
        if (n < 0)
            return false;
        sent += (size_t)n;
    }
    return sent == all || keep_rest(r, iov, count + 3, sent);
}

/* The library does not look at suspended connections, so a client that leaves while its request waits is
 * noticed here. */
static void on_left(uv_poll_t *p, int status, int events)
{
    struct server *s = p->data;
    struct epoll_event ev[64];
    int n = epoll_wait(s->left_fd, ev, 64, 0);
    for (int i = 0; i < n; i++) {
        struct connection *c = ev[i].data.ptr;
        if (!(ev[i].events & (EPOLLHUP | EPOLLERR))) {
            if (c->request)
                on_room(c->request);
            continue;
        }
        c->left = true;
        if (c->request && c->request->suspended) {
            c->request->gone = true;
            server_resume(c->request);
        }
    }
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *s = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct connection *c = calloc(1, sizeof *c);
        *context = c;
        if (!c)
            return;
        c->server = s;
        list_append(&s->connections, &c->link);
        c->fd = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        struct epoll_event ev = {.events = EPOLLET, .data.ptr = c}; /* EPOLLHUP always counts */
        if (epoll_ctl(s->left_fd, EPOLL_CTL_ADD, c->fd, &ev) < 0)
            log_warn("cannot watch a connection for its end: %s", strerror(errno));
        return;
    }
    struct connection *c = *context;
    if (!c)
        return;
    epoll_ctl(s->left_fd, EPOLL_CTL_DEL, c->fd, NULL);
    list_del(&c->link);
    free(c);
    *context = NULL;
}

/* ---- one request ---- */

/* The first thing the library tells of a request: its target, as sent. UNTRUSTED INPUT. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *conn)
{
    struct server *s = cls;
    struct connection *c = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    struct request *r = c ? calloc(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    r->daemon = s->daemon;
    r->conn = conn;
    r->peer = c;
    c->request = r;
    uri_parse(&r->uri, target, &r->uri_error);
    return r;
}

static enum MHD_Result queue(struct request *r)
{
    enum MHD_Result result = MHD_queue_response(r->conn, (unsigned)r->status, r->response);
    MHD_destroy_response(r->response);
    r->response = NULL;
    return result;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *conn, const char *url, const char *method,
                                 const char *version, const char *data, size_t *size, void **context)
{
    struct request *r = *context;
    if (!r || r->gone)
        return MHD_NO;
    if (!r->begun) {
        r->begun = true;
        r->chunked = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
        request_begin(r, method);
        if (r->gone)
            return MHD_NO;
        /* An answer at once only spares the body of a client that asked first; others are read to the end. */
        return r->answered && request_header(r, "Expect") ? queue(r) : MHD_YES;
    }
    if (*size > 0) {
        size_t taken = request_take(r, (const uint8_t *)data, *size);
        if (taken == REQUEST_REFUSED)
            return MHD_NO;
        *size -= taken;
        if (*size > 0)
            suspend(r);
        return r->gone ? MHD_NO : MHD_YES;
    }
    request_complete(r);
    if (r->answered)
        return queue(r);
    if (!r->gone)
        suspend(r);
    return r->gone ? MHD_NO : MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct request *r = *context;
    *context = NULL;
    if (!r)
        return;
    r->suspended = false;
    r->peer->request = NULL;
    request_finish(r);
    free(r);
}

ssize_t server_pull(void *cls, uint64_t position, char *to, size_t max)
{
    struct request *r = cls;
    if (r->gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    r->pulling = true;
    ssize_t n = r->rest.len > 0 && !send_rest(r) ? PULL_LATER : r->pull(r, (uint8_t *)to, max);
    r->pulling = false;
    if (r->gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n > 0)
        return n;
    if (n == PULL_LATER) {
        suspend(r);
        return r->gone ? MHD_CONTENT_READER_END_WITH_ERROR : 0;
    }
    return n == PULL_END ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* ---- opening and closing ---- */

__attribute__((format(printf, 2, 0))) static void on_library_log(void *cls, const char *fmt, va_list ap)
{
    char text[512];
    vsnprintf(text, sizeof text, fmt, ap);
    log_debug("http: %s", text);
}

static void on_closed(uv_handle_t *h)
{
    struct server *s = h->data;
    if (--s->open_handles > 0)
        return;
    close(s->left_fd);
    free(s);
}

static void add_handle(struct server *s, void *handle)
{
    ((uv_handle_t *)handle)->data = s;
    s->open_handles++;
}

static int start_library(struct server *s, int fd, struct error *err)
{
    s->mhd =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                         on_access, s, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, s,
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, SERVER_MAX_CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, SERVER_IDLE_SECONDS,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT,
                         1, MHD_OPTION_URI_LOG_CALLBACK, on_target, s, MHD_OPTION_NOTIFY_COMPLETED,
                         on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_END);
    if (!s->mhd)
        return error_set(err, ERROR_INTERNAL, "the HTTP library did not start");
    return 0;
}

int server_open(struct server **ret, struct daemon *d, int fd, struct error *err)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return error_oom(err);
    s->daemon = d;
    list_init(&s->connections);
    s->left_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->left_fd < 0 || start_library(s, fd, err) < 0) {
        if (s->left_fd < 0)
            error_system(err, errno, "cannot create an epoll instance");
        else
            close(s->left_fd);
        free(s);
        return -1;
    }
    int mhd_fd = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    uv_poll_init(d->loop, &s->mhd_poll, mhd_fd);
    uv_poll_init(d->loop, &s->left_poll, s->left_fd);
    uv_timer_init(d->loop, &s->timer);
    uv_prepare_init(d->loop, &s->prepare);
    add_handle(s, &s->mhd_poll);
    add_handle(s, &s->left_poll);
    add_handle(s, &s->timer);
    add_handle(s, &s->prepare);
    uv_poll_start(&s->mhd_poll, UV_READABLE, on_mhd_ready);
    uv_poll_start(&s->left_poll, UV_READABLE, on_left);
    uv_prepare_start(&s->prepare, on_prepare);
    run(s);
    *ret = s;
    return 0;
}

void server_close(struct server *s)
{
    if (!s)
        return;
    uv_poll_stop(&s->mhd_poll);
    uv_poll_stop(&s->left_poll);
    uv_timer_stop(&s->timer);
    uv_prepare_stop(&s->prepare);
    /* The library insists that nothing is suspended when it stops. */
    list_each(it, tmp, &s->connections)
    {
        struct request *r = list_entry(it, struct connection, link)->request;
        if (r) {
            r->gone = true;
            server_resume(r);
        }
    }
    MHD_run(s->mhd);
    MHD_stop_daemon(s->mhd);
    uv_close((uv_handle_t *)&s->mhd_poll, on_closed);
    uv_close((uv_handle_t *)&s->left_poll, on_closed);
    uv_close((uv_handle_t *)&s->timer, on_closed);
    uv_close((uv_handle_t *)&s->prepare, on_closed);
}
