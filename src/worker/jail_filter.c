#include "worker/jail_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_INSTRUCTIONS 1024
/* Stands for the worker's own process number in its filter until it is known. */
#define OWN_PID_MARK 0x7ffffff3u

/* As glibc's pthread_create() asks, and nothing else. */
#define THREAD_FLAGS                                                                                         \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |       \
     CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)
/* As its fork() does. */
#define FORK_FLAGS (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)

struct program {
    struct sock_filter code[MAX_INSTRUCTIONS];
    unsigned short len;
};

static struct program zygote_program, worker_program;

/* Memory, threads, time, signals to oneself, and input and output on descriptors that are open. */
static const int common[] = {
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(mincore),
    SCMP_SYS(brk),
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(membarrier),
    SCMP_SYS(gettid),
    SCMP_SYS(getpid),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getrusage),
    SCMP_SYS(times),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getrandom),
    SCMP_SYS(timer_create),
    SCMP_SYS(timer_settime),
    SCMP_SYS(timer_delete),
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendto),
    SCMP_SYS(sendmsg),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(close),
    SCMP_SYS(eventfd2),
    SCMP_SYS(shutdown),
};

/* What the zygote does besides, and a worker before its own filter is in force. */
static const int of_zygote[] = {
    SCMP_SYS(wait4),  SCMP_SYS(waitid), SCMP_SYS(pidfd_open), SCMP_SYS(close_range), SCMP_SYS(dup3),
    SCMP_SYS(dup2),   SCMP_SYS(fcntl),  SCMP_SYS(setresuid),  SCMP_SYS(setresgid),   SCMP_SYS(capset),
    SCMP_SYS(capget), SCMP_SYS(prctl),  SCMP_SYS(seccomp),    SCMP_SYS(signalfd4),   SCMP_SYS(getppid),
};

static int allow_all(scmp_filter_ctx ctx, const int *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0) < 0)
            return -1;
    return 0;
}

/* Limits of this process alone, by whichever of the two calls the C library uses. */
static int allow_own_limits(scmp_filter_ctx ctx)
{
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0)) < 0 ||
                   seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(setrlimit), 0) < 0 ||
                   seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(getrlimit), 0) < 0
               ? -1
               : 0;
}

static int allow_threads(scmp_filter_ctx ctx)
{
    /* clone3(2) hides its flags behind a pointer: the C library falls back to clone(2). */
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_EQ, THREAD_FLAGS)) <
                       0 ||
                   seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) < 0
               ? -1
               : 0;
}

static int fill_zygote(scmp_filter_ctx ctx)
{
    if (allow_all(ctx, common, sizeof common / sizeof *common) < 0 ||
        allow_all(ctx, of_zygote, sizeof of_zygote / sizeof *of_zygote) < 0 || allow_own_limits(ctx) < 0 ||
        allow_threads(ctx) < 0)
        return -1;
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_EQ, FORK_FLAGS)) < 0 ||
                   /* asks whether there is one thread only */
                   seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(unshare), 1,
                                    SCMP_A0(SCMP_CMP_EQ, CLONE_VM)) < 0 ||
                   seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 0) < 0
               ? -1
               : 0;
}

static int fill_worker(scmp_filter_ctx ctx)
{
    if (allow_all(ctx, common, sizeof common / sizeof *common) < 0 || allow_threads(ctx) < 0)
        return -1;
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, OWN_PID_MARK)) <
                       0 ||
                   seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                                    SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME)) < 0 ||
                   /* the C library reads limits of its own process */
                   seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
                                    SCMP_A2(SCMP_CMP_EQ, 0)) < 0 ||
                   seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(getrlimit), 0) < 0
               ? -1
               : 0;
}

static int build(int (*fill)(scmp_filter_ctx), struct program *ret, struct error *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int fd = memfd_create("filter", MFD_CLOEXEC), r = -1;
    if (ctx && fd >= 0 && seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0 &&
        seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 && fill(ctx) == 0 &&
        seccomp_export_bpf(ctx, fd) == 0) {
        ssize_t n = pread(fd, ret->code, sizeof ret->code, 0);
        if (n > 0 && (size_t)n < sizeof ret->code && (size_t)n % sizeof *ret->code == 0) {
            ret->len = (unsigned short)((size_t)n / sizeof *ret->code);
            r = 0;
        }
    }
    if (fd >= 0)
        close(fd);
    if (ctx)
        seccomp_release(ctx);
    return r < 0 ? error_set(err, ERROR_INTERNAL, "cannot build a seccomp filter") : 0;
}

int jail_filter_prepare(struct error *err)
{
    return build(fill_zygote, &zygote_program, err) < 0 ? -1 : build(fill_worker, &worker_program, err);
}

static int install(struct program *p, struct error *err)
{
    struct sock_fprog program = {.len = p->len, .filter = p->code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return error_system(err, errno, "cannot install the seccomp filter");
    return 0;
}

int jail_filter_zygote(struct error *err)
{
    return install(&zygote_program, err);
}

int jail_filter_worker(struct error *err)
{
    for (unsigned i = 0; i < worker_program.len; i++)
        if (worker_program.code[i].k == OWN_PID_MARK)
            worker_program.code[i].k = (uint32_t)getpid();
    return install(&worker_program, err);
}
