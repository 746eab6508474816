/* The objects of a hosted Worker (objects.h) on storage.h and alarms.h: the capability that a process gets
 * for each. */
#include "app/alarms.h"
#include "app/containers.h"
#include "app/objects.h"
#include "app/storage.h"
#include "app/storage_pieces.h"
#include "base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct objects {
    struct objects_config config;
    struct object_class *classes;
    struct storage *storage;
    struct alarms *alarms;
    struct alarm_run *runs;
    struct objects_session *sessions;
};

/* One process's. */
struct objects_session {
    struct objects_session *next;
    struct objects *objects;
    struct link *link;
    struct handle *handles;
    uint64_t frames; /* of the link, that were ours: nobody outside sees anything of their answers */
    uint64_t seen;
};

/* A storage capability. It outlives its session, without its content. */
struct handle {
    struct handle *next;
    struct objects_session *session; /* NULL: ended */
    struct storage_session *storage;
    struct storage_pieces pieces;
};

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

static void empty_handle(struct handle *h)
{
    storage_session_end(h->storage);
    h->storage = NULL;
    h->session = NULL;
    storage_pieces_free(&h->pieces);
}

static void session_end(struct objects_session *s, const struct error *why)
{
    struct objects_session **at = &s->objects->sessions;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    while (s->handles) {
        struct handle *h = s->handles;
        s->handles = h->next;
        empty_handle(h);
    }
    free(s);
}

/* Frames that are calls of storage only tell the process what it asked; anything else may have been seen
 * outside, and must not be before what was written is on disk. */
static int session_commit(struct objects_session *s, struct error *err)
{
    uint64_t frames = link_frames(s->link);
    bool ours_alone = frames - s->seen == s->frames;
    s->seen = frames;
    s->frames = 0;
    return ours_alone ? 0 : storage_flush(s->objects->storage, err);
}

/* ---- life ---- */

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
    if (storage_open(&o->storage, &storage, err) < 0)
        return -1;
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
    }
    empty_handle(h);
    free(h);
}

/* UNTRUSTED INPUT */
static void on_handle_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct handle *h = object;
    struct buf answer;
    struct error err = {0};
    if (!h->session) {
        error_set(&err, ERROR_GONE, "the process's session has ended");
        link_throw(call, &err);
        return;
    }
    h->session->frames++;
    buf_init(&answer, 0);
    if (storage_pieces_call(&h->pieces, h->storage, method, args, &answer, &err) < 0)
        link_throw(call, &err);
    else
        link_return(call, answer.data, answer.len);
    buf_free(&answer);
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
    s->frames++;
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
    .commit = session_commit,
};
