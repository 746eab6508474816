/* Shared by the files of the engine; not for its users. */
#ifndef CLOISTER_CONTAINER_ENGINE_INTERNAL_H
#define CLOISTER_CONTAINER_ENGINE_INTERNAL_H

#include "container/cgroup.h"
#include "container/engine.h"
#include "container/idmap.h"
#include "container/sandbox.h"
#include "container/transport.h"
#include "link/agent_protocol.h"

#define ENGINE_ID_LEN 12
#define CONTAINER_ID_LEN 32

struct blank;

struct engine {
    uv_loop_t *loop;
    const struct sandbox_ops *backend;
    char *data_dir;
    char *run_dir;  /* of this engine: <config run_dir>/<engine id> */
    char *run_root; /* config run_dir */
    char id[ENGINE_ID_LEN + 1];
    int lock_fd;     /* held exclusively as long as this engine lives */
    int agent_memfd; /* sealed copy of cloister-init */
    int null_fd;     /* /dev/null */
    struct idmap idmap;
    struct cgroups cgroups;
    struct grade grade;
    struct transport_set transports;
    struct container *containers; /* doubly linked list */
    /* blanks kept ready */
    unsigned pool_target, pool_ready, pool_making;
    struct container *pool; /* list by `next` of containers that are blank */
    uv_timer_t pool_timer;
    uv_timer_t sweep_timer; /* retries removing cgroups that were still busy */
    bool closing;
};

/* A random lower-case hex text of n digits, NUL-terminated. */
void engine_random_hex(char *to, size_t n);
void engine_pool_poke(struct engine *e);
int engine_grade_fill(struct engine *e);

/* container.c, for the pool */
int container_blank_new(struct engine *e, void (*ready)(struct container *c, const struct error *err),
                        struct container **ret, struct error *err);

#endif
