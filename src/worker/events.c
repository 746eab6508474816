#include "worker/events.h"

#include "link/worker_protocol.h"
#include "worker/calls.h"
#include "worker/channels.h"
#include "worker/connection.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <stdlib.h>
#include <string.h>

static struct event *first, **last = &first;

static void *must(void *allocated)
{
    if (!allocated)
        worker_exit(WORKER_EXIT_MEMORY, "no memory for what the link brought");
    return allocated;
}

struct event *events_push(enum event_kind kind, uint32_t id, uint32_t request)
{
    struct event *e = must(calloc(1, sizeof *e));
    e->kind = kind;
    e->id = id;
    e->request = request;
    *last = e;
    last = &e->next;
    return e;
}

void event_set_bytes(struct event *e, const void *bytes, size_t len)
{
    e->bytes = must(malloc(len ? len : 1));
    e->len = len;
    if (len)
        memcpy(e->bytes, bytes, len);
}

void event_set_text(struct event *e, const char *text)
{
    e->text = must(strdup(text));
}

/* The event's bytes become a buffer of the engine's. */
static JSValueRef take_bytes(struct event *e)
{
    JSValueRef exception = NULL, v;
    uint8_t *bytes = e->bytes;
    e->bytes = NULL;
    v = value_buffer_take(worker.ctx, bytes, e->len, &exception);
    if (!v)
        worker_exit(WORKER_EXIT_MEMORY, "no memory for what the link brought");
    return v;
}

static JSValueRef text_or_null(const char *text)
{
    return text ? value_text(worker.ctx, text) : JSValueMakeNull(worker.ctx);
}

static void enter_with(enum dispatch_function fn, const struct event *e, JSValueRef second)
{
    JSValueRef argv[] = {JSValueMakeNumber(worker.ctx, e->id), second};
    engine_enter(fn, e->request, second ? 2 : 1, argv);
}

static void tell_call(struct event *e)
{
    JSValueRef argv[] = {JSValueMakeNumber(worker.ctx, e->id), value_text(worker.ctx, e->text),
                         take_bytes(e)};
    engine_enter(DISPATCH_CALL, 0, 3, argv);
}

static void tell_answer(struct event *e)
{
    JSContextRef ctx = worker.ctx;
    JSValueRef argv[] = {JSValueMakeNumber(ctx, e->id), text_or_null(e->code),
                         value_text(ctx, e->text ? e->text : ""),
                         e->code ? JSValueMakeUndefined(ctx) : take_bytes(e)};
    engine_enter(DISPATCH_ANSWER, e->request, 4, argv);
}

static void tell(struct event *e)
{
    switch (e->kind) {
    case EVENT_CALL:
        tell_call(e);
        break;
    case EVENT_FETCH:
        calls_tell_fetch(e->id, e->bytes, e->len);
        break;
    case EVENT_CANCELLED:
        enter_with(DISPATCH_CANCELLED, e, NULL);
        break;
    case EVENT_ANSWER:
        tell_answer(e);
        break;
    case EVENT_STREAM_DATA:
        enter_with(DISPATCH_STREAM_DATA, e, take_bytes(e));
        break;
    case EVENT_STREAM_END:
        enter_with(DISPATCH_STREAM_END, e, NULL);
        break;
    case EVENT_STREAM_RESET:
        enter_with(DISPATCH_STREAM_RESET, e, text_or_null(e->text));
        break;
    case EVENT_STREAM_WRITABLE:
        enter_with(DISPATCH_STREAM_WRITABLE, e, NULL);
        break;
    case EVENT_CHANNEL_MESSAGE:
        channels_consumed(e->id, e->credit);
        enter_with(DISPATCH_CHANNEL_MESSAGE, e, take_bytes(e));
        break;
    case EVENT_CHANNEL_CLOSED:
        enter_with(DISPATCH_CHANNEL_CLOSED, e, text_or_null(e->text));
        break;
    }
}

void events_run(void)
{
    while (first) {
        struct event *e = first;
        first = e->next;
        if (!first)
            last = &first;
        tell(e);
        free(e->bytes);
        free(e->text);
        free(e);
    }
}
