#include "agent/child.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

static struct child **slot(struct child_table *t, pid_t pid)
{
    struct child **at = &t->bucket[(unsigned)pid % CHILD_BUCKETS];
    while (*at && (*at)->pid != pid)
        at = &(*at)->next;
    return at;
}

void child_add(struct child_table *t, struct child *c)
{
    struct child **head = &t->bucket[(unsigned)c->pid % CHILD_BUCKETS];
    c->next = *head;
    *head = c;
    t->none_left = false;
}

void child_remove(struct child_table *t, struct child *c)
{
    struct child **at = slot(t, c->pid);
    if (*at == c)
        *at = c->next;
}

bool child_known(struct child_table *t, pid_t pid)
{
    return *slot(t, pid) != NULL;
}

void child_reap(struct child_table *t)
{
    for (;;) {
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, WNOHANG | WUNTRACED | __WALL, &usage);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0) {
            t->none_left = pid < 0 && errno == ECHILD;
            return;
        }
        struct child *c = *slot(t, pid);
        if (WIFSTOPPED(status)) {
            if (c && c->helper)
                kill(pid, SIGCONT);
            continue;
        }
        if (!c)
            continue;
        child_remove(t, c);
        c->reaped(c, status, &usage);
    }
}
