#include "app/compile.h"

#include "app/blob.h"
#include "app/compile_cache.h"
#include "app/init.h"
#include "base/log.h"
#include "link/cbor.h"
#include "link/worker_protocol.h"

#include <stdlib.h>
#include <string.h>

/* After so many modules the process is replaced, so that what it keeps cannot add up. */
#define MODULES_A_PROCESS 4096u

/* One is enough for modules that are what they should be. One that keeps its process busy keeps a lane busy,
 * and the others go on in the next. */
#define LANES 4
#define PATIENCE_MS 1000u /* so long they wait behind it */

/* A process, and the batches that wait for it. */
struct lane {
    struct compiler *owner;
    struct worker *worker; /* NULL: started when somebody wants it */
    bool initialised;
    unsigned compiled;           /* modules, by this process */
    struct compile_batch *first; /* the one that is being compiled; the others wait behind it */
};

struct compiler {
    struct workers *workers;
    struct compile_cache *cache;
    struct lane lanes[LANES];
};

/* One module that is not in the cache. */
struct job {
    struct compile_batch *batch;
    struct module *module;
    struct compile_key key;
    struct blob_reader *reader; /* the result comes on a stream */
    uint32_t call;
    bool done;
};

struct compile_batch {
    struct compile_batch *next;
    struct lane *lane;
    struct modules *modules;
    struct job *jobs;
    size_t count, done_count;
    bool sent, finished;
    compile_done_fn done;
    void *user;
    uv_timer_t *deadline; /* runs from when it is sent: first for PATIENCE_MS, then for the rest */
    bool slow;            /* PATIENCE_MS are over */
};

static int start_process(struct lane *c, struct error *err);
static void send_first(struct lane *c);
static void make_way(struct lane *from);

struct compiler *compiler_new(struct workers *workers, size_t cache_bytes)
{
    struct error err = {0};
    struct compiler *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->workers = workers;
    c->cache = compile_cache_new(cache_bytes);
    if (!c->cache) {
        free(c);
        return NULL;
    }
    for (size_t i = 0; i < LANES; i++)
        c->lanes[i].owner = c;
    if (start_process(&c->lanes[0], &err) < 0) /* the first batch tries again, and tells */
        log_warn("%s", err.message);
    return c;
}

void compiler_free(struct compiler *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < LANES; i++)
        worker_release(c->lanes[i].worker);
    compile_cache_free(c->cache);
    free(c);
}

/* ---- the process ---- */

static void drop_process(struct lane *c)
{
    worker_release_later(c->worker);
    c->worker = NULL;
    c->initialised = false;
    c->compiled = 0;
}

static void on_timer_closed(uv_handle_t *h)
{
    free(h);
}

static void unlink_batch(struct compile_batch *b)
{
    for (struct compile_batch **p = &b->lane->first; *p; p = &(*p)->next)
        if (*p == b) {
            *p = b->next;
            return;
        }
}

/* Whoever leaves in the middle of its compilation takes the process with it: nobody waits for what is left.
 */
static void free_batch(struct compile_batch *b)
{
    struct lane *c = b->lane;
    bool busy = false;
    for (size_t i = 0; i < b->count; i++) {
        struct job *j = &b->jobs[i];
        busy = busy || j->call || j->reader;
        if (j->call)
            link_cancel(worker_link(c->worker), j->call);
        if (j->reader)
            blob_abandon(j->reader, NULL);
    }
    if (b->deadline)
        uv_close((uv_handle_t *)b->deadline, on_timer_closed);
    unlink_batch(b);
    if (c->worker && b->sent && (busy || c->compiled >= MODULES_A_PROCESS))
        drop_process(c);
    free(b->jobs);
    free(b);
}

static void finish(struct compile_batch *b, const struct error *err)
{
    if (b->finished)
        return;
    b->finished = true;
    struct lane *c = b->lane;
    compile_done_fn done = b->done;
    void *user = b->user;
    struct error why = err ? *err : (struct error){0};
    free_batch(b);
    send_first(c);
    if (!c->first && c->worker && c != &c->owner->lanes[0])
        drop_process(c); /* it was for the time of need */
    if (done)
        done(user, err ? &why : NULL);
}

void compile_cancel(struct compile_batch *b)
{
    if (!b)
        return;
    b->done = NULL;
    finish(b, NULL);
}

/* The compiler works in order: whoever has no answer yet when it ends was being compiled. */
static const char *culprit(const struct compile_batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (!b->jobs[i].done)
            return b->jobs[i].module->name;
    return "?";
}

static void on_ended(void *user, const struct error *why)
{
    struct lane *c = user;
    struct compile_batch *b = c->first;
    struct error err = {0};
    drop_process(c);
    if (!b)
        return; /* the next one starts another */
    error_set(&err, why->kind == ERROR_LIMIT ? ERROR_LIMIT : ERROR_INVALID,
              "%.200s: the module cannot be compiled: %.250s", culprit(b), why->message);
    finish(b, &err);
}

static void on_deadline(uv_timer_t *t)
{
    struct compile_batch *b = t->data;
    struct error err = {0};
    if (!b->slow) {
        b->slow = true;
        uv_timer_start(t, on_deadline, COMPILE_WALL_MS - PATIENCE_MS, 0);
        make_way(b->lane);
        return;
    }
    error_set(&err, ERROR_LIMIT, "%.200s: the module cannot be compiled: it took longer than %u s",
              culprit(b), COMPILE_WALL_MS / 1000);
    finish(b, &err);
}

/* ---- results: UNTRUSTED INPUT, since the source may have taken the compiler over ---- */

static void take_result(struct job *j, const uint8_t *bytes, size_t len)
{
    struct compile_batch *b = j->batch;
    struct error err = {0};
    struct code *code = code_new(bytes, len);
    if (!code) {
        error_oom(&err);
        finish(b, &err);
        return;
    }
    compile_cache_put(b->lane->owner->cache, &j->key, code);
    code_unref(j->module->code);
    j->module->code = code;
    j->done = true;
    b->lane->compiled++;
    if (++b->done_count == b->count)
        finish(b, NULL);
}

static void on_stream(void *user, struct buf *bytes, const struct error *err)
{
    struct job *j = user;
    j->reader = NULL;
    if (err)
        finish(j->batch, err);
    else
        take_result(j, bytes->data, bytes->len);
}

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct job *j = user;
    struct compile_batch *b = j->batch;
    struct error why = {0};
    struct cbor_reader r;
    const uint8_t *bytes;
    size_t len;
    uint64_t stream;
    j->call = 0;
    if (err && !worker_alive(b->lane->worker))
        return; /* on_ended() comes next, and knows why */
    if (err) {
        finish(b, err);
    } else if (cbor_map_find(&value, "data", &r) && cbor_get_bytes(&r, &bytes, &len) == 0) {
        take_result(j, bytes, len);
    } else if (cbor_map_uint(&value, "stream", UINT32_MAX, 0, &stream) == 0 && stream) {
        j->reader = blob_read(worker_link(b->lane->worker), (uint32_t)stream, MODULES_MAX_BYTES, NULL,
                              on_stream, j, &why);
        if (!j->reader)
            finish(b, &why);
    } else {
        error_set(&why, ERROR_PROTOCOL, "%.200s: the module compiler answered without a result",
                  j->module->name);
        finish(b, &why);
    }
}

static int send_job(struct job *j, struct error *err)
{
    struct blob_outbox outbox = {0};
    struct link *l = worker_link(j->batch->lane->worker);
    const struct module *m = j->module;
    struct buf b;
    buf_init(&b, (size_t)1 << 20);
    cbor_put_map(&b, 3);
    cbor_put_text(&b, "name");
    cbor_put_text(&b, m->name);
    cbor_put_text(&b, "type");
    cbor_put_text(&b, module_type_name(m->type));
    int r = blob_put(&outbox, l, &b, m->code->bytes, m->code->len, WORKER_INLINE_MAX, err);
    if (r == 0 && (b.failed || (j->call = link_call(l, 0, "compile", b.data, b.len, on_answer, j)) == 0))
        r = error_set(err, ERROR_LIMIT, "the module \"%.200s\" cannot be handed to the compiler", m->name);
    buf_free(&b);
    if (r == 0)
        blob_start(&outbox);
    else
        blob_discard(&outbox, err);
    return r;
}

static int send_batch(struct compile_batch *b, struct error *err)
{
    b->deadline = malloc(sizeof *b->deadline);
    if (!b->deadline)
        return error_oom(err);
    uv_timer_init(workers_loop(b->lane->owner->workers), b->deadline);
    b->deadline->data = b;
    uv_timer_start(b->deadline, on_deadline, PATIENCE_MS, 0);
    b->sent = true;
    for (size_t i = 0; i < b->count; i++)
        if (send_job(&b->jobs[i], err) < 0)
            return -1;
    return 0;
}

/* Hands the first batch over, if it waits and the process is there; starts the process if it is not. */
static void send_first(struct lane *c)
{
    struct compile_batch *b = c->first;
    struct error err = {0};
    if (!b || b->sent)
        return;
    if (!c->worker && start_process(c, &err) < 0)
        finish(b, &err);
    else if (c->initialised && send_batch(b, &err) < 0)
        finish(b, &err);
}

static void on_init(void *user, const struct error *err, struct cbor_reader value)
{
    struct lane *c = user;
    (void)value;
    if (err)
        return; /* the process ends, and on_ended() tells */
    c->initialised = true;
    send_first(c);
}

static void on_ready(void *user)
{
    struct lane *c = user;
    struct error err = {0};
    struct init init = {.role = "compiler", .name = "compiler", .outbound = OUTBOUND_NONE};
    if (init_call(worker_link(c->worker), &init, on_init, c, &err) < 0)
        worker_end(c->worker, &err);
}

static int start_process(struct lane *c, struct error *err)
{
    struct worker_config config = {.kind = ZYGOTE_COMPILER,
                                   .name = "compiler",
                                   .memory_bytes = COMPILE_MEMORY,
                                   .ready = on_ready,
                                   .ended = on_ended,
                                   .user = c};
    c->worker = worker_start(c->owner->workers, &config);
    if (!c->worker)
        return error_set(err, ERROR_INTERNAL, "cannot start the module compiler");
    if (worker_link(c->worker))
        on_ready(c);
    return 0;
}

/* ---- the batch ---- */

/* Takes from the cache what is there; the rest becomes jobs. */
static int gather(struct compile_batch *b)
{
    struct modules *m = b->modules;
    b->jobs = calloc(m->count ? m->count : 1, sizeof *b->jobs);
    if (!b->jobs)
        return -1;
    for (size_t i = 0; i < m->count; i++) {
        struct module *one = &m->all[i];
        struct job *j = &b->jobs[b->count];
        if (!module_is_compiled(one->type))
            continue;
        compile_key(&j->key, one);
        struct code *code = compile_cache_get(b->lane->owner->cache, &j->key);
        if (code) {
            code_unref(one->code);
            one->code = code;
            continue;
        }
        j->batch = b;
        j->module = one;
        b->count++;
    }
    return 0;
}

/* ---- lanes ---- */

static bool is_slow(const struct lane *c)
{
    return c->first && c->first->slow;
}

/* The first that does not stand behind a slow batch; the last where all do. */
static struct lane *open_lane(struct compiler *c)
{
    for (size_t i = 0; i < LANES; i++)
        if (!is_slow(&c->lanes[i]))
            return &c->lanes[i];
    return &c->lanes[LANES - 1];
}

/* To the end of a lane. -1: its process cannot be started; the batch is in no lane. */
static int enter(struct compile_batch *b, struct lane *c, struct error *err)
{
    struct compile_batch **end = &c->first;
    while (*end)
        end = &(*end)->next;
    b->next = NULL;
    b->lane = c;
    *end = b;
    if ((c->worker || start_process(c, err) == 0) &&
        (c->first != b || !c->initialised || b->sent || send_batch(b, err) == 0))
        return 0;
    return -1;
}

/* Those behind a slow batch go to another lane, where there is one. */
static void make_way(struct lane *from)
{
    struct lane *to = open_lane(from->owner);
    struct compile_batch *b = from->first->next;
    if (is_slow(to))
        return;
    from->first->next = NULL;
    while (b) {
        struct compile_batch *next = b->next;
        struct error err = {0};
        if (enter(b, to, &err) < 0)
            finish(b, &err);
        b = next;
    }
}

int compile(struct compiler *c, struct modules *m, compile_done_fn done, void *user,
            struct compile_batch **ret, struct error *err)
{
    struct compile_batch *b = calloc(1, sizeof *b);
    if (!b)
        return error_oom(err);
    *b = (struct compile_batch){.lane = open_lane(c), .modules = m, .done = done, .user = user};
    if (gather(b) < 0) {
        free(b);
        return error_oom(err);
    }
    if (b->count == 0) {
        free_batch(b);
        return 1;
    }
    if (enter(b, b->lane, err) < 0) {
        free_batch(b);
        return -1;
    }
    *ret = b;
    return 0;
}
