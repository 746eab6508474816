/* Every child process of the agent that something waits for, by pid. The agent is PID 1: orphans it never
 * heard of are reaped too, and forgotten. */
#ifndef CLOISTER_AGENT_CHILD_H
#define CLOISTER_AGENT_CHILD_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#define CHILD_BUCKETS 64

struct child {
    struct child *next;
    pid_t pid;
    bool helper; /* part of the agent: when the guest stops it, it is continued */
    void (*reaped)(struct child *c, int status, const struct rusage *usage); /* already out of the table */
};

struct child_table {
    struct child *bucket[CHILD_BUCKETS];
    bool none_left; /* the last wait said ECHILD */
};

void child_add(struct child_table *t, struct child *c);
void child_remove(struct child_table *t, struct child *c);
bool child_known(struct child_table *t, pid_t pid);
/* Reaps whatever has ended. */
void child_reap(struct child_table *t);

#endif
