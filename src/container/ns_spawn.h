/* Starts the agent in namespaces of its own: user, mount, PID, network, IPC, UTS (the agent adds cgroup and
 * time). */
#ifndef CLOISTER_CONTAINER_NS_SPAWN_H
#define CLOISTER_CONTAINER_NS_SPAWN_H

#include "base/error.h"
#include "container/cgroup.h"

#include <sys/types.h>

struct ns_spawn {
    int agent_memfd;                   /* sealed image of cloister-init */
    int null_fd;                       /* becomes descriptors 0, 1 and 2 */
    int link_fd;                       /* the guest's end; becomes AGENT_LINK_FD */
    uid_t owner;                       /* whose the user namespace is; 0: the caller's own */
    int cgroup_fd;                     /* directory of a version 2 control group to be born in; -1: none */
    int tasks_fds[CGROUP_CONTROLLERS]; /* "tasks" of version 1 control groups to join, opened for writing */
    int tasks_count;
};

/* The agent runs when this returns, unmapped: write its id maps next (idmap_write). */
int ns_spawn(const struct ns_spawn *s, pid_t *ret_pid, int *ret_pidfd, struct error *err);
/* Names the host in the UTS namespace of a process (by its pidfd). */
int ns_set_hostname(int pidfd, const char *name, struct error *err);
/* A sealed memfd with the content of `path`: nobody, not even through /proc/self/exe, can write to it. */
int ns_seal_program(const char *path, int *ret_fd, struct error *err);

#endif
