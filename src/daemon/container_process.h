/* A process that a worker started in its object's container: the answer to `exec` and its capability
 * (link/worker_protocol.h). */
#ifndef CLOISTER_DAEMON_CONTAINER_PROCESS_H
#define CLOISTER_DAEMON_CONTAINER_PROCESS_H

#include "link/link.h"

struct cell;

/* Answers `call` once the process runs, or could not be started. `c` must be running. UNTRUSTED INPUT. */
void container_process_start(struct cell *c, struct link *l, struct link_call *call, struct cbor_reader args);

#endif
