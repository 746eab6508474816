/* A process together with all its descendants, so that they can be ended together however they daemonise: in
 * a cgroup of its own where "start" brought one, else below a supervisor (supervisor.c). */
#include "agent/process_internal.h"

#include "agent/supervisor.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RETRY_MS 20
#define RETRY_MAX 500 /* ten seconds: something in the tree is stuck in the kernel */

struct tree {
    struct agent *agent;
    char name[24];  /* of the cgroup; "" for a supervised tree */
    int cgroup_dir; /* -1 */
    struct supervisor *supervisor;
    struct timer retry; /* removing the cgroup once it is empty */
    int tries;
};

/* Kernels before 5.14 have no cgroup.kill: kill whatever is listed until nothing is. */
static void kill_listed(struct tree *t)
{
    for (int round = 0; round < 100; round++) {
        char *text;
        size_t len;
        if (file_slurp(t->cgroup_dir, "cgroup.procs", 1 << 20, &text, &len, NULL) < 0)
            return;
        for (char *p = text; *p;) {
            long pid = strtol(p, &p, 10);
            if (pid > 0)
                kill((pid_t)pid, SIGKILL);
            if (*p)
                p++;
        }
        free(text);
        if (len == 0)
            return;
    }
}

static void remove_cgroup(struct timer *timer)
{
    struct tree *t = (struct tree *)((char *)timer - offsetof(struct tree, retry));
    if (unlinkat(t->agent->cgroup_fd, t->name, AT_REMOVEDIR) < 0 && errno == EBUSY &&
        ++t->tries < RETRY_MAX) {
        timer_arm(&t->agent->loop, &t->retry, RETRY_MS, remove_cgroup);
        return;
    }
    free(t);
}

static pid_t start_in_cgroup(struct process *p, struct tree *t, struct spawn *s, struct error *err)
{
    struct agent *a = p->agent;
    snprintf(t->name, sizeof t->name, "tree-%u", ++a->next_tree);
    if (mkdirat(a->cgroup_fd, t->name, 0755) < 0)
        return error_system(err, errno, "cannot make a cgroup for the process");
    t->cgroup_dir = openat(a->cgroup_fd, t->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (t->cgroup_dir < 0)
        return error_system(err, errno, "cannot open the process's cgroup");
    s->cgroup_dir = t->cgroup_dir;
    return spawn_program(s, err);
}

pid_t tree_start(struct process *p, struct spawn *s, struct error *err)
{
    struct tree *t = calloc(1, sizeof *t);
    if (!t)
        return error_oom(err);
    t->agent = p->agent;
    t->cgroup_dir = -1;
    p->tree = t;
    if (p->agent->cgroup_fd >= 0)
        return start_in_cgroup(p, t, s, err);
    t->supervisor = supervisor_start(p, s, err);
    return t->supervisor ? 0 : -1;
}

void tree_signal_leader(struct process *p, int number)
{
    if (p->tree->supervisor)
        supervisor_signal(p->tree->supervisor, number);
    else
        kill(p->pid, number);
}

void tree_kill(struct process *p, struct link_call *call)
{
    struct tree *t = p->tree;
    if (t->supervisor) {
        supervisor_kill_all(t->supervisor, call);
        return;
    }
    if (file_put(t->cgroup_dir, "cgroup.kill", "1") < 0)
        kill_listed(t);
    return_empty(call);
}

void tree_free(struct process *p)
{
    struct tree *t = p->tree;
    p->tree = NULL;
    if (!t)
        return;
    supervisor_free(t->supervisor);
    if (t->cgroup_dir >= 0)
        close(t->cgroup_dir);
    if (t->name[0])
        remove_cgroup(&t->retry);
    else
        free(t);
}
