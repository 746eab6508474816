#include "worker/memory_limit.h"

#include "link/worker_protocol.h"
#include "worker/connection.h"
#include "worker/worker.h"

#include <stdio.h>
#include <sys/resource.h>

#define MAX_MIB (1u << 20)
#define GARBAGE_SHARE 8u /* of the limit: as much may be left of large messages */

static uint64_t limit_mib; /* 0: none */
static long free_kib;

static long resident_kib(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_maxrss : 0;
}

void memory_limit_from_init(struct cbor_reader args)
{
    struct cbor_reader limits;
    uint64_t mib;
    if (cbor_map_find(&args, "limits", &limits) && cbor_map_uint(&limits, "memoryMib", MAX_MIB, 0, &mib) == 0)
        limit_mib = mib;
    free_kib = resident_kib();
}

void memory_limit_make_room(size_t bytes)
{
    static size_t since; /* the last collection */
    since += bytes;
    if (limit_mib == 0 || since < ((size_t)limit_mib << 20) / GARBAGE_SHARE)
        return;
    since = 0;
    engine_collect();
}

void memory_limit_check(void)
{
    char message[80];
    if (limit_mib == 0 || resident_kib() - free_kib <= (long)(limit_mib * 1024))
        return;
    snprintf(message, sizeof message, "Worker exceeded its memory limit of %llu MiB.",
             (unsigned long long)limit_mib);
    worker_exit(WORKER_EXIT_MEMORY, message);
}
