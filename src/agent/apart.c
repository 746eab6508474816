/* Output of a process on its way to the host without a copy through our memory. The bytes first move into a
 * pipe of our own: only there can nobody take them away again after the frame's header has promised them (the
 * guest may read from its own stdout's pipe). */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool open_pipe(struct apart *x)
{
    if (x->pipe[0] > 0)
        return true;
    if (x->unable || pipe2(x->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        x->unable = true;
        return false;
    }
    fcntl(x->pipe[1], F_SETPIPE_SZ, 2 * LINK_APART_MAX); /* the machine may refuse: then pieces are smaller */
    return true;
}

ssize_t apart_send(struct agent *a, int fd, uint32_t stream, size_t room)
{
    struct apart *x = &a->apart;
    if (!open_pipe(x)) {
        errno = ENOSYS;
        return -1;
    }
    ssize_t n = splice(fd, NULL, x->pipe[1], NULL, room, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        x->unable = true;
        errno = ENOSYS;
    }
    if (n <= 0)
        return n;
    if (link_stream_write_apart(a->link, stream, (size_t)n, x->header) < 0)
        agent_die(1); /* we asked for the room before: the bytes have no way back */
    x->header_left = LINK_HEADER_SIZE;
    x->body_left = (size_t)n;
    a->want_flush = true;
    return n;
}

bool apart_pending(const struct agent *a)
{
    return a->apart.header_left + a->apart.body_left > 0;
}

int apart_flush(struct agent *a)
{
    struct apart *x = &a->apart;
    int fd = a->link_source.fd;
    while (apart_pending(a)) {
        bool head = x->header_left > 0;
        ssize_t n = head
                        ? send(fd, x->header + LINK_HEADER_SIZE - x->header_left, x->header_left,
                               MSG_DONTWAIT | MSG_NOSIGNAL)
                        : splice(x->pipe[0], NULL, fd, NULL, x->body_left, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return -1;
        if (head)
            x->header_left -= (unsigned)n;
        else
            x->body_left -= (size_t)n;
    }
    return 1;
}
