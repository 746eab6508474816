#include "daemon/container_capability.h"

#include "app/objects.h"
#include "base/sha256.h"
#include "daemon/cell.h"
#include "daemon/container_process.h"
#include "daemon/daemon.h"
#include "daemon/json_cbor.h"
#include "daemon/registry.h"
#include "daemon/snapshot_make.h"
#include "daemon/state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The exported object. Pending calls outlive it. */
struct box {
    struct daemon *daemon;
    char name[64];
    char *image;            /* the class's only one; NULL: start() names one */
    char *instance;         /* the class's instance type; NULL: the daemon's limits */
    uint64_t family;        /* which class of which Worker */
    unsigned max_instances; /* of that class, running or starting; 0: any number */
};

/* A call that waits for the container: for its start, or for its end. */
struct pending {
    struct cell *cell;
    struct cell_wait wait;
    struct link_call *call;
    bool added; /* the name is new: a start that fails forgets it */
};

void container_capability_name(char to[64], const char *worker, const char *class_name, const char *id)
{
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    char *p = to;
    sha256_begin(&hash);
    sha256_add(&hash, worker, strlen(worker) + 1);
    sha256_add(&hash, class_name, strlen(class_name) + 1);
    sha256_add(&hash, id, strlen(id));
    sha256_end(&hash, digest);
    for (int part = 0; part < 2; part++) {
        int kept = 0;
        for (const char *s = part ? class_name : worker; *s && kept < 14; s++)
            if (isalnum((unsigned char)*s)) {
                *p++ = (char)tolower((unsigned char)*s);
                kept++;
            }
        if (kept > 0)
            *p++ = '-';
    }
    for (int i = 0; i < 16; i++)
        p += sprintf(p, "%02x", digest[i]);
}

static uint64_t family_of(const char *worker, const char *class_name)
{
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    uint64_t family;
    sha256_begin(&hash);
    sha256_add(&hash, worker, strlen(worker) + 1);
    sha256_add(&hash, class_name, strlen(class_name));
    sha256_end(&hash, digest);
    memcpy(&family, digest, sizeof family);
    return family;
}

static struct cell *find(const struct box *b)
{
    return registry_find(b->daemon->registry, b->name);
}

static int need_running(const struct box *b, struct cell **ret, struct error *err)
{
    *ret = find(b);
    if (*ret && (*ret)->state == CELL_RUNNING)
        return 0;
    return error_set(err, ERROR_STATE, "the container is not running");
}

/* ---- waiting ---- */

static struct pending *await(struct cell *c, struct link_call *call, void (*fn)(void *user, struct cell *c),
                             struct error *err)
{
    struct pending *p = calloc(1, sizeof *p);
    if (!p) {
        error_oom(err);
        return NULL;
    }
    *p = (struct pending){.cell = c, .call = call, .wait = {.fn = fn, .user = p}};
    list_init(&p->wait.link);
    cell_ref(c);
    cell_await(c, &p->wait);
    return p;
}

static void end_pending(struct pending *p)
{
    cell_unwait(&p->wait);
    cell_unref(p->cell);
    free(p);
}

/* ---- start ---- */

static void answer_started(struct link_call *call, const struct stage_timings *t)
{
    const struct {
        const char *name;
        uint32_t us;
    } stages[] = {{"root", t->root},
                  {"namespaces", t->namespaces},
                  {"agent", t->agent},
                  {"ready", t->ready},
                  {"total", t->total}};
    struct buf b;
    buf_init(&b, 512);
    cbor_put_map(&b, 1);
    cbor_put_text(&b, "timings");
    cbor_put_map(&b, sizeof stages / sizeof *stages);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        cbor_put_text(&b, stages[i].name);
        cbor_put_uint(&b, stages[i].us);
    }
    link_return(call, b.data, b.len);
    buf_free(&b);
}

static void on_start(void *user, struct cell *c)
{
    struct pending *p = user;
    struct error err = c->start_error;
    if (c->state == CELL_STARTING)
        return;
    if (c->state == CELL_RUNNING) {
        answer_started(p->call, &c->timings);
    } else {
        if (!err.kind)
            error_set(&err, ERROR_GONE, "the container ended before it ran: %s", c->stop.reason);
        link_throw(p->call, &err);
        if (p->added)
            registry_forget(c->daemon->registry, c);
    }
    end_pending(p);
}

static int read_start(const struct box *b, struct cbor_reader args, struct start_request *ret,
                      struct error *err)
{
    json_t *body = json_from_cbor(&args, err);
    if (!body)
        return -1;
    if (!json_is_object(body)) {
        json_decref(body);
        return error_set(err, ERROR_INVALID, "start: expected a map");
    }
    if (json_object_get(body, "name")) {
        json_decref(body);
        return error_field(err, "name", "name: is not for the object to choose");
    }
    if (!json_object_get(body, "image") && !json_object_get(body, "snapshot")) {
        if (!b->image) {
            json_decref(body);
            return error_field(
                err, "image",
                "image: start() must name one: the configuration gives the class no single image");
        }
        json_object_set_new(body, "image", json_string(b->image));
    }
    if (b->instance && !json_object_get(body, "instance"))
        json_object_set_new(body, "instance", json_string(b->instance));
    return spec_start(ret, body, &b->daemon->config.limits, err);
}

/* The image that a snapshot of a container belongs to is named by the snapshot. */
static int image_of_snapshot(const struct box *b, struct start_request *spec, struct error *err)
{
    struct snapshot *s = NULL;
    if (!spec->snapshot || json_object_get(spec->body, "image"))
        return 0;
    if (snapshot_load(b->daemon->paths.data_dir, spec->snapshot, &s, err) < 0)
        return -1;
    if (s->image_id) {
        json_object_set_new(spec->body, "image", json_string(s->image_id));
        spec->image = json_string_value(json_object_get(spec->body, "image"));
    }
    snapshot_free(s);
    return 0;
}

struct head_count {
    uint64_t family;
    unsigned running;
};

static bool count_one(void *user, struct cell *c)
{
    struct head_count *n = user;
    n->running += c->family == n->family && c->state != CELL_STOPPED;
    return true;
}

static int check_instances(const struct box *b, struct error *err)
{
    struct head_count n = {.family = b->family};
    if (b->max_instances == 0)
        return 0;
    registry_each(b->daemon->registry, count_one, &n);
    if (n.running < b->max_instances)
        return 0;
    return error_set(
        err, ERROR_LIMIT,
        "%u containers of this class are running, and its max_instances are %u: try again when one has "
        "ended, or raise it in the configuration",
        n.running, b->max_instances);
}

static void call_start(struct box *b, struct link_call *call, struct cbor_reader args)
{
    struct start_request spec;
    struct error err = {0};
    struct cell *c = find(b);
    struct pending *p = NULL;
    bool added = false;
    if (read_start(b, args, &spec, &err) < 0) {
        link_throw(call, &err);
        return;
    }
    if (image_of_snapshot(b, &spec, &err) < 0)
        ;
    else if (c && c->state != CELL_STOPPED)
        error_set(&err, ERROR_STATE, "the container is running already");
    else if (check_instances(b, &err) < 0)
        ;
    else if (!c && registry_add(b->daemon->registry, b->name, &c, &err) == 0)
        added = true;
    if (!err.kind)
        p = await(c, call, on_start, &err);
    if (p) {
        p->added = added;
        c->family = b->family;
    }
    if (!p) {
        spec_start_free(&spec);
    } else if (cell_start(c, &spec, &err) < 0) {
        end_pending(p);
    } else {
        return;
    }
    if (added)
        registry_forget(b->daemon->registry, c);
    link_throw(call, &err);
}

/* ---- its end ---- */

static void answer_end(struct link_call *call, const struct cell *c)
{
    struct buf b;
    struct error err;
    bool orderly = c->stop.by_itself || strcmp(c->stop.reason, stop_reason_name(STOP_DESTROY)) == 0 ||
                   strcmp(c->stop.reason, stop_reason_name(STOP_INACTIVITY)) == 0;
    if (!orderly) {
        error_set(&err, ERROR_GONE, "the container ended: %s%s%.200s", c->stop.reason,
                  c->stop.detail[0] ? ": " : "", c->stop.detail);
        link_throw(call, &err);
        return;
    }
    buf_init(&b, 256);
    cbor_put_map(&b, 2);
    cbor_put_text(&b, "code");
    cbor_put_int(&b, c->stop.by_itself ? c->stop.code : 0);
    cbor_put_text(&b, "reason");
    cbor_put_text(&b, c->stop.reason);
    link_return(call, b.data, b.len);
    buf_free(&b);
}

static void on_end(void *user, struct cell *c)
{
    struct pending *p = user;
    if (c->state != CELL_STOPPED)
        return;
    answer_end(p->call, c);
    end_pending(p);
}

static void call_monitor(struct box *b, struct link_call *call)
{
    struct error err = {0};
    struct cell *c = find(b);
    if (!c || c->state == CELL_STOPPED)
        error_set(&err, ERROR_STATE, "the container is not running");
    else if (await(c, call, on_end, &err))
        return;
    link_throw(call, &err);
}

/* ---- snapshots ---- */

static void on_made(void *user, const struct snapshot *s, const struct error *err)
{
    struct link_call *call = user;
    struct buf b;
    if (err) {
        link_throw(call, err);
        return;
    }
    buf_init(&b, 8192);
    cbor_put_map(&b, 2 + (s->name[0] != 0) + (s->kind == SNAPSHOT_DIRECTORY && s->dir));
    cbor_put_text(&b, "id");
    cbor_put_text(&b, s->id);
    cbor_put_text(&b, "size");
    cbor_put_uint(&b, s->bytes);
    if (s->name[0]) {
        cbor_put_text(&b, "name");
        cbor_put_string(&b, s->name);
    }
    if (s->kind == SNAPSHOT_DIRECTORY && s->dir) {
        cbor_put_text(&b, "dir");
        cbor_put_string(&b, s->dir);
    }
    link_return(call, b.data, b.len);
    buf_free(&b);
}

static int read_order(struct snapshot_order *o, const struct cbor_reader *args, bool directory,
                      struct error *err)
{
    struct cbor_reader r;
    if (cbor_map_find(args, "name", &r)) {
        if (cbor_get_string(&r, o->name, sizeof o->name) < 0)
            return error_field(err, "name", "name: expected at most 63 bytes");
        for (const char *p = o->name; *p; p++)
            if ((unsigned char)*p < 0x20 || *p == 0x7f)
                return error_field(err, "name", "name: holds control characters");
    }
    if (!directory)
        return 0;
    o->dir = cbor_map_dup(args, "dir", SPEC_MAX_PATH);
    if (!o->dir)
        return error_field(err, "dir", "dir: expected an absolute path");
    return spec_path(o->dir, "dir", err);
}

static void call_snapshot(struct box *b, struct link_call *call, const struct cbor_reader *args,
                          bool directory)
{
    struct snapshot_order order = {0};
    struct error err = {0};
    struct cell *c = NULL;
    if (need_running(b, &c, &err) == 0) {
        if (read_order(&order, args, directory, &err) < 0)
            snapshot_order_free(&order);
        else if (snapshot_make(c, &order, on_made, call, &err) == 0)
            return;
    }
    link_throw(call, &err);
}

/* ---- small calls: an answer at once ---- */

static int call_state(struct box *b, const struct cbor_reader *args, struct buf *answer, struct error *err)
{
    const struct cell *c = find(b);
    cbor_put_map(answer, 1);
    cbor_put_text(answer, "running");
    cbor_put_bool(answer, c && c->state != CELL_STOPPED);
    return 0;
}

static int call_signal(struct box *b, const struct cbor_reader *args, struct buf *answer, struct error *err)
{
    struct cell *c;
    uint64_t signal;
    if (cbor_map_uint(args, "signal", 64, 0, &signal) < 0 || signal == 0)
        return error_field(err, "signal", "signal: expected a whole number from 1 to 64");
    return need_running(b, &c, err) < 0 ? -1 : container_signal(c->container, (int)signal, err);
}

static int call_destroy(struct box *b, const struct cbor_reader *args, struct buf *answer, struct error *err)
{
    struct cell *c = find(b);
    char *reason = cbor_map_dup(args, "reason", 255);
    if (c && c->state != CELL_STOPPED)
        cell_destroy(c, reason && reason[0] ? reason : "destroy()");
    free(reason);
    return 0;
}

static int call_inactivity(struct box *b, const struct cbor_reader *args, struct buf *answer,
                           struct error *err)
{
    struct cell *c;
    uint64_t ms;
    if (cbor_map_uint(args, "ms", (uint64_t)1 << 53, 0, &ms) < 0 || ms == 0)
        return error_field(err, "ms", "ms: expected milliseconds");
    if (need_running(b, &c, err) < 0)
        return -1;
    cell_set_inactivity(c, ms);
    return 0;
}

static int call_set_labels(struct box *b, const struct cbor_reader *args, struct buf *answer,
                           struct error *err)
{
    struct cell *c;
    struct cbor_reader r = *args;
    const json_t *labels = NULL;
    if (need_running(b, &c, err) < 0)
        return -1;
    json_t *body = json_from_cbor(&r, err);
    if (!body)
        return -1;
    int result = spec_labels(body, &labels, err);
    if (result == 0 && !labels)
        result = error_field(err, "labels", "labels: expected a map of texts");
    if (result == 0) {
        json_decref(c->labels);
        c->labels = json_incref((json_t *)(uintptr_t)labels);
        if (!c->forgotten)
            state_put_soon(b->daemon->state_db, c);
    }
    json_decref(body);
    return result;
}

static int call_inspect(struct box *b, const struct cbor_reader *args, struct buf *answer, struct error *err)
{
    struct cell *c;
    const char *key;
    json_t *value;
    if (need_running(b, &c, err) < 0)
        return -1;
    cbor_put_map(answer, 2);
    cbor_put_text(answer, "image");
    cbor_put_string(answer, c->image ? c->image : "");
    cbor_put_text(answer, "labels");
    cbor_put_map(answer, json_object_size(c->labels));
    json_object_foreach(c->labels, key, value)
    {
        cbor_put_text(answer, key);
        cbor_put_string(answer, json_string_value(value));
    }
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct box *b, const struct cbor_reader *args, struct buf *answer, struct error *err);
} small[] = {
    {"state", call_state},          {"signal", call_signal},
    {"destroy", call_destroy},      {"setInactivityTimeout", call_inactivity},
    {"setLabels", call_set_labels}, {"inspect", call_inspect},
};

static void call_small(struct box *b, struct link_call *call, const char *method,
                       const struct cbor_reader *args)
{
    struct buf answer;
    struct error err = {0};
    int r = -1;
    size_t i = 0, count = sizeof small / sizeof *small;
    buf_init(&answer, 0);
    while (i < count && strcmp(small[i].name, method) != 0)
        i++;
    if (i == count)
        error_set(&err, ERROR_INVALID, "a container has no method %.32s", method);
    else
        r = small[i].run(b, args, &answer, &err);
    if (r < 0)
        link_throw(call, &err);
    else
        link_return(call, answer.len ? answer.data : NULL, answer.len);
    buf_free(&answer);
}

/* ---- the capability ---- */

static void call_exec(struct box *b, struct link_call *call, struct cbor_reader args)
{
    struct error err = {0};
    struct cell *c = NULL;
    if (need_running(b, &c, &err) < 0)
        link_throw(call, &err);
    else
        container_process_start(c, link_call_link(call), call, args);
}

/* UNTRUSTED INPUT */
static void on_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct box *b = object;
    if (strcmp(method, "start") == 0)
        call_start(b, call, args);
    else if (strcmp(method, "exec") == 0)
        call_exec(b, call, args);
    else if (strcmp(method, "monitor") == 0)
        call_monitor(b, call);
    else if (strcmp(method, "snapshot") == 0)
        call_snapshot(b, call, &args, false);
    else if (strcmp(method, "snapshotDirectory") == 0)
        call_snapshot(b, call, &args, true);
    else
        call_small(b, call, method, &args);
}

static void free_box(void *object)
{
    struct box *b = object;
    free(b->image);
    free(b->instance);
    free(b);
}

static const struct link_object_ops box_ops = {.call = on_call, .drop = free_box};

static const char *only_image(const struct object_class *of)
{
    const char *const *images = of->images;
    return images && images[0] && !images[0][0] ? images[1] : NULL;
}

static int put(void *user, struct link *l, struct buf *b, const struct object_container *which,
               struct error *err)
{
    struct box *box = calloc(1, sizeof *box);
    const char *image = only_image(which->of), *instance = which->of->instance_type;
    if (!box)
        return error_oom(err);
    box->daemon = user;
    box->image = image ? strdup(image) : NULL;
    box->instance = instance ? strdup(instance) : NULL;
    box->family = family_of(which->worker, which->of->name);
    box->max_instances = which->of->max_instances;
    container_capability_name(box->name, which->worker, which->of->name, which->id);
    if ((image && !box->image) || (instance && !box->instance)) {
        free_box(box);
        return error_oom(err);
    }
    if (link_put_capability(l, b, &box_ops, box) != 0)
        return 0;
    free_box(box);
    return error_set(err, ERROR_LIMIT, "the worker holds too many objects");
}

const struct object_containers_ops container_capabilities = {.put = put};
