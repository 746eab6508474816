#include "worker/zygote.h"

#include "worker/child.h"
#include "worker/image.h"
#include "worker/jail.h"
#include "worker/warm_up.h"
#include "worker/worker.h"
#include "worker/zygote_protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM_UPS 4u /* enough for the interpreter's caches to fill */
#define MAX_FDS (1 + ZYGOTE_MAX_CGROUP_FDS)

struct born {
    struct born *next;
    pid_t pid;
    uint32_t id;
};

struct zygote {
    int control, signals;
    struct jail jail;
    const char *compiler;
    struct born *children;
    uint32_t forks;
};

static void send_message(const struct zygote *z, const struct zygote_message *m, int fd)
{
    struct iovec iov = {(void *)m, sizeof *m};
    union {
        char space[CMSG_SPACE(sizeof fd)];
        struct cmsghdr align;
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof control.space;
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    while (sendmsg(z->control, &msg, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            _exit(0); /* the daemon is gone, and with this process every worker */
}

static void send_failed(const struct zygote *z, uint32_t id, int error)
{
    const struct zygote_message m = {.type = ZYGOTE_FAILED, .id = id, .error = error};
    send_message(z, &m, -1);
}

/* --- forking --- */

struct request {
    struct zygote_message message;
    int fds[MAX_FDS];
    size_t fd_count;
};

static void take_fds(struct msghdr *msg, struct request *r)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(r->fds, CMSG_DATA(c), count * sizeof(int));
        r->fd_count = count;
    }
}

static bool receive(const struct zygote *z, struct request *r)
{
    struct iovec iov = {&r->message, sizeof r->message};
    union {
        char space[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control};
    ssize_t n;
    r->fd_count = 0;
    do
        n = recvmsg(z->control, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        _exit(0);
    take_fds(&msg, r);
    return n == sizeof r->message && r->message.type == ZYGOTE_FORK &&
           r->fd_count == 1 + r->message.cgroup_fds;
}

static void close_all(const struct request *r)
{
    for (size_t i = 0; i < r->fd_count; i++)
        close(r->fds[i]);
}

_Noreturn static void be_child(const struct zygote *z, const struct request *r)
{
    struct child_start start = {.link_fd = r->fds[0],
                                .cgroup_fds = r->fds + 1,
                                .cgroup_count = r->fd_count - 1,
                                .number = z->forks,
                                .compiler = r->message.kind == ZYGOTE_COMPILER ? z->compiler : NULL};
    child_main(&z->jail, &start);
}

static void report_child(struct zygote *z, struct born *b, pid_t pid, uint32_t id)
{
    const struct zygote_message m = {.type = ZYGOTE_FORKED, .id = id, .pid = pid};
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        free(b);
        send_failed(z, id, EMFILE);
        return;
    }
    *b = (struct born){.next = z->children, .pid = pid, .id = id};
    z->children = b;
    send_message(z, &m, pidfd);
    close(pidfd);
}

static void fork_child(struct zygote *z, const struct request *r)
{
    struct born *b = malloc(sizeof *b);
    /* EINVAL when there is a second thread, which the child would not have, but for its locks. */
    if (!b || unshare(CLONE_VM) < 0) {
        send_failed(z, r->message.id, b ? EBUSY : ENOMEM);
        free(b);
        return;
    }
    z->forks++;
    pid_t pid = fork();
    if (pid == 0)
        be_child(z, r);
    if (pid > 0) {
        report_child(z, b, pid, r->message.id);
    } else {
        send_failed(z, r->message.id, errno);
        free(b);
    }
}

static void on_control(struct zygote *z)
{
    struct request r;
    if (receive(z, &r))
        fork_child(z, &r);
    else
        send_failed(z, r.message.id, EPROTO);
    close_all(&r);
}

/* --- reaping --- */

static void report_end(struct zygote *z, pid_t pid, int status)
{
    for (struct born **at = &z->children; *at; at = &(*at)->next) {
        struct born *b = *at;
        if (b->pid != pid)
            continue;
        const struct zygote_message m = {.type = ZYGOTE_ENDED, .id = b->id, .pid = pid, .status = status};
        *at = b->next;
        free(b);
        send_message(z, &m, -1);
        return;
    }
}

static void reap(struct zygote *z)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    if (read(z->signals, &info, sizeof info) < 0 && errno != EAGAIN)
        _exit(1);
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        report_end(z, pid, status);
}

/* --- life --- */

static int open_signals(struct zygote *z, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
        (z->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return error_system(err, errno, "cannot watch for the ends of workers");
    return 0;
}

static void log_to_stderr(int level, const char *text)
{
    (void)level;
    fprintf(stderr, "cloister-worker: %s\n", text);
}

static int start(struct zygote *z, const char *runtime, struct error *err)
{
    worker.log = log_to_stderr;
    if (jail_split(&z->jail, z->control, err) < 0 || engine_start(runtime, err) < 0 ||
        open_signals(z, err) < 0)
        return -1;
    if (unshare(CLONE_VM) < 0)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the JavaScript engine started a thread of its own, with which it cannot be forked");
    image_settle();
    if (child_prepare(err) < 0 || warm_up(WARM_UPS, err) < 0 || image_learn(child_rehearse, err) < 0)
        return -1;
    return jail_close(&z->jail, err);
}

int zygote_main(int control_fd, const char *runtime, const char *compiler)
{
    struct zygote z = {.control = control_fd, .compiler = compiler};
    struct error err = {0};
    fcntl(control_fd, F_SETFD, FD_CLOEXEC);
    signal(SIGCHLD, SIG_DFL); /* ignored by who started the daemon, it would be ignored here: no end could be
                                 waited for */
    /* Workers will have their link there: nothing of the engine's may. */
    if (fcntl(CHILD_LINK_FD, F_GETFD) < 0)
        dup3(control_fd, CHILD_LINK_FD, O_CLOEXEC);
    if (start(&z, runtime, &err) < 0) {
        fprintf(stderr, "cloister-worker: %s\n", err.message);
        return 1;
    }
    send_message(&z, &(struct zygote_message){.type = ZYGOTE_READY}, -1);
    struct pollfd polled[] = {{.fd = z.control, .events = POLLIN}, {.fd = z.signals, .events = POLLIN}};
    for (;;) {
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (polled[1].revents)
            reap(&z);
        if (polled[0].revents)
            on_control(&z);
    }
}
