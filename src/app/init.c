#include "app/init.h"

#include "app/blob.h"
#include "link/cbor.h"
#include "link/worker_protocol.h"

#include <string.h>
#include <sys/random.h>

#define ARGS_MAX ((size_t)1 << 20)

static void put_limits(struct buf *b, const struct init_limits *l)
{
    cbor_put_text(b, "limits");
    cbor_put_map(b, 4);
    cbor_put_text(b, "cpuMs");
    cbor_put_uint(b, l->cpu_ms);
    cbor_put_text(b, "subRequests");
    cbor_put_uint(b, l->sub_requests);
    cbor_put_text(b, "memoryMib");
    cbor_put_uint(b, l->memory_mib);
    cbor_put_text(b, "wallMs");
    cbor_put_uint(b, l->wall_ms);
}

static int put_modules(struct blob_outbox *o, struct link *l, struct buf *b, const struct modules *m,
                       struct error *err)
{
    size_t room = WORKER_INLINE_MAX;
    cbor_put_text(b, "main");
    cbor_put_text(b, m->main);
    cbor_put_text(b, "modules");
    cbor_put_array(b, m->count);
    for (size_t i = 0; i < m->count; i++) {
        const struct module *one = &m->all[i];
        const char *type = one->type == MODULE_TS ? "js" : module_type_name(one->type);
        cbor_put_map(b, 3);
        cbor_put_text(b, "name");
        cbor_put_text(b, one->name);
        cbor_put_text(b, "type");
        cbor_put_text(b, type);
        if (blob_put(o, l, b, one->code->bytes, one->code->len, room, err) < 0)
            return -1;
        if (one->code->len <= room)
            room -= one->code->len;
    }
    return 0;
}

static void put_flags(struct buf *b, const char *const *flags)
{
    uint64_t count = 0;
    while (flags && flags[count])
        count++;
    cbor_put_text(b, "compatibilityFlags");
    cbor_put_array(b, count);
    for (uint64_t i = 0; i < count; i++)
        cbor_put_text(b, flags[i]);
}

static int put_args(struct blob_outbox *o, struct link *l, struct buf *b, const struct init *init,
                    struct error *err)
{
    static const char *const outbound[] = {"none", "daemon", "channel"};
    uint8_t seed[32];
    if (getrandom(seed, sizeof seed, 0) != sizeof seed)
        return error_set(err, ERROR_SYSTEM, "the system gives no random numbers");
    unsigned pairs = 6 + init->extra_count + (init->compatibility_date ? 1 : 0) + (init->modules ? 2 : 0) +
                     (init->channel_in ? 1 : 0);
    cbor_put_map(b, pairs);
    cbor_put_text(b, "role");
    cbor_put_text(b, init->role);
    cbor_put_text(b, "name");
    cbor_put_text(b, init->name);
    cbor_put_text(b, "seed");
    cbor_put_bytes(b, seed, sizeof seed);
    explicit_bzero(seed, sizeof seed);
    put_limits(b, &init->limits);
    put_flags(b, init->compatibility_flags);
    cbor_put_text(b, "outbound");
    cbor_put_text(b, outbound[init->outbound]);
    if (init->compatibility_date) {
        cbor_put_text(b, "compatibilityDate");
        cbor_put_text(b, init->compatibility_date);
    }
    if (init->channel_in) {
        cbor_put_text(b, "channel");
        cbor_put_map(b, 2);
        cbor_put_text(b, "in");
        cbor_put_uint(b, init->channel_in);
        cbor_put_text(b, "out");
        cbor_put_uint(b, init->channel_out);
    }
    if (init->extra)
        init->extra(b, init->extra_user);
    return init->modules ? put_modules(o, l, b, init->modules, err) : 0;
}

int init_call(struct link *l, const struct init *init, link_answer_fn fn, void *user, struct error *err)
{
    struct blob_outbox outbox = {0};
    struct error why = {0};
    struct buf b;
    buf_init(&b, ARGS_MAX);
    int r = put_args(&outbox, l, &b, init, &why);
    if (r == 0 && (b.failed || link_call(l, 0, "init", b.data, b.len, fn, user) == 0))
        r = error_set(&why, ERROR_LIMIT,
                      "the Worker \"%.100s\" cannot be started: what it is told at its start "
                      "(names, variables, bindings) is larger than %zu bytes, or its link is gone",
                      init->name, ARGS_MAX);
    buf_free(&b);
    if (r == 0) {
        blob_start(&outbox);
        return 0;
    }
    blob_discard(&outbox, &why);
    if (err)
        *err = why;
    return -1;
}
