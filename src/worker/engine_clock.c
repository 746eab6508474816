/* The CPU clock that the engine's watchdog reads (cpu_limit.h): defined in the program, it comes before the C
 * library's.
 *
 * The watchdog notes, whenever the engine is entered (once for each microtask), now + limit as its deadline,
 * and when its thread has made running code look, compares now with the deadline. In an entry that is shorter
 * than the watchdog's limit the clock stands at the entry's beginning; in a longer one each reading is far
 * above the last: each look then reaches the callback, which decides.
 *
 * Right after, it reads the monotonic clock to see whether a timer is running already. Microtasks that are
 * shorter than the timer's thread takes to wake up would find the timer expired each time, and start another,
 * beside which the old one counts as stale: nothing would ever be stopped. So for that reading time stands at
 * the entry's beginning, too. */
#include "worker/engine_clock.h"

#include "base/clock.h"
#include "worker/requests.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LONG_ENTRY_NS 15000000u /* less than the watchdog's limit */
#define LEAP_NS 1000000000u     /* more than it */

static _Thread_local bool engine_thread;
static _Thread_local bool asked; /* the watchdog read the CPU clock last */

void engine_clock_own_thread(void)
{
    engine_thread = true;
}

void engine_clock_forget(void)
{
    asked = false;
}

static bool entry_began(struct timespec *ret)
{
    uint64_t start = asked ? requests_entry_start() : 0;
    asked = false;
    ret->tv_sec = (time_t)(start / 1000000000u);
    ret->tv_nsec = (long)(start % 1000000000u);
    return start != 0;
}

static void leap(struct timespec *ret)
{
    static _Thread_local uint64_t now;
    uint64_t start = requests_entry_start();
    if (start && clock_monotonic_ns() - start > LONG_ENTRY_NS)
        now += LEAP_NS;
    ret->tv_sec = (time_t)(now / 1000000000u);
    ret->tv_nsec = (long)(now % 1000000000u);
}

typedef int (*clock_fn)(clockid_t, struct timespec *);

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ret)
{
    static clock_fn libc_clock;
    if (id == CLOCK_THREAD_CPUTIME_ID) {
        leap(ret);
        asked = engine_thread;
        return 0;
    }
    if (id == CLOCK_MONOTONIC && asked && entry_began(ret))
        return 0;
    if (!libc_clock)
        libc_clock = (clock_fn)(uintptr_t)dlsym(RTLD_NEXT, "clock_gettime");
    return libc_clock ? libc_clock(id, ret) : (int)syscall(SYS_clock_gettime, id, ret);
}
