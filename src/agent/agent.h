/* What the parts of cloister-init share: the agent itself and the phases it passes through. One thread, one
 * loop, one link. */
#ifndef CLOISTER_AGENT_AGENT_H
#define CLOISTER_AGENT_AGENT_H

#include "agent/child.h"
#include "agent/loop.h"
#include "base/error.h"
#include "link/agent_protocol.h"
#include "link/link.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum phase {
    PHASE_NEW,     /* only "setup" and "ping" are answered; identity is not yet ours */
    PHASE_BLANK,   /* set up; waits for "start", the one frame that may bring descriptors */
    PHASE_RUNNING, /* no descriptor is accepted any more */
    PHASE_ENDING,  /* the main process is gone: everything is killed, output is flushed, no new work */
    PHASE_BROKEN,  /* setup or start failed halfway: nothing but "ping" is answered */
};

/* Limits from "start"; 0: none. */
struct limits {
    uint64_t open_files;
    uint64_t pids;
    uint64_t memory_watch;
};

/* A frame of DATA whose bytes go from pipe to pipe to socket, as pages, past our memory. One at a time. */
struct apart {
    int pipe[2]; /* 0: not made yet */
    bool unable; /* the machine gives us no pipe, or does not splice */
    uint8_t header[LINK_HEADER_SIZE];
    unsigned header_left;
    size_t body_left; /* of the frame's body, all of it in `pipe` */
};

struct process;
struct out_pump;

struct agent {
    struct loop loop;
    enum phase phase;

    /* the link */
    struct link *link;
    struct source link_source;
    bool want_flush;
    bool link_blocked; /* the socket is full: waiting for EPOLLOUT */
    struct apart apart;
    int fds[AGENT_MAX_START_FDS];
    int fd_count;

    /* our own handles on the container's mounts, so that nothing the guest does to names matters */
    int proc_fd, sys_fd, dev_fd, run_fd; /* O_PATH */
    int pts_fd;                          /* O_PATH, root of the devpts instance */
    int null_fd;                         /* /dev/null, read and write */
    bool no_setgroups;                   /* the identity map forbids setgroups(2) */

    struct limits limits;
    struct rlimit files; /* RLIMIT_NOFILE as we got it, for the guest's processes */
    int cgroup_fd;       /* -1: none; a cgroup v2 directory we may make children in */
    unsigned next_tree;

    struct source sigchld_source;
    struct child_table children;
    struct process *main;
    struct process *processes;
    bool main_reported; /* its end was told to the host, or the host does not want to know */
    bool memory_exceeded;
    struct timer memory_timer;
    struct timer ending_timer;
    unsigned fs_jobs;
    struct out_pump *pumps; /* every output pump that is not done */

    uint8_t *scratch; /* LINK_DATA_MAX bytes, given back when idle */
    bool scratch_used;
};

/* --- conn.c: bytes of the link --- */
int conn_open(struct agent *a, int fd, struct error *err);
/* Writes what is pending; called after every turn of the loop. */
void conn_flush(struct agent *a);
/* True when nothing waits to be written. */
bool conn_idle(const struct agent *a);
/* Closes every descriptor received and refuses all later ones. */
void conn_close_fds(struct agent *a);
/* Takes the descriptor with that index; -1 when there is none. */
int conn_take_fd(struct agent *a, uint64_t index);
uint8_t *agent_scratch(struct agent *a); /* NULL: out of memory */
void agent_log(struct agent *a, int level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Ends the agent, and with it (PID 1) every process of the container. */
_Noreturn void agent_die(int code);

/* Resets the streams that the arguments of a refused call name under `keys` (NULL-terminated), so that what
 * the host has already sent on them is no error. `sends`: the agent would have been the sender. */
void agent_refuse_streams(struct agent *a, const struct cbor_reader *args, const char *const *keys,
                          bool sends, const struct error *why);

/* --- apart.c --- */
/* Moves up to `room` bytes from the pipe `fd` to `stream` and begins to send them. Only while conn_idle().
 * Bytes moved; 0 at the end of file; -1 with errno: EAGAIN, or ENOSYS when it cannot be done this way. */
ssize_t apart_send(struct agent *a, int fd, uint32_t stream, size_t room);
/* Goes on with it. 1: sent as a whole; 0: the socket is full; -1: the socket failed. */
int apart_flush(struct agent *a);
bool apart_pending(const struct agent *a);

/* --- bootstrap.c: the calls on capability 0 --- */
extern const struct link_object_ops bootstrap_ops;
void return_empty(struct link_call *call);

/* --- stage.c, enter.c, jail.c: the phases of isolation --- */
int stage_build(struct agent *a, struct error *err);
struct enter_mount {
    int fd; /* owned by the caller */
    const char *target;
};
int enter_root(struct agent *a, int root_fd, const struct enter_mount *mounts, int count, struct error *err);
/* Capabilities, no_new_privs, seccomp: irrevocable. `watched`: memory is not limited but measured (memory.c).
 */
int jail_enter(bool watched, struct error *err);

/* --- ending.c --- */
/* The main process was reaped: kill everything, and exit when all is told. */
void ending_begin(struct agent *a);
/* Called after every turn of the loop in PHASE_ENDING: exits once everything is told and written. */
void ending_check(struct agent *a);

/* --- memory.c --- */
struct usage {
    uint64_t processes;
    uint64_t bytes;
};
void usage_measure(struct agent *a, struct usage *ret);
void memory_watch_start(struct agent *a);

#endif
