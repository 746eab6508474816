/* Reading the container's /proc through our own descriptor of it. UNTRUSTED INPUT: process names are the
 * guest's. */
#ifndef CLOISTER_AGENT_PROCFS_H
#define CLOISTER_AGENT_PROCFS_H

#include <stdbool.h>
#include <sys/types.h>

/* Calls fn for every process but ourselves (pid 1); stops when it returns false. -1 with errno. */
int procfs_each(int proc_fd, bool (*fn)(void *user, pid_t pid), void *user);

struct procfs_stat {
    char state; /* 'R', 'S', 'T', 'Z', ... */
    pid_t parent;
};
bool procfs_stat(int proc_fd, pid_t pid, struct procfs_stat *ret);
/* A short file of a process, NUL-terminated. Length, or -1. */
ssize_t procfs_read(int proc_fd, pid_t pid, const char *name, char *to, size_t cap);

#endif
