/* A dynamic loader that a hostile image names as the interpreter of its programs. It runs in the place where
 * a runtime has just called execve(2): it tries to open that runtime for writing, as in CVE-2019-5736. No
 * libc: it must not need the program headers that the kernel points it to. Prints "self N", "parent N", "init
 * N": the result of each open, 0 or more being success. */
#include <stddef.h>

void _start(void);

static long call(long nr, long a, long b, long c)
{
    long ret;
    __asm__ volatile("syscall" : "=a"(ret) : "0"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return ret;
}

static void put(const char *text, size_t n)
{
    call(1, 1, (long)text, (long)n);
}

static void put_number(long v)
{
    char text[24];
    size_t at = sizeof text;
    unsigned long u = v < 0 ? 0ul - (unsigned long)v : (unsigned long)v;
    text[--at] = '\n';
    do
        text[--at] = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        text[--at] = '-';
    put(text + at, sizeof text - at);
}

static void try_open(const char *label, size_t n, const char *path)
{
    put(label, n);
    put_number(call(2, (long)path, 02 /* O_RDWR */, 0));
}

__attribute__((force_align_arg_pointer)) void _start(void)
{
    try_open("self ", 5, "/proc/self/exe");
    try_open("init ", 5, "/proc/1/exe");
    call(231, 0, 0, 0);
    __builtin_unreachable();
}
