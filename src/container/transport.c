#include "container/transport.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FDS 64
#define IOV_BATCH 32
/* Reads of one transport in one loop turn, so that a flooding guest cannot starve the others. */
#define READS_PER_TURN 8
/* A read of so many bytes is the begin of a flood; pieces of a stream from FLOOD_PIECE on are worth taking
 * past our memory, which costs more system calls. */
#define FLOOD_BEGIN (64u << 10)
#define FLOOD_PIECE (16u << 10)

struct transport {
    struct transport_set *set;
    struct transport *next_dirty;
    struct link *link;
    uv_poll_t poll;
    int fd;
    int events; /* what poll waits for */
    bool dirty, closed, keep_link, flood;
    bool full;  /* the descriptor takes nothing now */
    bool waits; /* nothing is read before transport_go_on() */
    bool last;  /* the peer is dead: what it left comes through memory */
    bool gone;  /* the peer went away while the link was held */
    const char *peer;
    void (*on_closed)(void *user, const struct error *why);
    void (*on_left)(void *user);
    void *user;
};

static void poll_as_needed(struct transport *t);

static void fail(struct transport *t, const struct error *why)
{
    if (t->closed)
        return;
    t->closed = true;
    uv_poll_stop(&t->poll);
    if (!t->keep_link || !t->on_closed)
        link_shutdown(t->link, why);
    if (t->on_closed)
        t->on_closed(t->user, why);
}

static void fail_gone(struct transport *t, int errnum)
{
    struct error e;
    if (errnum)
        error_system(&e, errnum, "the link to the %s failed", t->peer);
    else
        error_set(&e, ERROR_GONE, "the %s has ended", t->peer);
    fail(t, &e);
}

void transport_flush(struct transport *t)
{
    struct iovec iov[IOV_BATCH];
    int n;
    while (!t->closed && (n = link_output(t->link, iov, IOV_BATCH)) > 0) {
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(t->fd, &msg, MSG_NOSIGNAL);
        if (sent >= 0) {
            link_sent(t->link, (size_t)sent);
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN) {
            t->full = true;
            poll_as_needed(t);
            return;
        }
        /* EPIPE: what the agent still said before it ended is worth reading; the read side reports the end.
         */
        if (errno != EPIPE && errno != ECONNRESET)
            fail_gone(t, errno);
        return;
    }
    t->full = false;
    if (!t->closed)
        poll_as_needed(t);
}

static void on_prepare(uv_prepare_t *p)
{
    struct transport_set *s = p->data;
    struct transport *t;
    while ((t = s->dirty)) {
        s->dirty = t->next_dirty;
        t->dirty = false;
        transport_flush(t);
    }
    uv_prepare_stop(p);
    uv_idle_stop(&s->idle);
}

static void on_idle(uv_idle_t *i)
{
}

static void want_write(void *user)
{
    struct transport *t = user;
    if (t->dirty || t->closed)
        return;
    t->dirty = true;
    t->next_dirty = t->set->dirty;
    t->set->dirty = t;
    uv_prepare_start(&t->set->prepare, on_prepare);
    /* Called from someone else's prepare callback, ours may have to wait for the next turn: the loop must not
     * sleep before that. */
    uv_idle_start(&t->set->idle, on_idle);
}

/* How much to read at once. In a flood no further than the next header or the end of a piece of a stream, so
 * that the next piece can be taken without a way through our memory. */
static size_t read_size(struct transport *t)
{
    bool of_stream;
    size_t next = link_next(t->link, &of_stream);
    if (of_stream && next < FLOOD_PIECE)
        t->flood = false;
    return t->flood && next < TRANSPORT_READ_SIZE ? next : TRANSPORT_READ_SIZE;
}

/* Lets a stream have its bytes. True: it has some, or they have to wait. */
static bool take_flood(struct transport *t)
{
    bool of_stream;
    size_t next = link_next(t->link, &of_stream);
    if (!of_stream || next < FLOOD_PIECE || t->last)
        return false;
    size_t n = link_take(t->link, t->fd);
    if (n == LINK_TAKE_LATER && !t->closed) {
        t->waits = true;
        poll_as_needed(t);
    }
    return n > 0;
}

/* One read. True when there may be more. */
static bool read_once(struct transport *t)
{
    if (take_flood(t))
        return !t->waits;
    /* read(2), not recvmsg(2): descriptors a guest may attach are discarded by the kernel. */
    size_t want = read_size(t);
    ssize_t n = read(t->fd, t->set->read_buffer, want);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return errno == EINTR;
    if (n <= 0) {
        fail_gone(t, n < 0 && errno != ECONNRESET ? errno : 0);
        return false;
    }
    struct error e = {0};
    if (link_receive(t->link, t->set->read_buffer, (size_t)n, &e) < 0) {
        fail(t, &e);
        return false;
    }
    if (link_held(t->link)) {
        poll_as_needed(t);
        return false;
    }
    if ((size_t)n >= FLOOD_BEGIN && !t->last)
        t->flood = true;
    return (size_t)n == want || (size_t)n >= TRANSPORT_READ_SIZE / 2;
}

static void on_poll(uv_poll_t *p, int status, int events)
{
    struct transport *t = p->data;
    if (link_held(t->link) && (status < 0 || (events & UV_DISCONNECT))) {
        t->gone = true;
        if (status < 0)
            t->events = 0; /* libuv has stopped polling */
        poll_as_needed(t);
        if (t->on_left)
            t->on_left(t->user);
        return;
    }
    if (status < 0) {
        /* So libuv tells of an error on the socket, after which it does not poll any more. It is that the
         * peer went away without having read everything of ours; what it had sent is still there. */
        transport_drain(t);
        if (!t->closed)
            fail_gone(t, -status);
        return;
    }
    if (events & UV_WRITABLE)
        transport_flush(t);
    for (int i = 0; !t->closed && !t->waits && (events & UV_READABLE) && i < READS_PER_TURN; i++)
        if (!read_once(t))
            break;
}

void transport_drain(struct transport *t)
{
    t->last = true;
    t->flood = false;
    /* What a socket buffer holds is bounded; credit bounds how much of it is stream data. */
    for (int i = 0; i < 64 && !t->closed && !link_held(t->link); i++)
        read_once(t);
}

static void poll_as_needed(struct transport *t)
{
    bool held = link_held(t->link);
    int events = (t->waits || held ? 0 : UV_READABLE) | (held && !t->gone ? UV_DISCONNECT : 0) |
                 (t->full && !t->gone ? UV_WRITABLE : 0);
    if (t->events == events)
        return;
    t->events = events;
    if (events)
        uv_poll_start(&t->poll, events, on_poll);
    else
        uv_poll_stop(&t->poll);
}

void transport_go_on(struct transport *t)
{
    struct error e = {0};
    t->waits = false;
    if (t->closed)
        return;
    if (link_held(t->link) && link_go_on(t->link, &e) < 0) {
        fail(t, &e);
        return;
    }
    if (t->gone && !link_held(t->link)) {
        transport_drain(t);
        if (!t->closed && !link_held(t->link))
            fail_gone(t, 0);
    }
    if (!t->closed)
        poll_as_needed(t);
}

int transport_set_init(struct transport_set *s, uv_loop_t *loop, struct error *err)
{
    memset(s, 0, sizeof *s);
    s->loop = loop;
    s->read_buffer = malloc(TRANSPORT_READ_SIZE);
    if (!s->read_buffer)
        return error_oom(err);
    uv_prepare_init(loop, &s->prepare);
    uv_idle_init(loop, &s->idle);
    s->prepare.data = s;
    return 0;
}

void transport_set_close(struct transport_set *s)
{
    if (!s->read_buffer)
        return;
    uv_close((uv_handle_t *)&s->prepare, NULL);
    uv_close((uv_handle_t *)&s->idle, NULL);
    free(s->read_buffer);
    s->read_buffer = NULL;
}

struct transport *transport_new(const struct transport_config *config, struct error *err)
{
    struct transport *t = calloc(1, sizeof *t);
    if (!t) {
        error_oom(err);
        return NULL;
    }
    struct link_config lc = *config->link;
    lc.want_write = want_write;
    lc.user = t;
    t->set = config->set;
    t->fd = config->fd;
    t->peer = config->peer ? config->peer : "container";
    t->keep_link = config->keep_link;
    t->on_closed = config->closed;
    t->on_left = config->left;
    t->user = config->user;
    t->link = link_new(&lc);
    if (!t->link) {
        free(t);
        error_oom(err);
        return NULL;
    }
    int r = uv_poll_init(t->set->loop, &t->poll, t->fd);
    if (r < 0) {
        link_free(t->link);
        free(t);
        error_system(err, -r, "cannot watch the link");
        return NULL;
    }
    t->poll.data = t;
    poll_as_needed(t);
    return t;
}

void *transport_user(const struct transport *t)
{
    return t->user;
}

struct link *transport_link(struct transport *t)
{
    return t->link;
}

int transport_send_with_fds(struct transport *t, const int *fds, int count, struct error *err)
{
    struct iovec iov[IOV_BATCH];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * MAX_FDS)];
    } control = {0};
    if (count > MAX_FDS)
        return error_set(err, ERROR_LIMIT, "%d descriptors to hand over, at most %d fit", count, MAX_FDS);
    int n = link_output(t->link, iov, IOV_BATCH);
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
    if (count > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
    }
    ssize_t sent = sendmsg(t->fd, &msg, MSG_NOSIGNAL);
    if (sent < 0)
        return error_system(err, errno, "cannot hand the root file system to the agent");
    link_sent(t->link, (size_t)sent);
    transport_flush(t);
    return 0;
}

static void undirty(struct transport *t)
{
    for (struct transport **p = &t->set->dirty; *p; p = &(*p)->next_dirty)
        if (*p == t) {
            *p = t->next_dirty;
            break;
        }
}

static void on_handle_closed(uv_handle_t *h)
{
    struct transport *t = h->data;
    link_free(t->link);
    free(t);
}

void transport_close(struct transport *t)
{
    if (!t)
        return;
    t->on_closed = NULL;
    fail_gone(t, 0);
    link_shutdown(t->link, NULL);
    if (t->dirty)
        undirty(t);
    uv_close((uv_handle_t *)&t->poll, on_handle_closed);
    close(t->fd);
}
