/* Walks every system call number, by each of the three ways into an x86-64 kernel, each call in a child of
 * its own with arguments that no call takes (-1), and prints "<way> <number> <outcome>": an errno name, "ok",
 * "ended" (the call ended the process), "blocked", or "signal N". The test compares with its own table. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST 470
#define X32 0x40000000L

enum way { NATIVE, WITH_X32, INT80 };
static const char *const way_names[] = {"native", "x32", "int80"};

/* Written by the child. */
struct slot {
    volatile int done;
    volatile long result;
};

static long native(long nr, const long a[6])
{
    register long r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "0"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

static long int80(long nr, const long a[6])
{
    long ret;
    __asm__ volatile("int $0x80"
                     : "=a"(ret)
                     : "0"(nr), "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]), "D"(a[4])
                     : "r8", "r9", "r10", "r11", "memory");
    return (int)ret;
}

/* Calls whose answer to -1 could be taken for a refusal get arguments that they like. */
static void choose_arguments(long nr, long a[6])
{
    static int word;
    for (int i = 0; i < 6; i++)
        a[i] = -1;
    if (nr == SYS_futex) {
        long wake[6] = {(long)&word, 1, 0, 0, 0, 0};
        memcpy(a, wake, sizeof wake);
    } else if (nr == SYS_modify_ldt || nr == SYS_mq_open) {
        memset(a, 0, 6 * sizeof *a);
    }
}

static void child(enum way way, long nr, struct slot *s)
{
    struct itimerval soon = {.it_value = {.tv_usec = 700000}};
    long a[6];
    setitimer(ITIMER_REAL, &soon, NULL);
    choose_arguments(way == NATIVE ? nr : -1, a);
    pid_t self = getpid();
    long r = way == INT80 ? int80(nr, a) : native(way == WITH_X32 ? nr | X32 : nr, a);
    if (syscall(SYS_getpid) != self) /* fork and its like: the new process just leaves */
        syscall(SYS_exit, 0L);
    s->result = r;
    s->done = 1;
    syscall(SYS_exit_group, 0L);
}

static void print_outcome(enum way way, long nr, const struct slot *s, int status)
{
    printf("%s %ld ", way_names[way], nr);
    if (s->done && s->result < 0 && s->result > -4096) {
        const char *name = strerrorname_np((int)-s->result);
        printf("%s\n", name ? name : "unknown");
    } else if (s->done) {
        printf("ok\n");
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        printf("blocked\n");
    } else if (WIFSIGNALED(status)) {
        printf("signal %d\n", WTERMSIG(status));
    } else {
        printf("ended\n");
    }
}

static int walk(enum way way, long from, long to, struct slot *s)
{
    for (long nr = from; nr <= to; nr++) {
        int status = 0;
        s->done = 0;
        fflush(stdout);
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0)
            child(way, nr, s);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        print_outcome(way, nr, s, status);
    }
    return 0;
}

int main(void)
{
    struct slot *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return 1;
    if (walk(NATIVE, 0, LAST, s) || walk(NATIVE, 512, 547, s) || walk(WITH_X32, 0, LAST, s) ||
        walk(WITH_X32, 512, 547, s) || walk(INT80, 0, LAST, s))
        return 1;
    puts("end");
    return 0;
}
