#include "cli/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_SIZE (256 << 10)

void stream_open(struct stream *s, int fd)
{
    *s = (struct stream){.fd = fd};
    struct stat st;
    if (fstat(fd, &st) < 0)
        return;
    s->socket = S_ISSOCK(st.st_mode);
    s->pipe = S_ISFIFO(st.st_mode);
    s->pollable = s->socket || s->pipe || (S_ISCHR(st.st_mode) && isatty(fd));
    if (!s->pollable || s->socket)
        return;
    /* A roomier pipe: with the usual 64 KiB every few KiB its reader takes would wake us for as little. */
    if (s->pipe && fcntl(fd, F_GETPIPE_SZ) < PIPE_SIZE)
        fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, (fd ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (own < 0)
        return; /* a terminal of another user, or no /proc: polling before each call has to do */
    s->fd = own;
    s->own = true;
}

void stream_close(struct stream *s)
{
    if (s->own)
        close(s->fd);
    s->own = false;
}

/* For a shared, blocking description: goes on only when poll(2) says that a small transfer will not wait. */
static bool ready(const struct stream *s, short what)
{
    struct pollfd p = {.fd = s->fd, .events = what};
    if (poll(&p, 1, 0) > 0)
        return true;
    errno = EAGAIN;
    return false;
}

ssize_t stream_read(struct stream *s, void *data, size_t len)
{
    ssize_t n;
    do {
        if (s->socket)
            n = recv(s->fd, data, len, MSG_DONTWAIT);
        else if (s->pollable && !s->own && !ready(s, POLLIN))
            n = -1;
        else
            n = read(s->fd, data, len);
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t stream_write(struct stream *s, const void *data, size_t len)
{
    ssize_t n;
    do {
        if (s->socket)
            n = send(s->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        else if (s->pollable && !s->own)
            n = ready(s, POLLOUT) ? write(s->fd, data, len < PIPE_BUF ? len : PIPE_BUF) : -1;
        else
            n = write(s->fd, data, len);
    } while (n < 0 && errno == EINTR);
    return n;
}

size_t stream_move(struct stream *s, int from, size_t len, bool *ret_full)
{
    ssize_t n;
    *ret_full = false;
    if (!s->pipe || !s->own)
        return 0;
    do
        n = splice(from, NULL, s->fd, NULL, len, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    while (n < 0 && errno == EINTR);
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    *ret_full = n < 0 && errno == EAGAIN && poll(&p, 1, 0) == 0;
    return n > 0 ? (size_t)n : 0;
}
