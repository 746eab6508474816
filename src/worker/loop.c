#include "worker/loop.h"

#include "base/clock.h"
#include "link/link.h"
#include "link/worker_protocol.h"
#include "worker/calls.h"
#include "worker/connection.h"
#include "worker/events.h"
#include "worker/log_rate.h"
#include "worker/memory_limit.h"
#include "worker/requests.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <errno.h>
#include <glib.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_POLLED 16
#define GLIB_EVERY_NS 2000000u    /* under load the engine's deferred work gets its turn this often */
#define FRAMES_BEFORE_TIMERS 256u /* a flood of frames must not starve timers */
#define LOOK_NS 60000u
#define FLUSH_PENDING ((size_t)128 << 10)

static void flush_if_much(void)
{
    struct iovec iov[8];
    size_t pending = 0;
    int count = link_output(worker.link, iov, 8);
    for (int i = 0; i < count; i++)
        pending += iov[i].iov_len;
    if (pending >= FLUSH_PENDING)
        connection_flush();
}

/* True: more may be waiting. */
static bool run_frames(void)
{
    unsigned frames = 0;
    bool received = connection_read();
    while (frames++ < FRAMES_BEFORE_TIMERS && connection_feed()) {
        events_run();
        flush_if_much();
    }
    return received || frames > FRAMES_BEFORE_TIMERS;
}

static void run_timers(void)
{
    uint32_t id, owner;
    if (timers_next(&worker.timers) == UINT64_MAX)
        return;
    uint64_t mark = timers_mark(&worker.timers), now = clock_monotonic_ns();
    while (timers_take(&worker.timers, now, mark, &id, &owner)) {
        if (requests_is_spent(owner))
            continue;
        JSValueRef argument = JSValueMakeNumber(worker.ctx, id);
        engine_enter(DISPATCH_TIMER, owner, 1, &argument);
        events_run();
    }
}

static int timeout_ms(gint glib_timeout)
{
    uint64_t next = timers_next(&worker.timers), now;
    int mine = -1;
    if (next != UINT64_MAX) {
        now = clock_monotonic_ns();
        uint64_t ms = next <= now ? 0 : (next - now + 999999) / 1000000;
        mine = ms > INT_MAX ? INT_MAX : (int)ms;
    }
    return glib_timeout < 0 ? mine : mine < 0 || glib_timeout < mine ? glib_timeout : mine;
}

/* Waking a process up costs more than many an answer takes: whoever was just busy looks for a while before it
 * sleeps. */
static bool look_a_while(struct pollfd *fds, nfds_t count)
{
    uint64_t until = clock_monotonic_ns() + LOOK_NS;
    do {
        if (poll(fds, count, 0) > 0)
            return true;
        sched_yield();
    } while (clock_monotonic_ns() < until);
    return false;
}

/* Waits for anything (or looks only), and runs the engine's deferred work that is due. */
static void wait_and_run_glib(bool wait)
{
    GMainContext *context = g_main_context_default();
    GPollFD polled[MAX_POLLED + 1];
    gint priority, glib_timeout, count;
    if (!g_main_context_acquire(context))
        worker_exit(1, "the engine's event loop is taken");
    g_main_context_prepare(context, &priority);
    count = g_main_context_query(context, priority, &glib_timeout, polled + 1, MAX_POLLED);
    if (count > MAX_POLLED)
        worker_exit(1, "the engine waits for more descriptors than it can have");
    struct iovec iov;
    bool output = link_output(worker.link, &iov, 1) > 0;
    polled[0] = (GPollFD){.fd = connection.fd, .events = (gushort)(G_IO_IN | (output ? G_IO_OUT : 0))};
    /* GPollFD is struct pollfd by another name (its documentation promises so). */
    struct pollfd *fds = (struct pollfd *)(void *)polled;
    if (!wait || !look_a_while(fds, (nfds_t)count + 1))
        poll(fds, (nfds_t)count + 1, wait ? timeout_ms(glib_timeout) : 0);
    if (g_main_context_check(context, priority, polled + 1, count))
        g_main_context_dispatch(context);
    g_main_context_release(context);
}

static void send_log(int level, const char *text)
{
    log_rate_send(level, text);
}

void loop_open(int link_fd)
{
    struct link_config config = {.side = LINK_GUEST, .bootstrap = &calls_bootstrap};
    connection.fd = link_fd;
    worker.link = link_new(&config);
    if (!worker.link)
        worker_exit(WORKER_EXIT_MEMORY, "no memory for the link");
    worker.log = send_log;
}

_Noreturn void loop_run(void)
{
    uint64_t glib_at = 0;
    for (;;) {
        bool busy = run_frames();
        run_timers();
        events_run();
        connection_flush();
        uint64_t now = busy ? clock_monotonic_ns() : 0;
        if (busy && now - glib_at < GLIB_EVERY_NS)
            continue;
        memory_limit_check();
        wait_and_run_glib(!busy);
        glib_at = now;
    }
}
