/* The worker's event loop: the link, timers, and the engine's own deferred work (GLib's default context:
 * garbage collection, Wasm compilation, finalizers). */
#ifndef CLOISTER_WORKER_LOOP_H
#define CLOISTER_WORKER_LOOP_H

#include "base/error.h"

/* Makes the link over this socket; console lines go to it from now on. */
void loop_open(int link_fd);
/* Works until the link ends, which ends the process. */
_Noreturn void loop_run(void);

#endif
