#include "container/ns_spawn.h"

#include "base/cleanup.h"
#include "link/agent_protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_STACK (64u << 10)

/* A new user namespace gives its first process every capability, but exec(2) of a process whose ids are not
 * mapped would drop them: carried over as ambient capabilities (capabilities(7)). */
static int keep_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &head, data) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        data[i].inheritable = data[i].permitted;
    if (syscall(SYS_capset, &head, data) < 0)
        return -1;
    for (int cap = 0; cap < 64; cap++) {
        uint32_t has = data[cap / 32].permitted & (1u << (cap % 32));
        if (has && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0 && errno != EINVAL)
            return -1;
    }
    return 0;
}

/* Version 1 of control groups: a thread that writes "0" to "tasks" moves itself, which, unlike moving another
 * process, does not make the kernel wait until all processors have noticed (12 ms on an idle machine). */
static int join_cgroups(const struct ns_spawn *s)
{
    for (int i = 0; i < s->tasks_count; i++)
        if (write(s->tasks_fds[i], "0", 1) != 1)
            return -1;
    return 0;
}

/* What the child works on, in the memory that it shares with us. */
struct birth {
    const struct ns_spawn *s;
    volatile int failed; /* errno of what kept it from becoming the agent */
};

/* Runs in our memory, on a stack of its own, while we wait. Returns only when it failed. */
static int become_agent(const struct ns_spawn *s)
{
    static char name[] = "cloister-init";
    char *argv[] = {name, NULL}, *envp[] = {NULL};
    /* 1, not 0: a core dump is then refused even where core_pattern is a pipe to a host program (core(5)). */
    struct rlimit core = {1, 1};
    sigset_t none;
    sigemptyset(&none);
    setsid();
    setrlimit(RLIMIT_CORE, &core);
    if (join_cgroups(s) < 0)
        return errno;
    /* Above the targets first, so that no dup2 overwrites a source. */
    int link = fcntl(s->link_fd, F_DUPFD, 16), program = fcntl(s->agent_memfd, F_DUPFD_CLOEXEC, 16);
    if (keep_capabilities() < 0 || link < 0 || program < 0 || dup2(s->null_fd, 0) < 0 ||
        dup2(s->null_fd, 1) < 0 || dup2(s->null_fd, 2) < 0 || dup2(link, AGENT_LINK_FD) < 0 ||
        dup3(program, AGENT_LINK_FD + 1, O_CLOEXEC) < 0 ||
        syscall(SYS_close_range, AGENT_LINK_FD + 2, ~0u, 0) < 0)
        return errno;
    sigprocmask(SIG_SETMASK, &none, NULL);
    syscall(SYS_execveat, AGENT_LINK_FD + 1, "", argv, envp, AT_EMPTY_PATH);
    return errno;
}

static void child_main(struct birth *b)
{
    b->failed = become_agent(b->s);
    _exit(127);
}

/* clone3(2) into our own memory: the C library has no function for it. The child begins in child_main() on
 * the stack that `args` names, which it never leaves. */
static long clone3_into(struct clone_args *args, struct birth *b)
{
#if defined(__x86_64__)
    long result = SYS_clone3;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %[birth], %%rdi\n\t"
                     "call *%[begin]\n\t"
                     "hlt\n"
                     "1:"
                     : "+a"(result)
                     : "D"(args), "S"(sizeof *args), [begin] "r"(child_main), [birth] "r"(b)
                     : "rcx", "r11", "cc", "memory");
    return result;
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_clone3;
    register long result __asm__("x0") = (long)args;
    register long size __asm__("x1") = sizeof *args;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, #0\n\t"
                     "mov x0, %[birth]\n\t"
                     "blr %[begin]\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(result)
                     : "r"(number), "r"(size), [begin] "r"(child_main), [birth] "r"(b)
                     : "x30", "cc", "memory");
    return result;
#else
#error "clone3_into() must be written for this processor"
#endif
}

/* What the kernel counts per user (inotify instances and watches, timers, queued signals, message queues) it
 * also charges to whoever made the user namespace. That must be an id of the container: root of the host
 * would find its own share used up. By raw system call: only this thread changes. The saved id stays 0, the
 * way back; and files are still reached as root, for the control group. */
static int become(uid_t uid)
{
    if (syscall(SYS_setresuid, uid, uid, (uid_t)-1) < 0)
        return -1;
    setfsuid(0);
    return 0;
}

/* Like vfork(2) into new namespaces and, where given, a control group of version 2: born there, it need not
 * be moved. Our memory is not copied, which would take longer than all the rest. */
static pid_t clone_agent(struct birth *b, uint8_t *stack, int *ret_pidfd)
{
    struct clone_args args = {.flags = CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND | CLONE_PIDFD |
                                       CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                       CLONE_NEWIPC | CLONE_NEWUTS,
                              .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
                              .stack = (uint64_t)(uintptr_t)stack,
                              .stack_size = CHILD_STACK,
                              .exit_signal = SIGCHLD};
    if (b->s->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)b->s->cgroup_fd;
    }
    long result = clone3_into(&args, b);
    if (result >= 0)
        return (pid_t)result;
    errno = (int)-result;
    return -1;
}

static pid_t clone_as_owner(struct birth *b, uint8_t *stack, int *ret_pidfd)
{
    pid_t pid = -1;
    if (b->s->owner && become(b->s->owner) == 0) {
        pid = clone_agent(b, stack, ret_pidfd);
        int saved = errno;
        if (become(0) < 0)
            abort(); /* cannot happen: 0 is our saved id; and nothing may go on under a container's id */
        errno = saved;
    }
    /* As root where only root may make user namespaces: then the counts are root's, as they must be. */
    return pid < 0 ? clone_agent(b, stack, ret_pidfd) : pid;
}

int ns_spawn(const struct ns_spawn *s, pid_t *ret_pid, int *ret_pidfd, struct error *err)
{
    struct birth b = {.s = s};
    sigset_t all, old;
    int pidfd = -1;
    cleanup_free uint8_t *stack = malloc(CHILD_STACK);
    if (!stack)
        return error_oom(err);
    /* No handler of ours may run in the child. */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    pid_t pid = clone_as_owner(&b, stack, &pidfd);
    int saved = errno;
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return error_system(err, saved, "cannot create namespaces");
    if (b.failed) {
        waitpid(pid, NULL, 0);
        close(pidfd);
        return error_system(err, b.failed, "cannot start the container agent");
    }
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

struct naming {
    int pidfd;
    const char *name;
    int failed;
};

/* In our memory, but with namespaces of its own to change. */
static int naming_main(void *arg)
{
    struct naming *n = arg;
    if (setns(n->pidfd, CLONE_NEWUTS) < 0 || sethostname(n->name, strlen(n->name)) < 0)
        n->failed = errno;
    _exit(0);
}

int ns_set_hostname(int pidfd, const char *name, struct error *err)
{
    struct naming n = {.pidfd = pidfd, .name = name};
    sigset_t all, old;
    cleanup_free char *stack = malloc(CHILD_STACK);
    if (!stack)
        return error_oom(err);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    pid_t pid = clone(naming_main, stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &n);
    int saved = errno;
    if (pid > 0)
        waitpid(pid, NULL, 0);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid < 0 || n.failed)
        return error_system(err, pid < 0 ? saved : n.failed, "cannot name the host of a container");
    return 0;
}

int ns_seal_program(const char *path, int *ret_fd, struct error *err)
{
    struct stat st;
    cleanup_close int in = open(path, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &st) < 0)
        return error_system(err, errno, "cannot open the container agent %s", path);
    cleanup_close int fd = memfd_create("cloister-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_system(err, errno, "cannot create a memory file for the container agent");
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(fd, in, NULL, (size_t)left);
        if (n <= 0)
            return error_system(err, n < 0 ? errno : EIO, "cannot copy the container agent");
        left -= n;
    }
    /* For our user and group alone: where a container has ids of its own, nobody in it can run or read this
     * file, not even through "#!/proc/self/exe" in a script that the agent executes. */
    if (fchmod(fd, 0550) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return error_system(err, errno, "cannot seal the container agent");
    *ret_fd = steal_fd(&fd);
    return 0;
}
