#include "worker/zygote_client.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int zygote_spawn(const char *program, int *ret_control_fd, pid_t *ret_pid, struct error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_system(err, errno, "cannot create the zygote's control socket");
    cleanup_close int ours = ends[0], theirs = ends[1];
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        return error_system(err, errno, "cannot set up the zygote's control socket");
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    /* A descriptor that is duplicated onto itself loses close-on-exec (posix_spawn(3)). */
    posix_spawn_file_actions_adddup2(&actions, theirs, theirs);
    char number[16], option[] = "--zygote", name[] = "cloister-worker",
                     *argv[] = {name, option, number, NULL}, *envp[] = {NULL};
    snprintf(number, sizeof number, "%d", theirs);
    int failed = posix_spawn(ret_pid, program, &actions, &attributes, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed)
        return error_system(err, failed, "cannot start %s", program);
    *ret_control_fd = steal_fd(&ours);
    return 0;
}

int zygote_fork(int control_fd, uint32_t id, enum zygote_child_kind kind, int link_fd, const int *cgroup_fds,
                size_t cgroup_count, struct error *err)
{
    if (cgroup_count > ZYGOTE_MAX_CGROUP_FDS)
        return error_set(err, ERROR_LIMIT, "a worker joins at most %u control groups", ZYGOTE_MAX_CGROUP_FDS);
    struct zygote_message message = {
        .type = ZYGOTE_FORK, .id = id, .kind = kind, .cgroup_fds = (uint32_t)cgroup_count};
    struct iovec iov = {&message, sizeof message};
    size_t bytes = (1 + cgroup_count) * sizeof(int);
    union {
        char space[CMSG_SPACE((1 + ZYGOTE_MAX_CGROUP_FDS) * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = CMSG_SPACE(bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(c), &link_fd, sizeof link_fd);
    if (cgroup_count)
        memcpy(CMSG_DATA(c) + sizeof link_fd, cgroup_fds, cgroup_count * sizeof *cgroup_fds);
    ssize_t n;
    do
        n = sendmsg(control_fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? error_system(err, errno, "cannot ask the zygote for a worker") : 0;
}

static int take_descriptor(struct msghdr *msg)
{
    int fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
            memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

int zygote_receive(int control_fd, struct zygote_message *ret, int *ret_pidfd, struct error *err)
{
    struct zygote_message message;
    struct iovec iov = {&message, sizeof message};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control};
    ssize_t n;
    do
        n = recvmsg(control_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return error_set(err, ERROR_GONE, "the worker zygote has ended");
    cleanup_close int pidfd = take_descriptor(&msg);
    if (n != sizeof message || message.type == ZYGOTE_FORK || message.type < ZYGOTE_READY ||
        message.type > ZYGOTE_ENDED || (message.type == ZYGOTE_FORKED) != (pidfd >= 0))
        return error_set(err, ERROR_PROTOCOL, "the worker zygote sent a malformed message");
    *ret = message;
    *ret_pidfd = steal_fd(&pidfd);
    return 1;
}

pid_t zygote_host_pid(int pidfd)
{
    char path[64], line[64];
    int pid = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    cleanup_file FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pid: %d", &pid) == 1)
            break;
    return pid > 0 ? pid : -1;
}
