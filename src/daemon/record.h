/* Containers, execs and results as JSON (docs/api.md). */
#ifndef CLOISTER_DAEMON_RECORD_H
#define CLOISTER_DAEMON_RECORD_H

#include "base/buf.h"
#include "daemon/cell.h"

#include <stdbool.h>

/* `usage`: with memory, CPU and so on of a running one. */
void record_container(struct buf *b, struct cell *c, bool usage);
void record_exec(struct buf *b, const struct execution *x);
/* {"exitCode", "signal"?, "reason", "detail"?} of a process, as members. */
void record_exit(struct buf *b, const struct exit_status *s);
/* What `wait` answers. `exact`: base64, otherwise text with U+FFFD for what is no UTF-8. */
void record_result(struct buf *b, const struct execution *x, bool exact);

#endif
