/* CPU time: the engine is stopped when a request has used what it may, and the process ended when the engine
 * cannot be stopped.
 *
 * The engine has a watchdog of its own (JSContextGroupSetExecutionTimeLimit), a thread that makes running
 * code look at its clock every TICK; the callback then decides by the request's account. The watchdog
 * measures each microtask for itself with the CPU clock of the thread, a system call: engine_clock.c gives it
 * one of ours in its place, which counts from the beginning of the entry, so that chains of microtasks are
 * stopped too.
 *
 * An engine that is stopped forgets its microtasks, of which many are other requests'. So before it is, they
 * are run from within the callback: what is stopped will not go on, so to them it is as if it had ended. One
 * that uses up its request's time, too, is stopped in the same way. */
#ifndef CLOISTER_WORKER_CPU_LIMIT_H
#define CLOISTER_WORKER_CPU_LIMIT_H

#include "base/error.h"

#include <stdint.h>

/* In the worker, after the fork, while it has one thread still. */
int cpu_limit_start(struct error *err);
/* The entry that was stopped ended with this request: tells the library, in fresh ones, of it and of those
 * that were stopped on the way. */
void cpu_limit_tell(uint32_t request);

#endif
