/* The life of a container and of what runs in it; shared by container.c, exec.c and fs.c. */
#ifndef CLOISTER_CONTAINER_CONTAINER_INTERNAL_H
#define CLOISTER_CONTAINER_CONTAINER_INTERNAL_H

#include "container/engine_internal.h"

/* Where a container is in its life. Transitions go downwards only; DEAD is reached from any state. */
enum container_state {
    CONTAINER_SETTING_UP, /* the agent builds its stage; belongs to the pool or to a start that waits for it
                           */
    CONTAINER_BLANK,      /* ready for an image; in the pool */
    CONTAINER_WARMING,    /* a blank gets its root */
    CONTAINER_WARM,       /* ready for its main process; in the pool */
    CONTAINER_STARTING,   /* "start" was sent */
    CONTAINER_RUNNING,    /* the main process exists, or the container is held */
    CONTAINER_ENDING,     /* killed, or its main process ended; waiting for the sandbox to be gone */
    CONTAINER_DEAD,
};

struct start_copy; /* a deep copy of a start_spec, start_copy.c */

struct container {
    struct engine *engine;
    struct container *prev, *next; /* engine->containers, or the pool list */
    char id[CONTAINER_ID_LEN + 1];
    enum container_state state;
    struct sandbox *sandbox;
    struct transport *transport;
    struct start_copy *spec;
    struct container_events events;
    void *user;
    void (*blank_ready)(struct container *c, const struct error *err);

    struct exec *main;
    struct exec *execs; /* all, also main */
    struct fs_op *ops;
    bool held, ready_told;
    uint64_t wall_deadline_ms;
    uv_timer_t wall_timer;
    unsigned open_handles; /* libuv handles not yet closed */

    /* how it ended */
    bool have_stop; /* `stop` was decided by us (destroy, timeout, agent failure) */
    struct exit_status stop;
    bool main_ended;
    struct exit_status main_status;
    struct error start_error;
    uint64_t memory_peak, oom_seen;

    uint64_t t_begin, t_setup, t_sent; /* nanoseconds */
    struct stage_timings timings;
};

struct exec {
    struct container *container;
    struct exec *prev, *next;
    struct exec_events events;
    void *user;
    uint32_t in, out, err;     /* stream ids; 0: none or closed */
    bool piped_out, piped_err; /* END not seen yet */
    size_t seen[2];            /* bytes of stdout and stderr, as far as they matter */
    uint32_t process;          /* the agent's capability; 0: not started yet */
    uint32_t call;             /* the call in progress */
    int pid;
    bool started, exited, tree, timed_out, released, stdin_closing, stdin_blocked;
    int early_signal; /* kill asked for before the process existed */
    uint64_t oom_before;
    struct exit_status status;
    uv_timer_t timer;
    bool have_timer;
};

/* exec.c */
struct exec *exec_new(struct container *c, const struct exec_events *events, void *user);
int exec_put_spec(struct exec *x, const struct exec_spec *s, struct buf *args,
                  struct error *err); /* one CBOR map */
int exec_open_streams(struct exec *x, const struct exec_spec *s, struct error *err);
void exec_set_timeout(struct exec *x, uint64_t ms);
/* The answer to "start", "exec" or "main" that made it. */
void exec_started(struct exec *x, uint32_t process, int pid);
void exec_start_failed(struct exec *x, const struct error *err);
/* The container is gone: everything still open ends with its reason. */
void exec_container_gone(struct exec *x, const struct exit_status *why);
/* Sends "main" for c->main. */
int exec_send_main(struct container *c, struct error *err);
int exec_check_spec(const struct exec_spec *s, struct error *err);

/* fs.c */
void fs_container_gone(struct fs_op *op);

/* container.c */
struct link *container_link(struct container *c); /* NULL when there is no living link */
/* The same, also of a link that is just dying: its calls are told before its streams, and what is freed in
 * between must close its streams first. */
struct link *container_any_link(struct container *c);
/* The main process of a warm or held container exists, or could not be started. */
void container_main_started(struct container *c);
void container_main_failed(struct container *c, const struct error *err);
void container_main_exited(struct container *c, const struct exit_status *status);
bool container_take_oom(struct container *c, uint64_t before);
/* A libuv handle that refers to the container has been closed; the last one frees it. */
void container_handle_closed(struct container *c);
/* Ends it here and now without telling anybody (engine_close). */
void container_abandon(struct container *c);

/* start_copy.c */
struct start_copy *start_copy_new(const struct start_spec *spec);
void start_copy_free(struct start_copy *s);
const struct start_spec *start_copy_spec(const struct start_copy *s);

#endif
