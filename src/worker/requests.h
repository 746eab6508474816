/* Whom the CPU time of an entry is charged to (js/natives.d.ts, "Accounting").
 *
 * Reading the CPU clock of a thread is a system call, dear beside a short entry, so an entry shorter than a
 * millisecond is charged its wall time, which is never less. */
#ifndef CLOISTER_WORKER_REQUESTS_H
#define CLOISTER_WORKER_REQUESTS_H

#include "worker/engine_api.h"

#include <stdbool.h>
#include <stdint.h>

/* Around every entry. requests_leave() says who was current at its end. */
void requests_enter(uint32_t request);
uint32_t requests_leave(void);
/* Within an entry: what runs until requests_step_back() is as if in an entry of its own, and nobody's until
 * it says whose it is. Says who was current. */
uint32_t requests_step_aside(void);
void requests_step_back(uint32_t request);
/* CPU time that the current request may still use, and its limit, of which both are UINT64_MAX for none.
 * Charges what was used so far; called from inside an entry that takes long. */
uint64_t requests_left_ns(void);
uint64_t requests_limit_ns(void);
/* The limit of the current request and a number that is another one for each entry, readable from a signal's
 * handler. */
uint64_t requests_limit_now(uint64_t *ret_entry);
/* When the present entry began (monotonic); 0: none is going on. */
uint64_t requests_entry_start(void);
/* Whether this request has used up its time. */
bool requests_is_spent(uint32_t request);
void requests_mark_spent(uint32_t request);
/* Whether it goes on, has used more than its limit, and nothing was done about it yet. */
bool requests_is_over(uint32_t request);
uint64_t requests_limit_of(uint32_t request);
void natives_requests(JSContextRef ctx, JSObjectRef natives);

#endif
