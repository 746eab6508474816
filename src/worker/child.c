#include "worker/child.h"

#include "base/clock.h"
#include "worker/connection.h"
#include "worker/cpu_limit.h"
#include "worker/image.h"
#include "worker/loop.h"
#include "worker/warm_up.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMPILER_WARM_UPS 8u

static int wakeup_fd = -1;

/* The event loop of the engine's library has a descriptor by which its threads wake it. A fork shares it, and
 * with it a way for workers to signal each other; each worker gets one of its own under the same number. */
int child_prepare(struct error *err)
{
    GMainContext *context = g_main_context_default();
    GPollFD polled[4];
    gint timeout, priority;
    if (!g_main_context_acquire(context))
        return error_set(err, ERROR_INTERNAL, "the engine's event loop is taken");
    g_main_context_prepare(context, &priority);
    gint count = g_main_context_query(context, G_MAXINT, &timeout, polled, 4);
    g_main_context_check(context, G_MAXINT, polled, count);
    g_main_context_release(context);
    if (count != 1)
        return error_set(err, ERROR_UNSUPPORTED, "the engine's event loop has %d descriptors instead of one",
                         count);
    wakeup_fd = polled[0].fd;
    if (wakeup_fd == CHILD_LINK_FD)
        return error_set(err, ERROR_INTERNAL, "the engine's event loop has the number of the link");
    return 0;
}

static void log_nowhere(int level, const char *text)
{
    (void)level;
    (void)text;
}

/* What a first request needs and can be had before: the engine's threads, and the pages of memory that it
 * reads and writes. */
static int warm(struct error *err)
{
    engine_settle();
    return warm_up(1, err);
}

void child_rehearse(void)
{
    struct error err = {0};
    worker.log = log_nowhere;
    if (cpu_limit_start(&err) < 0 || warm(&err) < 0 || engine_begin(&err) < 0)
        _exit(1);
}

static int join_cgroups(const struct child_start *start, struct error *err)
{
    for (size_t i = 0; i < start->cgroup_count; i++)
        if (write(start->cgroup_fds[i], "0", 1) != 1)
            return error_system(err, errno, "cannot join the worker's control group");
    return 0;
}

static int keep_descriptors(int link_fd, struct error *err)
{
    int wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wakeup < 0 || dup3(wakeup, wakeup_fd, O_CLOEXEC) < 0 ||
        (link_fd != CHILD_LINK_FD && dup3(link_fd, CHILD_LINK_FD, O_CLOEXEC) < 0))
        return error_system(err, errno, "cannot arrange the worker's descriptors");
    int low = CHILD_LINK_FD < wakeup_fd ? CHILD_LINK_FD : wakeup_fd,
        high = CHILD_LINK_FD < wakeup_fd ? wakeup_fd : CHILD_LINK_FD;
    if ((low > 0 && syscall(SYS_close_range, 0, low - 1, 0) < 0) ||
        (high - low > 1 && syscall(SYS_close_range, low + 1, high - 1, 0) < 0) ||
        syscall(SYS_close_range, high + 1, ~0u, 0) < 0)
        return error_system(err, errno, "cannot close what is not the worker's");
    return fcntl(CHILD_LINK_FD, F_SETFL, O_NONBLOCK) < 0 ? error_system(err, errno, "cannot set up the link")
                                                         : 0;
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Until somebody wants this worker. */
static void wait_for_work(void)
{
    struct pollfd p = {.fd = CHILD_LINK_FD, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
}

_Noreturn static void give_up(const struct error *err)
{
    loop_open(CHILD_LINK_FD);
    worker_exit(1, err->message);
}

_Noreturn void child_main(const struct jail *jail, const struct child_start *start)
{
    struct error err = {0};
    worker.log = log_nowhere;
    if (join_cgroups(start, &err) < 0)
        worker_exit(1, NULL);
    if (keep_descriptors(start->link_fd, &err) < 0)
        worker_exit(1, NULL);
    reset_signals();
    image_prepare();
    if (jail_worker(jail, start->number, &err) < 0 || cpu_limit_start(&err) < 0)
        give_up(&err);
    if (start->compiler &&
        (engine_restart(start->compiler, &err) < 0 || warm_up(COMPILER_WARM_UPS, &err) < 0))
        give_up(&err);
    if (start->compiler)
        engine_settle();
    else if (warm(&err) < 0)
        give_up(&err);
    wait_for_work();
    loop_open(CHILD_LINK_FD);
    if (engine_begin(&err) < 0)
        worker_exit(1, err.message);
    loop_run();
}
