#include "agent/setup.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

static int become_root(struct agent *a, struct error *err)
{
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return error_system(err, errno,
                            "cannot become root of the user namespace (are the identity maps written?)");
    if (setgroups(0, NULL) < 0) {
        if (errno != EPERM)
            return error_system(err, errno, "cannot drop supplementary groups");
        a->no_setgroups = true; /* "deny" in /proc/PID/setgroups: what an unprivileged host user must write */
    }
    umask(022);
    return 0;
}

/* The guest's clocks that count from boot start at zero: uptime says nothing of the host. The file belongs to
 * root of the machine while we are not dumpable, hence the excursion; no guest exists yet. */
static int enter_time_namespace(struct error *err)
{
    struct timespec mono, boot;
    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    char text[128];
    snprintf(text, sizeof text, "monotonic %lld %ld\nboottime %lld %ld\n", -(long long)mono.tv_sec - 1,
             1000000000L - mono.tv_nsec - (mono.tv_nsec == 0), -(long long)boot.tv_sec - 1,
             1000000000L - boot.tv_nsec - (boot.tv_nsec == 0));
    if (unshare(CLONE_NEWTIME) < 0)
        return error_system(err, errno, "cannot make a time namespace");
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || file_put(AT_FDCWD, "/proc/self/timens_offsets", text) < 0)
        return error_system(err, errno, "cannot set the clocks of the time namespace");
    cleanup_close int ns = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
    if (ns < 0 || setns(ns, CLONE_NEWTIME) < 0)
        return error_system(err, errno, "cannot enter the time namespace");
    return 0;
}

static int loopback_up(struct error *err)
{
    cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq ifr = {.ifr_name = "lo"};
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) < 0)
        return error_system(err, errno, "cannot find the loopback interface");
    ifr.ifr_flags |= IFF_UP;
    if (ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
        return error_system(err, errno, "cannot bring loopback up");
    return 0;
}

int setup_identity(struct agent *a, struct error *err)
{
    if (become_root(a, err) < 0)
        return -1;
    if (unshare(CLONE_NEWCGROUP) < 0)
        return error_system(err, errno, "cannot make a cgroup namespace");
    if (enter_time_namespace(err) < 0)
        return -1;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return error_system(err, errno, "cannot protect the agent's memory");
    return loopback_up(err);
}
