#include "agent/spawn.h"

#include "agent/kernel.h"
#include "agent/spec.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define STACK_SIZE (64u << 10)
#define LOOK_EVERY_MS 20
#define GIVE_UP_MS 5000
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The child runs on its own stack in our memory and never returns: address sanitizer would take what it
 * leaves there for errors of the next child. */
#if defined(__SANITIZE_ADDRESS__)
#define IN_CHILD __attribute__((no_sanitize("address"), noinline))
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IN_CHILD __attribute__((no_sanitize("address"), noinline))
#endif
#endif
#ifndef IN_CHILD
#define IN_CHILD
#endif

enum step {
    STEP_NONE,
    STEP_SESSION,
    STEP_STDIO,
    STEP_TERMINAL,
    STEP_CGROUP,
    STEP_LIMITS,
    STEP_GROUPS,
    STEP_USER,
    STEP_CWD,
    STEP_EXEC,
};

/* Shared between the two sides of the vfork; volatile because the child writes it behind the compiler's back.
 */
struct shared {
    volatile int
        busy; /* futex: the kernel sets it to 0 when the child has left our memory, by exec or exit */
    const struct spawn *s;
    const char *search; /* PATH */
    volatile enum step failed;
    volatile int errnum;
    volatile bool found; /* the program file exists, although it could not be run */
    char candidate[PATH_MAX];
};

IN_CHILD static bool child_stdio(const struct spawn *s)
{
    /* The sources are above 2, so no dup2 overwrites a later source. Without close-on-exec, as they must be.
     */
    return dup2(s->in, 0) >= 0 && dup2(s->out, 1) >= 0 && dup2(s->err, 2) >= 0;
}

IN_CHILD static bool child_cgroup(int dir)
{
    int fd = openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, "0", 1) == 1; /* closed with everything else */
}

IN_CHILD static bool child_limits(const struct spawn *s)
{
    struct rlimit pids = {s->pids, s->pids};
    if (setrlimit(RLIMIT_NOFILE, &s->files) < 0)
        return false;
    return !s->pids || setrlimit(RLIMIT_NPROC, &pids) == 0;
}

/* By raw system call: glibc's wrappers may try to tell other threads. */
IN_CHILD static bool child_groups(const struct spawn *s)
{
    if (!s->no_setgroups && syscall(SYS_setgroups, (long)s->who->group_count, s->who->groups) < 0)
        return false;
    gid_t g = s->who->gid;
    return syscall(SYS_setresgid, g, g, g) == 0;
}

IN_CHILD static bool child_user(const struct spawn *s)
{
    uid_t u = s->who->uid;
    return syscall(SYS_setresuid, u, u, u) == 0;
}

/* No magic link: those lead to what a descriptor or a process holds, not to a name (attack B2). */
IN_CHILD static bool child_cwd(const char *cwd)
{
    int fd =
        sys_openat2(AT_FDCWD, cwd ? cwd : "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);
    return fd >= 0 && fchdir(fd) == 0 && close(fd) == 0;
}

/* Until the program has replaced us, /proc/self/exe is the agent: refused like every magic link (attack B1).
 */
IN_CHILD static int try_exec(struct shared *sh, const char *path)
{
    int fd = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return errno;
    close(fd);
    sh->found = true;
    execve(path, sh->s->argv, sh->s->env);
    return errno;
}

IN_CHILD static bool join(char *to, const char *dir, size_t dir_len, const char *name)
{
    size_t name_len = 0;
    while (name[name_len])
        name_len++;
    if (dir_len + name_len + 2 > PATH_MAX)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < dir_len; i++)
        to[n++] = dir[i];
    if (dir_len > 0)
        to[n++] = '/';
    for (size_t i = 0; i <= name_len; i++)
        to[n++] = name[i];
    return true;
}

IN_CHILD static int child_exec(struct shared *sh)
{
    const char *name = sh->s->argv[0];
    for (const char *p = name; *p; p++)
        if (*p == '/')
            return try_exec(sh, name);
    int result = ENOENT;
    for (const char *dir = sh->search;; dir++) {
        const char *end = dir;
        while (*end && *end != ':')
            end++;
        int e =
            join(sh->candidate, dir, (size_t)(end - dir), name) ? try_exec(sh, sh->candidate) : ENAMETOOLONG;
        if (e == EACCES)
            result = EACCES; /* as execvp(3): another directory may have one that we may run */
        else if (e != ENOENT && e != ENOTDIR && e != ENAMETOOLONG)
            return e;
        if (!*end)
            return result;
        dir = end;
    }
}

IN_CHILD static void child_unblock_signals(void)
{
    uint64_t none = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
}

IN_CHILD static int child_main(void *arg)
{
    struct shared *sh = arg;
    const struct spawn *s = sh->s;
    enum step step = STEP_NONE;
    syscall(SYS_set_tid_address, &sh->busy);
    if (syscall(SYS_setsid) < 0)
        step = STEP_SESSION;
    else if (s->cgroup_dir >= 0 && !child_cgroup(s->cgroup_dir))
        step = STEP_CGROUP;
    else if (!child_stdio(s) || close_range(3, ~0u, 0) < 0)
        step = STEP_STDIO;
    else if (s->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        step = STEP_TERMINAL;
    else if (!child_limits(s))
        step = STEP_LIMITS;
    else if (!child_groups(s))
        step = STEP_GROUPS;
    else if (!child_user(s))
        step = STEP_USER;
    else if (!child_cwd(s->cwd))
        step = STEP_CWD;
    if (step == STEP_NONE) {
        child_unblock_signals();
        errno = child_exec(sh);
        step = STEP_EXEC;
    }
    sh->errnum = errno;
    sh->failed = step;
    syscall(SYS_exit, 127L);
    __builtin_unreachable();
}

static int with_field(struct error *err, const char *field)
{
    if (err)
        snprintf(err->field, sizeof err->field, "%s", field);
    return -1;
}

static int explain_exec(const struct shared *sh, struct error *err)
{
    const char *name = sh->s->argv[0];
    int e = sh->errnum;
    if (e == ENOENT && sh->found)
        error_system(err, e, "cannot run %.200s: its interpreter or loader is missing in the image", name);
    else if (e == ENOENT && !strchr(name, '/'))
        error_system(err, e, "program not found in PATH: %.200s", name);
    else if (e == ENOENT)
        error_system(err, e, "program not found: %.200s", name);
    else if (e == ENOEXEC)
        error_system(
            err, e, "%.200s is not a program (for a script, does its first line name an interpreter?)", name);
    else if (e == EAGAIN)
        error_system(err, e, "cannot run %.200s: the limit of processes is reached", name);
    else
        error_system(err, e, "cannot run %.200s", name);
    return with_field(err, "argv");
}

static int explain(const struct shared *sh, struct error *err)
{
    const struct spawn *s = sh->s;
    int e = sh->errnum;
    switch (sh->failed) {
    case STEP_EXEC:
        return explain_exec(sh, err);
    case STEP_CWD:
        error_system(err, e, "cannot use %.200s as the working directory", s->cwd ? s->cwd : "/");
        return with_field(err, "cwd");
    case STEP_GROUPS:
    case STEP_USER:
        error_system(err, e, "cannot become user %u, group %u (are they mapped into this container?)",
                     s->who->uid, s->who->gid);
        return with_field(err, "user");
    case STEP_CGROUP:
        return error_system(err, e, "cannot enter the process group's cgroup");
    case STEP_LIMITS:
        return error_system(err, e, "cannot set resource limits");
    case STEP_TERMINAL:
        return error_system(err, e, "cannot make the terminal the controlling one");
    default:
        return error_system(err, e, "cannot prepare the process");
    }
}

/* Until the child has left our memory. This is what CLONE_VFORK does, except that a guest cannot hold us: it
 * may stop the child before exec, or hold a lease on the program. Then the child is continued, and in the end
 * killed. Meanwhile the child shares even our errno: if both write it at once, the reason that is told for a
 * failure may be wrong. */
static bool wait_for_child(struct shared *sh, pid_t pid)
{
    const struct timespec look = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
    int ms = 0;
    for (; sh->busy; ms += LOOK_EVERY_MS) {
        if (syscall(SYS_futex, &sh->busy, 0 /* FUTEX_WAIT */, 1, &look, NULL, 0) == 0 || !sh->busy)
            continue;
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid == pid)
            break; /* killed before it had told the kernel about the futex */
        kill(pid, ms < GIVE_UP_MS ? SIGCONT : SIGKILL);
    }
    return ms <= GIVE_UP_MS;
}

pid_t spawn_program(const struct spawn *s, struct error *err)
{
    /* One stack for all children: only one exists before its exec at a time. */
    static uint8_t *stack;
    static struct shared sh;
    if (!stack) {
        void *p =
            mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (p == MAP_FAILED)
            return error_oom(err);
        stack = p;
    }
    const char *search = env_get(s->env, "PATH");
    sh.s = s;
    sh.search = search ? search : DEFAULT_PATH;
    sh.busy = 1;
    sh.failed = STEP_NONE;
    sh.found = false;
    /* Signals stay blocked in the child until just before exec, so that a guest's signal finds no half-made
     * process. */
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    pid_t pid = clone(child_main, stack + STACK_SIZE, CLONE_VM | SIGCHLD, &sh);
    int saved = errno;
    bool in_time = pid < 0 || wait_for_child(&sh, pid);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid < 0) {
        if (saved == EAGAIN)
            return error_system(err, saved, "no process can be started: the limit of processes is reached");
        return error_system(err, saved, "cannot start a process");
    }
    if (sh.failed == STEP_NONE && in_time)
        return pid;
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    if (!in_time)
        return error_set(err, ERROR_TIMEOUT,
                         "the program did not start within %d seconds: something inside stops it",
                         GIVE_UP_MS / 1000);
    return explain(&sh, err);
}
