/* Starting a program: clone(CLONE_VM | CLONE_VFORK), so that its price does not depend on our memory, and the
 * child reports failure through memory it shares with us. */
#ifndef CLOISTER_AGENT_SPAWN_H
#define CLOISTER_AGENT_SPAWN_H

#include "agent/userdb.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct spawn {
    char *const *argv;
    char *const *env;
    const char *cwd; /* NULL: "/" */
    const struct identity *who;
    int in, out, err; /* become 0, 1, 2; must be greater than 2 */
    bool terminal;    /* `in` becomes the controlling terminal */
    bool no_setgroups;
    int cgroup_dir; /* -1, or the cgroup v2 directory to enter */
    struct rlimit files;
    uint64_t pids; /* RLIMIT_NPROC; 0: unchanged */
};

/* The pid, or -1 with an error whose field is "argv", "cwd", "user" or empty. */
pid_t spawn_program(const struct spawn *s, struct error *err);

#endif
