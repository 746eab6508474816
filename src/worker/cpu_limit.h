/* CPU time: the engine is stopped when a request has used what it may, and the process ended when the engine
 * cannot be stopped.
 *
 * The engine has a watchdog of its own (JSContextGroupSetExecutionTimeLimit), a thread that makes running
 * code look at its clock every TICK; the callback then decides by the request's account. The watchdog
 * measures each microtask for itself with the CPU clock of the thread, a system call: engine_clock.c gives it
 * one of ours in its place, which counts from the beginning of the entry, so that chains of microtasks are
 * stopped too. */
#ifndef CLOISTER_WORKER_CPU_LIMIT_H
#define CLOISTER_WORKER_CPU_LIMIT_H

#include "base/error.h"

#include <stdint.h>

/* In the worker, after the fork, while it has one thread still. */
int cpu_limit_start(struct error *err);
/* The entry that was stopped worked for this request: tells the library in a fresh one. */
void cpu_limit_killed(uint32_t request);

#endif
