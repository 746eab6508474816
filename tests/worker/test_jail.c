/* The jail, from inside: this program takes the worker's place behind the same functions (src/worker/jail.h)
 * and tries what a worker that was taken over would. Every attempt must fail with the error named here, and
 * must work (or fail otherwise) for the same program outside: its legal twin. `test_worker_jail user` does it
 * all as an ordinary user. */
#include "worker/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

/* 0, or the error of a raw system call. */
static int try_call(long number, long a, long b, long c, long d, long e)
{
    return syscall(number, a, b, c, d, e, 0L) < 0 ? errno : 0;
}

#define TRY(name, number, a, b, c, d, e)                                                                     \
    static int name(void)                                                                                    \
    {                                                                                                        \
        return try_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e));                      \
    }

static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/nothing"};
static char old[16];

TRY(open_passwd, SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY, 0, 0)
TRY(open_by_old_call, SYS_open, "/etc/passwd", O_RDONLY, 0, 0, 0)
TRY(open_root, SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0, 0)
TRY(open_proc, SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY, 0, 0)
TRY(stat_root, SYS_access, "/", R_OK, 0, 0, 0)
TRY(read_link, SYS_readlink, "/proc/self/exe", old, sizeof old, 0, 0)
TRY(get_directory, SYS_getcwd, old, sizeof old, 0, 0, 0)
TRY(change_directory, SYS_chdir, "/", 0, 0, 0, 0)
TRY(socket_inet, SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0)
TRY(socket_unix, SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0, 0)
TRY(socket_netlink, SYS_socket, AF_NETLINK, SOCK_RAW, 0, 0, 0)
TRY(connect_link, SYS_connect, 1, &address, sizeof address, 0, 0)
TRY(make_pipe, SYS_pipe2, old, 0, 0, 0, 0)
TRY(make_memory_file, SYS_memfd_create, "x", 0, 0, 0, 0)
TRY(make_epoll, SYS_epoll_create1, 0, 0, 0, 0, 0)
TRY(make_inotify, SYS_inotify_init1, 0, 0, 0, 0, 0)
TRY(dup_descriptor, SYS_dup, 1, 0, 0, 0, 0)
TRY(fcntl_descriptor, SYS_fcntl, 1, F_GETFL, 0, 0, 0)
TRY(ioctl_descriptor, SYS_ioctl, 1, 0x5401, old, 0, 0)
TRY(fork_process, SYS_fork, 0, 0, 0, 0, 0)
TRY(signal_self, SYS_kill, getpid(), 0, 0, 0, 0)
TRY(signal_group, SYS_kill, -1, 0, 0, 0, 0)
TRY(signal_by_tkill, SYS_tkill, getpid(), 0, 0, 0, 0)
TRY(signal_with_data, SYS_rt_sigqueueinfo, getpid(), 0, old, 0, 0)
TRY(open_pidfd, SYS_pidfd_open, getpid(), 0, 0, 0, 0)
TRY(trace_me, SYS_ptrace, PTRACE_PEEKUSER, getpid(), 0, 0, 0)
TRY(read_memory, SYS_process_vm_readv, getpid(), old, 0, old, 0)
TRY(user_namespace, SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0)
TRY(enter_namespace, SYS_setns, 1, 0, 0, 0, 0)
TRY(run_program, SYS_execve, "/nonexistent", NULL, NULL, 0, 0)
TRY(mount_something, SYS_mount, "none", "/nonexistent", "tmpfs", 0, 0)
TRY(change_root, SYS_chroot, "/nonexistent", 0, 0, 0, 0)
TRY(set_uid, SYS_setresuid, -1, -1, -1, 0, 0)
TRY(set_gid, SYS_setresgid, -1, -1, -1, 0, 0)
TRY(set_limit, SYS_setrlimit, 99, old, 0, 0, 0)
TRY(be_dumpable, SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0)
TRY(add_filter, SYS_seccomp, 99, 0, 0, 0, 0)
TRY(load_bpf, SYS_bpf, 99, old, sizeof old, 0, 0)
TRY(make_uring, SYS_io_uring_setup, 0, old, 0, 0, 0)
TRY(make_userfault, SYS_userfaultfd, 1 /* of user mode only */, 0, 0, 0, 0)
TRY(measure_others, SYS_perf_event_open, 0, 0, 0, 0, 99)
TRY(use_keys, SYS_keyctl, 99, 0, 0, 0, 0)
TRY(share_memory, SYS_shmget, 0, 0, 0, 0, 0)
TRY(make_semaphore, SYS_semget, 0, -1, 0, 0, 0)
TRY(pin_processor, SYS_sched_setaffinity, 0, 0, old, 0, 0)
TRY(get_ids, SYS_getuid, 0, 0, 0, 0, 0)
TRY(list_descriptors, SYS_getdents64, 1, old, sizeof old, 0, 0)
TRY(clone_three, SYS_clone3, old, 8, 0, 0, 0)

static int clone_process(void)
{
    return try_call(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID, 0, 0, 0,
                    0); /* invalid outside, refused before that inside */
}

static bool inside; /* in the jail, where the parent is the zygote, process 1 */

static int signal_parent_thread(void)
{
    pid_t parent = inside ? 1 : getppid();
    return try_call(SYS_tgkill, parent, parent, 0, 0, 0);
}

/* What a worker must be able to do. */
static int map_code(void)
{
    unsigned char *p =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return errno;
    p[0] = 0xc3; /* ret */
    ((void (*)(void))(uintptr_t)p)();
    return 0;
}

static void *thread_main(void *arg)
{
    return arg;
}

static int start_thread(void)
{
    pthread_t t;
    int r = pthread_create(&t, NULL, thread_main, NULL);
    return r ? r : pthread_join(t, NULL);
}

static int get_random(void)
{
    return syscall(SYS_getrandom, old, sizeof old, 0) < 0 ? errno : 0;
}

struct attempt {
    const char *name;
    int (*run)(void);
    int inside; /* the error it must meet in the jail */
};

static const struct attempt attempts[] = {
    {"open /etc/passwd", open_passwd, EPERM},
    {"open by the old call", open_by_old_call, EPERM},
    {"open the root directory", open_root, EPERM},
    {"open /proc/self/maps", open_proc, EPERM},
    {"look at the root directory", stat_root, EPERM},
    {"read a symbolic link", read_link, EPERM},
    {"ask for the directory", get_directory, EPERM},
    {"change the directory", change_directory, EPERM},
    {"list a directory", list_descriptors, EPERM},
    {"make an IP socket", socket_inet, EPERM},
    {"make a Unix socket", socket_unix, EPERM},
    {"make a netlink socket", socket_netlink, EPERM},
    {"connect what it has", connect_link, EPERM},
    {"make a pipe", make_pipe, EPERM},
    {"make a memory file", make_memory_file, EPERM},
    {"make an epoll instance", make_epoll, EPERM},
    {"make an inotify instance", make_inotify, EPERM},
    {"duplicate a descriptor", dup_descriptor, EPERM},
    {"fcntl", fcntl_descriptor, EPERM},
    {"ioctl", ioctl_descriptor, EPERM},
    {"fork", fork_process, EPERM},
    {"clone with other flags than a thread's", clone_process, EPERM},
    {"clone3", clone_three, ENOSYS},
    {"signal itself by kill", signal_self, EPERM},
    {"signal everybody", signal_group, EPERM},
    {"signal another process's thread", signal_parent_thread, EPERM},
    {"signal by tkill", signal_by_tkill, EPERM},
    {"queue a signal", signal_with_data, EPERM},
    {"open a pidfd", open_pidfd, EPERM},
    {"trace", trace_me, EPERM},
    {"read another process's memory", read_memory, EPERM},
    {"make a user namespace", user_namespace, EPERM},
    {"enter a namespace", enter_namespace, EPERM},
    {"run a program", run_program, EPERM},
    {"mount", mount_something, EPERM},
    {"change the root", change_root, EPERM},
    {"change user ids", set_uid, EPERM},
    {"change group ids", set_gid, EPERM},
    {"change limits", set_limit, EPERM},
    {"prctl", be_dumpable, EPERM},
    {"install a filter", add_filter, EPERM},
    {"load BPF", load_bpf, EPERM},
    {"set up io_uring", make_uring, EPERM},
    {"set up userfaultfd", make_userfault, EPERM},
    {"measure performance", measure_others, EPERM},
    {"use keyrings", use_keys, EPERM},
    {"share System V memory", share_memory, EPERM},
    {"make a System V semaphore", make_semaphore, EPERM},
    {"pin itself to a processor", pin_processor, EPERM},
    {"ask who it is", get_ids, EPERM},
    {"run code that it made", map_code, 0},
    {"start a thread", start_thread, 0},
    {"get random numbers", get_random, 0},
};
#define ATTEMPTS (sizeof attempts / sizeof *attempts)

static int results_outside[ATTEMPTS];

/* Outside, where calls work or fail for reasons of their own: a child, which tells by shared memory. */
static void run_twins(int *shared)
{
    pid_t pid = fork();
    if (pid == 0) {
        pid_t me = getpid();
        for (size_t i = 0; i < ATTEMPTS; i++) {
            shared[i] = attempts[i].run();
            if (getpid() != me)
                _exit(0);
        }
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(3);
}

_Noreturn static void run_inside(void)
{
    char line[256];
    bool good = true;
    inside = true;
    for (size_t i = 0; i < ATTEMPTS; i++) {
        const struct attempt *a = &attempts[i];
        int got = a->run();
        /* A refusal is one only if the same thing goes otherwise outside. */
        bool twin = a->inside == 0 ? results_outside[i] == 0 : results_outside[i] != a->inside;
        bool ok = got == a->inside && twin;
        good &= ok;
        snprintf(line, sizeof line, "%sok %zu - %s: %d inside, %d outside\n", ok ? "" : "not ", i + 1,
                 a->name, got, results_outside[i]);
        say(line);
    }
    _exit(good ? 0 : 1);
}

/* The entry for programs of 32 bits has other numbers: a filter that knew only one set would be passed by. */
_Noreturn static void use_other_architecture(void)
{
#ifdef __x86_64__
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory"); /* getpid of 32 bits */
#endif
    _exit(0);
}

static int in_worker(struct jail *jail, uint32_t number, void (*fn)(void))
{
    struct error err = {0};
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (jail_worker(jail, number, &err) < 0) {
            say("Bail out! ");
            say(err.message);
            say("\n");
            _exit(2);
        }
        fn();
        _exit(0);
    }
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

static int outside(void (*fn)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        fn();
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

static void become_nobody(void)
{
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        exit(4);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct jail jail = {0};
    char line[128];
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc > 1 && strcmp(argv[1], "user") == 0)
        become_nobody();
    printf("1..%zu\n", ATTEMPTS + 1);
    int *shared =
        mmap(NULL, sizeof results_outside, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 4;
    run_twins(shared);
    int twin = outside(use_other_architecture);
    memcpy(results_outside, shared, sizeof results_outside);
    if (jail_split(&jail, -1, &err) < 0 || jail_close(&jail, &err) < 0) {
        printf("Bail out! %s\n", err.message);
        return 1;
    }
    int status = in_worker(&jail, 1, run_inside), other = in_worker(&jail, 2, use_other_architecture);
    /* A kernel without that entry ends the program by SIGSEGV, in the jail and out of it. */
    bool killed = WIFSIGNALED(other) && WTERMSIG(other) == (WIFEXITED(twin) ? SIGSYS : SIGSEGV);
    snprintf(line, sizeof line, "%sok %zu - calls of another architecture end the process\n",
             killed ? "" : "not ", ATTEMPTS + 1);
    say(line);
    _exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 && killed ? 0 : 1);
}
