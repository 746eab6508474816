/* Signals of a run: to the command once it exists; before that they end the container, after it they end the
 * wait for a slow reader. */
#include "base/clock.h"
#include "cli/run.h"
#include "cli/tty.h"

#include <signal.h>

static const int forwarded[RUN_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

/* Three SIGINT, each within two seconds of the one before: the user wants out, whatever the command thinks of
 * it. */
static bool third_interrupt(struct run *r, int signal)
{
    uint64_t now = clock_monotonic_ns();
    if (signal != SIGINT)
        return false;
    r->interrupts = now - r->interrupted_ns < 2000000000u ? r->interrupts + 1 : 1;
    r->interrupted_ns = now;
    return r->interrupts >= 3;
}

static void to_command(struct run *r, int signal)
{
    if (signal == SIGWINCH && r->request.tty) {
        uint16_t cols, rows;
        tty_size(&cols, &rows);
        exec_resize(r->command, cols, rows, NULL);
        return;
    }
    exec_kill(r->command, signal, NULL); /* fails only when it has just ended */
}

static void on_signal(uv_signal_t *handle, int signal)
{
    struct run *r = handle->data;
    bool ends = signal != SIGWINCH && signal != SIGUSR1 && signal != SIGUSR2;
    if (third_interrupt(r, signal)) {
        r->stopped_by = signal;
        run_end(r, "interrupted three times");
    } else if (r->command) {
        to_command(r, signal);
    } else if (ends) {
        r->stopped_by = signal;
        run_end(r, "interrupted");
    }
    run_settle(r);
}

int run_signals_open(struct run *r, struct error *err)
{
    for (size_t i = 0; i < RUN_SIGNALS; i++) {
        uv_signal_init(&r->loop, &r->signals[i]);
        r->signals[i].data = r;
    }
    r->signals_open = true;
    for (size_t i = 0; i < RUN_SIGNALS; i++) {
        struct sigaction now;
        /* What was ignored for us (nohup, a background job) stays ignored. */
        if (sigaction(forwarded[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            continue;
        int failed = uv_signal_start(&r->signals[i], on_signal, forwarded[i]);
        if (failed)
            return error_set(err, ERROR_INTERNAL, "cannot catch signal %d: %s", forwarded[i],
                             uv_strerror(failed));
    }
    return 0;
}

void run_signals_close(struct run *r)
{
    for (size_t i = 0; r->signals_open && i < RUN_SIGNALS; i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
    r->signals_open = false;
}
