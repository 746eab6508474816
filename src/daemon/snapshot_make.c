#include "daemon/snapshot_make.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/helper.h"
#include "daemon/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The writable layer is packed by the helper while every process stands still; a directory is exported by the
 * agent and packed by the helper. */
struct making {
    snapshot_made_fn made;
    void *user;
    struct cell *cell;
    struct container *container; /* the run it is of */
    struct helper *helper;
    struct fs_op *export;
    bool frozen;
    size_t owed; /* bytes of the export not acknowledged yet */
    struct error error;
    char digest[65];
    uint64_t bytes;
    struct snapshot_order order;
    bool merged; /* the chain was full: its layers are packed into the new one */
};

void snapshot_order_free(struct snapshot_order *o)
{
    for (size_t i = 0; i < o->exclude_count; i++)
        free(o->excludes[i]);
    free(o->dir);
    o->exclude_count = 0;
    o->dir = NULL;
}

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
    snapshot_order_free(&m->order);
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

/* The record, written once its layer is in the store; then who asked is told. */
static int save(struct making *m, struct error *err)
{
    const char *digests[SNAPSHOT_MAX_CHAIN], *dirs[SNAPSHOT_MAX_CHAIN];
    char *chain[SNAPSHOT_MAX_CHAIN + 1];
    struct snapshot s = {
        .kind = m->order.dir ? SNAPSHOT_DIRECTORY : SNAPSHOT_CONTAINER, .chain = chain, .bytes = m->bytes};
    if (m->cell->container != m->container)
        return error_set(err, ERROR_GONE, "container %s ended meanwhile", m->cell->name);
    size_t below = m->order.dir || m->merged
                       ? 0
                       : launch_snapshot_layers(m->cell->launch, digests, dirs, SNAPSHOT_MAX_CHAIN);
    for (size_t i = 0; i < below; i++)
        chain[s.chain_count++] = (char *)(uintptr_t)digests[i];
    chain[s.chain_count++] = m->digest;
    s.image_id = m->cell->image_id;
    s.dir = m->order.dir;
    s.created_ms = clock_wall_ms();
    s.expires_ms = s.created_ms + SNAPSHOT_TTL_MS;
    snprintf(s.name, sizeof s.name, "%s", m->order.name);
    if (random_id(s.id, err) < 0 || snapshot_save(m->cell->daemon->paths.data_dir, &s, err) < 0)
        return -1;
    m->made(m->user, &s, NULL);
    return 0;
}

static void finish(struct making *m, const struct error *failure)
{
    struct error err = {0};
    if (m->error.kind)
        err = m->error;
    else if (failure)
        err = *failure;
    else if (!m->digest[0])
        error_set(&err, ERROR_INTERNAL, "cloister-image said no digest");
    else
        save(m, &err);
    if (err.kind) {
        log_warn("container %s: no snapshot: %s", m->cell->name, err.message);
        m->made(m->user, NULL, &err);
    }
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
    cbor_put_string(&b, m->order.dir);
    cbor_put_text(&b, "exclude");
    cbor_put_array(&b, m->order.exclude_count);
    for (size_t i = 0; i < m->order.exclude_count; i++)
        cbor_put_string(&b, m->order.excludes[i] + strlen("--exclude="));
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
    for (size_t i = 0; i < m->order.exclude_count; i++)
        args[n++] = m->order.excludes[i];
    size_t below = launch_snapshot_layers(m->cell->launch, digests, dirs, SNAPSHOT_MAX_CHAIN);
    m->merged = below + 1 >= SNAPSHOT_MAX_CHAIN;
    args[n++] = "--";
    for (size_t i = 0; m->merged && i < below; i++)
        args[n++] = dirs[i];
    args[n] = NULL;
    const struct helper_command command = {.args = args, .fd = userns};
    return helper_spawn(&m->helper, m->cell->daemon, &command, &events, m, err);
}

/* ---- the order ---- */

int snapshot_make(struct cell *c, struct snapshot_order *order, snapshot_made_fn made, void *user,
                  struct error *err)
{
    struct making *m = NULL;
    if (c->state != CELL_RUNNING)
        error_set(err, ERROR_STATE, "container %s is not running", c->name);
    else if (c->snapshotting)
        error_set(err, ERROR_STATE, "a snapshot of container %s is being made already", c->name);
    else if (!(m = calloc(1, sizeof *m)))
        error_oom(err);
    if (!m) {
        snapshot_order_free(order);
        return -1;
    }
    m->made = made;
    m->user = user;
    m->order = *order;
    memset(order, 0, sizeof *order);
    m->cell = c;
    m->container = c->container;
    c->snapshotting = true;
    cell_ref(c);
    cell_busy(c);
    if ((m->order.dir ? export_directory(m, err) : pack_upper(m, err)) == 0)
        return 0;
    free_making(m);
    return -1;
}
