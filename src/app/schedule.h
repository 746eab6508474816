/* Calls scheduled() of a hosted Worker in the minutes that its crons name. A minute that the machine slept
 * through is left out. */
#ifndef CLOISTER_APP_SCHEDULE_H
#define CLOISTER_APP_SCHEDULE_H

#include "base/error.h"

#include <uv.h>

struct host;
struct schedule;

/* `crons` is NULL-terminated and copied; an expression that is malformed is an error. `failed` is told what a
 * handler threw. NULL is returned without an error when there are none. */
struct schedule *schedule_open(uv_loop_t *loop, struct host *h, char *const *crons,
                               void (*failed)(void *user, const char *cron, const struct error *err),
                               void *user, struct error *err);
/* Before its host is freed. NULL is fine. */
void schedule_close(struct schedule *s);

#endif
