/* The daemon's side of the worker zygote (src/worker/zygote_protocol.h): starts `cloister-worker`, keeps a
 * few of its children in reserve, hands them out, and learns how each ended. When the zygote itself dies it
 * is started anew; children that were handed out are not touched by that. */
#ifndef CLOISTER_APP_ZYGOTE_H
#define CLOISTER_APP_ZYGOTE_H

#include "base/error.h"
#include "worker/zygote_protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct worker_group;
struct worker_groups;
struct zygote;

struct zygote_config {
    uv_loop_t *loop;              /* borrowed */
    const char *program;          /* path of cloister-worker; NULL: looked for beside the running program */
    unsigned reserve;             /* children for workers kept ready; 0: ZYGOTE_RESERVE */
    struct worker_groups *groups; /* where each child gets a control group from; NULL: none; borrowed */
};
#define ZYGOTE_RESERVE 4u
/* A burst that empties the reserve makes it larger, up to this; a while without one makes it smaller again.
 */
#define ZYGOTE_RESERVE_MAX 32u
#define ZYGOTE_RESERVE_SHRINK_MS 30000u
#define ZYGOTE_COMPILER_RESERVE 1u
/* The wall of a compiler: some 260 MB are its own before it has compiled anything (it begins with an engine
 * anew). */
#define ZYGOTE_COMPILER_WALL ((uint64_t)832 << 20)

/* A forked child that nobody has used. */
struct zygote_child {
    uint32_t id;       /* names it in zygote_watch(); 0: none */
    pid_t pid;         /* as this process sees it; -1: it has ended already */
    int fd, pidfd;     /* its link and itself; owned by who takes the child */
    uint64_t baseline; /* bytes of memory that it has from the zygote */
};

/* A child for zygote_take() that had to wait is there; or cannot come (`err`). */
typedef void (*zygote_child_fn)(void *user, const struct zygote_child *child, const struct error *err);
/* How a child that was taken ended: a status as of waitpid(2). */
typedef void (*zygote_exit_fn)(void *user, int status);

int zygote_open(struct zygote **ret, const struct zygote_config *config, struct error *err);
/* Ends the zygote. Children live on: kill them. */
void zygote_close(struct zygote *z);
/* A child from the reserve (true), or `fn` runs later, from the loop. */
bool zygote_take(struct zygote *z, enum zygote_child_kind kind, struct zygote_child *ret, zygote_child_fn fn,
                 void *user);
/* The reserve goes back to its least size; bursts enlarge it again. */
void zygote_shrink(struct zygote *z);
/* `fn` of every waiting zygote_take() with this user will not run. */
void zygote_forget(struct zygote *z, void *user);
/* `fn` runs once when the child's end is known, from the loop, or at once if it is known already. Each child
 * that was taken is given up with zygote_unwatch(), watched or not, ended or not. */
void zygote_watch(struct zygote *z, uint32_t child, zygote_exit_fn fn, void *user);
void zygote_unwatch(struct zygote *z, uint32_t child);
/* The control group of a child that was taken, until zygote_unwatch(); NULL: it has none. */
struct worker_group *zygote_group(struct zygote *z, uint32_t child);

#endif
