#include "worker/connection.h"

#include "base/clock.h"
#include "link/frame.h"
#include "link/link.h"
#include "link/worker_protocol.h"
#include "worker/worker.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_STEP ((size_t)256 << 10)
#define OUTPUT_PIECES 64
#define LAST_WORDS_MS 200 /* for the log line of a process that ends */

struct connection connection = {.fd = -1};

void worker_exit(int status, const char *reason)
{
    if (worker.link && link_alive(worker.link) && reason) {
        link_log(worker.link, 0, clock_wall_ms(), reason);
        struct pollfd p = {.fd = connection.fd, .events = POLLOUT};
        while (!connection_flush() && poll(&p, 1, LAST_WORDS_MS) > 0)
            ;
    } else if (reason) {
        worker.log(0, reason);
    }
    _exit(status);
}

/* Room for READ_STEP more, or for the rest of the frame that has begun. */
static void make_room(void)
{
    struct connection *c = &connection;
    if (c->start == c->end)
        c->start = c->end = 0;
    if (c->cap - c->end >= READ_STEP)
        return;
    if (c->start > 0) {
        memmove(c->data, c->data + c->start, c->end - c->start);
        c->end -= c->start;
        c->start = 0;
    }
    if (c->cap - c->end >= READ_STEP)
        return;
    size_t cap = c->end + 2 * READ_STEP;
    uint8_t *data = realloc(c->data, cap);
    if (!data)
        worker_exit(WORKER_EXIT_MEMORY, "no memory for the link's input");
    c->data = data;
    c->cap = cap;
}

bool connection_read(void)
{
    struct connection *c = &connection;
    make_room();
    ssize_t n;
    do
        n = recv(c->fd, c->data + c->end, READ_STEP, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n == 0)
        _exit(0);
    if (n < 0)
        _exit(WORKER_EXIT_LINK);
    c->end += (size_t)n;
    return true;
}

/* The frame at `from`; its size with header, 0 when it is not whole. */
static size_t frame_at(size_t from, struct frame *ret)
{
    struct error err = {0};
    if (connection.end - from < FRAME_HEADER_SIZE)
        return 0;
    if (frame_header_read(connection.data + from, ret, &err) < 0)
        worker_exit(WORKER_EXIT_LINK, err.message);
    size_t size = FRAME_HEADER_SIZE + ret->length;
    return connection.end - from < size ? 0 : size;
}

static void give(size_t from, size_t size)
{
    struct error err = {0};
    if (link_receive(worker.link, connection.data + from, size, &err) < 0)
        worker_exit(WORKER_EXIT_LINK, err.message);
}

bool connection_feed(void)
{
    struct frame f;
    size_t size = frame_at(connection.start, &f);
    if (size == 0)
        return false;
    size_t from = connection.start;
    connection.start += size;
    give(from, size);
    return true;
}

bool connection_feed_answer(uint32_t call)
{
    struct connection *c = &connection;
    struct frame f;
    size_t size;
    for (size_t at = c->start; (size = frame_at(at, &f)) > 0; at += size) {
        if ((f.kind != FRAME_RETURN && f.kind != FRAME_THROW) || f.id != call)
            continue;
        give(at, size);
        memmove(c->data + c->start + size, c->data + c->start, at - c->start);
        c->start += size;
        return true;
    }
    return false;
}

bool connection_flush(void)
{
    struct iovec iov[OUTPUT_PIECES];
    int count;
    while ((count = link_output(worker.link, iov, OUTPUT_PIECES)) > 0) {
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};
        ssize_t n = sendmsg(connection.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0)
            _exit(errno == EPIPE || errno == ECONNRESET ? 0 : WORKER_EXIT_LINK);
        link_sent(worker.link, (size_t)n);
    }
    return true;
}

void connection_wait(void)
{
    struct iovec iov;
    short output = link_output(worker.link, &iov, 1) > 0 ? POLLOUT : 0;
    struct pollfd p = {.fd = connection.fd, .events = (short)(POLLIN | output)};
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
}
