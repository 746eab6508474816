/* The daemon's end of a zygote's control socket (zygote_protocol.h). Blocks never, logs never. */
#ifndef CLOISTER_WORKER_ZYGOTE_CLIENT_H
#define CLOISTER_WORKER_ZYGOTE_CLIENT_H

#include "base/error.h"
#include "worker/zygote_protocol.h"

#include <stddef.h>
#include <sys/types.h>

/* Starts `program` (libexec/cloister/cloister-worker) as a child of the caller. The control socket that is
 * returned does not block and is close-on-exec. The caller reaps `*ret_pid`. */
int zygote_spawn(const char *program, int *ret_control_fd, pid_t *ret_pid, struct error *err);
/* Sends FORK. The descriptors stay the caller's, who closes them. ERROR_SYSTEM with EAGAIN: the socket is
 * full, try later. */
int zygote_fork(int control_fd, uint32_t id, enum zygote_child_kind kind, int link_fd, const int *cgroup_fds,
                size_t cgroup_count, struct error *err);
/* Takes the next message. 1: there is one (FORKED: *ret_pidfd is the caller's; else -1). 0: none now. -1: the
 * zygote is gone (ERROR_GONE) or broke the protocol. */
int zygote_receive(int control_fd, struct zygote_message *ret, int *ret_pidfd, struct error *err);
/* The caller's own number for the process behind a pidfd; -1: gone, or there is no /proc. */
pid_t zygote_host_pid(int pidfd);

#endif
