/* Why a worker process ended, as its holders are told. */
#ifndef CLOISTER_APP_REASON_H
#define CLOISTER_APP_REASON_H

#include "base/error.h"

#include <stdint.h>

/* From a waitpid(2) status and what limits the process had. `memory_bytes`, `cpu_ms`: the limits, for the
 * messages. */
void reason_from_status(int status, uint64_t memory_bytes, uint64_t cpu_ms, struct error *ret);
void reason_memory(uint64_t memory_bytes, struct error *ret);

#endif
