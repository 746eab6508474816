/* Cron expressions of `triggers.crons`: "minute hour day-of-month month day-of-week", all in UTC. Fields are
 * *, numbers, ranges, steps and lists; months and days also by their names (JAN, MON). Days of the week are 1
 * to 7 and begin with Sunday. "L" as the day of the month is its last. Where both days are restricted, one of
 * them suffices. */
#ifndef CLOISTER_APP_CRON_H
#define CLOISTER_APP_CRON_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct cron {
    uint64_t minutes; /* bit n: minute n; the others likewise */
    uint32_t hours, days, months, weekdays;
    bool any_day, any_weekday, last_day;
};

int cron_parse(struct cron *ret, const char *text, struct error *err);
/* Is the minute that holds this time (ms since the epoch) one of its? */
bool cron_matches(const struct cron *c, int64_t ms);

#endif
