#include "app/loader.h"

#include "app/blob.h"
#include "app/channel.h"
#include "app/compile.h"
#include "app/init.h"
#include "app/outgoing.h"
#include "link/cbor.h"
#include "link/worker_protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS_MAX 64u
#define FLAG_LENGTH_MAX 128u

struct loader {
    struct loader_config config;
    struct dynamic *first;
    unsigned count;
    struct blob_budget code; /* of those that are being loaded */
};

/* A Dynamic Worker, from the call that asks for it to its end. */
struct dynamic {
    struct loader *loader; /* NULL: the host Worker is gone, and with it who would want this one */
    struct dynamic *next, *prev;
    struct link_call *call; /* not answered yet */
    struct worker *worker;
    struct compile_batch *batch;
    struct blob_reader *reader; /* its arguments still come */
    struct outgoing_user *outgoing;
    struct pipe_end *from_parent; /* not attached yet */
    uint32_t parent_in;           /* what the parent receives on; 0: no channel */
    uv_timer_t *deadline;
    char name[128];
    char *date;
    char **flags;
    struct modules modules;
    size_t charged; /* to the loader's budget, for `modules` */
    struct init_limits limits;
    enum outbound outbound;
    bool joined;   /* the parent's `in` is open */
    bool exported; /* the parent holds the capability */
};

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *h)
{
    free(h);
}

static void stop_deadline(struct dynamic *d)
{
    if (d->deadline)
        uv_close((uv_handle_t *)d->deadline, on_timer_closed);
    d->deadline = NULL;
}

static void free_code(struct dynamic *d)
{
    d->loader->code.held -= d->charged;
    d->charged = 0;
    modules_free(&d->modules);
}

static void free_flags(struct dynamic *d)
{
    for (char **f = d->flags; f && *f; f++)
        free(*f);
    free(d->flags);
    d->flags = NULL;
}

static void free_dynamic(struct dynamic *d)
{
    struct loader *l = d->loader;
    *(d->prev ? &d->prev->next : &l->first) = d->next;
    if (d->next)
        d->next->prev = d->prev;
    l->count--;
    stop_deadline(d);
    free_flags(d);
    free(d->date);
    free_code(d);
    free(d);
}

/* Ends it at whatever point it is; holders get `why`. */
static void end(struct dynamic *d, const struct error *why)
{
    struct error reason = *why;
    struct link *parent = d->loader->config.link;
    struct link_call *call = d->call;
    d->call = NULL;
    compile_cancel(d->batch);
    blob_abandon(d->reader, &reason);
    d->batch = NULL;
    d->reader = NULL;
    if (d->from_parent)
        pipe_abandon(d->from_parent, &reason);
    d->from_parent = NULL;
    struct worker *w = d->worker;
    d->worker = NULL; /* on_ended() has nothing to do then */
    if (w) {
        worker_end(w, &reason); /* its streams, and so the channel, fail with the reason */
        worker_release_later(w);
    }
    if (d->parent_in && !d->joined) {
        /* The parent waits on a stream that was never opened: opening and giving it up is how it hears. */
        static const struct link_stream_ops none;
        if (link_stream_open_send(parent, d->parent_in, &none, NULL, NULL) == 0)
            link_stream_reset(parent, d->parent_in, &reason);
    }
    outgoing_user_free(d->outgoing);
    d->outgoing = NULL;
    if (call)
        link_throw(call, &reason);
    if (!d->exported)
        free_dynamic(d);
}

static void on_ended(void *user, const struct error *why)
{
    struct dynamic *d = user;
    if (d->worker)
        end(d, why);
}

/* The parent let go of it. */
static void on_drop(void *object)
{
    struct dynamic *d = object;
    struct error why = {0};
    error_set(&why, ERROR_GONE, "The Worker was ended because nobody holds it any more.");
    d->exported = false;
    end(d, &why);
}

static void on_capability_call(void *object, struct link_call *call, const char *method,
                               struct cbor_reader args)
{
    struct error err = {0};
    error_set(&err, ERROR_NOT_FOUND, "a Worker has no method \"%.64s\": speak to it over its channel",
              method);
    link_throw(call, &err);
}

static const struct link_object_ops capability = {.call = on_capability_call, .drop = on_drop};

static void on_cancel(void *user)
{
    struct dynamic *d = user;
    struct error why = {0};
    error_set(&why, ERROR_GONE, "loading was cancelled");
    if (d->call)
        end(d, &why);
}

static void on_deadline(uv_timer_t *t)
{
    struct error why = {0};
    error_set(&why, ERROR_TIMEOUT, "The Worker did not start within %u s.", LOADER_START_MS / 1000);
    end(t->data, &why);
}

/* ---- what a Dynamic Worker may call: UNTRUSTED INPUT ---- */

static void on_worker_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct dynamic *d = object;
    struct error err = {0};
    bool fetch = strcmp(method, "fetch") == 0;
    if (!fetch && strcmp(method, "connect") != 0)
        error_set(&err, ERROR_DENIED, "a Dynamic Worker may not call \"%.64s\"", method);
    else if (!d->outgoing)
        error_set(&err, ERROR_DENIED,
                  "This Worker is not permitted to access the internet via global functions like fetch().");
    else if (fetch)
        outgoing_fetch(d->outgoing, call, args);
    else
        outgoing_connect(d->outgoing, call, args);
    if (err.kind)
        link_throw(call, &err);
}

static const struct link_object_ops worker_bootstrap = {.call = on_worker_call};

static void on_log(void *user, int level, int64_t ms, const char *text)
{
    struct dynamic *d = user;
    struct loader *l = d->loader;
    if (l->config.log)
        l->config.log(l->config.user, d->name, level, ms, text);
}

/* ---- the start, step by step ---- */

static void on_init(void *user, const struct error *err, struct cbor_reader value)
{
    struct dynamic *d = user;
    struct error why = {0};
    if (!d->worker || (err && !worker_alive(d->worker)))
        return; /* end() is at it, or on_ended() comes next */
    stop_deadline(d);
    if (err) {
        end(d, err);
        return;
    }
    struct link *parent = d->loader->config.link;
    struct link_call *call = d->call;
    struct buf b;
    buf_init(&b, 256);
    cbor_put_map(&b, 1);
    cbor_put_text(&b, "worker");
    if (!link_put_capability(parent, &b, &capability, d)) {
        error_set(&why, ERROR_LIMIT, "this Worker holds too many objects");
        buf_free(&b);
        end(d, &why);
        return;
    }
    d->exported = true;
    d->call = NULL;
    link_return(call, b.data, b.len);
    buf_free(&b);
}

static int join(struct dynamic *d, struct link *l, const struct init *init, struct error *err)
{
    struct pipe_end *there = d->from_parent;
    struct pipe_end *back = pipe_open(l, init->channel_out, err);
    d->from_parent = NULL;
    if (!back) {
        pipe_abandon(there, err);
        return -1;
    }
    if (pipe_attach(there, l, init->channel_in, err) < 0) {
        pipe_abandon(back, err);
        return -1;
    }
    if (pipe_attach(back, d->loader->config.link, d->parent_in, err) < 0)
        return -1;
    d->joined = true;
    return 0;
}

static void start(struct dynamic *d)
{
    struct error err = {0};
    struct link *l = worker_link(d->worker);
    struct init init = {
        .role = "dynamic",
        .name = d->name,
        .limits = d->limits,
        .compatibility_date = d->date,
        .compatibility_flags = (const char *const *)d->flags,
        .modules = &d->modules,
        .outbound = d->outbound,
        .channel_in = d->parent_in ? link_stream_new(l) : 0,
        .channel_out = d->parent_in ? link_stream_new(l) : 0,
    };
    if (init_call(l, &init, on_init, d, &err) < 0 || (d->parent_in && join(d, l, &init, &err) < 0)) {
        end(d, &err);
        return;
    }
    free_code(d); /* sent; only the cache needs them still */
    free_flags(d);
}

static void on_ready(void *user)
{
    start(user);
}

static void start_worker(struct dynamic *d)
{
    struct loader *l = d->loader;
    struct error err = {0};
    struct worker_config config = {
        .name = d->name,
        .bootstrap = &worker_bootstrap,
        .bootstrap_object = d,
        .memory_bytes = d->limits.memory_mib << 20,
        .cpu_ms = d->limits.cpu_ms,
        .ready = on_ready,
        .ended = on_ended,
        .log = on_log,
        .user = d,
    };
    if (d->outbound == OUTBOUND_DAEMON)
        d->outgoing = outgoing_user_new(l->config.outgoing, REACH_PUBLIC);
    d->worker = worker_start(l->config.workers, &config);
    if (!d->worker) {
        error_set(&err, ERROR_INTERNAL, "cannot start a worker process");
        end(d, &err);
        return;
    }
    if (worker_link(d->worker))
        start(d);
}

static void on_compiled(void *user, const struct error *err)
{
    struct dynamic *d = user;
    d->batch = NULL;
    if (err)
        end(d, err);
    else
        start_worker(d);
}

static void compile_modules(struct dynamic *d)
{
    struct error err = {0};
    int r = compile(d->loader->config.compiler, &d->modules, on_compiled, d, &d->batch, &err);
    if (r < 0)
        end(d, &err);
    else if (r > 0)
        start_worker(d);
}

/* ---- the arguments: UNTRUSTED INPUT ---- */

static int read_flags(struct dynamic *d, const struct cbor_reader *map, struct error *err)
{
    struct cbor_reader r;
    uint64_t count;
    if (!cbor_map_find(map, "compatibilityFlags", &r))
        return 0;
    if (cbor_get_array(&r, FLAGS_MAX, &count) < 0)
        return error_field(err, "compatibilityFlags",
                           "compatibilityFlags: a list of at most %u texts is expected", FLAGS_MAX);
    d->flags = calloc(count + 1, sizeof *d->flags);
    if (!d->flags)
        return error_oom(err);
    for (uint64_t i = 0; i < count; i++)
        if (!(d->flags[i] = cbor_dup_string(&r, FLAG_LENGTH_MAX)))
            return error_field(err, "compatibilityFlags",
                               "compatibilityFlags: a flag is no text of at most %u bytes", FLAG_LENGTH_MAX);
    return 0;
}

static int read_outbound(struct dynamic *d, const struct cbor_reader *map, struct error *err)
{
    static const char *const names[] = {"none", "daemon", "channel"};
    char text[16] = "";
    struct cbor_reader r;
    if (cbor_map_find(map, "outbound", &r) && cbor_get_string(&r, text, sizeof text) == 0)
        for (int i = 0; i < 3; i++)
            if (strcmp(text, names[i]) == 0) {
                d->outbound = (enum outbound)i;
                return 0;
            }
    return error_field(err, "outbound", "outbound: expected \"daemon\", \"channel\" or \"none\"");
}

static int read_limits(struct dynamic *d, const struct cbor_reader *map, struct error *err)
{
    struct init_limits *l = &d->limits;
    struct cbor_reader r;
    *l = (struct init_limits){.cpu_ms = LOADER_DEFAULT_CPU_MS, .memory_mib = WORKER_DEFAULT_MEMORY >> 20};
    if (!cbor_map_find(map, "limits", &r))
        return 0;
    if (cbor_map_uint(&r, "cpuMs", 3600000, l->cpu_ms, &l->cpu_ms) < 0 ||
        cbor_map_uint(&r, "subRequests", UINT32_MAX, 0, &l->sub_requests) < 0 ||
        cbor_map_uint(&r, "memoryMib", LOADER_MAX_MEMORY_MIB, l->memory_mib, &l->memory_mib) < 0 ||
        cbor_map_uint(&r, "wallMs", 86400000, 0, &l->wall_ms) < 0)
        return error_field(
            err, "limits",
            "limits: cpuMs (at most 3600000), subRequests, memoryMib (at most %u) and wallMs are "
            "expected to be whole numbers",
            LOADER_MAX_MEMORY_MIB);
    if (l->cpu_ms == 0)
        l->cpu_ms = LOADER_DEFAULT_CPU_MS;
    if (l->memory_mib == 0)
        l->memory_mib = WORKER_DEFAULT_MEMORY >> 20;
    return 0;
}

static void read_name(struct dynamic *d, const struct cbor_reader *map)
{
    struct cbor_reader r;
    if (!cbor_map_find(map, "name", &r) || cbor_get_string(&r, d->name, sizeof d->name) < 0)
        snprintf(d->name, sizeof d->name, "dynamic");
}

/* Opens the parent's ends of the channel, so that what it says at once is not lost. */
static int read_channel(struct dynamic *d, const struct cbor_reader *map, struct error *err)
{
    struct cbor_reader r;
    uint64_t in, out;
    if (!cbor_map_find(map, "channel", &r))
        return 0;
    if (cbor_map_uint(&r, "in", UINT32_MAX, 0, &in) < 0 ||
        cbor_map_uint(&r, "out", UINT32_MAX, 0, &out) < 0 || !in || !out)
        return error_field(err, "channel", "channel: two stream numbers are expected");
    d->from_parent = pipe_open(d->loader->config.link, (uint32_t)out, err);
    if (!d->from_parent)
        return -1;
    d->parent_in = (uint32_t)in;
    return 0;
}

/* `len`: bytes of the whole map. */
static int read_code(struct dynamic *d, const struct cbor_reader *map, size_t len, struct error *err)
{
    struct blob_budget *code = &d->loader->code;
    if (len > code->max - code->held)
        return error_set(err, ERROR_LIMIT, "more than %zu MiB are on their way at once; try again later",
                         code->max >> 20);
    d->charged = len;
    code->held += len;
    read_name(d, map);
    d->date = cbor_map_dup(map, "compatibilityDate", 32);
    return modules_read(&d->modules, map, err) < 0 || read_flags(d, map, err) < 0 ||
                   read_outbound(d, map, err) < 0 || read_limits(d, map, err) < 0
               ? -1
               : 0;
}

static void on_arguments(void *user, struct buf *bytes, const struct error *err)
{
    struct dynamic *d = user;
    struct error why = {0};
    struct cbor_reader map;
    d->reader = NULL;
    if (err) {
        end(d, err);
        return;
    }
    cbor_reader_init(&map, bytes->data, bytes->len);
    if (!cbor_well_formed(bytes->data, bytes->len)) {
        error_field(&why, "stream", "stream: the arguments on it are not one well-formed value");
        end(d, &why);
    } else if (read_code(d, &map, bytes->len, &why) < 0) {
        end(d, &why);
    } else {
        compile_modules(d);
    }
}

static struct dynamic *new_dynamic(struct loader *l, struct link_call *call, struct error *err)
{
    if (l->count >= LOADER_MAX_WORKERS) {
        error_set(err, ERROR_LIMIT, "This Worker holds %u Dynamic Workers; no more can be loaded.", l->count);
        return NULL;
    }
    struct dynamic *d = calloc(1, sizeof *d);
    uv_timer_t *t = malloc(sizeof *t);
    if (!d || !t) {
        free(d);
        free(t);
        error_oom(err);
        return NULL;
    }
    d->loader = l;
    d->call = call;
    d->next = l->first;
    if (d->next)
        d->next->prev = d;
    l->first = d;
    l->count++;
    uv_timer_init(workers_loop(l->config.workers), t);
    t->data = d;
    uv_timer_start(t, on_deadline, LOADER_START_MS, 0);
    d->deadline = t;
    return d;
}

void loader_load(struct loader *l, struct link_call *call, struct cbor_reader args)
{
    struct error err = {0};
    uint64_t stream = 0;
    struct dynamic *d = new_dynamic(l, call, &err);
    if (!d) {
        link_throw(call, &err);
        return;
    }
    if (read_channel(d, &args, &err) < 0 || cbor_map_uint(&args, "stream", UINT32_MAX, 0, &stream) < 0) {
        if (!err.kind)
            error_field(&err, "stream", "stream: a stream number is expected");
        end(d, &err);
        return;
    }
    link_call_on_cancel(call, on_cancel, d);
    if (stream) {
        d->reader = blob_read(l->config.link, (uint32_t)stream, MODULES_MAX_BYTES + (1u << 20), &l->code,
                              on_arguments, d, &err);
        if (!d->reader)
            end(d, &err);
    } else if (read_code(d, &args, (size_t)(args.end - args.p), &err) < 0) {
        end(d, &err);
    } else {
        compile_modules(d);
    }
}

struct loader *loader_new(const struct loader_config *config)
{
    struct loader *l = calloc(1, sizeof *l);
    if (l) {
        l->config = *config;
        l->code.max = LOADER_CODE_BYTES;
    }
    return l;
}

void loader_free(struct loader *l)
{
    struct error why = {0};
    if (!l)
        return;
    error_set(&why, ERROR_GONE, "the Worker that loaded this one has ended");
    while (l->first) {
        l->first->exported = false;
        end(l->first, &why);
    }
    free(l);
}
