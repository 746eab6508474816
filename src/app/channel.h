/* Joins streams of two links: what arrives on one leaves on the other, within the credit of both, so a reader
 * that stands still stops the writer at the other worker and costs at most a window here. When either end
 * fails, the other is RESET with the same reason. What flows is opaque. */
#ifndef CLOISTER_APP_CHANNEL_H
#define CLOISTER_APP_CHANNEL_H

#include "base/error.h"
#include "link/link.h"

#include <stdint.h>

/* One direction. It frees itself when both its ends are closed. */
struct pipe_end;

/* Begins to receive `from_id`; where it goes is told later, with pipe_attach(). What comes meanwhile waits
 * here. */
struct pipe_end *pipe_open(struct link *from, uint32_t from_id, struct error *err);
/* Opens `to_id` for sending on `to` and joins. -1: RESETs the other end and frees the pipe. */
int pipe_attach(struct pipe_end *p, struct link *to, uint32_t to_id, struct error *err);
/* Not attached yet, and never will be: RESETs and frees it. */
void pipe_abandon(struct pipe_end *p, const struct error *why);

/* A pipe each way. `a_in`, `b_in`: what the workers receive, `a_out`, `b_out`: what they send. On failure
 * nothing is joined and what was opened is RESET. */
int channel_join(struct link *a, uint32_t a_in, uint32_t a_out, struct link *b, uint32_t b_in, uint32_t b_out,
                 struct error *err);

#endif
