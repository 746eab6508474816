#include "daemon/collect.h"

#include "base/log.h"
#include "daemon/alarm.h"
#include "daemon/daemon.h"
#include "daemon/helper.h"

#include <stdlib.h>

#define FIRST_MS 60000u
#define EVERY_MS 3600000u

struct collector {
    struct daemon *daemon;
    struct alarm *alarm;
    struct helper *helper;
};

static void collect(void *user);

static void on_line(void *user, const json_t *line, const char *text, size_t len)
{
    json_int_t snapshots = json_integer_value(json_object_get(line, "snapshots"));
    json_int_t bytes = json_integer_value(json_object_get(line, "bytes"));
    if (snapshots || bytes)
        log_info("collected %lld expired snapshots, %lld bytes in all", (long long)snapshots,
                 (long long)bytes);
}

static void on_exit_status(void *user, const struct error *err)
{
    struct collector *c = user;
    if (err) /* mostly: the store is in use, and the next time will do */
        log_debug("no collection: %s", err->message);
    helper_drop(&c->helper);
    alarm_set(&c->alarm, c->daemon->loop, EVERY_MS, collect, c);
}

static void collect(void *user)
{
    static const struct helper_events events = {.on_line = on_line, .on_exit = on_exit_status};
    static const char *const args[] = {"gc", "--json", "--no-wait", NULL};
    const struct helper_command command = {.args = args, .fd = -1};
    struct collector *c = user;
    struct error err = {0};
    if (helper_spawn(&c->helper, c->daemon, &command, &events, c, &err) == 0)
        return;
    log_warn("no collection: %s", err.message);
    alarm_set(&c->alarm, c->daemon->loop, EVERY_MS, collect, c);
}

int collector_start(struct collector **ret, struct daemon *d, struct error *err)
{
    struct collector *c = calloc(1, sizeof *c);
    if (!c)
        return error_oom(err);
    c->daemon = d;
    alarm_set(&c->alarm, d->loop, FIRST_MS, collect, c);
    *ret = c;
    return 0;
}

void collector_stop(struct collector *c)
{
    if (!c)
        return;
    helper_drop(&c->helper);
    alarm_drop(&c->alarm);
    free(c);
}
