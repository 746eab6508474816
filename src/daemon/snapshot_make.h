/* Making one snapshot: of a running container's writable layer, or of one of its directories. */
#ifndef CLOISTER_DAEMON_SNAPSHOT_MAKE_H
#define CLOISTER_DAEMON_SNAPSHOT_MAKE_H

#include "base/error.h"
#include "daemon/spec.h"
#include "image/snapshot.h"

struct cell;

struct snapshot_order {
    char name[64];                         /* may be empty */
    char *dir;                             /* absolute; NULL: the container */
    char *excludes[SPEC_MAX_EXCLUDES + 1]; /* "--exclude=PATTERN" */
    size_t exclude_count;
};
void snapshot_order_free(struct snapshot_order *o);

/* Exactly one of the two is set. */
typedef void (*snapshot_made_fn)(void *user, const struct snapshot *s, const struct error *err);
/* Takes the content of `order` over in any case. 0: `made` is called once, later. */
int snapshot_make(struct cell *c, struct snapshot_order *order, snapshot_made_fn made, void *user,
                  struct error *err);

#endif
