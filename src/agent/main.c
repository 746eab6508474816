/* cloister-init: PID 1 of every container. Started from a sealed memfd with one descriptor, the link; see
 * link/agent_protocol.h for all it does. */
#include "agent/agent.h"
#include "agent/musl/allocator.h"
#include "agent/pump.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Memory is given back after this long without traffic. */
#define IDLE_MS 2000

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
const char *__asan_default_options(void);
/* Leaks are looked for by the tests of the parts; the leak checker itself needs ptrace. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0:detect_stack_use_after_return=0:handle_segv=0";
}
#endif

static void sigchld_ready(struct source *s, uint32_t events)
{
    struct agent *a = (struct agent *)((char *)s - offsetof(struct agent, sigchld_source));
    struct signalfd_siginfo info;
    (void)events;
    while (read(s->fd, &info, sizeof info) == sizeof info)
        ;
    child_reap(&a->children);
}

/* Only SIGCHLD means something to us. PID 1 cannot be killed or stopped from inside: signals with default
 * disposition never reach it, so none is handled and none is blocked (blocked ones would be queued). */
static int signals_init(struct agent *a)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return -1;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -1;
    return source_watch(&a->loop, &a->sigchld_source, fd, EPOLLIN, sigchld_ready);
}

/* 0, 1 and 2 are occupied for good, so that no descriptor of ours is ever one that a child replaces. */
static int reserve_stdio(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    for (int i = 0; i < 3; i++)
        if (fd != i && dup3(fd, i, O_CLOEXEC) < 0)
            return -1;
    if (fd > 2)
        close(fd);
    return 0;
}

/* We hold descriptors for many processes at once; they get the limit that we were given. */
static void limits_init(struct agent *a)
{
    /* 1, not 0: with 0 the kernel still starts the host's program of a core_pattern that is a pipe (core(5)).
     */
    struct rlimit core = {1, 1};
    setrlimit(RLIMIT_CORE, &core);
    if (getrlimit(RLIMIT_NOFILE, &a->files) == 0) {
        struct rlimit raised = {a->files.rlim_max, a->files.rlim_max};
        setrlimit(RLIMIT_NOFILE, &raised);
    }
}

static void give_memory_back(struct agent *a)
{
    free(a->scratch);
    a->scratch = NULL;
    a->scratch_used = false;
#ifdef __GLIBC__
    malloc_trim(0);
#else
    allocator_trim();
#endif
}

static void allocator_init(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    mallopt(M_TRIM_THRESHOLD, 64 << 10);
#endif
}

/* Nothing ignored may be inherited by the guest's programs. By raw system call: a C library keeps signals 32
 * to 34 to itself and would leave them as whoever started the engine had them, ignored perhaps, for every
 * process of the container. */
static void signals_reset(void)
{
    const struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } standard = {0};
    for (int number = 1; number <= 64; number++)
        syscall(SYS_rt_sigaction, number, &standard, NULL, sizeof standard.mask); /* KILL and STOP refuse */
}

int main(void)
{
    static struct agent a = {.proc_fd = -1,
                             .sys_fd = -1,
                             .dev_fd = -1,
                             .run_fd = -1,
                             .pts_fd = -1,
                             .null_fd = -1,
                             .cgroup_fd = -1};
    struct error err = {0};
    allocator_init();
    signals_reset();
    prctl(PR_SET_NAME, "cloister-init", 0, 0, 0);
    if (getpid() != 1)
        return fputs("cloister-init is started by cloister, as the first process of a container\n", stderr),
               2;
    if (reserve_stdio() < 0 || close_range(AGENT_LINK_FD + 1, ~0u, 0) < 0)
        return 3;
    limits_init(&a);
    if (loop_init(&a.loop) < 0 || signals_init(&a) < 0 || conn_open(&a, AGENT_LINK_FD, &err) < 0)
        return 3;
    while (loop_turn(&a.loop, a.scratch_used ? IDLE_MS : -1) == 0) {
        if (a.want_flush)
            conn_flush(&a);
        if (a.phase == PHASE_ENDING)
            ending_check(&a);
        if (a.scratch_used && a.loop.idle)
            give_memory_back(&a);
    }
    return 3;
}
