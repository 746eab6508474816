/* Control groups of containers: version 2, version 1, a mixture (hybrid), or none.
 *
 * A container has one directory per hierarchy in use, all called cloister/<engine id>.<container id> below
 * the cgroup this process was started in. Where a version 2 hierarchy is mounted it serves freezing and
 * killing even when version 1 holds the controllers. */
#ifndef CLOISTER_CONTAINER_CGROUP_H
#define CLOISTER_CONTAINER_CGROUP_H

#include "base/error.h"
#include "container/engine.h"

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_UNIFIED, CGROUP_CONTROLLERS };

struct cgroups {
    char *base[CGROUP_CONTROLLERS]; /* directory "<...>/cloister"; NULL: not available. Under version 2 all
                                       four are the same. */
    bool v2;                        /* the controllers are those of version 2 */
    bool has[CGROUP_CONTROLLERS];   /* enforceable */
};

struct cgroup {
    const struct cgroups *set;
    char name[64];
    bool made[CGROUP_CONTROLLERS];
    uint64_t memory_now, pids_now; /* limits in force */
    uint32_t cpu_now;
};

void cgroups_probe(struct cgroups *s);
void cgroups_free(struct cgroups *s);
/* Makes the directories and applies the defaults. */
int cgroup_create(const struct cgroups *s, const char *name, struct cgroup *ret, struct error *err);
/* Descriptors for a process to get in: the directory of version 2 (for CLONE_INTO_CGROUP; -1: none), and
 * "tasks" of each version 1 hierarchy (to write "0" to), at most CGROUP_CONTROLLERS. Owned by the caller. */
int cgroup_open(const struct cgroup *g, int *ret_unified, int *ret_tasks, int *ret_count, struct error *err);
int cgroup_limit(struct cgroup *g, const struct limits *l, struct error *err);
int cgroup_freeze(struct cgroup *g, bool on, struct error *err);
void cgroup_kill(struct cgroup *g);
uint64_t cgroup_oom_kills(struct cgroup *g);
bool cgroup_empty(struct cgroup *g); /* no process is in it */
void cgroup_usage(struct cgroup *g, struct container_usage *ret);
/* Makes a child directory "exec" of the version 2 cgroup, owned by uid/gid, in which the agent may make
 * cgroups of its own. A descriptor, or -1 where there is no version 2 hierarchy. */
int cgroup_delegate(struct cgroup *g, uid_t uid, gid_t gid);
/* Removes the directories. False when one is still busy: call again later. */
bool cgroup_remove(struct cgroup *g);
/* Kills and removes what engine `engine_id`, now dead, left. True when nothing is left. */
bool cgroups_remove_engine(const struct cgroups *s, const char *engine_id);
/* Removes empty directories of owners whose run directories are gone too. */
void cgroups_sweep(const struct cgroups *s);

#endif
