/* A worker's own look at its memory, for machines where no control group bounds it and to name the limit
 * where one does: what has become resident at most since it began to work, against `limits.memoryMib` of
 * `init`. The daemon's watcher and the control group hold where this does not: inside one long operation of
 * the engine, or in a process that was taken over. */
#ifndef CLOISTER_WORKER_MEMORY_LIMIT_H
#define CLOISTER_WORKER_MEMORY_LIMIT_H

#include "link/cbor.h"

#include <stddef.h>

/* Reads the limit from the arguments of `init`; what is resident now is free. */
void memory_limit_from_init(struct cbor_reader args);
/* Before so much is allocated for a message, of which several copies exist on its way: what is garbage goes
 * first, when there may be much. The engine sees too little of it to do so by itself. */
void memory_limit_make_room(size_t bytes);
/* Ends the process with WORKER_EXIT_MEMORY when it is above its limit. Costs a system call. */
void memory_limit_check(void);

#endif
