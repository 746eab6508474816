/* Shared by process.c (life), process_calls.c (the capability), tree.c (killing trees). */
#ifndef CLOISTER_AGENT_PROCESS_INTERNAL_H
#define CLOISTER_AGENT_PROCESS_INTERNAL_H

#include "agent/process.h"
#include "agent/pump.h"
#include "agent/spawn.h"

struct waiter {
    struct waiter *next;
    struct process *process;
    struct link_call *call;
};

struct process {
    struct agent *agent;
    struct process *next, **link; /* in agent->processes */
    struct child child;           /* the process, or its supervisor */
    pid_t pid;
    bool ended;    /* status and usage are known */
    bool reported; /* a "wait" was answered after the end */
    bool pty;
    bool dropped; /* the host let go of the capability */
    int status;
    uint64_t cpu_us, max_rss_kib;

    struct out_pump *out, *err; /* NULL: none, or given up */
    bool out_wait, err_wait;    /* the end is told only after these have been drained */
    struct in_pump *in;
    int tty_fd; /* terminal master for "resize"; -1 */
    struct waiter *waiters;

    struct tree *tree; /* NULL: a plain process */
    /* a supervised start is answered when the supervisor reports */
    struct link_call *start_call;
    struct stage_times stages;
    bool has_stages;
};

extern const struct link_object_ops process_ops;

void process_answer_start(struct process *p, struct link_call *call);
/* A supervised start failed: the streams are reset with `why`, p is freed. The caller answers the call. */
void process_fail_start(struct process *p, const struct error *why);
void process_answer_waiters(struct process *p);
/* The host dropped the capability. May free p. */
void process_detach(struct process *p);
/* The end is known. */
void process_ended(struct process *p, int status, const struct rusage *usage);
/* Answers the waiters if everything was drained. */
void process_tell(struct process *p);
/* Frees it when nobody needs it any more. */
void process_maybe_free(struct process *p);
void process_signal(struct process *p, int number);

/* --- tree.c --- */
/* Starts s as a tree. With a cgroup the pid is returned at once; without, 0: the supervisor will report to p.
 * -1: error. */
pid_t tree_start(struct process *p, struct spawn *s, struct error *err);
/* Answers when no process of the tree is left. */
void tree_kill(struct process *p, struct link_call *call);
void tree_signal_leader(struct process *p, int number);
/* The process object goes. */
void tree_free(struct process *p);

#endif
