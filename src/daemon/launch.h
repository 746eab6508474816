/* The start of a container: from what was asked for to the engine's start: image, snapshot layers (unpacked
 * first where they are not), effective command and environment. Holds the locks on layers as long as the run
 * lasts. */
#ifndef CLOISTER_DAEMON_LAUNCH_H
#define CLOISTER_DAEMON_LAUNCH_H

#include "base/error.h"
#include "daemon/spec.h"

struct cell;
struct launch;

/* Sets c->launch and takes `r` over in any case. Layers may have to be unpacked first: then the engine's
 * start comes later, and a failure is told with cell_start_failed(). */
int launch_begin(struct cell *c, struct start_request *r, struct error *err);
/* While it is being prepared: the start fails. */
void launch_cancel(struct launch *l, const char *reason);
/* The snapshot layers below a running container's own, bottom first: their number, at most `max`. Borrowed.
 */
size_t launch_snapshot_layers(const struct launch *l, const char *digests[], const char *dirs[], size_t max);
void launch_free(struct launch *l); /* NULL is fine */

#endif
