/* Bytes between the link's socket and the link. Descriptors are accepted with recvmsg(2) until "start" has
 * been handled; afterwards plain read(2) makes the kernel throw away any that somebody sends. */
#include "agent/agent.h"

#include "agent/pump.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READS_PER_TURN 4

void agent_die(int code)
{
    _exit(code);
}

uint8_t *agent_scratch(struct agent *a)
{
    if (!a->scratch)
        a->scratch = malloc(LINK_DATA_MAX);
    a->scratch_used = true;
    return a->scratch;
}

void agent_log(struct agent *a, int level, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    link_log(a->link, level, clock_wall_ms(), text);
}

static void keep_fds(struct agent *a, struct msghdr *msg)
{
    if (msg->msg_flags & MSG_CTRUNC)
        agent_die(1); /* more descriptors than the protocol allows */
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (a->fd_count == AGENT_MAX_START_FDS)
                agent_die(1);
            a->fds[a->fd_count++] = fd;
        }
    }
}

static ssize_t receive(struct agent *a, uint8_t *data, size_t len)
{
    if (a->phase >= PHASE_RUNNING)
        return read(a->link_source.fd, data, len);
    union {
        char bytes[CMSG_SPACE(sizeof(int) * AGENT_MAX_START_FDS)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {data, len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(a->link_source.fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n >= 0)
        keep_fds(a, &msg);
    return n;
}

static void conn_ready(struct source *s, uint32_t events)
{
    struct agent *a = (struct agent *)((char *)s - offsetof(struct agent, link_source));
    if (events & EPOLLOUT) {
        a->link_blocked = false;
        a->want_flush = true;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    uint8_t *data = agent_scratch(a);
    for (int i = 0; data && i < READS_PER_TURN; i++) {
        ssize_t n = receive(a, data, LINK_DATA_MAX);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            agent_die(0); /* the host is gone: so is the container */
        struct error err = {0};
        if (link_receive(a->link, data, (size_t)n, &err) < 0) {
            conn_flush(a);
            agent_die(1);
        }
        if ((size_t)n < LINK_DATA_MAX)
            return;
    }
}

static void want_write(void *user)
{
    struct agent *a = user;
    a->want_flush = true;
}

int conn_open(struct agent *a, int fd, struct error *err)
{
    if (fd_set_nonblock(fd, true) < 0 || fd_set_cloexec(fd, true) < 0)
        return error_system(err, errno, "descriptor %d is not the link", fd);
    int size = 1 << 20;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* as far as the machine allows */
    struct link_config config = {.side = LINK_GUEST,
                                 .bootstrap = &bootstrap_ops,
                                 .bootstrap_object = a,
                                 .want_write = want_write,
                                 .user = a,
                                 .max_output = 1 << 20};
    a->link = link_new(&config);
    if (!a->link)
        return error_oom(err);
    if (source_watch(&a->loop, &a->link_source, fd, EPOLLIN, conn_ready) < 0)
        return error_system(err, errno, "cannot watch the link");
    return 0;
}

void conn_flush(struct agent *a)
{
    a->want_flush = false;
    if (a->link_blocked)
        return;
    bool sent = apart_pending(a);
    if (sent) {
        int r = apart_flush(a);
        if (r < 0)
            agent_die(0);
        a->link_blocked = r == 0;
    }
    while (!a->link_blocked) {
        struct iovec iov[16];
        int n = link_output(a->link, iov, 16);
        if (n <= 0)
            break;
        ssize_t done = writev(a->link_source.fd, iov, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno == EAGAIN) {
            a->link_blocked = true;
            break;
        }
        if (done < 0)
            agent_die(0);
        link_sent(a->link, (size_t)done);
        sent = true;
    }
    source_set(&a->link_source, a->link_blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
    if (sent && !link_output_full(a->link))
        pumps_resume(a);
}

bool conn_idle(const struct agent *a)
{
    struct iovec iov;
    return !apart_pending(a) && link_output(a->link, &iov, 1) == 0;
}

void conn_close_fds(struct agent *a)
{
    for (int i = 0; i < a->fd_count; i++)
        if (a->fds[i] >= 0)
            close(a->fds[i]);
    a->fd_count = 0;
}

int conn_take_fd(struct agent *a, uint64_t index)
{
    if (index >= (uint64_t)a->fd_count)
        return -1;
    int fd = a->fds[index];
    a->fds[index] = -1;
    return fd;
}
