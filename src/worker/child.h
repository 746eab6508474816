/* A worker, from the fork to its end. */
#ifndef CLOISTER_WORKER_CHILD_H
#define CLOISTER_WORKER_CHILD_H

#include "base/error.h"
#include "worker/jail.h"

#include <stddef.h>
#include <stdint.h>

#define CHILD_LINK_FD 3

struct child_start {
    int link_fd;
    const int *cgroup_fds; /* control files to enrol in */
    size_t cgroup_count;
    uint32_t number;      /* tells the children of a zygote apart */
    const char *compiler; /* the compile service's bundle, instead of the library's */
};

/* In the zygote, once, with the engine started. */
int child_prepare(struct error *err);
/* What a worker does before its first request, for image_learn(). */
void child_rehearse(void);
_Noreturn void child_main(const struct jail *jail, const struct child_start *start);

#endif
