/* The alarms of one hosted Worker's objects: when each is due, and the running of their handlers, which are
 * tried again when they fail (2 s after the first failure, then twice as long each time, 6 times).
 *
 * The truth about an alarm is in its object's file (storage.h). Beside it, <file> holds an index of what is
 * to be looked at when. An entry is there, on disk, before the commit that sets the alarm, and is corrected
 * after it; so after a crash the index may hold too much, or times that are too early, and never misses an
 * alarm. */
#ifndef CLOISTER_APP_ALARMS_H
#define CLOISTER_APP_ALARMS_H

#include "app/storage.h"
#include "base/error.h"

#include <uv.h>

struct alarms;

#define ALARM_RETRIES 6u
#define ALARM_FIRST_DELAY_MS 2000u
#define ALARM_MAX_RUNNING 64u

struct alarms_config {
    uv_loop_t *loop;
    const char *file;
    struct storage *storage; /* outlives the alarms; its alarm ops are set here */
    /* Runs the handler of the object: alarms_ran() follows, later. -1: it cannot be called now (tried
     * again). */
    int (*run)(void *user, const char *class_name, const char *id, int64_t scheduled_ms,
               unsigned retry_count);
    void *user;
};

/* Alarms that are due already are run from the loop's next turn on. */
int alarms_open(struct alarms **ret, const struct alarms_config *config, struct error *err);
/* The storage was lent, and is not any more: what came up meanwhile is done now. While it is lent nothing is
 * run, and the storage's thread may call the alarm ops. */
void alarms_go_on(struct alarms *a);
/* alarms_ran() must not be called any more. */
void alarms_close(struct alarms *a);
/* `failed`: the handler threw, or could not be run, or died. */
void alarms_ran(struct alarms *a, const char *class_name, const char *id, bool failed);

#endif
