/* Shared by the files of the engine; not for its users. */
#ifndef CLOISTER_CONTAINER_ENGINE_INTERNAL_H
#define CLOISTER_CONTAINER_ENGINE_INTERNAL_H

#include "container/cgroup.h"
#include "container/engine.h"
#include "container/idmap.h"
#include "container/ns_volume.h"
#include "container/pool.h"
#include "container/sandbox.h"
#include "container/transport.h"
#include "link/agent_protocol.h"

#define ENGINE_ID_LEN 12
#define CONTAINER_ID_LEN 32

struct engine {
    uv_loop_t *loop;
    const struct sandbox_ops *backend;
    char *data_dir;
    char *run_dir;  /* where the containers' directories are: this process's own file system */
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
    struct pool pool;
    struct volume_spare spare; /* made when the engine looked what is possible, for the first container */
    bool mounted;              /* run_dir */
    bool cgroups_left;         /* a container's control groups could not be removed at once */
    bool last;                 /* see engine_config */
    bool closing;
};

/* A random lower-case hex text of n digits, NUL-terminated. */
void engine_random_hex(char *to, size_t n);
int engine_grade_fill(struct engine *e);

/* container.c, for the pool: `ready` is called once, with an error when it became nothing. */
int container_blank_new(struct engine *e, void (*ready)(struct container *c, const struct error *err),
                        struct container **ret, struct error *err);
/* Gives a blank the root of `image` without starting anything. -1: it stays blank. */
int container_warm_up(struct container *c, const struct start_copy *image,
                      void (*ready)(struct container *c, const struct error *err));
void container_list_add(struct container *c);
void container_list_remove(struct container *c);

#endif
