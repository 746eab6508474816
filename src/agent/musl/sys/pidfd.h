/* musl 1.2.3 has no <sys/pidfd.h>. */
#ifndef CLOISTER_AGENT_MUSL_SYS_PIDFD_H
#define CLOISTER_AGENT_MUSL_SYS_PIDFD_H

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int pidfd_send_signal(int pidfd, int signal, siginfo_t *info, unsigned flags)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, info, flags);
}

#endif
