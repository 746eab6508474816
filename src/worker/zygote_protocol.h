/* The control socket between the daemon and the worker zygote: SOCK_SEQPACKET, one struct a message,
 * descriptors by SCM_RIGHTS. Both ends are of one build; the zygote runs no guest code, its children never
 * hold this socket.
 *
 * Start: `cloister-worker --zygote FD`, FD being the zygote's end (the other one stays with the daemon,
 * close-on-exec). Descriptors 0 to 2 as the daemon likes: standard error gets one line when the zygote cannot
 * start or go on, before it exits with status 1. The program started forks once: the process that exec'ed
 * waits for the jailed one (PID 1 of its own PID namespace) and ends as it ends. Closing the socket ends the
 * zygote and, at once, every child. Killing either process does the same.
 *
 *   zygote -> daemon  READY      once, when children can be forked (about 100 ms after the start)
 *   daemon -> zygote  FORK       with descriptors: the child's end of its link (SOCK_STREAM), then
 * `cgroup_fds` control files (version 1: `tasks`, version 2: `cgroup.procs`) opened for writing, in which the
 * child enrols itself before anything else zygote -> daemon  FORKED     with one descriptor, the child's
 * pidfd: kill it with pidfd_send_signal(2). `pid` is the number in the zygote's PID namespace, good only as a
 * name; zygote_host_pid() finds the daemon's FAILED     instead of FORKED: no child was made; `error` is an
 * errno value ENDED      after FORKED: the child is gone and reaped; `status` as of waitpid(2)
 *
 * Requests may be sent without waiting for answers; answers to FORK come in the order of the requests. A
 * child first warms itself (some milliseconds: it rehearses a request), then reads its link, where the daemon
 * speaks the host side (worker_protocol.h) and `init` comes first. What is sent early is read when the child
 * is warm. So: fork ahead, keep a few, claim one by sending `init`. Limits of a control group may be set any
 * time.
 *
 * Memory: a child shares with the zygote what neither has written: the engine, the library, in all some 50 MB
 * that count as resident and anonymous in /proc/PID/status, and are nobody's to pay for. Its own is
 * Private_Dirty of /proc/PID/smaps_rollup (3 MB at first), or what its memory control group counts; a
 * watcher without either may take resident memory less what it was before `init`.
 *
 * A child that ends by itself: 0 after the link closed in an orderly way, else a WORKER_EXIT_* of
 * worker_protocol.h; 1 for a fault of the library or the jail (its last LOG frame says which); or a signal:
 * SIGSYS, a call that the filter forbids fatally; SIGKILL, the kernel's or the daemon's; SIGSEGV, SIGILL,
 * SIGTRAP, SIGABRT: the engine gave up (out of memory, stack). */
#ifndef CLOISTER_WORKER_ZYGOTE_PROTOCOL_H
#define CLOISTER_WORKER_ZYGOTE_PROTOCOL_H

#include <stdint.h>

#define ZYGOTE_MAX_CGROUP_FDS 8u

enum zygote_message_type {
    ZYGOTE_READY = 1,
    ZYGOTE_FORK,
    ZYGOTE_FORKED,
    ZYGOTE_FAILED,
    ZYGOTE_ENDED,
};

enum zygote_child_kind {
    ZYGOTE_WORKER,   /* role host or dynamic, as `init` will say */
    ZYGOTE_COMPILER, /* role compiler */
};

struct zygote_message {
    uint32_t type;       /* enum zygote_message_type */
    uint32_t id;         /* FORK: chosen by the daemon; every message about that child carries it */
    uint32_t kind;       /* FORK: enum zygote_child_kind */
    uint32_t cgroup_fds; /* FORK: how many follow the link's descriptor */
    int32_t pid;         /* FORKED, ENDED */
    int32_t status;      /* ENDED */
    int32_t error;       /* FAILED */
};

#endif
