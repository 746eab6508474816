#include "daemon/api.h"

#include "base/clock.h"
#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/json_in.h"
#include "daemon/json_out.h"
#include "daemon/snapshot_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_snapshot(struct buf *b, const struct snapshot *s)
{
    json_open(b, '{');
    json_put_str(b, "id", s->id);
    json_put_u64(b, "size", s->bytes);
    json_put_str(b, "name", s->name);
    json_put_str(b, "kind", s->kind == SNAPSHOT_CONTAINER ? "container" : "directory");
    if (s->image_id && s->kind == SNAPSHOT_CONTAINER)
        json_put_str(b, "imageId", s->image_id);
    if (s->dir && s->kind == SNAPSHOT_DIRECTORY)
        json_put_str(b, "dir", s->dir);
    json_put_i64(b, "createdAt", s->created_ms);
    json_put_i64(b, "expiresAt", s->expires_ms);
    json_close(b, '}');
}

/* ---- look and remove ---- */

static bool list_one(void *user, const struct snapshot *s)
{
    if (s->expires_ms > clock_wall_ms())
        put_snapshot(user, s);
    return true;
}

void api_snapshots_list(struct request *r)
{
    struct buf b;
    struct error err = {0};
    buf_init(&b, 0);
    buf_append_str(&b, "{\"snapshots\":[");
    if (snapshot_list(r->daemon->paths.data_dir, list_one, &b, &err) < 0) {
        buf_free(&b);
        request_error(r, &err);
        return;
    }
    buf_append_str(&b, "]}");
    request_json(r, 200, &b);
}

static struct snapshot *load(struct request *r)
{
    struct snapshot *s = NULL;
    struct error err = {0};
    if (spec_id(r->id, "id", &err) == 0 && snapshot_load(r->daemon->paths.data_dir, r->id, &s, &err) == 0)
        return s;
    request_error(r, &err);
    return NULL;
}

void api_snapshot_get(struct request *r)
{
    struct buf b;
    struct snapshot *s = load(r);
    if (!s)
        return;
    buf_init(&b, 0);
    put_snapshot(&b, s);
    snapshot_free(s);
    request_json(r, 200, &b);
}

void api_snapshot_delete(struct request *r)
{
    struct error err = {0};
    struct snapshot *s = load(r);
    if (!s)
        return;
    snapshot_free(s);
    if (snapshot_remove(r->daemon->paths.data_dir, r->id, &err) < 0)
        request_error(r, &err);
    else
        request_empty(r, 204);
}

/* ---- make ---- */

/* The work is finished even when the client has left. */
struct order_call {
    struct request *request; /* NULL: it has */
};

static void client_left(struct request *r)
{
    struct order_call *call = r->state;
    if (call)
        call->request = NULL;
}

static void on_made(void *user, const struct snapshot *s, const struct error *err)
{
    struct order_call *call = user;
    struct request *r = call->request;
    free(call);
    if (!r)
        return;
    r->state = NULL;
    if (err) {
        request_error(r, err);
        return;
    }
    struct buf b;
    buf_init(&b, 0);
    put_snapshot(&b, s);
    request_json(r, 201, &b);
}

static int read_name(const json_t *o, char to[64], struct error *err)
{
    const char *name = NULL;
    if (json_in_string(o, "", "name", 63, &name, err) < 0)
        return -1;
    for (const char *p = name; p && *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return error_field(err, "name", "name: expected at most 63 bytes without control characters");
    snprintf(to, 64, "%s", name ? name : "");
    return 0;
}

static int read_excludes(struct snapshot_order *m, const json_t *o, struct error *err)
{
    const char **v = NULL;
    if (json_in_strv(o, "", "exclude", SPEC_MAX_EXCLUDES, (size_t)1 << 16, &v, err) < 0)
        return -1;
    int r = 0;
    for (size_t i = 0; v && v[i] && r == 0; i++) {
        if (!v[i][0])
            r = error_field(err, "exclude", "exclude[%zu]: expected a pattern, got an empty string", i);
        else if (asprintf(&m->excludes[i], "--exclude=%s", v[i]) < 0)
            r = error_oom(err);
        else
            m->exclude_count++;
    }
    free(v);
    return r;
}

static int read_request(struct snapshot_order *m, const json_t *o, struct error *err)
{
    static const char *const known[] = {"name", "dir", "exclude", NULL};
    const char *dir = NULL;
    if (!o)
        return 0;
    if (json_in_known(o, "", known, err) < 0 || read_name(o, m->name, err) < 0 ||
        json_in_string(o, "", "dir", SPEC_MAX_PATH, &dir, err) < 0 ||
        (dir && spec_path(dir, "dir", err) < 0) || read_excludes(m, o, err) < 0)
        return -1;
    m->dir = dir ? strdup(dir) : NULL;
    return dir && !m->dir ? error_oom(err) : 0;
}

void api_snapshot_create(struct request *r)
{
    struct error err = {0};
    struct snapshot_order order = {0};
    struct order_call *call = calloc(1, sizeof *call);
    if (!call)
        error_oom(&err);
    else if (read_request(&order, r->body, &err) < 0)
        snapshot_order_free(&order);
    else if (snapshot_make(r->cell, &order, on_made, call, &err) == 0) {
        call->request = r;
        r->state = call;
        r->on_close = client_left;
        request_no_timeout(r);
        return;
    }
    free(call);
    request_error(r, &err);
}
