/* What the inside cannot do: the seccomp table walked, mount targets that are links, the agent attacked from
 * within. The same program is the probe that runs inside. */
#include "harness.h"

#include "agent/seccomp_policy.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define GARBAGE 0xdead000000000000ul /* in the half of a register that the kernel does not look at */

/* --- the probe --- */

static int problems;

static void complain(const char *what, long result, int error)
{
    printf("%s: returned %ld, %s\n", what, result, strerror(error));
    problems++;
}

static void expect_error(const char *what, long result, int wanted)
{
    if (result != -1 || errno != wanted)
        complain(what, result, errno);
}

static void expect_allowed(const char *what, long result)
{
    if (result < 0)
        complain(what, result, errno);
    else
        close((int)result);
}

/* Calls that would stop, fork or end the probe, or that wait; they are seen to work every time a program
 * runs. */
static bool not_walked(const char *name)
{
    static const char *const names[] = {"exit",
                                        "exit_group",
                                        "rt_sigreturn",
                                        "fork",
                                        "vfork",
                                        "clone",
                                        "pause",
                                        "restart_syscall",
                                        "futex" /* ENOSYS of its own for what it does not know */,
                                        "map_shadow_stack" /* and on machines without */};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* uretprobe and uprobe: newer kernels never filter these (they end a process that was not probed with
 * SIGILL). */
static bool never_filtered(int number)
{
#ifdef __x86_64__
    return number == 335 || number == 336;
#else
    return false;
#endif
}

static const struct policy_line *line_of(int number)
{
    for (size_t i = 0; i < sizeof policy / sizeof *policy; i++)
        if (seccomp_syscall_resolve_name(policy[i].call) == number)
            return &policy[i];
    return NULL;
}

static long call_with_nonsense(int number)
{
    errno = 0;
    return syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
}

/* Every number there is, and some that there are not. */
static int probe_walk(void)
{
    int walked = 0;
    for (int number = 0; number < 600; number++) {
        const struct policy_line *line = line_of(number);
        char what[64];
        snprintf(what, sizeof what, "%d %s", number, line ? line->call : "(unlisted)");
        if ((line && not_walked(line->call)) || never_filtered(number))
            continue;
        if (line && line->when[0].mask)
            continue; /* depends on its arguments: below */
        long r = call_with_nonsense(number);
        int wanted = line ? line->error : ENOSYS;
        if (wanted != POLICY_ALLOW)
            expect_error(what, r, wanted);
        else if (r == -1 && errno == ENOSYS)
            complain(what, r, errno);
        walked++;
    }
    if (walked < 500)
        complain("walked too few", walked, 0);
    return problems;
}

static void probe_sockets(void)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2; i++) {
        long f = families[i];
        expect_allowed("tcp", syscall(SYS_socket, f, (long)SOCK_STREAM, 0L));
        expect_allowed("tcp 6",
                       syscall(SYS_socket, f, (long)(SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK), 6L));
        expect_allowed("udp", syscall(SYS_socket, f | (long)GARBAGE, (long)SOCK_DGRAM, 0L));
        expect_allowed("udp 17", syscall(SYS_socket, f, (long)SOCK_DGRAM, 17L | (long)GARBAGE));
        expect_error("raw", syscall(SYS_socket, f, (long)SOCK_RAW, 1L), EPERM);
        expect_error("raw hidden",
                     syscall(SYS_socket, f, (long)(SOCK_RAW | SOCK_CLOEXEC) | (long)GARBAGE, 1L), EPERM);
        expect_error("icmp", syscall(SYS_socket, f, (long)SOCK_DGRAM, 1L), EPERM);
        expect_error("sctp", syscall(SYS_socket, f, (long)SOCK_STREAM, 132L), EPERM);
        expect_error("mptcp", syscall(SYS_socket, f, (long)SOCK_STREAM, 262L), EPERM);
        expect_error("seqpacket", syscall(SYS_socket, f, (long)SOCK_SEQPACKET, 0L), EPERM);
        expect_error("udplite", syscall(SYS_socket, f, (long)SOCK_DGRAM, 136L), EPERM);
    }
    expect_allowed("unix", syscall(SYS_socket, (long)AF_UNIX, (long)SOCK_SEQPACKET, 0L));
    for (long family = 0; family < 64; family++)
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6) {
            expect_error("family", syscall(SYS_socket, family, (long)SOCK_RAW, 0L), EAFNOSUPPORT);
            expect_error("family hidden", syscall(SYS_socket, family | (long)GARBAGE, (long)SOCK_DGRAM, 0L),
                         EAFNOSUPPORT);
        }
    int pair[2];
    expect_error("socketpair", syscall(SYS_socketpair, 30L, (long)SOCK_STREAM, 0L, pair), EAFNOSUPPORT);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        complain("socketpair", -1, errno);
}

static void probe_clone(void)
{
    static const unsigned long flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                          CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        expect_error("clone", syscall(SYS_clone, flags[i] | SIGCHLD, 0L, 0L, 0L, 0L), EPERM);
        expect_error("clone hidden", syscall(SYS_clone, flags[i] | SIGCHLD | GARBAGE, 0L, 0L, 0L, 0L), EPERM);
        expect_error("unshare", syscall(SYS_unshare, flags[i]), EPERM);
    }
    long pid = syscall(SYS_clone, (unsigned long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (pid == 0)
        _exit(0);
    if (pid < 0)
        complain("clone", pid, errno);
    waitpid((pid_t)pid, NULL, 0);
}

static void probe_arguments(void)
{
    errno = 0;
    expect_error("TIOCSTI", syscall(SYS_ioctl, 0L, 0x5412L, "x"), EPERM);
    expect_error("TIOCSTI hidden", syscall(SYS_ioctl, 0L, 0x5412L | (long)GARBAGE, "x"), EPERM);
    expect_error("TIOCLINUX", syscall(SYS_ioctl, 0L, 0x541cL, "x"), EPERM);
    expect_error("another ioctl", syscall(SYS_ioctl, -1L, 0x5401L, 0L), EBADF);
    expect_error("ADDR_NO_RANDOMIZE", syscall(SYS_personality, 0x0040000L), EPERM);
    expect_error("READ_IMPLIES_EXEC", syscall(SYS_personality, 0x0400000L | (long)GARBAGE), EPERM);
    if (syscall(SYS_personality, 0xffffffffL) < 0)
        complain("personality", -1, errno);
}

static void expect_success(const char *what, long result)
{
    if (result < 0)
        complain(what, result, errno);
}

static long set_limit(unsigned long pid, unsigned long which, const void *new)
{
    return syscall(SYS_prlimit64, pid, which, new, NULL);
}

/* 64 of its own, whatever the machine has. */
static void probe_terminals(void)
{
    int opened[100], n = 0;
    while (n < 100 && (opened[n] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)) >= 0)
        n++;
    if (n != 64 || errno != ENOSPC)
        complain("terminals", n, errno);
    while (n > 0)
        close(opened[--n]);
}

static void probe_leases(void)
{
    static const long refused[] = {1024 /* F_SETLEASE */, 1026 /* F_NOTIFY */, 1040 /* F_SETDELEG */};
    static const char *const names[] = {"/tmp/leased", "/usr"};
    int own = open(names[0], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int dir = open(names[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        expect_error("fcntl", syscall(SYS_fcntl, own, refused[i], 0L), EPERM);
        expect_error("fcntl", syscall(SYS_fcntl, dir, refused[i], 0L), EPERM);
        expect_error("fcntl hidden", syscall(SYS_fcntl, own, refused[i] | (long)GARBAGE, 0L), EPERM);
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    expect_success("F_GETFL", fcntl(dir, F_GETFL));
    expect_success("F_GETLEASE", fcntl(own, 1025));
    expect_success("F_SETLK", fcntl(own, F_SETLK, &lock));
    close(own);
    close(dir);
}

/* Core dumps stay limited to 1 byte: see limits_init(). */
static void probe_core_limit(void)
{
    struct rlimit core = {0}, files = {0};
    expect_success("asking", syscall(SYS_prlimit64, 0L, (long)RLIMIT_CORE, NULL, &core));
    if (core.rlim_cur != 1 || core.rlim_max != 1)
        complain("the limit of core dumps", (long)core.rlim_max, 0);
    core.rlim_cur = core.rlim_max = 0;
    /* Accepted, without effect. */
    expect_success("setrlimit", syscall(SYS_setrlimit, (long)RLIMIT_CORE, &core));
    expect_success("setrlimit hidden", syscall(SYS_setrlimit, RLIMIT_CORE | GARBAGE, &core));
    expect_success("prlimit", set_limit(0, RLIMIT_CORE, &core));
    expect_success("prlimit hidden", set_limit(0, RLIMIT_CORE | GARBAGE, &core));
    /* Half a pointer is none of NULL: not even looked at. */
    expect_success("prlimit, low half", set_limit(0, RLIMIT_CORE, (void *)0x1000ul));
    expect_success("prlimit, high half", set_limit(0, RLIMIT_CORE, (void *)0x100000000ul));
    expect_success("asking again", syscall(SYS_prlimit64, 0L, (long)RLIMIT_CORE, NULL, &core));
    if (core.rlim_cur != 1 || core.rlim_max != 1)
        complain("the limit of core dumps, after attempts", (long)core.rlim_cur, 0);
    expect_success("getrlimit", getrlimit(RLIMIT_NOFILE, &files));
    files.rlim_cur--;
    expect_success("setrlimit", syscall(SYS_setrlimit, (long)RLIMIT_NOFILE, &files));
    files.rlim_cur--;
    expect_success("prlimit", set_limit(0, RLIMIT_NOFILE, &files));
}

#ifdef __x86_64__
static long call_by_int80(long number)
{
    long r;
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(number), "b"(0L), "c"(0L), "d"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    return r;
}

/* The other two ways into this kernel. Where int 0x80 is compiled out the process gets a signal: fine as
 * well. */
static void probe_foreign_entry(void)
{
    for (long number = 0; number < 500; number++)
        expect_error("x32", syscall(0x40000000L + number, -1L, -1L, -1L, -1L, -1L, -1L), ENOSYS);
    pid_t pid = fork();
    if (pid == 0) {
        static const long numbers[] = {20 /* getpid */, 5 /* open */, 21 /* mount */, 310 /* unshare */,
                                       102 /* socketcall */};
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would make an exit of it */
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (call_by_int80(numbers[i]) != -ENOSYS)
                _exit(1);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        complain("int 0x80", status, 0);
}
#else
static void probe_foreign_entry(void)
{
}
#endif

static void expect_no_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0) {
        complain(path, fd, 0);
        close(fd);
    }
}

/* Its limits can be read (they say nothing) but not set. */
static void probe_agent_limits(void)
{
    struct rlimit got = {0};
    for (unsigned long which = 0; which < RLIM_NLIMITS; which++) {
        expect_success("asking", syscall(SYS_prlimit64, 1L, which, NULL, &got));
        expect_error("prlimit", set_limit(1, which, &got), EPERM);
        expect_error("prlimit hidden", set_limit(1 | GARBAGE, which | GARBAGE, &got), EPERM);
    }
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    expect_success("prlimit of a child", getrlimit(RLIMIT_NOFILE, &got));
    expect_success("prlimit of a child", set_limit((unsigned long)pid, RLIMIT_NOFILE, &got));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* PID 1 cannot be read, traced, stopped, killed or replaced from inside. */
static void probe_agent(void)
{
    expect_no_open("/proc/1/mem", O_RDWR);
    expect_no_open("/proc/1/environ", O_RDONLY);
    expect_no_open("/proc/1/maps", O_RDONLY);
    expect_no_open("/proc/1/exe", O_WRONLY);
    expect_no_open("/proc/1/exe", O_RDONLY);
    expect_no_open("/proc/1/root", O_RDONLY);
    expect_no_open("/proc/1/cwd", O_RDONLY);
    expect_no_open("/proc/1/fd/3", O_RDWR);
    expect_error("ptrace", ptrace(PTRACE_ATTACH, 1, NULL, NULL), EPERM);
    expect_error("ptrace", ptrace(PTRACE_SEIZE, 1, NULL, NULL), EPERM);
    int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
    for (int n = 0; n < 20; n++)
        expect_error("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, n, 0), EPERM);
    char byte;
    struct {
        void *p;
        size_t n;
    } local = {&byte, 1}, remote = {(void *)0x400000, 1};
    expect_error("process_vm_readv", syscall(SYS_process_vm_readv, 1L, &local, 1L, &remote, 1L, 0L), EPERM);
    for (int n = 1; n < 65; n++)
        if (kill(1, n) < 0)
            complain("kill", -1,
                     errno); /* allowed, and without effect: the test goes on with the agent afterwards */
}

static void expect_no_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1", 1) >= 0)
        complain(path, fd, 0);
    if (fd >= 0)
        close(fd);
}

static void expect_empty(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, &byte, 1) > 0)
        complain(path, fd, 0);
    if (fd >= 0)
        close(fd);
}

static void probe_files(void)
{
    static const char *const controls[] = {"/proc/sys/kernel/core_pattern",      "/proc/sys/kernel/modprobe",
                                           "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger",
                                           "/proc/irq/default_smp_affinity",     "/sys/kernel/mm/ksm/run",
                                           "/sys/kernel/uevent_helper",          "/sys/power/state"};
    static const char *const hidden[] = {"/proc/kcore",      "/proc/keys",        "/proc/kmsg",
                                         "/proc/timer_list", "/proc/sched_debug", "/proc/interrupts",
                                         "/dev/mem",         "/dev/kmsg",         "/dev/kvm",
                                         "/dev/fuse",        "/dev/vda"};
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        expect_no_write(controls[i]);
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        expect_empty(hidden[i]);
    expect_error("mknod", mknod("/tmp/node", S_IFBLK | 0600, 0xfe00), EPERM);
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        complain("no_new_privs", 0, 0);
    if (prctl(PR_CAPBSET_READ, 21 /* SYS_ADMIN */, 0, 0, 0) != 0 ||
        prctl(PR_CAPBSET_READ, 13 /* NET_RAW */, 0, 0, 0) != 0)
        complain("bounding set", 0, 0);
}

static int probe(const char *what)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    if (strcmp(what, "walk") == 0) {
        signal(SIGCHLD, SIG_IGN);
        return probe_walk();
    }
    probe_sockets();
    probe_clone();
    probe_arguments();
    probe_terminals();
    probe_leases();
    probe_core_limit();
    probe_foreign_entry();
    probe_files();
    probe_agent_limits();
    probe_agent();
    return problems;
}

/* --- the tests --- */

static char self[4096];

static void run_probe(const char *what)
{
    struct box *b = box_started(NULL);
    struct run r = {.argv = {self, "--probe", what}, .combined = true};
    if (!run_start(b, &r))
        fail_msg("%s: %s (the test program must lie on the root file system)", self, r.start.err.message);
    assert_true(run_wait(b, &r, 20000));
    if (r.proc.code != 0)
        fail_msg("code %d, signal %d:\n%s", r.proc.code, r.proc.signal, buf_str(&r.out.bytes));
    run_free(&r);
    free(sh(b, "echo the agent lives")); /* whatever was tried */
    box_free(b);
}

static void seccomp_walk(void **state)
{
    (void)state;
    run_probe("walk");
}

static void refusals(void **state)
{
    (void)state;
    run_probe("all");
}

/* An image whose `name` is a link. */
static void link_target_is_refused(const char *name, const char *target)
{
    char image[] = "/dev/shm/cloister-image-XXXXXX", path[256];
    static const char *const dirs[] = {"proc", "sys", "dev", "run", "tmp"};
    assert_non_null(mkdtemp(image));
    chmod(image, 0755);
    for (size_t i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%s", image, dirs[i]);
        assert_int_equal(strcmp(dirs[i], name) == 0 ? symlink(target, path) : mkdir(path, 0755), 0);
    }
    struct box_options options = {.lower = image};
    struct box *b = box_new(&options);
    struct answer a;
    assert_false(box_start(b, &a));
    assert_string_equal(error_code(&a.err), "DENIED");
    assert_non_null(strstr(a.err.message, name));
    struct run r = {.argv = {"true"}};
    assert_false(run_start(b, &r)); /* it stays unusable */
    run_free(&r);
    box_free(b);
    struct error err = {0};
    assert_int_equal(dir_remove(AT_FDCWD, image, &err), 0);
}

static void linked_mount_targets(void **state)
{
    (void)state;
    link_target_is_refused("proc", "/tmp");
    link_target_is_refused("proc", "tmp");
    link_target_is_refused("sys", "/proc");
    link_target_is_refused("dev", "/../../etc");
    link_target_is_refused("run", "nowhere");
}

/* An image with nothing in it: the targets are made. */
static void missing_mount_targets(void **state)
{
    (void)state;
    char image[] = "/dev/shm/cloister-image-XXXXXX";
    assert_non_null(mkdtemp(image));
    chmod(image, 0755);
    struct box_options options = {.lower = image, .main_argv = {"/no-program"}};
    struct box *b = box_new(&options);
    struct answer a;
    assert_false(box_start(b, &a));
    assert_string_equal(error_code(&a.err), "ENOENT"); /* it came as far as the program */
    assert_string_equal(a.err.field, "argv");
    box_free(b);
    assert_int_equal(rmdir(image), 0);
}

static void further_mounts(void **state)
{
    (void)state;
    struct box_options options = {.mount_target = "/volumes/new/one"};
    struct box *b = box_started(&options);
    char *text = sh(b, "stat -f -c %T /volumes/new/one /volumes/new; touch /volumes/new/one/x");
    assert_string_equal(text, "tmpfs\noverlayfs\n");
    free(text);
    box_free(b);
    static const struct {
        const char *target, *code;
    } cases[] = {{"/bin/x", "DENIED"}, /* /bin is a link to usr/bin */
                 {"/etc/../../up", "EXDEV"},
                 {"/", "INVALID_ARGUMENT"},
                 {"/proc", "DENIED"}, /* covers what must be procfs */
                 {"/etc/passwd/x", "ENOTDIR"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct box_options bad = {.mount_target = cases[i].target};
        struct answer a;
        b = box_new(&bad);
        assert_false(box_start(b, &a));
        if (strcmp(error_code(&a.err), cases[i].code) != 0)
            fail_msg("%s: %s: %s", cases[i].target, error_code(&a.err), a.err.message);
        box_free(b);
    }
}

/* An ordinary host user can map only himself. */
static void one_mapped_user(void **state)
{
    (void)state;
    struct box_options options = {.single_id = true};
    struct box *b = box_started(&options);
    char *text =
        sh(b, "id -u; id -g; touch /dev/shm/x; stat -c %u /dev/shm/x; echo y > /dev/null; tty || true");
    assert_string_equal(text, "0\n0\n0\nnot a tty\n");
    free(text);
    struct run r = {.argv = {"true"}, .user = "1:1"};
    assert_false(run_start(b, &r));
    assert_string_equal(r.start.err.field, "user");
    run_free(&r);
    struct run t = {.argv = {"tty"}, .pty = true, .cols = 80, .rows = 24};
    assert_true(run_start(b, &t));
    assert_true(run_wait(b, &t, 2000));
    assert_string_equal(buf_str(&t.out.bytes), "/dev/pts/0\r\n");
    run_free(&t);
    box_free(b);
}

/* After "start" a descriptor that is sent does not arrive. */
static void no_descriptor_after_start(void **state)
{
    (void)state;
    struct box *b = box_started(NULL);
    int before = box_fd_count(b);
    for (int i = 0; i < 10; i++)
        box_ping_with_fd(b, STDERR_FILENO);
    assert_int_equal(box_fd_count(b), before);
    box_free(b);
}

static void start_only_once(void **state)
{
    (void)state;
    struct box *b = box_started(NULL);
    struct answer a;
    struct buf args;
    buf_init(&args, 0);
    cbor_put_map(&args, 0);
    box_call(b, 0, "start", &args, &a); /* twice */
    assert_true(a.failed);
    assert_string_equal(error_code(&a.err), "WRONG_STATE");
    box_free(b);
}

static void uptime_and_names(void **state)
{
    (void)state;
    struct box *b = box_started(NULL);
    char *text = sh(b, "cut -d. -f1 /proc/uptime; cat /proc/sys/kernel/hostname; cat /sys/class/net/lo/flags;"
                       "ls /sys/class/net; ls -A /sys/fs/cgroup | wc -l");
    assert_string_equal(text, "0\nbox\n0x9\nlo\n0\n");
    free(text);
    text = sh(
        b,
        "python3 -c 'import time; print(time.monotonic() < 5, time.clock_gettime(time.CLOCK_BOOTTIME) < 5)'");
    assert_string_equal(text, "True True\n");
    free(text);
    box_free(b);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--probe") == 0)
        return probe(argv[2]) ? 1 : 0;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seccomp_walk),
        cmocka_unit_test(refusals),
        cmocka_unit_test(linked_mount_targets),
        cmocka_unit_test(missing_mount_targets),
        cmocka_unit_test(no_descriptor_after_start),
        cmocka_unit_test(start_only_once),
        cmocka_unit_test(uptime_and_names),
        cmocka_unit_test(further_mounts),
        cmocka_unit_test(one_mapped_user),
    };
    return cmocka_run_group_tests_name("agent isolation", tests, NULL, NULL);
}
