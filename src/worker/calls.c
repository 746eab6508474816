#include "worker/calls.h"

#include "link/idtable.h"
#include "link/link.h"
#include "worker/connection.h"
#include "worker/events.h"
#include "worker/memory_limit.h"
#include "worker/natives.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <stdlib.h>
#include <string.h>

struct outgoing {
    struct idnode node; /* by the link's number of the call */
    uint32_t request;
};

struct incoming {
    struct idnode node;
    struct link_call *call;
};

static struct idtable outgoing, incoming;
static uint32_t last_incoming;

/* --- from the daemon --- */

static void on_cancel(void *user)
{
    struct incoming *in = user;
    events_push(EVENT_CANCELLED, in->node.id, 0);
}

static void on_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    (void)object;
    struct incoming *in = calloc(1, sizeof *in);
    if (!in) {
        struct error err = {0};
        error_oom(&err);
        link_throw(call, &err);
        return;
    }
    in->call = call;
    idtable_add(&incoming, &in->node, ++last_incoming);
    struct event *e;
    if (strcmp(method, "fetch") == 0) {
        e = events_push(EVENT_FETCH, in->node.id, 0);
    } else {
        e = events_push(EVENT_CALL, in->node.id, 0);
        event_set_text(e, method);
        if (strcmp(method, "init") == 0)
            memory_limit_from_init(args);
    }
    event_set_bytes(e, args.p, (size_t)(args.end - args.p));
    link_call_on_cancel(call, on_cancel, in);
}

const struct link_object_ops calls_bootstrap = {.call = on_call};

/* The call that the library answers; it is forgotten here. NULL: thrown. */
static struct link_call *take_incoming(JSContextRef ctx, JSValueRef id_value, JSValueRef *exception)
{
    uint64_t id;
    if (!value_uint(ctx, id_value, UINT32_MAX, &id, exception))
        return NULL;
    struct idnode *node = idtable_find(&incoming, (uint32_t)id);
    if (!node) {
        value_throw_code(ctx, exception, "WRONG_STATE", "there is no such call, or it is answered already");
        return NULL;
    }
    struct incoming *in = container_of(node, struct incoming, node);
    struct link_call *call = in->call;
    link_call_on_cancel(call, NULL, NULL);
    idtable_remove(&incoming, node);
    free(in);
    return call;
}

NATIVE(call_return)
{
    const uint8_t *bytes;
    size_t len;
    if (!value_bytes(ctx, native_arg(1), &bytes, &len, exception))
        return NULL;
    struct link_call *call = take_incoming(ctx, native_arg(0), exception);
    if (!call)
        return NULL;
    link_return(call, bytes, len);
    return JSValueMakeUndefined(ctx);
}

NATIVE(call_throw)
{
    struct error err = {0};
    char *code = value_dup_text(ctx, native_arg(1), NULL, exception);
    char *message = code ? value_dup_text(ctx, native_arg(2), NULL, exception) : NULL;
    struct link_call *call = message ? take_incoming(ctx, native_arg(0), exception) : NULL;
    if (call) {
        error_from_code(&err, code, message);
        link_throw(call, &err);
    }
    free(code);
    free(message);
    return call ? JSValueMakeUndefined(ctx) : NULL;
}

/* --- HTTP requests --- */

struct fetch {
    struct cbor_item method, url, headers, body, peer;
    bool ws;
};

static bool key_is(const struct cbor_item *key, const char *name)
{
    return key->len == strlen(name) && memcmp(key->data, name, key->len) == 0;
}

static void parse_fetch(const uint8_t *args, size_t len, struct fetch *f)
{
    const struct cbor_item nothing = {.type = CBOR_NULL};
    struct cbor_reader r;
    struct cbor_item map, key, value;
    *f = (struct fetch){nothing, nothing, nothing, nothing, nothing, false};
    cbor_reader_init(&r, args, len);
    if (cbor_next(&r, &map) < 0 || map.type != CBOR_MAP)
        return;
    for (uint64_t i = 0;
         i < map.count && cbor_next(&r, &key) == 0 && key.type == CBOR_TEXT && cbor_next(&r, &value) == 0;
         i++) {
        if (key_is(&key, "method"))
            f->method = value;
        else if (key_is(&key, "url"))
            f->url = value;
        else if (key_is(&key, "headers"))
            f->headers = value;
        else if (key_is(&key, "body"))
            f->body = value;
        else if (key_is(&key, "peer"))
            f->peer = value;
        else if (key_is(&key, "ws"))
            f->ws = value.type == CBOR_BOOL && value.boolean;
    }
}

static JSValueRef item_text(const struct cbor_item *item)
{
    return item->type == CBOR_TEXT ? value_text_n(worker.ctx, item->data, item->len)
                                   : value_text(worker.ctx, "");
}

static JSValueRef item_body(const struct cbor_item *item)
{
    JSValueRef exception = NULL;
    if (item->type == CBOR_UINT)
        return JSValueMakeNumber(worker.ctx, (double)item->u64);
    if (item->type == CBOR_BYTES)
        return value_buffer(worker.ctx, item->data, item->len, &exception);
    return JSValueMakeNull(worker.ctx);
}

void calls_tell_fetch(uint32_t id, const uint8_t *args, size_t len)
{
    struct fetch f;
    parse_fetch(args, len, &f);
    JSValueRef body = item_body(&f.body);
    JSValueRef argv[] = {JSValueMakeNumber(worker.ctx, id),
                         item_text(&f.method),
                         item_text(&f.url),
                         item_text(&f.headers),
                         body ? body : JSValueMakeNull(worker.ctx),
                         JSValueMakeBoolean(worker.ctx, f.ws),
                         item_text(&f.peer)};
    engine_enter(DISPATCH_FETCH, 0, sizeof argv / sizeof *argv, argv);
}

static bool put_text(JSContextRef ctx, struct buf *b, const char *key, JSValueRef v, JSValueRef *exception)
{
    size_t len;
    char *text = value_dup_text(ctx, v, &len, exception);
    if (!text)
        return false;
    cbor_put_text(b, key);
    cbor_put_text_n(b, text, len);
    free(text);
    return true;
}

enum body_kind { BODY_NONE, BODY_TEXT, BODY_BYTES, BODY_STREAM };

static enum body_kind kind_of_body(JSContextRef ctx, JSValueRef v)
{
    if (!v || JSValueIsNull(ctx, v) || JSValueIsUndefined(ctx, v))
        return BODY_NONE;
    if (JSValueIsString(ctx, v))
        return BODY_TEXT;
    return JSValueIsNumber(ctx, v) ? BODY_STREAM : BODY_BYTES;
}

static bool put_body(JSContextRef ctx, struct buf *b, enum body_kind kind, JSValueRef v,
                     JSValueRef *exception)
{
    uint64_t stream;
    const uint8_t *bytes;
    size_t len;
    if (kind == BODY_NONE)
        return true;
    cbor_put_text(b, "body");
    if (kind == BODY_STREAM) {
        if (!value_uint(ctx, v, UINT32_MAX, &stream, exception))
            return false;
        cbor_put_uint(b, stream);
    } else if (kind == BODY_TEXT) {
        char *text = value_dup_text(ctx, v, &len, exception);
        if (!text)
            return false;
        cbor_put_bytes(b, text, len);
        free(text);
    } else {
        if (!value_bytes(ctx, v, &bytes, &len, exception))
            return false;
        cbor_put_bytes(b, bytes, len);
    }
    return true;
}

static bool put_sockets(JSContextRef ctx, struct buf *b, JSValueRef v, JSValueRef *exception)
{
    uint64_t in, out;
    JSObjectRef pair = JSValueToObject(ctx, v, exception);
    if (!pair ||
        !value_uint(ctx, JSObjectGetPropertyAtIndex(ctx, pair, 0, exception), UINT32_MAX, &in, exception) ||
        !value_uint(ctx, JSObjectGetPropertyAtIndex(ctx, pair, 1, exception), UINT32_MAX, &out, exception))
        return false;
    cbor_put_text(b, "ws");
    cbor_put_map(b, 2);
    cbor_put_text(b, "in");
    cbor_put_uint(b, in);
    cbor_put_text(b, "out");
    cbor_put_uint(b, out);
    return true;
}

NATIVE(respond)
{
    static struct buf b; /* keeps its memory from one answer to the next */
    uint64_t status;
    if (!value_uint(ctx, native_arg(1), 999, &status, exception))
        return NULL;
    enum body_kind body = kind_of_body(ctx, native_arg(4));
    bool ws = argc > 5 && !JSValueIsUndefined(ctx, argv[5]) && !JSValueIsNull(ctx, argv[5]);
    buf_clear(&b);
    cbor_put_map(&b, 3u + (body != BODY_NONE) + ws);
    cbor_put_text(&b, "status");
    cbor_put_uint(&b, status);
    if (!put_text(ctx, &b, "statusText", native_arg(2), exception) ||
        !put_text(ctx, &b, "headers", native_arg(3), exception) ||
        !put_body(ctx, &b, body, native_arg(4), exception) ||
        (ws && !put_sockets(ctx, &b, argv[5], exception)))
        return NULL;
    if (b.failed) {
        buf_free(&b);
        return value_throw_range(ctx, exception, "Out of memory");
    }
    struct link_call *call = take_incoming(ctx, native_arg(0), exception);
    if (!call)
        return NULL;
    link_return(call, b.data, b.len);
    return JSValueMakeUndefined(ctx);
}

/* --- to the daemon --- */

static JSValueRef no_link(JSContextRef ctx, JSValueRef *exception)
{
    return value_throw_code(ctx, exception, "GONE", "this process has no link (it was started with --shell)");
}

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct outgoing *out = user;
    struct event *e = events_push(EVENT_ANSWER, out->node.id, out->request);
    if (err) {
        e->code = error_code(err);
        event_set_text(e, err->message);
    } else {
        event_set_bytes(e, value.p, (size_t)(value.end - value.p));
    }
    idtable_remove(&outgoing, &out->node);
    free(out);
}

/* Arguments 0 to 2 of call() and callSync(), sent. 0: thrown. */
static uint32_t send_call(JSContextRef ctx, size_t argc, const JSValueRef argv[], link_answer_fn fn,
                          void *user, JSValueRef *exception)
{
    uint64_t target;
    const uint8_t *args;
    size_t len;
    if (!worker.link) {
        no_link(ctx, exception);
        return 0;
    }
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &target, exception) ||
        !value_bytes(ctx, native_arg(2), &args, &len, exception))
        return 0;
    char *method = value_dup_text(ctx, native_arg(1), NULL, exception);
    if (!method)
        return 0;
    uint32_t id = link_call(worker.link, (uint32_t)target, method, args, len, fn, user);
    free(method);
    if (id == 0)
        value_throw_code(ctx, exception, "LIMIT_EXCEEDED",
                         "the call cannot be made: too many are in progress, or its arguments are too large");
    return id;
}

NATIVE(call)
{
    struct outgoing *out = calloc(1, sizeof *out);
    if (!out)
        return value_throw_range(ctx, exception, "Out of memory");
    out->request = worker.request;
    uint32_t id = send_call(ctx, argc, argv, on_answer, out, exception);
    if (id == 0) {
        free(out);
        return NULL;
    }
    idtable_add(&outgoing, &out->node, id);
    return JSValueMakeNumber(ctx, id);
}

struct sync {
    bool done;
    struct error err;
    uint8_t *bytes;
    size_t len;
};

static void on_sync_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct sync *s = user;
    s->done = true;
    if (err) {
        s->err = *err;
        return;
    }
    s->len = (size_t)(value.end - value.p);
    s->bytes = malloc(s->len ? s->len : 1);
    if (s->bytes)
        memcpy(s->bytes, value.p, s->len);
    else
        error_oom(&s->err);
}

NATIVE(call_sync)
{
    struct sync s = {0};
    uint32_t id = send_call(ctx, argc, argv, on_sync_answer, &s, exception);
    if (id == 0)
        return NULL;
    while (!s.done) {
        connection_flush();
        if (!connection_feed_answer(id) && !connection_read())
            connection_wait();
    }
    if (s.err.kind)
        return value_throw_error(ctx, exception, &s.err);
    return value_buffer_take(ctx, s.bytes, s.len, exception);
}

NATIVE(call_cancel)
{
    uint64_t id;
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &id, exception))
        return NULL;
    struct idnode *node = idtable_find(&outgoing, (uint32_t)id);
    if (node) {
        link_cancel(worker.link, (uint32_t)id);
        idtable_remove(&outgoing, node);
        free(container_of(node, struct outgoing, node));
    }
    return JSValueMakeUndefined(ctx);
}

NATIVE(capability_drop)
{
    uint64_t capability;
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &capability, exception))
        return NULL;
    if (!worker.link)
        return no_link(ctx, exception);
    link_drop(worker.link, (uint32_t)capability);
    return JSValueMakeUndefined(ctx);
}

void natives_calls(JSContextRef ctx, JSObjectRef natives)
{
    static const struct native list[] = {
        {"call", call},          {"callSync", call_sync}, {"cancel", call_cancel}, {"drop", capability_drop},
        {"return", call_return}, {"throw", call_throw},   {"respond", respond},
    };
    natives_add(ctx, natives, list, sizeof list / sizeof *list);
}
