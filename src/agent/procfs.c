#include "agent/procfs.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int procfs_each(int proc_fd, bool (*fn)(void *user, pid_t pid), void *user)
{
    int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int saved = errno;
        if (fd >= 0)
            close(fd);
        errno = saved;
        return -1;
    }
    struct dirent *e;
    while ((e = readdir(dir))) {
        uint64_t pid;
        if (parse_u64(e->d_name, "pid", 2, INT32_MAX, &pid, NULL) == 0 && !fn(user, (pid_t)pid))
            break;
    }
    closedir(dir);
    return 0;
}

ssize_t procfs_read(int proc_fd, pid_t pid, const char *name, char *to, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "%d/%s", (int)pid, name);
    cleanup_close int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = fd_read_full(fd, to, cap - 1);
    if (n >= 0)
        to[n] = '\0';
    return n;
}

bool procfs_stat(int proc_fd, pid_t pid, struct procfs_stat *ret)
{
    char text[512];
    if (procfs_read(proc_fd, pid, "stat", text, sizeof text) < 0)
        return false;
    /* the name is in parentheses and may hold anything, parentheses and line ends too: the last ')' closes it
     */
    const char *p = strrchr(text, ')');
    int parent;
    if (!p || sscanf(p + 1, " %c %d", &ret->state, &parent) != 2)
        return false;
    ret->parent = parent;
    return true;
}
