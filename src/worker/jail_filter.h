/* The seccomp filters. What a filter does not name fails with EPERM; a handful that no honest part of a
 * worker ever tries still fail the same way rather than kill, so that the engine's own fallbacks work. */
#ifndef CLOISTER_WORKER_JAIL_FILTER_H
#define CLOISTER_WORKER_JAIL_FILTER_H

#include "base/error.h"

/* Builds both filters; libseccomp allocates and opens a memory file, so before either is in force. */
int jail_filter_prepare(struct error *err);
/* What the zygote keeps: what workers have, and to fork, to reap, to pass descriptors, to prepare a worker.
 */
int jail_filter_zygote(struct error *err);
/* Tightens it: no new processes, no descriptors, signals to own threads only. In the worker itself. */
int jail_filter_worker(struct error *err);

#endif
