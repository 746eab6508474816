#include "daemon/api.h"

#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/json_in.h"
#include "daemon/json_out.h"
#include "daemon/record.h"
#include "daemon/registry.h"
#include "daemon/state.h"

#include <stdlib.h>
#include <string.h>

/* A request that waits for its container to change state. */
struct waiting {
    struct request *request;
    struct cell_wait wait;
    bool created; /* the name is new: forgotten when the start fails */
    bool forget;  /* DELETE */
};

static void answer_record(struct request *r, int status, struct cell *c, bool usage)
{
    struct buf b;
    buf_init(&b, 0);
    record_container(&b, c, usage);
    request_json(r, status, &b);
}

static void stop_waiting(struct request *r)
{
    struct waiting *w = r->state;
    cell_unwait(&w->wait);
    free(w);
}

static struct waiting *begin_waiting(struct request *r, struct cell *c, void (*fn)(void *, struct cell *))
{
    struct waiting *w = calloc(1, sizeof *w);
    struct error err;
    if (!w) {
        error_oom(&err);
        request_error(r, &err);
        return NULL;
    }
    w->request = r;
    w->wait.fn = fn;
    w->wait.user = w;
    cell_await(c, &w->wait);
    r->state = w;
    r->on_close = stop_waiting;
    request_no_timeout(r);
    return w;
}

void api_version(struct request *r)
{
    struct buf b;
    buf_init(&b, 0);
    json_open(&b, '{');
    json_put_str(&b, "version", CLOISTER_VERSION);
    json_put_str(&b, "api", "v1");
    json_put_str(&b, "grade", engine_grade(r->daemon->engine)->text);
    json_close(&b, '}');
    request_json(r, 200, &b);
}

/* ---- list and look ---- */

struct listing {
    struct request *request;
    struct buf out;
    int state; /* -1: any */
};

static bool has_labels(const struct request *r, const struct cell *c)
{
    for (size_t i = 0; i < r->uri.query_count; i++) {
        if (strcmp(r->uri.query[i].key, "label") != 0)
            continue;
        const char *text = r->uri.query[i].value, *eq = strchr(text, '=');
        char key[64] = "";
        memcpy(key, text, (size_t)(eq - text)); /* checked when the request came */
        const char *value = json_string_value(json_object_get(c->labels, key));
        if (!value || strcmp(value, eq + 1) != 0)
            return false;
    }
    return true;
}

static bool list_one(void *user, struct cell *c)
{
    struct listing *l = user;
    if ((l->state < 0 || l->state == (int)c->state) && has_labels(l->request, c))
        record_container(&l->out, c, false);
    return true;
}

static int check_filters(const struct request *r, int *ret_state, struct error *err)
{
    static const char *const states[] = {"stopped", "starting", "running"};
    const char *state = uri_query(&r->uri, "state");
    *ret_state = -1;
    for (int i = 0; state && i < 3; i++)
        if (strcmp(state, states[i]) == 0)
            *ret_state = i;
    if (state && *ret_state < 0)
        return error_field(err, "state", "state: expected running, starting or stopped");
    for (size_t i = 0; i < r->uri.query_count; i++) {
        const char *eq = strchr(r->uri.query[i].value, '=');
        if (strcmp(r->uri.query[i].key, "label") == 0 &&
            (!eq || eq == r->uri.query[i].value || eq - r->uri.query[i].value > 63))
            return error_field(err, "label", "label: expected NAME=VALUE");
    }
    return 0;
}

void api_containers_list(struct request *r)
{
    struct listing l = {.request = r};
    struct error err;
    if (check_filters(r, &l.state, &err) < 0) {
        request_error(r, &err);
        return;
    }
    buf_init(&l.out, 0);
    json_open(&l.out, '{');
    json_key(&l.out, "containers");
    json_open(&l.out, '[');
    registry_each(r->daemon->registry, list_one, &l);
    json_close(&l.out, ']');
    json_close(&l.out, '}');
    request_json(r, 200, &l.out);
}

void api_container_get(struct request *r)
{
    answer_record(r, 200, r->cell, true);
}

void api_container_patch(struct request *r)
{
    static const char *const known[] = {"labels", NULL};
    const json_t *labels = NULL;
    struct error err = {0};
    if (json_in_known(r->body, "", known, &err) < 0 || spec_labels(r->body, &labels, &err) < 0) {
        request_error(r, &err);
        return;
    }
    if (!labels) {
        error_field(&err, "labels", "labels: expected an object of strings");
        request_error(r, &err);
        return;
    }
    json_decref(r->cell->labels);
    r->cell->labels = json_incref((json_t *)labels);
    if (r->cell->spec) /* a start without a body keeps them */
        json_object_set(r->cell->spec, "labels", r->cell->labels);
    if (!r->cell->forgotten)
        state_put(r->daemon->state_db, r->cell);
    answer_record(r, 200, r->cell, true);
}

/* ---- start ---- */

static void on_started(void *user, struct cell *c)
{
    struct waiting *w = user;
    if (c->state == CELL_STARTING || w->request->answered)
        return;
    if (c->state == CELL_RUNNING) {
        answer_record(w->request, w->created ? 201 : 200, c, false);
        return;
    }
    struct error err = c->start_error;
    if (!err.kind)
        error_set(&err, ERROR_GONE, "container %s ended before it was told to run", c->name);
    api_process_failure(w->request, &err, "entrypoint");
    if (w->created)
        registry_forget(w->request->daemon->registry, c);
}

/* A new name whose client left while it was starting keeps its container: the client may have had its
 * reasons. Only a start that failed is undone, by on_started(). */
static void start(struct request *r, struct cell *c, struct start_request *spec, bool created)
{
    struct error err = {0};
    struct waiting *w = begin_waiting(r, c, on_started);
    if (!w) {
        spec_start_free(spec);
        return;
    }
    w->created = created;
    if (cell_start(c, spec, &err) == 0)
        return;
    if (created)
        registry_forget(r->daemon->registry, c);
    api_process_failure(r, &err, "entrypoint");
}

void api_container_create(struct request *r)
{
    struct start_request spec;
    struct error err = {0};
    struct cell *c = NULL;
    if (spec_start(&spec, json_incref(r->body), &r->daemon->config.limits, &err) < 0) {
        request_error(r, &err);
        return;
    }
    if (registry_add(r->daemon->registry, spec.name, &c, &err) < 0) {
        spec_start_free(&spec);
        request_error(r, &err);
        return;
    }
    cell_ref(c);
    cell_busy(c);
    r->cell = c; /* held and busy until the request ends */
    start(r, c, &spec, true);
}

/* Without a body the last start is repeated; with one, it says how. */
void api_container_start(struct request *r)
{
    struct start_request spec;
    struct error err = {0};
    struct cell *c = r->cell;
    json_t *body = r->body && json_object_size(r->body) > 0 ? r->body : c->spec;
    body = body ? json_incref(body) : json_object();
    if (spec_start(&spec, body, &r->daemon->config.limits, &err) == 0 && spec.name &&
        strcmp(spec.name, c->name) != 0) {
        error_field(&err, "name", "name: the container is %s; leave it out", c->name);
        spec_start_free(&spec);
    }
    if (err.kind)
        request_error(r, &err);
    else
        start(r, c, &spec, false); /* which refuses a running one */
}

/* ---- signals and ends ---- */

int api_need_running(struct request *r)
{
    struct error err;
    if (r->cell->state == CELL_RUNNING)
        return 0;
    error_set(&err, ERROR_STATE, "container %s is not running", r->cell->name);
    request_error(r, &err);
    return -1;
}

void api_container_signal(struct request *r)
{
    static const char *const known[] = {"signal", NULL};
    int64_t signal = 0;
    struct error err = {0};
    if (json_in_known(r->body, "", known, &err) == 0 &&
        json_in_int(r->body, "", "signal", 1, 64, &signal, &err) == 0 && !signal)
        error_field(&err, "signal", "signal: expected a whole number from 1 to 64");
    if (err.kind) {
        request_error(r, &err);
        return;
    }
    if (api_need_running(r) < 0)
        return;
    if (container_signal(r->cell->container, (int)signal, &err) < 0)
        request_error(r, &err);
    else
        request_empty(r, 204);
}

static void on_ended(void *user, struct cell *c)
{
    struct waiting *w = user;
    if (c->state != CELL_STOPPED || w->request->answered)
        return;
    if (w->forget) {
        registry_forget(c->daemon->registry, c);
        request_empty(w->request, 204);
    } else {
        answer_record(w->request, 200, c, false);
    }
}

static void end(struct request *r, const char *reason, bool forget)
{
    struct waiting *w = begin_waiting(r, r->cell, on_ended);
    if (!w)
        return;
    w->forget = forget;
    if (r->cell->state == CELL_STOPPED)
        on_ended(w, r->cell);
    else
        cell_destroy(r->cell, reason);
}

void api_container_destroy(struct request *r)
{
    static const char *const known[] = {"reason", NULL};
    const char *reason = "destroy";
    struct error err = {0};
    if (r->body && (json_in_known(r->body, "", known, &err) < 0 ||
                    json_in_string(r->body, "", "reason", 255, &reason, &err) < 0)) {
        request_error(r, &err);
        return;
    }
    if (r->cell->state == CELL_STOPPED)
        api_need_running(r);
    else
        end(r, reason, false);
}

void api_container_stop(struct request *r)
{
    static const char *const known[] = {"timeoutMs", NULL};
    int64_t ms = 10000;
    struct error err = {0};
    if (r->body && (json_in_known(r->body, "", known, &err) < 0 ||
                    json_in_int(r->body, "", "timeoutMs", 0, 24 * 3600 * 1000, &ms, &err) < 0)) {
        request_error(r, &err);
        return;
    }
    if (api_need_running(r) < 0 || !begin_waiting(r, r->cell, on_ended))
        return;
    if (cell_stop(r->cell, (uint64_t)ms, &err) < 0)
        request_error(r, &err);
}

void api_container_delete(struct request *r)
{
    end(r, "deleted", true);
}

static void on_monitored(void *user, struct cell *c)
{
    struct waiting *w = user;
    struct error err;
    if (c->state != CELL_STOPPED || w->request->answered)
        return;
    if (!c->stop.by_itself) {
        error_set(&err, ERROR_GONE, "%s%s%s", c->stop.reason, c->stop.detail[0] ? ": " : "", c->stop.detail);
        request_error(w->request, &err);
        return;
    }
    struct buf b;
    buf_init(&b, 0);
    json_open(&b, '{');
    json_put_i64(&b, "exitCode", c->stop.code);
    if (c->stop.signal)
        json_put_i64(&b, "signal", c->stop.signal);
    json_put_str(&b, "reason", c->stop.reason);
    json_close(&b, '}');
    request_json(w->request, 200, &b);
}

void api_container_monitor(struct request *r)
{
    struct waiting *w = begin_waiting(r, r->cell, on_monitored);
    if (w)
        on_monitored(w, r->cell);
}

void api_container_inactivity(struct request *r)
{
    static const char *const known[] = {"ms", NULL};
    int64_t ms = -1;
    struct error err = {0};
    if (json_in_known(r->body, "", known, &err) == 0 &&
        json_in_int(r->body, "", "ms", 0, JSON_IN_MAX_INT, &ms, &err) == 0 && ms < 0)
        error_field(&err, "ms", "ms: expected a whole number, 0 for none");
    if (err.kind) {
        request_error(r, &err);
        return;
    }
    cell_set_inactivity(r->cell, (uint64_t)ms);
    if (!r->cell->forgotten)
        state_put(r->daemon->state_db, r->cell);
    answer_record(r, 200, r->cell, false);
}
