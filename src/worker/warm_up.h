/* Does what a first request does, and leaves nothing behind that code could observe. In the zygote, before
 * any fork, so that every worker has from the start what the engine makes of the library's code. */
#ifndef CLOISTER_WORKER_WARM_UP_H
#define CLOISTER_WORKER_WARM_UP_H

#include "base/error.h"

/* `times`: how often, at least once. */
int warm_up(unsigned times, struct error *err);

#endif
