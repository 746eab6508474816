/* Alarms of Durable Objects, as calls to the Worker that has their class; and its scheduled(). */
#include "app/host_internal.h"
#include "link/cbor.h"

#include <stdlib.h>
#include <string.h>

struct alarm_call {
    struct host *host;
    struct host_waiter *waiter;
    uv_timer_t *kick; /* `done` and the start come from the loop, never from inside host_call_alarm() */
    struct link *link;
    uint32_t call; /* under way; 0: none */
    const char *method;
    struct buf args;
    alarm_done_fn done; /* NULL: forgotten */
    void *user;
};

static void on_kick_closed(uv_handle_t *h)
{
    free(h);
}

static void finish(struct alarm_call *c, const struct error *err)
{
    alarm_done_fn done = c->done;
    void *user = c->user;
    struct error why = err ? *err : (struct error){0};
    if (c->kick)
        uv_close((uv_handle_t *)c->kick, on_kick_closed);
    buf_free(&c->args);
    free(c);
    if (done)
        done(user, err ? &why : NULL);
}

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    finish(user, err);
}

static void on_up(void *user, struct link *l, const struct error *err)
{
    struct alarm_call *c = user;
    struct error why = {0};
    c->waiter = NULL;
    if (err) {
        finish(c, err);
        return;
    }
    c->call = link_call(l, 0, c->method, c->args.data, c->args.len, on_answer, c);
    c->link = l;
    if (c->call)
        return;
    error_set(&why, ERROR_LIMIT, "the Worker takes no more calls");
    finish(c, &why);
}

static void on_kick(uv_timer_t *t)
{
    struct alarm_call *c = t->data;
    struct link *l = host_link(c->host);
    uv_close((uv_handle_t *)c->kick, on_kick_closed);
    c->kick = NULL;
    if (l)
        on_up(c, l, NULL);
    else
        host_wait(c->host, on_up, c, &c->waiter);
}

/* Takes the arguments over. */
static struct alarm_call *begin(struct host *h, const char *method, struct buf *args, alarm_done_fn done,
                                void *user)
{
    struct alarm_call *c = calloc(1, sizeof *c);
    uv_timer_t *kick = malloc(sizeof *kick);
    if (!c || !kick || args->failed) {
        free(c);
        free(kick);
        buf_free(args);
        return NULL;
    }
    *c = (struct alarm_call){.host = h, .method = method, .args = *args, .done = done, .user = user};
    uv_timer_init(h->loop, kick);
    kick->data = c;
    c->kick = kick;
    uv_timer_start(kick, on_kick, 0, 0);
    return c;
}

struct alarm_call *host_call_alarm(struct host *h, const char *class_name, const char *id,
                                   unsigned retry_count, int64_t scheduled_ms, alarm_done_fn done, void *user)
{
    struct buf b;
    buf_init(&b, 1024);
    cbor_put_map(&b, 4);
    cbor_put_text(&b, "class");
    cbor_put_text(&b, class_name);
    cbor_put_text(&b, "id");
    cbor_put_text(&b, id);
    cbor_put_text(&b, "retryCount");
    cbor_put_uint(&b, retry_count);
    cbor_put_text(&b, "scheduledTime");
    cbor_put_int(&b, scheduled_ms);
    return begin(h, "alarm", &b, done, user);
}

struct alarm_call *host_call_scheduled(struct host *h, const char *cron, int64_t scheduled_ms,
                                       alarm_done_fn done, void *user)
{
    struct buf b;
    buf_init(&b, 1024);
    cbor_put_map(&b, 2);
    cbor_put_text(&b, "cron");
    cbor_put_string(&b, cron);
    cbor_put_text(&b, "scheduledTime");
    cbor_put_int(&b, scheduled_ms);
    return begin(h, "scheduled", &b, done, user);
}

void host_cancel_alarm(struct alarm_call *c)
{
    if (!c)
        return;
    c->done = NULL;
    if (c->call)
        return; /* runs on; on_answer() frees it */
    host_forget(c->waiter);
    finish(c, NULL);
}
