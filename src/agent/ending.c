/* The end of the container: its main process is gone. */
#include "agent/process.h"
#include "agent/pump.h"

#include <signal.h>

/* How long the output of processes other than the main one may wait for credit after the end was told. */
#define LATE_OUTPUT_MS 5000

void ending_begin(struct agent *a)
{
    if (a->phase == PHASE_ENDING)
        return;
    a->phase = PHASE_ENDING;
    kill(-1, SIGKILL);
}

static void give_up_output(struct timer *t)
{
    (void)t;
    agent_die(0);
}

void ending_check(struct agent *a)
{
    child_reap(&a->children);
    if (!a->children.none_left)
        return;
    if (a->main && !process_reported(a->main))
        return;
    if (a->pumps) {
        if (!a->ending_timer.due_ns)
            timer_arm(&a->loop, &a->ending_timer, LATE_OUTPUT_MS, give_up_output);
        return;
    }
    if (conn_idle(a))
        agent_die(0);
}
