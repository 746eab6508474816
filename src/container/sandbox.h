/* What a backend gives the engine: an isolated environment with an agent in it, reached by one stream
 * descriptor that carries a link. engine.c and container.c know only this header; namespaces, overlays and
 * cgroups are the business of the backend (ns_*.c). A microVM backend implements the same table. */
#ifndef CLOISTER_CONTAINER_SANDBOX_H
#define CLOISTER_CONTAINER_SANDBOX_H

#include "base/buf.h"
#include "base/error.h"
#include "container/engine.h"

struct sandbox;

struct sandbox_events {
    /* Everything inside is gone (once, from the loop). `wait_status` is the agent's, as waitpid(2) gives it.
     */
    void (*dead)(void *user, int wait_status);
};

struct sandbox_ops {
    const char *name;
    /* A new environment: the agent runs and waits for "setup". Owned by the caller. */
    int (*create)(struct engine *e, const char *id, struct sandbox **ret, struct error *err);
    /* The link's descriptor; the caller takes ownership, once. */
    int (*link_fd)(struct sandbox *s);
    void (*watch)(struct sandbox *s, const struct sandbox_events *events, void *user);
    /* Applies limits and builds root and mounts. Appends the CBOR pairs "root", "mounts", "cgroup" of the
     * agent's "start" to `args` (number of pairs in *pairs) and the descriptors to go along to fds (owned by
     * the caller afterwards). */
    int (*prepare)(struct sandbox *s, const struct start_spec *spec, struct buf *args, unsigned *pairs,
                   int *fds, int max_fds, int *nfds, struct error *err);
    /* Lets go of what only prepare() needed, after its results have been sent off; may take a moment. */
    void (*settle)(struct sandbox *s);
    /* Whether limits can still be changed to `l` after prepare() with the defaults; and doing it, with the
     * host name. */
    bool (*can_adjust)(const struct engine *e, const struct limits *l);
    int (*adjust)(struct sandbox *s, const struct limits *l, const char *hostname, struct error *err);
    void (*kill)(struct sandbox *s);
    int (*freeze)(struct sandbox *s, bool on, struct error *err);
    uint64_t (*oom_kills)(struct sandbox *s); /* processes killed by the memory limit so far */
    int (*usage)(struct sandbox *s, struct container_usage *ret, struct error *err);
    int (*upper)(struct sandbox *s, const char **ret_dir, int *ret_userns, struct error *err);
    /* Kills if needed and removes everything; the dead event does not come any more. */
    void (*destroy)(struct sandbox *s);
};

extern const struct sandbox_ops namespace_sandbox;

#endif
