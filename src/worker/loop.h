/* The worker's event loop: the link, timers, and the engine's own deferred work (GLib's default context:
 * garbage collection, Wasm compilation, finalizers). */
#ifndef CLOISTER_WORKER_LOOP_H
#define CLOISTER_WORKER_LOOP_H

#include "base/error.h"

/* Speaks the guest's side of the link on `link_fd` and never returns. */
_Noreturn void loop_run(int link_fd);

#endif
