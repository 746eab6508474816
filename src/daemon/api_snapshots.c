#include "daemon/api.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/helper.h"
#include "daemon/json_in.h"
#include "daemon/json_out.h"
#include "daemon/launch.h"
#include "image/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Making one snapshot: of the container's writable layer, which the helper packs while every process stands
 * still; or of one directory, which the agent exports and the helper packs. */
struct making {
    struct request *request; /* NULL: the client has left; the work is finished all the same */
    struct cell *cell;
    struct container *container; /* the run it is of */
    struct helper *helper;
    struct fs_op *export;
    bool frozen;
    size_t owed; /* bytes of the export not acknowledged yet */
    struct error error;
    char digest[65];
    uint64_t bytes;
    /* what was asked for */
    char name[64];
    char *dir;
    char *excludes[SPEC_MAX_EXCLUDES + 1];
    size_t exclude_count;
    bool merged; /* the chain was full: its layers are packed into the new one */
};

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

static void thaw(struct making *m)
{
    if (m->frozen && m->cell->container == m->container)
        container_freeze(m->container, false, NULL);
    m->frozen = false;
}

static void free_making(struct making *m)
{
    thaw(m);
    helper_drop(&m->helper);
    if (m->export)
        fs_cancel(m->export);
    m->cell->snapshotting = false;
    cell_idle(m->cell);
    cell_unref(m->cell);
    for (size_t i = 0; i < m->exclude_count; i++)
        free(m->excludes[i]);
    free(m->dir);
    free(m);
}

static int random_id(char ret[33], struct error *err)
{
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set(err, ERROR_INTERNAL, "no random numbers");
    for (int i = 0; i < 16; i++)
        sprintf(ret + 2 * i, "%02x", bytes[i]);
    return 0;
}

/* The record, written once its layer is in the store. */
static int save(struct making *m, struct buf *answer, struct error *err)
{
    const char *digests[SNAPSHOT_MAX_CHAIN], *dirs[SNAPSHOT_MAX_CHAIN];
    char *chain[SNAPSHOT_MAX_CHAIN + 1];
    struct snapshot s = {
        .kind = m->dir ? SNAPSHOT_DIRECTORY : SNAPSHOT_CONTAINER, .chain = chain, .bytes = m->bytes};
    if (m->cell->container != m->container)
        return error_set(err, ERROR_GONE, "container %s ended meanwhile", m->cell->name);
    size_t below =
        m->dir || m->merged ? 0 : launch_snapshot_layers(m->cell->launch, digests, dirs, SNAPSHOT_MAX_CHAIN);
    for (size_t i = 0; i < below; i++)
        chain[s.chain_count++] = (char *)(uintptr_t)digests[i];
    chain[s.chain_count++] = m->digest;
    s.image_id = m->cell->image_id;
    s.dir = m->dir;
    s.created_ms = clock_wall_ms();
    s.expires_ms = s.created_ms + SNAPSHOT_TTL_MS;
    snprintf(s.name, sizeof s.name, "%s", m->name);
    if (random_id(s.id, err) < 0 || snapshot_save(m->cell->daemon->paths.data_dir, &s, err) < 0)
        return -1;
    put_snapshot(answer, &s);
    return 0;
}

static void finish(struct making *m, const struct error *failure)
{
    struct error err = {0};
    struct buf answer;
    struct request *r = m->request;
    buf_init(&answer, 0);
    if (m->error.kind)
        err = m->error;
    else if (failure)
        err = *failure;
    else if (!m->digest[0])
        error_set(&err, ERROR_INTERNAL, "cloister-image said no digest");
    else
        save(m, &answer, &err);
    if (err.kind)
        log_warn("container %s: no snapshot: %s", m->cell->name, err.message);
    if (r) {
        r->state = NULL;
        if (err.kind)
            request_error(r, &err);
        else
            request_json(r, 201, &answer);
    }
    buf_free(&answer);
    free_making(m);
}

static void on_line(void *user, const json_t *line, const char *text, size_t len)
{
    struct making *m = user;
    const char *digest = json_string_value(json_object_get(line, "digest"));
    if (!digest || strlen(digest) != 64)
        return;
    memcpy(m->digest, digest, 65);
    m->bytes = (uint64_t)json_integer_value(json_object_get(line, "size"));
}

static void on_packed(void *user, const struct error *err)
{
    finish(user, err);
}

/* ---- of one directory ---- */

static void on_drained(void *user)
{
    struct making *m = user;
    size_t n = m->owed;
    m->owed = 0;
    if (m->export && n)
        fs_consumed(m->export, n);
}

/* UNTRUSTED INPUT: the tar goes to the helper unseen. */
static void on_tar(void *user, const uint8_t *data, size_t len)
{
    struct making *m = user;
    m->owed += len;
    if (helper_write(m->helper, data, len))
        on_drained(m);
}

static void on_exported(void *user, const struct error *err, struct cbor_reader value)
{
    struct making *m = user;
    m->export = NULL;
    if (!err) {
        helper_end_input(m->helper);
        return;
    }
    finish(m, err); /* the helper is killed: half a tree is no snapshot */
}

static int export_directory(struct making *m, struct error *err)
{
    static const struct helper_events helper_events = {
        .on_line = on_line, .on_exit = on_packed, .on_drained = on_drained};
    static const struct fs_events fs_events = {.on_data = on_tar, .on_done = on_exported};
    const char *args[] = {"snapshot-from-tar", NULL};
    const struct helper_command command = {.args = args, .input = true, .fd = -1};
    struct buf b;
    buf_init(&b, 0);
    cbor_put_text(&b, "path");
    cbor_put_string(&b, m->dir);
    cbor_put_text(&b, "exclude");
    cbor_put_array(&b, m->exclude_count);
    for (size_t i = 0; i < m->exclude_count; i++)
        cbor_put_string(&b, m->excludes[i] + strlen("--exclude="));
    int r = b.failed ? error_oom(err)
                     : helper_spawn(&m->helper, m->cell->daemon, &command, &helper_events, m, err);
    if (r == 0)
        r = container_fs(m->container, "fs.export", b.data, b.len, 2, false, true, &fs_events, m, &m->export,
                         err);
    buf_free(&b);
    return r;
}

/* ---- of the container ---- */

static int freeze(struct making *m, struct error *err)
{
    struct error why = {0};
    if (container_freeze(m->container, true, &why) == 0) {
        m->frozen = true;
        return 0;
    }
    if (why.kind != ERROR_UNSUPPORTED) {
        *err = why;
        return -1;
    }
    log_warn("container %s: the snapshot is taken while processes go on: %s", m->cell->name, why.message);
    return 0;
}

static int pack_upper(struct making *m, struct error *err)
{
    static const struct helper_events events = {.on_line = on_line, .on_exit = on_packed};
    const char *args[SPEC_MAX_EXCLUDES + SNAPSHOT_MAX_CHAIN + 8], *digests[SNAPSHOT_MAX_CHAIN],
        *dirs[SNAPSHOT_MAX_CHAIN];
    const char *upper = NULL;
    int userns = -1, n = 0;
    if (container_upper(m->container, &upper, &userns, err) < 0 || freeze(m, err) < 0)
        return -1;
    args[n++] = "snapshot-pack";
    args[n++] = "--upper";
    args[n++] = upper;
    if (userns >= 0) {
        args[n++] = "--userns";
        args[n++] = "3";
    }
    for (size_t i = 0; i < m->exclude_count; i++)
        args[n++] = m->excludes[i];
    size_t below = launch_snapshot_layers(m->cell->launch, digests, dirs, SNAPSHOT_MAX_CHAIN);
    m->merged = below + 1 >= SNAPSHOT_MAX_CHAIN;
    args[n++] = "--";
    for (size_t i = 0; m->merged && i < below; i++)
        args[n++] = dirs[i];
    args[n] = NULL;
    const struct helper_command command = {.args = args, .fd = userns};
    return helper_spawn(&m->helper, m->cell->daemon, &command, &events, m, err);
}

/* ---- the request ---- */

static void client_left(struct request *r)
{
    struct making *m = r->state;
    if (m)
        m->request = NULL;
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

static int read_excludes(struct making *m, const json_t *o, struct error *err)
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

static int read_request(struct making *m, const json_t *o, struct error *err)
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
    struct making *m = NULL;
    struct cell *c = r->cell;
    if (c->state != CELL_RUNNING)
        error_set(&err, ERROR_STATE, "container %s is not running", c->name);
    else if (c->snapshotting)
        error_set(&err, ERROR_STATE, "a snapshot of container %s is being made already", c->name);
    else if (!(m = calloc(1, sizeof *m)))
        error_oom(&err);
    if (!m) {
        request_error(r, &err);
        return;
    }
    m->request = r;
    m->cell = c;
    m->container = c->container;
    c->snapshotting = true;
    cell_ref(c);
    cell_busy(c);
    if (read_request(m, r->body, &err) < 0 ||
        (m->dir ? export_directory(m, &err) : pack_upper(m, &err)) < 0) {
        free_making(m);
        request_error(r, &err);
        return;
    }
    r->state = m;
    r->on_close = client_left;
    request_no_timeout(r);
}
