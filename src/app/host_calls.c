/* What the process of a hosted Worker may call: section 2 of src/link/worker_protocol.h. UNTRUSTED INPUT, all
 * of it. */
#include "app/assets.h"
#include "app/channel.h"
#include "app/host_internal.h"
#include "app/loader.h"
#include "app/outgoing.h"
#include "link/cbor.h"

#include <stdlib.h>
#include <string.h>

static void refuse(struct link_call *call, enum error_kind kind, const char *message)
{
    struct error err = {0};
    error_set(&err, kind, "%s", message);
    link_throw(call, &err);
}

static void call_fetch(struct process *p, struct link_call *call, struct cbor_reader args)
{
    outgoing_fetch(p->outgoing, call, args);
}

static void call_connect(struct process *p, struct link_call *call, struct cbor_reader args)
{
    outgoing_connect(p->outgoing, call, args);
}

static void call_load(struct process *p, struct link_call *call, struct cbor_reader args)
{
    loader_load(p->loader, call, args);
}

static void call_assets(struct process *p, struct link_call *call, struct cbor_reader args)
{
    struct host *h = p->host;
    struct assets *a = h->config.assets ? h->config.assets(h->config.user) : NULL;
    if (a)
        assets_call(a, call, args);
    else
        refuse(call, ERROR_NOT_FOUND, "this application has no static files (`assets` in its configuration)");
}

static void call_object(struct process *p, struct link_call *call, struct cbor_reader args)
{
    if (p->session)
        p->host->config.objects->object(p->session, call, args);
    else
        refuse(call, ERROR_NOT_FOUND, "this Worker has no Durable Object classes in its configuration");
}

/* ---- service: a channel to another hosted Worker ---- */

struct visit {
    struct link_call *call;
    struct host_waiter *waiter;
    struct link *from;
    struct pipe_end *there; /* what the caller says meanwhile waits here */
    uint32_t caller_in;
};

static void end_visit(struct visit *v, const struct error *err)
{
    if (v->there)
        pipe_abandon(v->there, err);
    if (err)
        link_throw(v->call, err);
    else
        link_return(v->call, NULL, 0);
    free(v);
}

static void on_channel_answer(void *user, const struct error *err, struct cbor_reader value)
{
    /* A refusal shows on the channel: the Worker gives its streams up. */
}

static int join_visit(struct visit *v, struct link *to, struct error *err)
{
    struct buf b;
    uint32_t in = link_stream_new(to), out = link_stream_new(to);
    buf_init(&b, 64);
    cbor_put_map(&b, 2);
    cbor_put_text(&b, "in");
    cbor_put_uint(&b, in);
    cbor_put_text(&b, "out");
    cbor_put_uint(&b, out);
    struct pipe_end *there = v->there, *back = pipe_open(to, out, err);
    v->there = NULL;
    uint32_t id = back && !b.failed ? link_call(to, 0, "channel", b.data, b.len, on_channel_answer, NULL) : 0;
    buf_free(&b);
    if (!id) {
        if (!err->kind)
            error_set(err, ERROR_LIMIT, "the Worker takes no more calls");
        pipe_abandon(back, err);
        pipe_abandon(there, err);
        return -1;
    }
    if (pipe_attach(there, to, in, err) < 0) {
        pipe_abandon(back, err);
        return -1;
    }
    return pipe_attach(back, v->from, v->caller_in, err);
}

static void on_service_up(void *user, struct link *l, const struct error *err)
{
    struct visit *v = user;
    struct error why = {0};
    v->waiter = NULL;
    if (err)
        end_visit(v, err);
    else
        end_visit(v, join_visit(v, l, &why) < 0 ? &why : NULL);
}

static void on_service_cancel(void *user)
{
    struct visit *v = user;
    struct error why = {0};
    error_set(&why, ERROR_GONE, "the call was cancelled");
    host_forget(v->waiter);
    end_visit(v, &why);
}

static void call_service(struct process *p, struct link_call *call, struct cbor_reader args)
{
    struct host *h = p->host;
    struct error err = {0};
    struct cbor_reader channel;
    uint64_t in = 0, out = 0;
    char name[256] = "";
    struct cbor_reader r;
    if (cbor_map_find(&args, "name", &r))
        cbor_get_string(&r, name, sizeof name);
    struct host *target = h->config.find ? h->config.find(h->config.user, name) : NULL;
    if (!cbor_map_find(&args, "channel", &channel) || cbor_map_uint(&channel, "in", UINT32_MAX, 0, &in) < 0 ||
        cbor_map_uint(&channel, "out", UINT32_MAX, 0, &out) < 0 || !in || !out) {
        refuse(call, ERROR_INVALID, "channel: two stream numbers are expected");
        return;
    }
    if (!target) {
        error_set(&err, ERROR_NOT_FOUND, "there is no Worker \"%.100s\" in this application", name);
        link_throw(call, &err);
        return;
    }
    struct visit *v = calloc(1, sizeof *v);
    if (!v) {
        refuse(call, ERROR_INTERNAL, "out of memory");
        return;
    }
    *v = (struct visit){.call = call, .from = link_call_link(call), .caller_in = (uint32_t)in};
    v->there = pipe_open(v->from, (uint32_t)out, &err);
    if (!v->there) {
        end_visit(v, &err);
        return;
    }
    struct link *up = host_link(target);
    if (up) {
        on_service_up(v, up, NULL);
        return;
    }
    link_call_on_cancel(call, on_service_cancel, v);
    host_wait(target, on_service_up, v, &v->waiter);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*run)(struct process *p, struct link_call *call, struct cbor_reader args);
} methods[] = {
    {"fetch", call_fetch},     {"connect", call_connect}, {"load", call_load},
    {"service", call_service}, {"assets", call_assets},   {"object", call_object},
};

static void on_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct process *p = object;
    struct error err = {0};
    if (!p->host) {
        refuse(call, ERROR_GONE, "the Worker ends");
        return;
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, method) == 0) {
            methods[i].run(p, call, args);
            return;
        }
    error_set(&err, ERROR_NOT_FOUND, "there is no method \"%.64s\"", method);
    link_throw(call, &err);
}

const struct link_object_ops host_bootstrap = {.call = on_call};
