#include "agent/supervisor.h"

#include "agent/procfs.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ROUND_MS 3
#define ROUND_MAX_MS 50
#define MAX_PROCESSES 65536

/* What the supervisor tells the agent, over a socket pair of sequenced packets. */
struct report {
    enum { REPORT_FAILED, REPORT_STARTED, REPORT_ENDED } what;
    pid_t pid;
    int status;
    struct rusage usage;
    struct error error;
};

struct killing {
    struct killing *next;
    struct supervisor *supervisor;
    struct link_call *call;
};

struct supervisor {
    struct source source; /* reports */
    struct agent *agent;
    struct process *process; /* NULL: gone */
    struct child child;      /* the supervisor process */
    bool alive;              /* not reaped yet */
    bool busy;               /* in a callback that still needs it */
    bool murdered;           /* it ended although its tree had not: its orphans became ours */
    int leader;              /* pidfd of the program; -1: ended or not started */
    struct killing *killings;
    struct timer round;
    uint64_t pause_ms;
};

/* --- in the supervisor --- */

static _Noreturn void supervise(int report_fd, const struct spawn *s)
{
    struct report r = {.what = REPORT_STARTED};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* only SIGKILL and SIGSTOP reach us */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    r.pid = spawn_program(s, &r.error);
    if (r.pid < 0)
        r.what = REPORT_FAILED;
    char ack;
    close_range(0, (unsigned)report_fd - 1, 0);
    close_range((unsigned)report_fd + 1, ~0u, 0);
    /* nothing is reaped before the agent holds a pidfd: the number cannot have changed its meaning by then */
    if (send(report_fd, &r, sizeof r, 0) < 0 || r.what == REPORT_FAILED || recv(report_fd, &ack, 1, 0) != 1)
        _exit(0);
    for (;;) {
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, __WALL, &usage);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            _exit(0); /* the tree is empty */
        if (pid != r.pid)
            continue;
        struct report end = {.what = REPORT_ENDED, .pid = pid, .status = status, .usage = usage};
        if (send(report_fd, &end, sizeof end, MSG_NOSIGNAL) < 0)
            _exit(1);
        r.pid = 0;
    }
}

/* --- in the agent --- */

static void maybe_free(struct supervisor *v)
{
    if (v->process || v->alive || v->killings || v->busy || v->round.due_ns)
        return;
    timer_cancel(&v->agent->loop, &v->round);
    source_forget(&v->source);
    close(v->source.fd);
    if (v->leader >= 0)
        close(v->leader);
    free(v);
}

static void leader_ended(struct supervisor *v, int status, const struct rusage *usage)
{
    if (v->leader >= 0)
        close(v->leader);
    v->leader = -1;
    if (v->process && !v->process->ended)
        process_ended(v->process, status, usage);
}

static void start_failed(struct supervisor *v, const struct error *why)
{
    struct process *p = v->process;
    struct link_call *call = p->start_call;
    p->start_call = NULL;
    process_fail_start(p, why); /* comes back to supervisor_free() */
    link_throw(call, why);
}

static void on_report(struct supervisor *v, const struct report *r)
{
    struct process *p = v->process;
    if (r->what == REPORT_ENDED) {
        leader_ended(v, r->status, &r->usage);
    } else if (!p || !p->start_call) {
        return;
    } else if (r->what == REPORT_FAILED) {
        start_failed(v, &r->error);
    } else {
        v->leader = pidfd_open(r->pid, 0);
        p->pid = r->pid;
        struct link_call *call = p->start_call;
        p->start_call = NULL;
        process_answer_start(p, call);
        send(v->source.fd, "", 1, MSG_NOSIGNAL);
    }
}

static void report_ready(struct source *s, uint32_t events)
{
    struct supervisor *v = (struct supervisor *)s;
    struct report r;
    (void)events;
    ssize_t n = recv(s->fd, &r, sizeof r, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof r)
        on_report(v, &r);
    else if (n >= 0 || (errno != EAGAIN && errno != EINTR))
        source_forget(s); /* it has ended; the rest comes when it is reaped */
}

static void rounds_begin(struct supervisor *v);

static void supervisor_reaped(struct child *c, int status, const struct rusage *usage)
{
    struct supervisor *v = (struct supervisor *)((char *)c - offsetof(struct supervisor, child));
    struct report r;
    v->busy = true;
    while (recv(v->source.fd, &r, sizeof r, MSG_DONTWAIT) == (ssize_t)sizeof r)
        on_report(v, &r);
    v->alive = false;
    v->murdered = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    struct error why = {0};
    error_set(&why, ERROR_GONE, "the process was killed before it had started");
    if (v->process && v->process->start_call)
        start_failed(v, &why);
    else if (v->process && !v->process->ended)
        leader_ended(v, SIGKILL, usage);
    /* A tree that gets rid of its supervisor gets rid of itself: whether or not the host has a handle to ask
     * for it. */
    if (v->murdered && v->agent->phase == PHASE_RUNNING)
        rounds_begin(v);
    v->busy = false;
    maybe_free(v);
}

struct supervisor *supervisor_start(struct process *p, const struct spawn *s, struct error *err)
{
    struct supervisor *v = calloc(1, sizeof *v);
    int pair[2];
    if (!v) {
        error_oom(err);
        return NULL;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        error_system(err, errno, "cannot make a socket pair");
        free(v);
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0)
        supervise(pair[1], s);
    int saved = errno;
    close(pair[1]);
    if (pid < 0 || source_watch(&p->agent->loop, &v->source, pair[0], EPOLLIN, report_ready) < 0) {
        error_system(err, saved, "cannot start a supervisor");
        close(pair[0]);
        free(v);
        return NULL;
    }
    v->agent = p->agent;
    v->process = p;
    v->alive = true;
    v->leader = -1;
    v->child.pid = pid;
    v->child.helper = true;
    v->child.reaped = supervisor_reaped;
    child_add(&p->agent->children, &v->child);
    return v;
}

void supervisor_signal(struct supervisor *v, int number)
{
    if (v->leader >= 0)
        pidfd_send_signal(v->leader, number, NULL, 0);
}

/* One look at all processes. */
struct entry {
    pid_t pid, parent;
    bool dead, ours;
};

struct census {
    struct supervisor *supervisor;
    size_t count, cap;
    struct entry *entries;
};

static bool census_add(void *user, pid_t pid)
{
    struct census *c = user;
    struct procfs_stat st;
    if (!procfs_stat(c->supervisor->agent->proc_fd, pid, &st))
        return true;
    if (c->count == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 256;
        struct entry *grown = cap > MAX_PROCESSES ? NULL : realloc(c->entries, cap * sizeof *grown);
        if (!grown)
            return false;
        c->entries = grown;
        c->cap = cap;
    }
    c->entries[c->count++] = (struct entry){pid, st.parent, st.state == 'Z' || st.state == 'X', false};
    return true;
}

/* Whose parent is the supervisor. If the supervisor was killed, what it had adopted has become our own child
 * and cannot be told from other orphans: they all go, because a tree that was ordered to die must not survive
 * by that trick. */
static bool is_root_of_tree(const struct census *c, const struct entry *e)
{
    const struct supervisor *v = c->supervisor;
    if (v->alive)
        return e->parent == v->child.pid;
    return v->murdered && e->parent == 1 && !child_known(&v->agent->children, e->pid);
}

static int by_pid(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static size_t mark_descendants(struct census *c)
{
    size_t marked = 0;
    if (c->count > 0)
        qsort(c->entries, c->count, sizeof *c->entries, by_pid);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < c->count; i++) {
            struct entry *e = &c->entries[i], wanted = {.pid = e->parent};
            if (e->ours)
                continue;
            const struct entry *parent = bsearch(&wanted, c->entries, c->count, sizeof *c->entries, by_pid);
            if (is_root_of_tree(c, e) || (parent && parent->ours)) {
                e->ours = more = true;
                marked++;
            }
        }
    }
    return marked;
}

/* Stops every descendant, so that none can fork any more, looks again, and kills when a look finds nobody
 * new. */
static size_t kill_round(struct supervisor *v)
{
    size_t before = 0, living = 0;
    for (int look = 0; look < 100; look++) {
        struct census c = {.supervisor = v};
        procfs_each(v->agent->proc_fd, census_add, &c);
        size_t marked = mark_descendants(&c);
        bool settled = look > 0 && marked <= before;
        living = 0;
        for (size_t i = 0; i < c.count; i++) {
            if (!c.entries[i].ours || c.entries[i].dead)
                continue;
            living++;
            kill(c.entries[i].pid, settled ? SIGKILL : SIGSTOP);
        }
        free(c.entries);
        before = marked;
        if (settled || living == 0)
            break;
    }
    return living;
}

static void answer_killings(struct supervisor *v)
{
    while (v->killings) {
        struct killing *k = v->killings;
        v->killings = k->next;
        return_empty(k->call);
        free(k);
    }
    maybe_free(v);
}

static void round_due(struct timer *t)
{
    struct supervisor *v = (struct supervisor *)((char *)t - offsetof(struct supervisor, round));
    if (kill_round(v) == 0) {
        answer_killings(v);
        return;
    }
    if (v->pause_ms < ROUND_MAX_MS)
        v->pause_ms *= 2;
    timer_arm(&v->agent->loop, t, v->pause_ms, round_due);
}

static void rounds_begin(struct supervisor *v)
{
    v->pause_ms = ROUND_MS;
    round_due(&v->round);
}

static void killing_cancelled(void *user)
{
    struct killing *k = user;
    struct supervisor *v = k->supervisor;
    for (struct killing **at = &v->killings; *at; at = &(*at)->next)
        if (*at == k) {
            *at = k->next;
            break;
        }
    struct error err = {0};
    error_system(&err, ECANCELED, "the call was cancelled");
    link_throw(k->call, &err);
    free(k);
    /* the killing itself goes on */
}

void supervisor_kill_all(struct supervisor *v, struct link_call *call)
{
    struct killing *k = malloc(sizeof *k);
    if (!k) {
        struct error err = {0};
        error_oom(&err);
        link_throw(call, &err);
        return;
    }
    *k = (struct killing){v->killings, v, call};
    v->killings = k;
    link_call_on_cancel(call, killing_cancelled, k);
    if (!v->round.due_ns)
        rounds_begin(v);
}

void supervisor_free(struct supervisor *v)
{
    if (!v)
        return;
    v->process = NULL;
    maybe_free(v);
}
