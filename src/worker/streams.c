#include "worker/streams.h"

#include "link/idtable.h"
#include "link/link.h"
#include "worker/events.h"
#include "worker/natives.h"
#include "worker/outflow.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <stdlib.h>

struct stream {
    struct idnode node;
    uint32_t request;
    bool sending, waited; /* waited: the library was told to wait for room */
    struct outflow out;
};

static struct idtable streams;

static struct stream *find(uint32_t id)
{
    struct idnode *node = idtable_find(&streams, id);
    return node ? container_of(node, struct stream, node) : NULL;
}

static void forget(struct stream *s)
{
    idtable_remove(&streams, &s->node);
    outflow_free(&s->out);
    free(s);
}

static void on_data(void *user, uint32_t id, const uint8_t *data, size_t len)
{
    struct stream *s = user;
    event_set_bytes(events_push(EVENT_STREAM_DATA, id, s->request), data, len);
}

static void on_end(void *user, uint32_t id)
{
    struct stream *s = user;
    events_push(EVENT_STREAM_END, id, s->request);
    forget(s);
}

static void on_reset(void *user, uint32_t id, const struct error *why)
{
    struct stream *s = user;
    event_set_text(events_push(EVENT_STREAM_RESET, id, s->request), why->message);
    forget(s);
}

static void on_writable(void *user, uint32_t id)
{
    struct stream *s = user;
    bool ending = s->out.ending;
    if (!outflow_pump(&s->out))
        return;
    if (ending) {
        forget(s);
    } else if (s->waited) {
        s->waited = false;
        events_push(EVENT_STREAM_WRITABLE, id, s->request);
    }
}

static const struct link_stream_ops receive_ops = {.data = on_data, .end = on_end, .reset = on_reset};
static const struct link_stream_ops send_ops = {.reset = on_reset, .writable = on_writable};

static bool get_link(JSContextRef ctx, JSValueRef *exception)
{
    if (!worker.link)
        value_throw_code(ctx, exception, "GONE", "this process has no link (it was started with --shell)");
    return worker.link;
}

NATIVE(stream_new)
{
    return get_link(ctx, exception) ? JSValueMakeNumber(ctx, link_stream_new(worker.link)) : NULL;
}

static JSValueRef open_stream(JSContextRef ctx, JSValueRef id_value, bool sending, JSValueRef *exception)
{
    uint64_t id;
    struct error err = {0};
    if (!get_link(ctx, exception) || !value_uint(ctx, id_value, UINT32_MAX, &id, exception))
        return NULL;
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return value_throw_range(ctx, exception, "Out of memory");
    int r = sending ? link_stream_open_send(worker.link, (uint32_t)id, &send_ops, s, &err)
                    : link_stream_open_receive(worker.link, (uint32_t)id, &receive_ops, s, &err);
    if (r < 0) {
        free(s);
        return value_throw_error(ctx, exception, &err);
    }
    s->sending = sending;
    s->request = worker.request;
    s->out.stream = (uint32_t)id;
    idtable_add(&streams, &s->node, (uint32_t)id);
    return JSValueMakeUndefined(ctx);
}

NATIVE(stream_send)
{
    return open_stream(ctx, native_arg(0), true, exception);
}

NATIVE(stream_receive)
{
    return open_stream(ctx, native_arg(0), false, exception);
}

/* *ret is NULL when the stream is gone, of which an event tells or told. False: thrown. */
static bool get_stream(JSContextRef ctx, JSValueRef id_value, struct stream **ret, JSValueRef *exception)
{
    uint64_t id;
    if (!value_uint(ctx, id_value, UINT32_MAX, &id, exception))
        return false;
    *ret = find((uint32_t)id);
    return true;
}

NATIVE(stream_write)
{
    struct stream *s;
    const uint8_t *bytes;
    size_t len;
    if (!get_stream(ctx, native_arg(0), &s, exception) ||
        !value_bytes(ctx, native_arg(1), &bytes, &len, exception))
        return NULL;
    if (!s)
        return JSValueMakeNumber(ctx, 0);
    if (!s->sending || s->out.ending)
        return value_throw_code(ctx, exception, "WRONG_STATE", "nothing can be written to this stream");
    if (outflow_write(&s->out, NULL, 0, bytes, len) < 0)
        return value_throw_range(ctx, exception, "Out of memory");
    size_t waiting = outflow_waiting(&s->out);
    s->waited |= waiting > 0;
    return JSValueMakeNumber(ctx, (double)waiting);
}

NATIVE(stream_end)
{
    struct stream *s;
    if (!get_stream(ctx, native_arg(0), &s, exception))
        return NULL;
    if (s && s->sending && !s->out.ending) {
        outflow_end(&s->out);
        if (!outflow_waiting(&s->out))
            forget(s);
    }
    return JSValueMakeUndefined(ctx);
}

NATIVE(stream_reset)
{
    struct stream *s;
    struct error err = {0};
    if (!get_stream(ctx, native_arg(0), &s, exception))
        return NULL;
    char *message = value_dup_text(ctx, native_arg(1), NULL, exception);
    if (!message)
        return NULL;
    error_set(&err, ERROR_STATE, "%s", message);
    free(message);
    if (s) {
        link_stream_reset(worker.link, s->node.id, &err);
        forget(s);
    }
    return JSValueMakeUndefined(ctx);
}

NATIVE(stream_consumed)
{
    struct stream *s;
    uint64_t bytes;
    if (!get_stream(ctx, native_arg(0), &s, exception) ||
        !value_uint(ctx, native_arg(1), UINT32_MAX, &bytes, exception))
        return NULL;
    if (s && !s->sending)
        link_stream_consumed(worker.link, s->node.id, bytes);
    return JSValueMakeUndefined(ctx);
}

void natives_streams(JSContextRef ctx, JSObjectRef natives)
{
    static const struct native list[] = {
        {"streamNew", stream_new},           {"streamSend", stream_send}, {"streamReceive", stream_receive},
        {"streamWrite", stream_write},       {"streamEnd", stream_end},   {"streamReset", stream_reset},
        {"streamConsumed", stream_consumed},
    };
    natives_add(ctx, natives, list, sizeof list / sizeof *list);
}
