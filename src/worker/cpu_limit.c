#include "worker/cpu_limit.h"

#include "link/worker_protocol.h"
#include "worker/connection.h"
#include "worker/engine_clock.h"
#include "worker/memory_limit.h"
#include "worker/requests.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 20u
#define LAST_TICK_MS 50u /* of CPU time, for the timer below */
#define GRACE_MS 500u    /* that the engine gets to stop */
#define MAX_STOPPED 8u   /* one within the other; whoever needs more loses the microtasks that are left */

/* The requests whose code was stopped in the present entry, the last one innermost. */
static uint32_t stopped[MAX_STOPPED];
static unsigned stopped_count;

static void watch(void);

/* What others have to do goes on before the engine is stopped. */
static void run_others(void)
{
    if (stopped_count == MAX_STOPPED)
        return;
    uint32_t request = requests_step_aside();
    stopped[stopped_count++] = request;
    watch();
    engine_drain();
    requests_step_back(request);
}

/* Runs on the engine's thread, in an entry that takes long. */
static bool should_stop(JSContextRef ctx, void *user)
{
    (void)ctx;
    (void)user;
    engine_clock_forget();
    memory_limit_check();
    if (requests_left_ns() > 0) {
        watch(); /* a watchdog that was told to go on is disarmed */
        return false;
    }
    run_others();
    worker.terminated = true;
    return true;
}

static void watch(void)
{
    JSContextGroupSetExecutionTimeLimit(worker.group, TICK_MS / 1000.0, should_stop, NULL);
}

/* Every LAST_TICK_MS of the thread's CPU time. It runs on the engine's thread, anywhere: nothing but the end
 * is safe here. */
static void on_tick(int signal)
{
    (void)signal;
    static uint64_t last_entry, ticks;
    uint64_t entry, limit_ns = requests_limit_now(&entry);
    if (entry == 0 || entry != last_entry) {
        last_entry = entry;
        ticks = 0;
        return;
    }
    ticks++;
    if (limit_ns != UINT64_MAX && ticks * LAST_TICK_MS > limit_ns / 1000000u + GRACE_MS)
        _exit(WORKER_EXIT_CPU);
}

static int start_timer(struct error *err)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    const struct itimerspec every = {{0, LAST_TICK_MS * 1000000}, {0, LAST_TICK_MS * 1000000}};
    timer_t timer;
    if (sigaction(SIGRTMIN, &action, NULL) < 0 || timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) < 0 ||
        timer_settime(timer, 0, &every, NULL) < 0)
        return error_system(err, errno, "cannot set the CPU timer");
    return 0;
}

int cpu_limit_start(struct error *err)
{
    watch();
    return start_timer(err);
}

static void tell(uint32_t request)
{
    char message[96];
    uint64_t limit_ns = requests_limit_of(request);
    snprintf(message, sizeof message, "Worker exceeded its CPU time limit of %llu ms.",
             (unsigned long long)(limit_ns / 1000000u));
    /* Nobody's work, or a request's that was stopped already: what goes on is a chain of microtasks, which no
     * stop of the engine ends. */
    if (request == 0 || requests_is_spent(request))
        worker_exit(WORKER_EXIT_CPU, message);
    requests_mark_spent(request);
    watch();
    JSValueRef argv[] = {JSValueMakeNumber(worker.ctx, request), value_text(worker.ctx, message)};
    if (!engine_enter(DISPATCH_REQUEST_KILLED, 0, 2, argv))
        worker_exit(WORKER_EXIT_CPU, message);
}

void cpu_limit_tell(uint32_t request)
{
    uint32_t all[MAX_STOPPED + 1] = {request};
    unsigned count = 1;
    for (unsigned i = 0; i < stopped_count; i++) {
        bool known = stopped[i] == 0; /* nobody's, and over: its microtasks are gone */
        for (unsigned j = 0; j < count; j++)
            known |= all[j] == stopped[i];
        if (!known)
            all[count++] = stopped[i];
    }
    stopped_count = 0;
    for (unsigned i = 0; i < count; i++)
        tell(all[i]);
}
