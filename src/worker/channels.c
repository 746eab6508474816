#include "worker/channels.h"

#include "link/idtable.h"
#include "link/link.h"
#include "link/worker_protocol.h"
#include "worker/channel_reader.h"
#include "worker/events.h"
#include "worker/memory_limit.h"
#include "worker/natives.h"
#include "worker/outflow.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE ((size_t)1 << 20)
#define MAX_WAITING ((size_t)64 << 20) /* bytes that the other end does not take */

struct channel {
    struct idnode node; /* by the number of the channel */
    uint32_t request;
    uint32_t in; /* stream */
    struct channel_reader reader;
    struct outflow out;
    bool in_open, out_open;
    bool closing; /* the library has closed it; what waits is still sent */
};

static struct idtable channels;
static uint32_t last_channel;

static void forget(struct channel *c)
{
    idtable_remove(&channels, &c->node);
    channel_reader_free(&c->reader);
    outflow_free(&c->out);
    free(c);
}

/* Ends both directions and tells the library, once. */
static void close_with(struct channel *c, const char *reason)
{
    struct error err = {0};
    error_set(&err, ERROR_GONE, "%s", reason ? reason : "the channel was closed");
    if (c->in_open)
        link_stream_reset(worker.link, c->in, &err);
    if (c->out_open && reason)
        link_stream_reset(worker.link, c->out.stream, &err);
    else if (c->out_open)
        link_stream_end(worker.link, c->out.stream);
    if (!c->closing) {
        struct event *e = events_push(EVENT_CHANNEL_CLOSED, c->node.id, c->request);
        if (reason)
            event_set_text(e, reason);
    }
    forget(c);
}

static void push_message(struct channel *c, uint8_t *message, size_t len, size_t credit)
{
    struct event *e = events_push(EVENT_CHANNEL_MESSAGE, c->node.id, c->request);
    e->bytes = message;
    e->len = len;
    e->credit = (uint32_t)credit;
}

/* Credit for the bytes of a message that is not complete goes back at once (its size is bounded); that of a
 * complete one when the library takes it, so that messages do not pile up here. */
static void on_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct channel *c = user;
    uint8_t *message;
    size_t message_len, before = len;
    if (c->reader.size >= LARGE)
        memory_limit_make_room(len);
    while (channel_reader_take(&c->reader, &data, &len, &message, &message_len)) {
        push_message(c, message, message_len, before - len);
        before = len;
    }
    if (c->reader.broken)
        close_with(c, "a message on the channel is too large");
    else if (before > 0)
        link_stream_consumed(worker.link, stream, before);
}

static void on_end(void *user, uint32_t stream)
{
    struct channel *c = user;
    (void)stream;
    c->in_open = false;
    close_with(c, channel_reader_at_boundary(&c->reader) ? NULL : "the channel ended inside a message");
}

static void on_in_reset(void *user, uint32_t stream, const struct error *why)
{
    struct channel *c = user;
    (void)stream;
    c->in_open = false;
    close_with(c, why->message);
}

static void on_out_reset(void *user, uint32_t stream, const struct error *why)
{
    struct channel *c = user;
    (void)stream;
    c->out_open = false;
    close_with(c, why->message);
}

static void on_writable(void *user, uint32_t stream)
{
    struct channel *c = user;
    (void)stream;
    if (outflow_pump(&c->out) && c->closing)
        forget(c);
}

static const struct link_stream_ops in_ops = {.data = on_data, .end = on_end, .reset = on_in_reset};
static const struct link_stream_ops out_ops = {.reset = on_out_reset, .writable = on_writable};

static struct channel *find(JSContextRef ctx, JSValueRef id_value, JSValueRef *exception)
{
    uint64_t id;
    if (!value_uint(ctx, id_value, UINT32_MAX, &id, exception))
        return NULL;
    struct idnode *node = idtable_find(&channels, (uint32_t)id);
    return node ? container_of(node, struct channel, node) : NULL;
}

void channels_consumed(uint32_t channel, uint32_t bytes)
{
    struct idnode *node = idtable_find(&channels, channel);
    struct channel *c = node ? container_of(node, struct channel, node) : NULL;
    if (c && c->in_open && bytes)
        link_stream_consumed(worker.link, c->in, bytes);
}

NATIVE(channel_open)
{
    uint64_t in, out;
    struct error err = {0};
    if (!worker.link)
        return value_throw_code(ctx, exception, "GONE",
                                "this process has no link (it was started with --shell)");
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &in, exception) ||
        !value_uint(ctx, native_arg(1), UINT32_MAX, &out, exception))
        return NULL;
    struct channel *c = calloc(1, sizeof *c);
    if (!c)
        return value_throw_range(ctx, exception, "Out of memory");
    c->in = (uint32_t)in;
    c->out.stream = (uint32_t)out;
    if (link_stream_open_receive(worker.link, c->in, &in_ops, c, &err) < 0) {
        free(c);
        return value_throw_error(ctx, exception, &err);
    }
    if (link_stream_open_send(worker.link, c->out.stream, &out_ops, c, &err) < 0) {
        link_stream_reset(worker.link, c->in, &err);
        free(c);
        return value_throw_error(ctx, exception, &err);
    }
    c->in_open = c->out_open = true;
    c->request = worker.request;
    idtable_add(&channels, &c->node, ++last_channel);
    return JSValueMakeNumber(ctx, last_channel);
}

NATIVE(channel_send)
{
    const uint8_t *bytes, *tail = NULL;
    size_t bytes_len, tail_len = 0;
    struct channel *c = find(ctx, native_arg(0), exception);
    if (*exception || !value_bytes(ctx, native_arg(1), &bytes, &bytes_len, exception) ||
        (argc > 2 && !value_bytes(ctx, argv[2], &tail, &tail_len, exception)))
        return NULL;
    size_t len = bytes_len + tail_len;
    if (!c || c->closing)
        return JSValueMakeUndefined(ctx); /* closed, of which an event tells */
    if (len > CHANNEL_MESSAGE_MAX)
        return value_throw_range(ctx, exception,
                                 "a message of %zu bytes is larger than a channel carries (%u)", len,
                                 CHANNEL_MESSAGE_MAX);
    if (outflow_waiting(&c->out) + len > MAX_WAITING)
        return value_throw_range(ctx, exception, "the other end does not read: %zu bytes are waiting for it",
                                 outflow_waiting(&c->out));
    if (tail_len)
        memory_limit_make_room(tail_len);
    uint8_t header[4] = {(uint8_t)len, (uint8_t)(len >> 8), (uint8_t)(len >> 16), (uint8_t)(len >> 24)};
    if (outflow_write(&c->out, header, sizeof header, bytes, bytes_len) < 0 ||
        (tail_len && outflow_write(&c->out, NULL, 0, tail, tail_len) < 0))
        close_with(c, "out of memory");
    return JSValueMakeUndefined(ctx);
}

/* Without a reason what was sent still arrives. */
static void end_orderly(struct channel *c)
{
    struct error err = {0};
    error_set(&err, ERROR_GONE, "the channel was closed");
    link_stream_reset(worker.link, c->in, &err);
    c->in_open = false;
    c->closing = true;
    outflow_end(&c->out);
    if (!outflow_waiting(&c->out))
        forget(c);
}

static void end_broken(struct channel *c, const char *reason)
{
    struct error err = {0};
    error_set(&err, ERROR_GONE, "%s", reason);
    link_stream_reset(worker.link, c->in, &err);
    link_stream_reset(worker.link, c->out.stream, &err);
    forget(c);
}

NATIVE(channel_close)
{
    struct channel *c = find(ctx, native_arg(0), exception);
    char *reason = *exception ? NULL : value_dup_text(ctx, native_arg(1), NULL, exception);
    if (!reason)
        return NULL;
    if (c && !c->closing && reason[0])
        end_broken(c, reason);
    else if (c && !c->closing)
        end_orderly(c);
    free(reason);
    return JSValueMakeUndefined(ctx);
}

void natives_channels(JSContextRef ctx, JSObjectRef natives)
{
    static const struct native list[] = {
        {"channelOpen", channel_open}, {"channelSend", channel_send}, {"channelClose", channel_close}};
    natives_add(ctx, natives, list, sizeof list / sizeof *list);
}
