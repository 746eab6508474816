/* When a container ends because nobody needs it, or because it was asked to. Idle means: no request, stream,
 * file operation or exec is open on it; the time counts from the end of the last one. */
#include "base/log.h"
#include "daemon/cell.h"
#include "daemon/daemon.h"

#include <signal.h>

static void on_kill(void *user)
{
    struct cell *c = user;
    if (!c->container)
        return;
    if (c->idled_out)
        container_destroy_as(c->container, STOP_INACTIVITY, "inactivity timeout");
    else
        container_destroy(c->container, "stop");
}

static void on_idle(void *user)
{
    struct cell *c = user;
    if (c->state != CELL_RUNNING || c->busy > 0)
        return;
    c->idled_out = true;
    log_info("container %s: idle for %llu ms, ending it", c->name, (unsigned long long)c->inactivity_ms);
    container_signal_all(c->container, SIGTERM, NULL);
    alarm_set(&c->kill_alarm, c->daemon->loop, CELL_KILL_AFTER_MS, on_kill, c);
}

static void restart(struct cell *c)
{
    if (c->idled_out)
        return; /* SIGTERM is out: there is no way back */
    if (c->state == CELL_RUNNING && c->busy == 0 && c->inactivity_ms > 0)
        alarm_set(&c->idle_alarm, c->daemon->loop, c->inactivity_ms, on_idle, c);
    else
        alarm_stop(c->idle_alarm);
}

void cell_busy(struct cell *c)
{
    if (c->busy++ == 0)
        restart(c);
}

void cell_idle(struct cell *c)
{
    if (--c->busy == 0)
        restart(c);
}

void cell_set_inactivity(struct cell *c, uint64_t ms)
{
    c->inactivity_ms = ms;
    restart(c);
}

void cell_lifetime_reset(struct cell *c)
{
    alarm_drop(&c->idle_alarm);
    alarm_drop(&c->kill_alarm);
    c->idled_out = false;
}

int cell_stop(struct cell *c, uint64_t ms, struct error *err)
{
    if (c->state != CELL_RUNNING)
        return error_set(err, ERROR_STATE, "container %s is not running", c->name);
    if (container_signal(c->container, SIGTERM, err) < 0)
        return -1;
    if (!c->idled_out)
        alarm_set(&c->kill_alarm, c->daemon->loop, ms, on_kill, c);
    return 0;
}
