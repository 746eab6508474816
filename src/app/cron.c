#include "app/cron.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const char *const months[] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL",
                                     "AUG", "SEP", "OCT", "NOV", "DEC", NULL};
static const char *const weekdays[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", NULL};

struct field {
    const char *what;
    unsigned min, max;
    const char *const *names; /* of min and what follows; NULL: none */
};

/* A number or a name at *at, which moves on. */
static int read_one(const struct field *f, const char **at, unsigned *ret)
{
    const char *p = *at;
    for (unsigned i = 0; f->names && f->names[i]; i++)
        if (strncasecmp(p, f->names[i], 3) == 0) {
            *ret = f->min + i;
            *at = p + 3;
            return 0;
        }
    unsigned n = 0, digits = 0;
    while (*p >= '0' && *p <= '9' && ++digits <= 2)
        n = n * 10 + (unsigned)(*p++ - '0');
    if (digits == 0 || digits > 2)
        return -1;
    *ret = n;
    *at = p;
    return 0;
}

/* "*", "a", "a-b", each with "/step"; -1: malformed. */
static int read_range(const struct field *f, const char **at, uint64_t *bits)
{
    unsigned from = f->min, to = f->max, step = 1;
    if (**at == '*') {
        ++*at;
    } else {
        if (read_one(f, at, &from) < 0)
            return -1;
        to = from;
        if (**at == '-') {
            ++*at;
            if (read_one(f, at, &to) < 0)
                return -1;
        } else if (**at == '/') {
            to = f->max;
        }
    }
    if (**at == '/') {
        struct field plain = {.names = NULL};
        ++*at;
        if (read_one(&plain, at, &step) < 0 || step == 0)
            return -1;
    }
    if (from < f->min || to > f->max || from > to)
        return -1;
    for (unsigned n = from; n <= to; n += step)
        *bits |= UINT64_C(1) << n;
    return 0;
}

static int read_field(const struct field *f, const char *text, uint64_t *bits, struct error *err)
{
    const char *at = text;
    *bits = 0;
    for (;;) {
        if (read_range(f, &at, bits) < 0)
            return error_field(err, "triggers.crons", "triggers.crons: \"%.40s\" is no %s (%u to %u)", text,
                               f->what, f->min, f->max);
        if (!*at)
            return 0;
        if (*at++ != ',')
            return error_field(err, "triggers.crons",
                               "triggers.crons: \"%.40s\" is no %s; L, W and # are not supported there", text,
                               f->what);
    }
}

int cron_parse(struct cron *ret, const char *text, struct error *err)
{
    static const struct field fields[5] = {{"minute", 0, 59, NULL},
                                           {"hour", 0, 23, NULL},
                                           {"day of the month", 1, 31, NULL},
                                           {"month", 1, 12, months},
                                           {"day of the week", 1, 7, weekdays}};
    char copy[256], *parts[5], *save = NULL;
    uint64_t bits[5];
    unsigned n = 0;
    if (strlen(text) >= sizeof copy)
        return error_field(err, "triggers.crons",
                           "triggers.crons: an expression is longer than 255 characters");
    strcpy(copy, text);
    for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
        if (n < 5)
            parts[n] = p;
        n++;
    }
    if (n != 5)
        return error_field(
            err, "triggers.crons",
            "triggers.crons: \"%.80s\" has %u fields; minute, hour, day, month and weekday are wanted", text,
            n);
    bool last = strcasecmp(parts[2], "L") == 0;
    for (int i = 0; i < 5; i++) {
        bits[i] = 0;
        if (!(i == 2 && last) && read_field(&fields[i], parts[i], &bits[i], err) < 0)
            return -1;
    }
    *ret = (struct cron){.minutes = bits[0],
                         .hours = (uint32_t)bits[1],
                         .days = (uint32_t)bits[2],
                         .months = (uint32_t)bits[3],
                         .weekdays = (uint32_t)bits[4],
                         .any_day = parts[2][0] == '*',
                         .any_weekday = parts[4][0] == '*',
                         .last_day = last};
    return 0;
}

static bool is_last_day(const struct tm *tm)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = tm->tm_year + 1900;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return tm->tm_mday == days[tm->tm_mon] + (leap && tm->tm_mon == 1);
}

bool cron_matches(const struct cron *c, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm))
        return false;
    if (!(c->minutes >> tm.tm_min & 1) || !(c->hours >> tm.tm_hour & 1) ||
        !(c->months >> (tm.tm_mon + 1) & 1))
        return false;
    bool day = c->last_day ? is_last_day(&tm) : c->days >> tm.tm_mday & 1,
         weekday = c->weekdays >> (tm.tm_wday + 1) & 1;
    return c->any_day || c->any_weekday ? day && weekday : day || weekday;
}
