/* The container engine: turns a root file system description into a running container and talks to its agent.
 * Used by the daemon and, in-process, by `cloister run`. Runs on the owner's libuv loop; every callback comes
 * from that loop.
 *
 * How a container is realised is a backend (backend.h): `namespace` today. Nothing in this header assumes a
 * shared kernel or a shared file system.
 *
 * Lifetimes. A `struct container` lives from container_start() until its on_exit callback has returned; a
 * `struct exec` until its on_exit callback has returned AND its streams have ended, or exec_release() is
 * called. */
#ifndef CLOISTER_CONTAINER_ENGINE_H
#define CLOISTER_CONTAINER_ENGINE_H

#include "base/error.h"
#include "link/cbor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct engine;
struct container;
struct exec;

struct engine_config {
    uv_loop_t *loop;      /* borrowed */
    const char *data_dir; /* images, layers, volumes; exists or is made 0700 */
    const char *run_dir;  /* per-container run time state; exists or is made 0700; tmpfs is best */
    const char *agent;    /* path of cloister-init; NULL: found beside the running program */
    unsigned pool;        /* blanks kept ready (0: none, as for `cloister run`) */
    bool last;            /* the process ends after engine_close(): mounts may be left to its end */
};

/* As an ordinary user this first moves the whole process into a user namespace of its own (so call it before
 * any thread exists), in which the process is root over its mounts; as root it enters a private mount
 * namespace, and mounts in it. One engine a process at a time. */
int engine_open(struct engine **ret, const struct engine_config *config, struct error *err);
/* Ends every container and waits for none: callbacks are not called any more. */
void engine_close(struct engine *e);
/* Removes what dead owners left in run_dir, data_dir and the cgroup trees. `thorough`: also looks for control
 * groups whose owners left nothing else. Number of owners, for the log. */
int engine_reap_orphans(struct engine *e, bool thorough);

/* What this machine lets the engine enforce, decided once at engine_open(). */
enum enforcement { ENFORCE_NONE, ENFORCE_WATCHER, ENFORCE_RLIMIT, ENFORCE_CGROUP_V1, ENFORCE_CGROUP_V2 };
struct grade {
    bool root;      /* run by root: per-container uid ranges */
    bool uid_range; /* more than one uid is mapped inside */
    enum enforcement memory, cpu, pids, tree_kill, freeze;
    bool disk_in_memory; /* writable layers of at most half the memory limit are kept in memory */
    bool disk_in_image;  /* others in an ext4 image. Neither: the disk is not limited */
    char text[192];      /* one line for people, e.g. "namespace, own uid range, cgroup v1 limits" */
};
const struct grade *engine_grade(const struct engine *e);
/* For others who keep control groups beside the containers': where they can be had, and what their names
 * begin with
 * ("<id>."), by which they are removed when the owner has died. */
struct cgroups;
const struct cgroups *engine_cgroups(const struct engine *e);
const char *engine_id(const struct engine *e);
/* Some could not be removed yet: engine_close() does. */
void engine_cgroups_left(struct engine *e);
const char *enforcement_name(enum enforcement e);

/* ---- starting ---- */

struct limits {
    uint64_t memory_bytes; /* 0: engine default */
    uint32_t cpu_milli;    /* thousandths of a CPU; 0: not limited */
    uint32_t pids;         /* 0: default */
    uint64_t disk_bytes;   /* writable layer; 0: default */
    uint64_t disk_inodes;  /* 0: derived from disk_bytes */
    uint32_t open_files;   /* RLIMIT_NOFILE of every process; 0: default */
    uint64_t wall_ms;      /* hard timeout of the container; 0: none */
};
#define LIMIT_DEFAULT_MEMORY ((uint64_t)1 << 30)
#define LIMIT_DEFAULT_PIDS 1024u
#define LIMIT_DEFAULT_DISK ((uint64_t)512 << 20)
#define LIMIT_DEFAULT_OPEN_FILES 4096u

struct root_mount {
    const char *target; /* absolute path in the container */
    const char *const
        *layers; /* absolute host directories, bottom first; a private writable layer goes on top */
    size_t layer_count;
};

struct exec_spec {
    const char *const *argv; /* NULL-terminated */
    const char *const *env;  /* NULL-terminated "K=V", complete; NULL: empty */
    const char *cwd;         /* NULL: "/" */
    const char *user;        /* NULL: "0:0" */
    bool in, out, err;       /* piped; otherwise end of file / discarded */
    bool combined;           /* stderr joins stdout */
    bool pty;                /* implies in and out */
    uint16_t cols, rows;
    uint64_t timeout_ms; /* deadline: the whole tree is killed; 0: none */
};

struct start_spec {
    const char *const *layers; /* root: absolute host directories, bottom first */
    size_t layer_count;
    bool host_usr; /* the machine's /usr, read-only, at /usr (image `host`) */
    const struct root_mount *mounts;
    size_t mount_count;
    const char *hostname;
    struct limits limits;
    bool hold; /* the main process waits for container_release_main(); files and execs work before it */
    struct exec_spec main;
};

enum stop_reason {
    STOP_EXIT,       /* the main process ended by itself: code or signal */
    STOP_TIMEOUT,    /* limits.wall_ms */
    STOP_MEMORY,     /* memory limit */
    STOP_DESTROY,    /* container_destroy(): `detail` is the caller's reason */
    STOP_INACTIVITY, /* set by the daemon through container_destroy_as() */
    STOP_AGENT,      /* the agent died or broke the protocol: `detail` says how */
    STOP_RESTART,    /* recorded by a new daemon about containers of a dead one */
    STOP_START,      /* never got running: `detail` is the error */
};
const char *stop_reason_name(enum stop_reason r); /* "exit", "timeout", "memory limit", "destroy", ... */

/* How a process ended. */
struct exit_status {
    enum stop_reason reason; /* STOP_EXIT, STOP_TIMEOUT (deadline), STOP_MEMORY, or why its container ended */
    int code;                /* exit code; 128+signal when killed by one */
    int signal;              /* 0, or the signal */
    char detail[256];
    uint64_t cpu_us;
    uint64_t max_rss_kib;
    uint64_t memory_peak_bytes; /* of a container, where a cgroup tells; else 0 */
};

struct stage_timings { /* microseconds, each stage by itself */
    uint32_t root, namespaces, agent, ready, total;
    bool from_pool;
};

#define FLOOD_LATER ((size_t)-1)

/* All but on_exit may be NULL. */
struct exec_events {
    void (*on_started)(void *user, struct exec *x, int pid);
    /* `fd` 1 or 2. Bytes must be acknowledged with exec_consumed() sooner or later: that is the backpressure.
     * UNTRUSTED INPUT. */
    void (*on_output)(void *user, struct exec *x, int fd, const uint8_t *data, size_t len);
    /* May be NULL. The same without a way through memory: up to `len` bytes of output `fd` can be moved from
     * the socket `from` by splice(2). How many were; 0: they come through on_output; FLOOD_LATER: nothing of
     * the container is read before container_go_on(). */
    size_t (*on_flood)(void *user, struct exec *x, int fd, int from, size_t len);
    void (*on_output_end)(void *user, struct exec *x, int fd);
    void (*on_writable)(void *user, struct exec *x); /* stdin can take more again */
    /* Exactly once, unless exec_release()d. `err` set: the process never started. */
    void (*on_exit)(void *user, struct exec *x, const struct exit_status *status, const struct error *err);
};

struct container_events {
    /* Running: the main process exists (or, held, could be started now). */
    void (*on_ready)(void *user, struct container *c, const struct stage_timings *t);
    /* Exactly once, the last event of this container; everything in it is gone. `err` set (reason
     * STOP_START): start failed. */
    void (*on_exit)(void *user, struct container *c, const struct exit_status *status,
                    const struct error *err);
    void (*on_log)(void *user, struct container *c, const char *text);
};

/* Begins a start. Everything in `spec` is copied. On -1 nothing was begun and no event comes. The main
 * process is an exec too: `main_events`/`main_user` serve it, container_main() names it. */
int container_start(struct engine *e, const struct start_spec *spec, const struct container_events *events,
                    void *user, const struct exec_events *main_events, void *main_user,
                    struct container **ret, struct error *err);
const char *container_id(const struct container *c); /* 32 hex digits, also names its run directory */
struct exec *container_main(struct container *c);
bool container_running(const struct container *c);

/* Ends the wait that FLOOD_LATER began. */
void container_go_on(struct container *c);

/* Lets the main process of a held container begin. ERROR_STATE when it was not held. */
int container_release_main(struct container *c, struct error *err);

int container_signal(struct container *c, int signal, struct error *err); /* to the main process */
int container_signal_all(struct container *c, int signal, struct error *err);
/* Ends it at once (SIGKILL to everything); on_exit follows with STOP_DESTROY / `reason`. */
void container_destroy(struct container *c, const char *detail);
void container_destroy_as(struct container *c, enum stop_reason reason, const char *detail);

/* Stops and continues every process (for a consistent snapshot). ERROR_UNSUPPORTED where nothing can freeze.
 */
int container_freeze(struct container *c, bool on, struct error *err);
/* The writable layer as a host directory, and a descriptor of the user namespace its owners live in
 * (borrowed; -1: the caller's own). Valid while the container runs. ERROR_UNSUPPORTED on backends without
 * one. [namespace] */
int container_upper(struct container *c, const char **ret_dir, int *ret_userns, struct error *err);

struct container_usage {
    uint64_t memory_bytes, memory_peak_bytes, cpu_us, disk_bytes, disk_inodes;
    uint32_t pids;
};
int container_usage(struct container *c, struct container_usage *ret, struct error *err);

/* ---- exec ---- */

/* Everything in `spec` is copied. */
int container_exec(struct container *c, const struct exec_spec *spec, const struct exec_events *events,
                   void *user, struct exec **ret, struct error *err);
/* Takes what credit allows; bytes taken (0: wait for on_writable), or -1 when stdin is closed or the process
 * ended. */
ssize_t exec_write(struct exec *x, const void *data, size_t len);
void exec_close_stdin(struct exec *x); /* after what was taken has been delivered */
void exec_consumed(struct exec *x, int fd, size_t n);
int exec_kill(struct exec *x, int signal, struct error *err); /* 1..64 */
int exec_kill_tree(struct exec *x, struct error *err); /* only with a timeout; else the process alone */
int exec_resize(struct exec *x, uint16_t cols, uint16_t rows, struct error *err);
int exec_pid(const struct exec *x);
void exec_release(struct exec *x); /* no more events; a running process goes on with its output discarded */

/* ---- files: one of the "fs.*" methods of link/agent_protocol.h ---- */

struct fs_events {
    void (*on_data)(void *user, const uint8_t *data, size_t len); /* acknowledge with fs_consumed() */
    void (*on_writable)(void *user);
    /* Exactly once, last; value is the method's CBOR result. Output was delivered before. */
    void (*on_done)(void *user, const struct error *err, struct cbor_reader value);
};
struct fs_op;
/* `args`: the CBOR pairs of the method without "stream"; `pairs` of them are in `args`. `input`/`output`: the
 * method has a stream in that direction. */
int container_fs(struct container *c, const char *method, const void *args, size_t args_len, unsigned pairs,
                 bool input, bool output, const struct fs_events *events, void *user, struct fs_op **ret,
                 struct error *err);
ssize_t fs_write(struct fs_op *op, const void *data, size_t len); /* as exec_write */
void fs_end(struct fs_op *op);                                    /* input is complete */
void fs_consumed(struct fs_op *op, size_t n);
void fs_cancel(struct fs_op *op); /* no more events */

#endif
