/* Stands in for cloister-worker, as a process that was taken over: speaks the zygote's protocol, and its
 * children answer their first call as the file <this program>.mode says. */
#include "link/frame.h"
#include "worker/zygote_protocol.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CHILDREN 1000u

static void send_frame(int fd, unsigned kind, uint32_t id, const void *body, uint32_t len)
{
    uint8_t head[FRAME_HEADER_SIZE];
    frame_header_write(head, (enum frame_kind)kind, id, len);
    if (write(fd, head, sizeof head) < 0 || write(fd, body, len) < 0)
        _exit(3);
}

/* The number of the first CALL that comes (init); 0 at the end. */
static uint32_t await_call(int fd)
{
    static uint8_t body[FRAME_MAX_BODY];
    uint8_t head[FRAME_HEADER_SIZE];
    struct frame f;
    struct error err;
    for (;;) {
        if (recv(fd, head, sizeof head, MSG_WAITALL) != (ssize_t)sizeof head ||
            frame_header_read(head, &f, &err) < 0 ||
            (f.length && recv(fd, body, f.length, MSG_WAITALL) != (ssize_t)f.length))
            return 0;
        if (f.kind == FRAME_CALL)
            return f.id;
    }
}

static void read_mode(char *to, size_t cap)
{
    char path[4096] = "";
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
    if (n > 0)
        strcpy(path + n, ".mode");
    int fd = open(path, O_RDONLY);
    n = fd < 0 ? 0 : read(fd, to, cap - 1);
    to[n < 0 ? 0 : n] = 0;
    to[strcspn(to, "\n")] = 0;
}

static void misbehave(int fd)
{
    char what[64];
    static const uint8_t null[] = {0xf6}, forged[] = {0x83, 0x18, 0x2a, 0x61, 'x', 0xf6};
    static const uint8_t flood[] = {0x83, 0x01, 0x00, 0x65, 'f', 'l', 'o', 'o', 'd'};
    uint32_t init = await_call(fd);
    read_mode(what, sizeof what);
    if (strcmp(what, "forge") == 0) {
        send_frame(fd, FRAME_CALL, 1, forged, sizeof forged);
    } else if (strcmp(what, "garbage") == 0) {
        send_frame(fd, FRAME_RETURN, init, "\xff", 1);
    } else if (strcmp(what, "twice") == 0) {
        send_frame(fd, FRAME_RETURN, init, null, 1);
        send_frame(fd, FRAME_RETURN, init, null, 1);
    } else if (strcmp(what, "flood") == 0) {
        for (int i = 0; i < 100000; i++)
            send_frame(fd, FRAME_LOG, 0, flood, sizeof flood);
        _exit(7);
    } else if (strcmp(what, "exit") == 0) {
        _exit(7);
    } else if (strcmp(what, "stray") == 0) {
        send_frame(fd, FRAME_END, 200, null, 0);
    }
    while (await_call(fd))
        ;
}

static int take(int control, struct zygote_message *m)
{
    struct iovec iov = {m, sizeof *m};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } c;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.space, .msg_controllen = sizeof c.space};
    int fd = -1;
    if (recvmsg(control, &msg, 0) != (ssize_t)sizeof *m)
        _exit(0);
    if (CMSG_FIRSTHDR(&msg))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof fd);
    return fd;
}

static void tell(int control, const struct zygote_message *m, int fd)
{
    struct iovec iov = {(void *)(uintptr_t)m, sizeof *m};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } c = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        msg.msg_control = c.space;
        msg.msg_controllen = sizeof c.space;
        struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
        *h = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(h), &fd, sizeof fd);
    }
    sendmsg(control, &msg, MSG_NOSIGNAL);
}

static void reap(int control, const pid_t *pids)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (uint32_t id = 1; id < MAX_CHILDREN; id++)
            if (pids[id] == pid) {
                struct zygote_message m = {.type = ZYGOTE_ENDED, .id = id, .pid = pid, .status = status};
                tell(control, &m, -1);
            }
}

int main(int argc, char **argv)
{
    static pid_t pids[MAX_CHILDREN];
    int control = argc > 2 ? atoi(argv[2]) : -1;
    struct zygote_message m = {.type = ZYGOTE_READY};
    tell(control, &m, -1);
    for (;;) {
        struct pollfd p = {.fd = control, .events = POLLIN};
        reap(control, pids);
        if (poll(&p, 1, 20) == 0)
            continue;
        int link = take(control, &m);
        if (m.id >= MAX_CHILDREN)
            return 1;
        pid_t pid = fork();
        if (pid == 0) {
            close(control);
            misbehave(link);
            _exit(0);
        }
        close(link);
        pids[m.id] = pid;
        int pidfd = pidfd_open(pid, 0);
        m.type = ZYGOTE_FORKED;
        m.pid = pid;
        tell(control, &m, pidfd);
        close(pidfd);
    }
}
