/* System calls that glibc 2.36 has no wrapper for. */
#ifndef CLOISTER_AGENT_KERNEL_H
#define CLOISTER_AGENT_KERNEL_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROC_SUPER_MAGIC_NUMBER 0x9fa0
#define SYSFS_MAGIC_NUMBER 0x62656572
#define TMPFS_MAGIC_NUMBER 0x01021994

static inline int sys_openat2(int dirfd, const char *path, int flags, unsigned mode, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)flags, .mode = mode, .resolve = resolve};
    return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof how);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}

#endif
