/* What glibc 2.36 has and musl 1.2.3 lacks. Force-included where the agent is built with musl: a static glibc
 * program asks the processor for its caches at every start, which costs more than all the rest of the start
 * on a virtual machine. */
#ifndef CLOISTER_AGENT_MUSL_COMPAT_H
#define CLOISTER_AGENT_MUSL_COMPAT_H

#include <fcntl.h>
#include <linux/mount.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fd, unsigned command, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fd, command, key, value, aux);
}

static inline int fsmount(int fd, unsigned flags, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fd, flags, attributes);
}

static inline int open_tree(int dirfd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dirfd, path, flags);
}

static inline int move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}

static inline int mount_setattr(int dirfd, const char *path, unsigned flags, struct mount_attr *attr,
                                size_t size)
{
    return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, size);
}

static inline int close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

#endif
