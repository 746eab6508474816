/* The objects of a hosted Worker (objects.h) on storage.h and alarms.h: the capability that a process gets
 * for each. */
#include "app/alarms.h"
#include "app/containers.h"
#include "app/objects.h"
#include "app/storage.h"
#include "app/storage_pieces.h"
#include "app/storage_thread.h"
#include "base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct objects {
    struct objects_config config;
    struct object_class *classes;
    struct storage *storage;
    struct alarms *alarms;
    struct storage_thread *thread;
    struct job *job;   /* on the thread; NULL: none */
    uv_timer_t *clock; /* of the job */
    struct alarm_run *runs;
    struct objects_session *sessions;
};

/* One process's. */
struct objects_session {
    struct objects_session *next;
    struct objects *objects;
    struct link *link;
    struct handle *handles;
};

/* A storage capability. It outlives its session, without its content. */
struct handle {
    struct handle *next;
    struct objects_session *session; /* NULL: ended */
    struct storage_session *storage;
    struct storage_pieces pieces;
    struct storage_session *storage_at_work; /* of the job; as `storage`, which may have been given up */
    bool working;                            /* the job is a call of it */
    bool dropped;                            /* while it was that */
};

/* What the thread is given: a call of a handle, or all that is to be flushed. */
struct job {
    struct objects *objects;
    struct objects_session *session; /* who flushes; it may have ended */
    struct handle *handle;           /* NULL: flush */
    struct link_call *call;
    char *method;
    struct buf args, answer;
    int result;
    struct error err;
};

#define STOP_AGAIN_MS 20u
/* So long the loop waits for the thread: most calls are answered by then, and waking the loop costs as much.
 */
#define SHORT_WORK_US 300u

/* ---- classes ---- */

static void free_classes(struct object_class *classes, size_t count)
{
    for (size_t i = 0; classes && i < count; i++) {
        const struct object_class *c = &classes[i];
        free((char *)(uintptr_t)c->name);
        free((char *)(uintptr_t)c->instance_type);
        for (size_t k = 0; c->images && (c->images[k] || c->images[k + 1]); k += 2) {
            free((char *)(uintptr_t)c->images[k]);
            free((char *)(uintptr_t)c->images[k + 1]);
        }
        free((void *)(uintptr_t)c->images);
    }
    free(classes);
}

static int copy_class(struct object_class *to, const struct object_class *from)
{
    size_t n = 0;
    *to = *from;
    to->images = NULL;
    to->instance_type = from->instance_type ? strdup(from->instance_type) : NULL;
    to->name = strdup(from->name);
    if (!to->name || (from->instance_type && !to->instance_type))
        return -1;
    while (from->images && (from->images[n] || from->images[n + 1]))
        n += 2;
    if (n == 0)
        return 0;
    char **images = calloc(n + 2, sizeof *images);
    to->images = (const char *const *)images;
    for (size_t i = 0; images && i < n; i++)
        if (!(images[i] = strdup(from->images[i] ? from->images[i] : "")))
            return -1;
    return images ? 0 : -1;
}

static int set_classes(struct objects *o, const struct object_class *classes, size_t count, struct error *err)
{
    struct object_class *copy = calloc(count + 1, sizeof *copy);
    int r = copy ? 0 : -1;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = copy_class(&copy[i], &classes[i]);
    if (r < 0) {
        free_classes(copy, count);
        return error_oom(err);
    }
    free_classes(o->classes, o->config.class_count);
    o->config.classes = o->classes = copy;
    o->config.class_count = count;
    return 0;
}

static const struct object_class *find_class(const struct objects *o, const char *name)
{
    for (size_t i = 0; i < o->config.class_count; i++)
        if (strcmp(o->classes[i].name, name) == 0)
            return &o->classes[i];
    return NULL;
}

/* ---- alarms ---- */

struct alarm_run {
    struct alarm_run *next;
    struct objects *objects;
    struct alarm_call *call;
    char id[65];
    char class_name[];
};

static void unlink_run(struct alarm_run *run)
{
    struct alarm_run **at = &run->objects->runs;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
}

static void on_alarm_done(void *user, const struct error *err)
{
    struct alarm_run *run = user;
    unlink_run(run);
    alarms_ran(run->objects->alarms, run->class_name, run->id, err != NULL);
    free(run);
}

static int run_alarm(void *user, const char *class_name, const char *id, int64_t scheduled_ms,
                     unsigned retry_count)
{
    struct objects *o = user;
    if (!find_class(o, class_name))
        return -1; /* the application no longer has it */
    struct alarm_run *run = calloc(1, sizeof *run + strlen(class_name) + 1);
    if (!run)
        return -1;
    run->objects = o;
    memcpy(run->id, id, sizeof run->id);
    strcpy(run->class_name, class_name);
    run->next = o->runs;
    o->runs = run;
    run->call =
        host_call_alarm(o->config.host, class_name, id, retry_count, scheduled_ms, on_alarm_done, run);
    if (run->call)
        return 0;
    unlink_run(run);
    free(run);
    return -1;
}

/* ---- sessions ---- */

static const struct link_object_ops handle_ops;

static struct objects_session *session_begin(struct objects *o, struct link *link, struct error *err)
{
    struct objects_session *s = calloc(1, sizeof *s);
    if (!s) {
        error_oom(err);
        return NULL;
    }
    s->objects = o;
    s->link = link;
    s->next = o->sessions;
    o->sessions = s;
    return s;
}

/* The rest of one that is at work goes when the work is done. */
static void empty_handle(struct handle *h)
{
    storage_session_end(h->storage);
    h->storage = NULL;
    h->session = NULL;
    if (!h->working)
        storage_pieces_free(&h->pieces);
}

static void on_clock(uv_timer_t *t)
{
    struct objects *o = t->data;
    storage_stop(o->storage, false);
}

/* Nobody waits for its answer any more. */
static void stop_job(struct objects *o)
{
    if (!o->job || !o->job->handle)
        return;
    storage_stop(o->storage, true);
    uv_timer_start(o->clock, on_clock, STOP_AGAIN_MS, STOP_AGAIN_MS);
}

static void session_left(struct objects_session *s)
{
    stop_job(s->objects);
}

static void session_end(struct objects_session *s, const struct error *why)
{
    struct objects_session **at = &s->objects->sessions;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    stop_job(s->objects);
    while (s->handles) {
        struct handle *h = s->handles;
        s->handles = h->next;
        empty_handle(h);
    }
    free(s);
}

/* ---- work on the thread ---- */

static void free_job(struct job *j)
{
    if (!j)
        return;
    free(j->method);
    buf_free(&j->args);
    buf_free(&j->answer);
    free(j);
}

/* On the thread, to which the storage is lent. */
static void on_work(void *user)
{
    struct job *j = user;
    struct cbor_reader args;
    cbor_reader_init(&args, j->args.data, j->args.len);
    if (j->handle)
        j->result = storage_pieces_call(&j->handle->pieces, j->handle->storage_at_work, j->method, args,
                                        &j->answer, &j->err);
    else
        j->result = storage_flush(j->objects->storage, &j->err);
}

static void answer(struct link_call *call, int result, const struct buf *value, const struct error *err)
{
    if (result < 0)
        link_throw(call, err);
    else
        link_return(call, value->data, value->len);
}

static void after_call(struct job *j)
{
    struct handle *h = j->handle;
    struct error gone = {0};
    h->working = false;
    error_set(&gone, ERROR_GONE, "the process's session has ended");
    answer(j->call, h->session ? j->result : -1, &j->answer, h->session ? &j->err : &gone);
    if (!h->session)
        storage_pieces_free(&h->pieces);
    if (h->dropped)
        free(h);
}

/* The process whose link was held while the storage was lent. */
static void go_on(struct objects *o)
{
    bool held = false;
    for (struct objects_session *s = o->sessions; s; s = s->next)
        held |= link_held(s->link);
    if (held)
        host_go_on(o->config.host);
}

static bool lives(const struct objects *o, const struct objects_session *session)
{
    const struct objects_session *s = o->sessions;
    while (s && s != session)
        s = s->next;
    return s != NULL;
}

static void finish_job(struct job *j)
{
    struct objects *o = j->objects;
    o->job = NULL;
    uv_timer_stop(o->clock);
    storage_take_back(o->storage);
    if (j->handle)
        after_call(j);
    else if (j->result < 0 && lives(o, j->session))
        host_not_kept(o->config.host, &j->err);
    free_job(j);
    alarms_go_on(o->alarms);
}

static void on_done(void *user)
{
    struct job *j = user;
    struct objects *o = j->objects;
    finish_job(j);
    go_on(o);
}

static int start_job(struct objects *o, struct job *j, struct error *err)
{
    j->objects = o;
    storage_lend(o->storage);
    if (storage_thread_run(o->thread, on_work, on_done, j, err) < 0) {
        storage_take_back(o->storage);
        return -1;
    }
    o->job = j;
    uv_update_time(o->config.loop);
    uv_timer_start(o->clock, on_clock, STORAGE_STATEMENT_MS, STOP_AGAIN_MS);
    return 0;
}

static struct job *new_job(struct error *err)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j) {
        error_oom(err);
        return NULL;
    }
    buf_init(&j->args, 0);
    buf_init(&j->answer, 0);
    return j;
}

/* Until it is answered nothing else of the process is looked at. */
static void call_on_thread(struct handle *h, struct link_call *call, const char *method,
                           struct cbor_reader args)
{
    struct error err = {0};
    struct job *j = new_job(&err);
    if (j) {
        j->handle = h;
        j->call = call;
        j->method = strdup(method);
        if (!j->method || buf_append(&j->args, args.p, (size_t)(args.end - args.p)) < 0)
            error_oom(&err);
    }
    h->storage_at_work = h->storage; /* the thread begins at once */
    if (err.kind || start_job(h->session->objects, j, &err) < 0) {
        link_throw(call, &err);
        free_job(j);
        return;
    }
    h->working = true;
    if (storage_thread_wait(h->session->objects->thread, SHORT_WORK_US))
        finish_job(j);
    else
        link_hold(h->session->link);
}

static int flush_on_thread(struct objects_session *s, struct error *err)
{
    struct job *j = new_job(err);
    if (j) {
        j->session = s;
        if (start_job(s->objects, j, err) == 0)
            return 0;
    }
    free_job(j);
    return -1;
}

/* Calls of storage only tell the process what it asked; anything else may be seen outside, and must not be
 * before what was written is on disk. */
static int session_admit(struct objects_session *s, const struct link_object_ops *ops, bool object,
                         struct error *err)
{
    struct objects *o = s->objects;
    if (o->job)
        return 0;
    if (object || ops == &handle_ops || !storage_dirty(o->storage))
        return 1;
    if (storage_flush_is_long(o->storage))
        return flush_on_thread(s, err);
    return storage_flush(o->storage, err) < 0 ? -1 : 1;
}

/* ---- life ---- */

static void on_clock_closed(uv_handle_t *h)
{
    free(h);
}

/* Waits for what is under way, which is bounded by what SQLite cannot interrupt. */
static void close_thread(struct objects *o)
{
    if (o->job) {
        do
            storage_stop(o->storage, true);
        while (!storage_thread_wait(o->thread, STOP_AGAIN_MS * 1000));
        storage_thread_free(o->thread);
        storage_take_back(o->storage);
        if (o->job->handle) {
            o->job->handle->session = NULL;
            after_call(o->job);
        }
        free_job(o->job);
    } else {
        storage_thread_free(o->thread);
    }
    o->job = NULL;
    o->thread = NULL;
    if (o->clock)
        uv_close((uv_handle_t *)o->clock, on_clock_closed);
    o->clock = NULL;
}

static void objects_close(struct objects *o)
{
    if (!o)
        return;
    while (o->runs) {
        struct alarm_run *run = o->runs;
        o->runs = run->next;
        host_cancel_alarm(run->call);
        free(run);
    }
    while (o->sessions)
        session_end(o->sessions, NULL);
    close_thread(o);
    alarms_close(o->alarms);
    storage_close(o->storage);
    free_classes(o->classes, o->config.class_count);
    free(o);
}

static int open_parts(struct objects *o, struct error *err)
{
    char path[4096];
    if (paths_private_dir(o->config.state_dir, err) < 0)
        return -1;
    if (snprintf(path, sizeof path, "%s/objects", o->config.state_dir) >= (int)sizeof path)
        return error_set(err, ERROR_INVALID, "%.64s...: the path is too long", o->config.state_dir);
    struct storage_config storage = {.dir = path};
    if (storage_open(&o->storage, &storage, err) < 0 ||
        storage_thread_new(&o->thread, o->config.loop, err) < 0)
        return -1;
    o->clock = malloc(sizeof *o->clock);
    if (!o->clock)
        return error_oom(err);
    uv_timer_init(o->config.loop, o->clock);
    uv_unref((uv_handle_t *)o->clock);
    o->clock->data = o;
    snprintf(path, sizeof path, "%s/alarms.sqlite", o->config.state_dir);
    struct alarms_config alarms = {
        .loop = o->config.loop, .file = path, .storage = o->storage, .run = run_alarm, .user = o};
    return alarms_open(&o->alarms, &alarms, err);
}

static int objects_open(struct objects **ret, const struct objects_config *config, struct error *err)
{
    struct objects *o = calloc(1, sizeof *o);
    if (!o)
        return error_oom(err);
    o->config = *config;
    o->config.class_count = 0;
    if (set_classes(o, config->classes, config->class_count, err) < 0 || open_parts(o, err) < 0) {
        objects_close(o);
        return -1;
    }
    o->config.state_dir = NULL;
    *ret = o;
    return 0;
}

/* ---- the storage capability ---- */

static void on_handle_drop(void *object)
{
    struct handle *h = object;
    if (h->session) {
        struct handle **at = &h->session->handles;
        while (*at != h)
            at = &(*at)->next;
        *at = h->next;
        if (h->working)
            stop_job(h->session->objects);
    }
    empty_handle(h);
    if (h->working)
        h->dropped = true;
    else
        free(h);
}

/* UNTRUSTED INPUT */
static void on_handle_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct handle *h = object;
    struct buf value;
    struct error err = {0};
    if (!h->session) {
        error_set(&err, ERROR_GONE, "the process's session has ended");
        link_throw(call, &err);
        return;
    }
    if (storage_call_is_long(h->storage, method, h->pieces.staged.len + (size_t)(args.end - args.p))) {
        call_on_thread(h, call, method, args);
        return;
    }
    buf_init(&value, 0);
    int r = storage_pieces_call(&h->pieces, h->storage, method, args, &value, &err);
    answer(call, r, &value, &err);
    buf_free(&value);
}

static const struct link_object_ops handle_ops = {.call = on_handle_call, .drop = on_handle_drop};

/* ---- the method `object` ---- */

static struct handle *new_handle(struct objects_session *s, const char *class_name, const char *id,
                                 struct error *err)
{
    struct handle *h = calloc(1, sizeof *h);
    if (!h) {
        error_oom(err);
        return NULL;
    }
    storage_pieces_init(&h->pieces);
    if (storage_session_begin(s->objects->storage, class_name, id, &h->storage, err) < 0) {
        free(h);
        return NULL;
    }
    h->session = s;
    h->next = s->handles;
    s->handles = h;
    return h;
}

static int put_container(struct objects_session *s, const struct object_class *c, const char *id,
                         struct buf *b, struct error *err)
{
    const struct objects_config *config = &s->objects->config;
    const struct object_container which = {.worker = config->worker, .of = c, .id = id};
    if (!config->containers)
        return error_set(err, ERROR_UNSUPPORTED,
                         "class %.64s has a container, and containers cannot be started here: %s", c->name,
                         config->no_engine ? config->no_engine : "no container engine");
    cbor_put_text(b, "container");
    return config->containers->put(config->containers_user, s->link, b, &which, err);
}

/* Exports that were made before a failure last until the link ends: the handle is emptied all the same. */
static int describe(struct objects_session *s, const struct object_class *c, const char *id, struct handle *h,
                    struct buf *b, struct error *err)
{
    int64_t alarm = STORAGE_NO_ALARM;
    if (storage_session_alarm(h->storage, &alarm, err) < 0)
        return -1;
    cbor_put_map(b, c->container ? 3 : 2);
    cbor_put_text(b, "alarm");
    if (alarm == STORAGE_NO_ALARM)
        cbor_put_null(b);
    else
        cbor_put_int(b, alarm);
    if (c->container && put_container(s, c, id, b, err) < 0)
        return -1;
    cbor_put_text(b, "storage");
    if (link_put_capability(s->link, b, &handle_ops, h) == 0)
        return error_set(err, ERROR_LIMIT, "the process holds too many objects");
    return 0;
}

static void session_object(struct objects_session *s, struct link_call *call, struct cbor_reader args)
{
    struct error err = {0};
    struct handle *h = NULL;
    struct buf b;
    char *class_name = cbor_map_dup(&args, "class", 256), *id = cbor_map_dup(&args, "id", 64);
    const struct object_class *c = class_name ? find_class(s->objects, class_name) : NULL;
    buf_init(&b, 4096);
    if (!class_name || !id)
        error_field(&err, class_name ? "id" : "class", "object: expected a class and an id");
    else if (!c)
        error_set(&err, ERROR_NOT_FOUND, "the application has no Durable Object class %.64s", class_name);
    else
        h = new_handle(s, class_name, id, &err);
    if (h && describe(s, c, id, h, &b, &err) < 0) {
        on_handle_drop(h);
        h = NULL;
    }
    if (h)
        link_return(call, b.data, b.len);
    else
        link_throw(call, &err);
    buf_free(&b);
    free(class_name);
    free(id);
}

const struct objects_ops storage_objects = {
    .open = objects_open,
    .close = objects_close,
    .reconfigure = set_classes,
    .begin = session_begin,
    .end = session_end,
    .object = session_object,
    .admit = session_admit,
    .left = session_left,
};
