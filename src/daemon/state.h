/* What outlives the daemon: the named containers, in SQLite (WAL) at <data_dir>/state.db. Only starts and
 * ends are written. A commit is a write to the log file without waiting for the disk, so a power failure may
 * lose the last moments, but never tears the file; a killed daemon loses nothing. */
#ifndef CLOISTER_DAEMON_STATE_H
#define CLOISTER_DAEMON_STATE_H

#include "base/error.h"

#include <uv.h>

struct cell;
struct daemon;
struct state;

/* Opens or makes the file and brings its schema up to date. A file of a newer version is refused. Call it
 * before engine_open(): of the loop's prepare handles the one started first runs last. */
int state_open(struct state **ret, const char *path, uv_loop_t *loop, struct error *err);
void state_close(struct state *s);
/* Adds every stored container to d->registry. Those that were running are stored and shown as stopped by
 * "daemon restart". Number of those, or -1. */
int state_load(struct state *s, struct daemon *d, struct error *err);
/* Writes the present state. A failure is logged: the container goes on. */
void state_put(struct state *s, struct cell *c);
/* The same at the end of this turn of the loop, after the engine has sent what it has to send: for starts,
 * which then do not wait for the write, while no answer can overtake it. */
void state_put_soon(struct state *s, struct cell *c);
void state_delete(struct state *s, struct cell *c);
/* Moves the log into the database file when it has grown; called at leisure. */
void state_tidy(struct state *s);

#endif
