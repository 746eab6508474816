/* The system calls of a container, one line each, compiled at build time by seccomp_gen.c into
 * seccomp_filter.h.
 *
 * Lines of the same call are tried in order; the first whose conditions all hold decides. A call without a
 * deciding line, and a call not listed at all, fails with ENOSYS, so that libraries fall back to what an
 * older kernel has. A condition compares one half of an argument, (half & mask) == value, and it is the low
 * half unless said: the arguments are `int` or `unsigned` to the kernel (or use only the low half), so what a
 * guest puts in the high half changes nothing. A pointer is NULL when both halves are 0. */
#ifndef CLOISTER_AGENT_SECCOMP_POLICY_H
#define CLOISTER_AGENT_SECCOMP_POLICY_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#define POLICY_MAX_WHEN 3
#define POLICY_ALLOW 0
#define POLICY_IGNORE 0x10000 /* succeeds and does nothing: an errno whose low 16 bits are 0 */

struct policy_condition {
    uint32_t mask; /* 0: no condition */
    uint32_t value;
    int argument;
    bool high; /* compares the high 32 bits */
};

struct policy_line {
    const char *call;
    int error; /* POLICY_ALLOW, POLICY_IGNORE or an errno */
    struct policy_condition when[POLICY_MAX_WHEN];
};

#define ALLOW(call)                                                                                          \
    {                                                                                                        \
        #call, POLICY_ALLOW,                                                                                 \
        {{0}}                                                                                                \
    }
#define DENY(call, error)                                                                                    \
    {                                                                                                        \
        #call, error,                                                                                        \
        {{0}}                                                                                                \
    }
#define ALL_CLEAR(argument, mask) {mask, 0, argument, false}
#define IS(argument, value) {0xffffffffu, value, argument, false}
#define IS_MASKED(argument, mask, value) {mask, value, argument, false}
#define IS_NULL(argument)                                                                                    \
    {0xffffffffu, 0, argument, false},                                                                       \
    {                                                                                                        \
        0xffffffffu, 0, argument, true                                                                       \
    }
#define IGNORE_IF(call, ...) DENY_IF(call, POLICY_IGNORE, __VA_ARGS__)
#define ALLOW_IF(call, ...)                                                                                  \
    {                                                                                                        \
        #call, POLICY_ALLOW,                                                                                 \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define DENY_IF(call, error, ...)                                                                            \
    {                                                                                                        \
        #call, error,                                                                                        \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

/* Constants that differ between kernel headers are spelled out. */
#define P_CLONE_NEW_ANY 0x7e020000u /* NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET */
#define P_AF_UNIX 1
#define P_AF_INET 2
#define P_AF_INET6 10
#define P_SOCK_TYPE 0xfff7f7ffu /* all but SOCK_NONBLOCK (04000) and SOCK_CLOEXEC (02000000) */
#define P_SOCK_STREAM 1
#define P_SOCK_DGRAM 2
#define P_IPPROTO_TCP 6
#define P_IPPROTO_UDP 17
#define P_RLIMIT_CORE 4
#define P_F_SETLEASE 1024
#define P_F_NOTIFY 1026
#define P_F_SETDELEG 1040
#define P_TIOCSTI 0x5412
#define P_TIOCLINUX 0x541c

/* clang-format off */
static const struct policy_line policy[] = {
    /* --- processes and threads --- */
    ALLOW_IF(clone, ALL_CLEAR(0, P_CLONE_NEW_ANY)), /* no new namespaces: each opens kernel code meant for root */
    DENY(clone, EPERM),
    DENY(clone3, ENOSYS), /* its flags are in memory, out of a filter's sight; every libc falls back to clone */
    ALLOW(fork), ALLOW(vfork), ALLOW(execve), ALLOW(execveat), ALLOW(exit), ALLOW(exit_group), ALLOW(wait4),
    ALLOW(waitid), ALLOW(getpid), ALLOW(getppid), ALLOW(gettid), ALLOW(getpgid), ALLOW(getpgrp),
    ALLOW(setpgid), ALLOW(getsid), ALLOW(setsid), ALLOW(kill), ALLOW(tkill), ALLOW(tgkill),
    ALLOW(pidfd_open), ALLOW(pidfd_send_signal), ALLOW(set_tid_address), ALLOW(set_robust_list),
    ALLOW(get_robust_list), ALLOW(rseq), ALLOW(prctl), ALLOW(arch_prctl), ALLOW(membarrier), ALLOW(getcpu),
    ALLOW(modify_ldt), ALLOW(process_mrelease),
    ALLOW(restart_syscall),
    /* a container is one trust domain: its processes may trace each other */
    ALLOW(ptrace), ALLOW(process_vm_readv), ALLOW(process_vm_writev), ALLOW(pidfd_getfd),
    ALLOW(process_madvise),
    DENY(kcmp, EPERM), /* compares kernel pointers */
    ALLOW_IF(personality, IS(0, 0x0)), /* Linux */
    ALLOW_IF(personality, IS(0, 0x8)), /* Linux on 32 bits */
    ALLOW_IF(personality, IS(0, 0x20000)), /* old uname */
    ALLOW_IF(personality, IS(0, 0x20008)),
    ALLOW_IF(personality, IS(0, 0xffffffff)), /* only asks */
    DENY(personality, EPERM), /* above all no ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC */
    /* --- scheduling and limits --- */
    ALLOW(sched_yield), ALLOW(sched_getaffinity), ALLOW(sched_setaffinity), ALLOW(sched_getparam),
    ALLOW(sched_setparam), ALLOW(sched_getscheduler), ALLOW(sched_setscheduler), ALLOW(sched_getattr),
    ALLOW(sched_setattr), ALLOW(sched_get_priority_max), ALLOW(sched_get_priority_min),
    ALLOW(sched_rr_get_interval), ALLOW(getpriority), ALLOW(setpriority), ALLOW(ioprio_get),
    ALLOW(ioprio_set), ALLOW(getrlimit), ALLOW(getrusage), ALLOW(times),
    /* it is 1 and stays so: lowered to 0 it would let a crash start the host's program for core dumps. Programs that
     * guard their memory (sanitizers, ssh-agent) set 0 and give up when that fails, and no dump is what they get. */
    IGNORE_IF(setrlimit, IS(0, P_RLIMIT_CORE)),
    ALLOW(setrlimit),
    ALLOW_IF(prlimit64, IS_NULL(2)), /* only asks */
    DENY_IF(prlimit64, EPERM, IS(0, 1)), /* the agent: few descriptors or little memory would break it */
    IGNORE_IF(prlimit64, IS(1, P_RLIMIT_CORE)),
    ALLOW(prlimit64),
    /* --- identity --- */
    ALLOW(getuid), ALLOW(geteuid), ALLOW(getgid), ALLOW(getegid), ALLOW(getresuid), ALLOW(getresgid),
    ALLOW(getgroups), ALLOW(setuid), ALLOW(setgid), ALLOW(setreuid), ALLOW(setregid), ALLOW(setresuid),
    ALLOW(setresgid), ALLOW(setgroups), ALLOW(setfsuid), ALLOW(setfsgid), ALLOW(capget), ALLOW(capset),
    ALLOW(umask),
    /* --- signals --- */
    ALLOW(rt_sigaction), ALLOW(rt_sigprocmask), ALLOW(rt_sigpending), ALLOW(rt_sigreturn),
    ALLOW(rt_sigsuspend), ALLOW(rt_sigtimedwait), ALLOW(rt_sigqueueinfo), ALLOW(rt_tgsigqueueinfo),
    ALLOW(sigaltstack), ALLOW(signalfd), ALLOW(signalfd4), ALLOW(pause), ALLOW(alarm), ALLOW(getitimer),
    ALLOW(setitimer), ALLOW(eventfd), ALLOW(eventfd2),
    /* --- time (reading; setting is refused below) --- */
    ALLOW(time), ALLOW(gettimeofday), ALLOW(clock_gettime), ALLOW(clock_getres), ALLOW(clock_nanosleep),
    ALLOW(nanosleep), ALLOW(timer_create), ALLOW(timer_settime), ALLOW(timer_gettime),
    ALLOW(timer_getoverrun), ALLOW(timer_delete), ALLOW(timerfd_create), ALLOW(timerfd_settime),
    ALLOW(timerfd_gettime),
    /* without CAP_SYS_TIME they only read */
    ALLOW(adjtimex), ALLOW(clock_adjtime),
    /* --- memory --- */
    ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mprotect), ALLOW(mremap), ALLOW(msync), ALLOW(madvise),
    ALLOW(mincore), ALLOW(mlock), ALLOW(mlock2), ALLOW(mlockall), ALLOW(munlock), ALLOW(munlockall),
    ALLOW(memfd_create), ALLOW(pkey_alloc), ALLOW(pkey_free), ALLOW(pkey_mprotect), ALLOW(get_mempolicy),
    ALLOW(set_mempolicy), ALLOW(mbind), ALLOW(set_mempolicy_home_node), ALLOW(remap_file_pages),
    ALLOW(cachestat), ALLOW(mseal), ALLOW(map_shadow_stack),
    /* --- futexes --- */
    ALLOW(futex), ALLOW(futex_waitv), ALLOW(futex_wake), ALLOW(futex_wait), ALLOW(futex_requeue),
    /* --- files --- */
    ALLOW(open), ALLOW(openat), ALLOW(openat2), ALLOW(creat), ALLOW(close), ALLOW(close_range), ALLOW(read),
    ALLOW(write), ALLOW(readv), ALLOW(writev), ALLOW(pread64), ALLOW(pwrite64), ALLOW(preadv),
    ALLOW(pwritev), ALLOW(preadv2), ALLOW(pwritev2), ALLOW(lseek), ALLOW(sendfile), ALLOW(splice),
    ALLOW(tee), ALLOW(vmsplice), ALLOW(copy_file_range), ALLOW(dup), ALLOW(dup2), ALLOW(dup3), ALLOW(pipe),
    ALLOW(pipe2), ALLOW(flock), ALLOW(fsync), ALLOW(fdatasync), ALLOW(sync), ALLOW(syncfs),
    ALLOW(sync_file_range), ALLOW(truncate), ALLOW(ftruncate), ALLOW(fallocate), ALLOW(fadvise64),
    ALLOW(readahead), ALLOW(stat), ALLOW(fstat), ALLOW(lstat), ALLOW(newfstatat), ALLOW(statx),
    ALLOW(statfs), ALLOW(fstatfs), ALLOW(ustat), ALLOW(access), ALLOW(faccessat), ALLOW(faccessat2),
    ALLOW(chdir), ALLOW(fchdir), ALLOW(getcwd), ALLOW(chroot), ALLOW(mkdir), ALLOW(mkdirat), ALLOW(rmdir),
    ALLOW(rename), ALLOW(renameat), ALLOW(renameat2), ALLOW(link), ALLOW(linkat), ALLOW(symlink),
    ALLOW(symlinkat), ALLOW(unlink), ALLOW(unlinkat), ALLOW(readlink), ALLOW(readlinkat), ALLOW(mknod),
    ALLOW(mknodat), ALLOW(chmod), ALLOW(fchmod), ALLOW(fchmodat), ALLOW(fchmodat2), ALLOW(chown),
    ALLOW(fchown), ALLOW(lchown), ALLOW(fchownat), ALLOW(utime), ALLOW(utimes), ALLOW(futimesat),
    ALLOW(utimensat), ALLOW(getdents), ALLOW(getdents64), ALLOW(setxattr), ALLOW(lsetxattr),
    ALLOW(fsetxattr), ALLOW(getxattr), ALLOW(lgetxattr), ALLOW(fgetxattr), ALLOW(listxattr),
    ALLOW(llistxattr), ALLOW(flistxattr), ALLOW(removexattr), ALLOW(lremovexattr), ALLOW(fremovexattr),
    /* extended attributes by descriptor; landlock lets a guest restrict itself further */
    ALLOW(setxattrat), ALLOW(getxattrat), ALLOW(listxattrat), ALLOW(removexattrat),
    ALLOW(landlock_create_ruleset), ALLOW(landlock_add_rule), ALLOW(landlock_restrict_self),
    /* harmless by itself: the way back, open_by_handle_at, is closed */
    ALLOW(name_to_handle_at),
    ALLOW(inotify_init), ALLOW(inotify_init1), ALLOW(inotify_add_watch), ALLOW(inotify_rm_watch),
    ALLOW(poll), ALLOW(ppoll), ALLOW(select), ALLOW(pselect6), ALLOW(epoll_create), ALLOW(epoll_create1),
    ALLOW(epoll_ctl), ALLOW(epoll_wait), ALLOW(epoll_pwait),
    ALLOW(epoll_pwait2),
    /* as on a kernel without: contexts are counted for the whole machine (fs.aio-max-nr), and one container
     * could use them up */
    DENY(io_setup, ENOSYS), DENY(io_destroy, ENOSYS), DENY(io_submit, ENOSYS), DENY(io_cancel, ENOSYS),
    DENY(io_getevents, ENOSYS), DENY(io_pgetevents, ENOSYS),
    /* leases and the like reach beyond the container: /usr may be the host's, which would wait for the guest */
    DENY_IF(fcntl, EPERM, IS(1, P_F_SETLEASE)),
    DENY_IF(fcntl, EPERM, IS(1, P_F_SETDELEG)),
    DENY_IF(fcntl, EPERM, IS(1, P_F_NOTIFY)),
    ALLOW(fcntl),
    DENY_IF(ioctl, EPERM, IS(1, P_TIOCSTI)), /* types into a terminal that others read */
    DENY_IF(ioctl, EPERM, IS(1, P_TIOCLINUX)), /* the same by the console's selection */
    ALLOW(ioctl),
    /* --- sockets: Unix, and TCP and UDP over IP, nothing else --- */
    ALLOW_IF(socket, IS(0, P_AF_UNIX)),
    ALLOW_IF(socket, IS(0, P_AF_INET), IS_MASKED(1, P_SOCK_TYPE, P_SOCK_STREAM), IS(2, 0)),
    ALLOW_IF(socket, IS(0, P_AF_INET), IS_MASKED(1, P_SOCK_TYPE, P_SOCK_STREAM), IS(2, P_IPPROTO_TCP)),
    ALLOW_IF(socket, IS(0, P_AF_INET), IS_MASKED(1, P_SOCK_TYPE, P_SOCK_DGRAM), IS(2, 0)),
    ALLOW_IF(socket, IS(0, P_AF_INET), IS_MASKED(1, P_SOCK_TYPE, P_SOCK_DGRAM), IS(2, P_IPPROTO_UDP)),
    ALLOW_IF(socket, IS(0, P_AF_INET6), IS_MASKED(1, P_SOCK_TYPE, P_SOCK_STREAM), IS(2, 0)),
    ALLOW_IF(socket, IS(0, P_AF_INET6), IS_MASKED(1, P_SOCK_TYPE, P_SOCK_STREAM), IS(2, P_IPPROTO_TCP)),
    ALLOW_IF(socket, IS(0, P_AF_INET6), IS_MASKED(1, P_SOCK_TYPE, P_SOCK_DGRAM), IS(2, 0)),
    ALLOW_IF(socket, IS(0, P_AF_INET6), IS_MASKED(1, P_SOCK_TYPE, P_SOCK_DGRAM), IS(2, P_IPPROTO_UDP)),
    DENY_IF(socket, EPERM, IS(0, P_AF_INET)), /* raw, SCTP, MPTCP, ICMP, ... */
    DENY_IF(socket, EPERM, IS(0, P_AF_INET6)),
    DENY(socket, EAFNOSUPPORT), /* netlink, packet, vsock, alg, bluetooth, ... */
    ALLOW_IF(socketpair, IS(0, P_AF_UNIX)),
    DENY(socketpair, EAFNOSUPPORT),
    ALLOW(bind), ALLOW(listen), ALLOW(accept), ALLOW(accept4), ALLOW(connect), ALLOW(shutdown),
    ALLOW(getsockname), ALLOW(getpeername), ALLOW(getsockopt), ALLOW(setsockopt), ALLOW(sendto),
    ALLOW(sendmsg), ALLOW(sendmmsg), ALLOW(recvfrom), ALLOW(recvmsg), ALLOW(recvmmsg),
    /* --- System V and POSIX IPC (own IPC namespace) --- */
    ALLOW(shmget), ALLOW(shmat), ALLOW(shmdt), ALLOW(shmctl), ALLOW(semget), ALLOW(semop),
    ALLOW(semtimedop), ALLOW(semctl), ALLOW(msgget), ALLOW(msgsnd), ALLOW(msgrcv), ALLOW(msgctl),
    ALLOW(mq_open), ALLOW(mq_unlink), ALLOW(mq_timedsend), ALLOW(mq_timedreceive), ALLOW(mq_notify),
    ALLOW(mq_getsetattr),
    /* --- information --- */
    ALLOW(uname), ALLOW(sysinfo), ALLOW(getrandom),
    /* --- host name: harmless, and refused by the kernel without CAP_SYS_ADMIN --- */
    ALLOW(sethostname), ALLOW(setdomainname),
    /* --- refused: mounts and namespaces --- */
    DENY(mount, EPERM), DENY(umount2, EPERM), DENY(pivot_root, EPERM), DENY(fsopen, EPERM),
    DENY(fsconfig, EPERM), DENY(fsmount, EPERM), DENY(fspick, EPERM), DENY(move_mount, EPERM),
    DENY(open_tree, EPERM), DENY(open_tree_attr, EPERM), DENY(mount_setattr, EPERM), DENY(statmount, EPERM),
    DENY(listmount, EPERM), DENY(unshare, EPERM), DENY(setns, EPERM),
    /* --- refused: ways to host files by handle, and controls of file systems --- */
    DENY(open_by_handle_at, EPERM), DENY(swapon, EPERM), DENY(swapoff, EPERM), DENY(quotactl, EPERM),
    DENY(quotactl_fd, EPERM), DENY(acct, EPERM), DENY(fanotify_init, EPERM), DENY(fanotify_mark, EPERM),
    DENY(file_getattr, EPERM), DENY(file_setattr, EPERM),
    /* --- refused: large kernel interfaces with a history --- */
    DENY(bpf, EPERM), DENY(perf_event_open, EPERM), DENY(userfaultfd, EPERM), DENY(io_uring_setup, EPERM),
    DENY(io_uring_enter, EPERM), DENY(io_uring_register, EPERM), DENY(keyctl, EPERM), DENY(add_key, EPERM),
    DENY(request_key, EPERM), DENY(lookup_dcookie, EPERM), DENY(nfsservctl, EPERM),
    DENY(memfd_secret, EPERM),
    /* --- refused: the machine itself --- */
    DENY(reboot, EPERM), DENY(kexec_load, EPERM), DENY(kexec_file_load, EPERM), DENY(init_module, EPERM),
    DENY(finit_module, EPERM), DENY(delete_module, EPERM), DENY(create_module, EPERM),
    DENY(get_kernel_syms, EPERM), DENY(query_module, EPERM), DENY(settimeofday, EPERM),
    DENY(clock_settime, EPERM), DENY(stime, EPERM), DENY(iopl, EPERM), DENY(ioperm, EPERM),
    DENY(vhangup, EPERM), DENY(syslog, EPERM), DENY(_sysctl, EPERM), DENY(sysfs, EPERM),
    DENY(uselib, EPERM), DENY(move_pages, EPERM), DENY(migrate_pages, EPERM), DENY(vserver, EPERM),
    DENY(afs_syscall, EPERM), DENY(getpmsg, EPERM), DENY(putpmsg, EPERM), DENY(tuxcall, EPERM),
    DENY(security, EPERM),
};
/* clang-format on */

#endif
