#include "app/reason.h"

#include "link/worker_protocol.h"

#include <signal.h>
#include <sys/wait.h>

void reason_memory(uint64_t memory_bytes, struct error *ret)
{
    error_set(ret, ERROR_LIMIT, "Worker exceeded its memory limit of %llu MiB.",
              (unsigned long long)(memory_bytes >> 20));
}

static void reason_cpu(uint64_t cpu_ms, struct error *ret)
{
    if (cpu_ms)
        error_set(ret, ERROR_LIMIT, "Worker exceeded its CPU time limit of %llu ms.",
                  (unsigned long long)cpu_ms);
    else
        error_set(ret, ERROR_LIMIT, "Worker exceeded its CPU time limit.");
}

void reason_from_status(int status, uint64_t memory_bytes, uint64_t cpu_ms, struct error *ret)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
        reason_cpu(cpu_ms, ret);
    } else if (WIFSIGNALED(status)) {
        error_set(ret, ERROR_GONE, "Worker process ended unexpectedly (signal %d).", WTERMSIG(status));
    } else if (WEXITSTATUS(status) == WORKER_EXIT_CPU) {
        reason_cpu(cpu_ms, ret);
    } else if (WEXITSTATUS(status) == WORKER_EXIT_MEMORY) {
        reason_memory(memory_bytes, ret);
    } else {
        error_set(ret, ERROR_GONE, "Worker process ended unexpectedly (exit status %d).",
                  WEXITSTATUS(status));
    }
}
