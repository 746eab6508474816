#include "daemon/launch.h"

#include "base/clock.h"
#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/helper.h"
#include "daemon/state.h"
#include "image/image.h"
#include "image/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define MAX_HOLDS ((SPEC_MAX_MOUNTS + 1) * SNAPSHOT_MAX_CHAIN)

/* The unpacked layers of one snapshot, bottom first. */
struct chain {
    char *dirs[SNAPSHOT_MAX_CHAIN];
    char digests[SNAPSHOT_MAX_CHAIN][65];
    size_t count;
};

struct launch {
    struct cell *cell;
    struct start_request request;
    struct image *image;
    struct chain root, mounts[SPEC_MAX_MOUNTS];
    int holds[MAX_HOLDS];
    size_t hold_count;
    char missing[65]; /* the layer that is being unpacked */
    struct helper *helper;
};

static int step(struct launch *l, struct error *err);

static void drop_chain(struct chain *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->dirs[i]);
    c->count = 0;
}

static void drop_chains(struct launch *l)
{
    drop_chain(&l->root);
    for (size_t i = 0; i < SPEC_MAX_MOUNTS; i++)
        drop_chain(&l->mounts[i]);
    while (l->hold_count > 0)
        close(l->holds[--l->hold_count]);
}

void launch_free(struct launch *l)
{
    if (!l)
        return;
    helper_drop(&l->helper);
    drop_chains(l);
    image_free(l->image);
    spec_start_free(&l->request);
    free(l);
}

size_t launch_snapshot_layers(const struct launch *l, const char *digests[], const char *dirs[], size_t max)
{
    size_t n = l && l->root.count < max ? l->root.count : 0;
    for (size_t i = 0; i < n; i++) {
        digests[i] = l->root.digests[i];
        dirs[i] = l->root.dirs[i];
    }
    return n;
}

/* ---- effective values ---- */

static int replace(char **slot, const char *value)
{
    char *copy = strdup(value);
    if (!copy)
        return -1;
    free(*slot);
    *slot = copy;
    return 0;
}

static char **whole_entrypoint(const struct launch *l)
{
    if (l->request.entrypoint)
        return strv_copy(l->request.entrypoint);
    const char *all[2 * SPEC_MAX_ARGV + 1];
    size_t n = 0;
    for (char **p = l->image->entrypoint; *p && n < SPEC_MAX_ARGV; p++)
        all[n++] = *p;
    for (char **p = l->image->cmd; *p && n < 2 * SPEC_MAX_ARGV; p++)
        all[n++] = *p;
    all[n] = NULL;
    return strv_copy(all);
}

static char **whole_env(const struct launch *l)
{
    char *path[] = {(char *)(uintptr_t)DEFAULT_PATH, NULL};
    char **with_image = env_merge(path, l->image->env);
    char **all = with_image ? env_merge(with_image, l->request.env) : NULL;
    char **copy = all ? strv_copy((const char *const *)all) : NULL;
    free(with_image);
    free(all);
    return copy;
}

static int fill_cell(struct launch *l, struct error *err)
{
    struct cell *c = l->cell;
    const struct start_request *r = &l->request;
    const char *user = r->user ? r->user : l->image->user;
    char **entrypoint = whole_entrypoint(l), **env = whole_env(l);
    if (entrypoint && !entrypoint[0]) {
        free(entrypoint);
        free(env);
        return error_field(err, "entrypoint", "entrypoint: image %s says no command to run; give one",
                           r->image);
    }
    if (!entrypoint || !env || replace(&c->image, r->image) < 0 || replace(&c->image_id, l->image->id) < 0 ||
        replace(&c->cwd, r->cwd ? r->cwd : l->image->workdir) < 0 ||
        replace(&c->user, user[0] ? user : "0:0") < 0) {
        free(entrypoint);
        free(env);
        return error_oom(err);
    }
    free(c->entrypoint);
    free(c->env);
    c->entrypoint = entrypoint;
    c->env = env;
    c->limits = r->limits;
    snprintf(c->snapshot, sizeof c->snapshot, "%s", r->snapshot ? r->snapshot : "");
    return 0;
}

/* ---- snapshots ---- */

static int check_snapshot(const struct launch *l, const struct snapshot *s, const char *field, bool is_root,
                          struct error *err)
{
    if (is_root && s->kind != SNAPSHOT_CONTAINER)
        return error_field(err, field, "%s: %s is a snapshot of a directory; give it as a mount", field,
                           s->id);
    if (!is_root && s->kind != SNAPSHOT_DIRECTORY)
        return error_field(err, field, "%s: %s is a snapshot of a container; start from it with \"snapshot\"",
                           field, s->id);
    if (is_root && strcmp(s->image_id ? s->image_id : "", l->image->id) != 0)
        return error_field(err, field, "%s: %s belongs to image %.80s, not to %.80s", field, s->id,
                           s->image_id, l->image->id);
    return 0;
}

/* 0: complete; 1: l->missing must be unpacked first. */
static int lock_layers(struct launch *l, const struct snapshot *s, struct chain *to, struct error *err)
{
    for (size_t i = 0; i < s->chain_count; i++) {
        if (to->count == SNAPSHOT_MAX_CHAIN || l->hold_count == MAX_HOLDS)
            return error_set(err, ERROR_CORRUPT, "snapshot %s has too many layers", s->id);
        char *dir = snapshot_layer_dir(l->cell->daemon->paths.data_dir, s->chain[i]);
        if (!dir && strcmp(l->missing, s->chain[i]) == 0)
            return error_set(err, ERROR_CORRUPT, "layer %s of snapshot %s could not be unpacked", s->chain[i],
                             s->id);
        if (!dir) {
            snprintf(l->missing, sizeof l->missing, "%s", s->chain[i]);
            return 1;
        }
        snprintf(to->digests[to->count], sizeof to->digests[0], "%s", s->chain[i]);
        to->dirs[to->count++] = dir;
        int hold = image_layer_hold(dir, err);
        if (hold < 0)
            return -1;
        l->holds[l->hold_count++] = hold;
    }
    return 0;
}

static int resolve_snapshot(struct launch *l, const char *id, const char *field, bool is_root,
                            struct chain *to, struct error *err)
{
    struct snapshot *s = NULL;
    if (snapshot_load(l->cell->daemon->paths.data_dir, id, &s, err) < 0)
        return -1;
    int r = check_snapshot(l, s, field, is_root, err);
    if (r == 0)
        r = lock_layers(l, s, to, err);
    snapshot_free(s);
    return r;
}

static int resolve_snapshots(struct launch *l, struct error *err)
{
    int r = 0;
    drop_chains(l);
    if (l->request.snapshot)
        r = resolve_snapshot(l, l->request.snapshot, "snapshot", true, &l->root, err);
    for (size_t i = 0; r == 0 && i < l->request.mount_count; i++)
        r = resolve_snapshot(l, l->request.mounts[i].snapshot, "mounts", false, &l->mounts[i], err);
    return r;
}

/* ---- the start ---- */

static int start_container(struct launch *l, const char *const *layers, size_t layer_count, struct error *err)
{
    struct cell *c = l->cell;
    struct root_mount mounts[SPEC_MAX_MOUNTS];
    for (size_t i = 0; i < l->request.mount_count; i++)
        mounts[i] = (struct root_mount){
            .target = l->request.mounts[i].target,
            .layers = (const char *const *)l->mounts[i].dirs,
            .layer_count = l->mounts[i].count,
        };
    struct start_spec spec = {
        .layers = layers,
        .layer_count = layer_count,
        .host_usr = l->image->host_usr,
        .mounts = mounts,
        .mount_count = l->request.mount_count,
        .hostname = c->name,
        .limits = c->limits,
        .main = {.argv = (const char *const *)c->entrypoint,
                 .env = (const char *const *)c->env,
                 .cwd = c->cwd,
                 .user = c->user,
                 .in = l->request.stdin_pipe,
                 .out = true,
                 .err = true},
    };
    struct execution *main =
        execution_new(c, "main", spec.main.argv, SPEC_OUTPUT_DEFAULT, false, OVERFLOW_AUTO);
    if (!main)
        return error_oom(err);
    main->is_main = main->piped[0] = main->piped[1] = true;
    main->stdin_open = spec.main.in;
    execution_ref(main); /* the engine's */
    if (container_start(c->daemon->engine, &spec, &cell_container_events, c, &execution_events, main,
                        &c->container, err) < 0) {
        execution_unref(main);
        execution_unref(main);
        return -1;
    }
    main->exec = container_main(c->container);
    cell_ref(c); /* the container's */
    list_append(&c->execs, &main->link);
    c->main = main;
    return 0;
}

static int go(struct launch *l, struct error *err)
{
    struct cell *c = l->cell;
    size_t n = 0;
    const char **layers = calloc(l->image->layer_count + l->root.count + 1, sizeof *layers);
    if (!layers)
        return error_oom(err);
    for (size_t i = 0; i < l->image->layer_count; i++)
        layers[n++] = l->image->layers[i];
    for (size_t i = 0; i < l->root.count; i++)
        layers[n++] = l->root.dirs[i];
    int r = start_container(l, layers, n, err);
    free(layers);
    if (r < 0)
        return -1;
    snprintf(c->id, sizeof c->id, "%s", container_id(c->container));
    snprintf(c->grade, sizeof c->grade, "%s", engine_grade(c->daemon->engine)->text);
    c->started_ms = clock_wall_ms();
    c->timed = false;
    if (l->request.snapshot)
        snapshot_touch(c->daemon->paths.data_dir, l->request.snapshot, NULL);
    for (size_t i = 0; i < l->request.mount_count; i++)
        snapshot_touch(c->daemon->paths.data_dir, l->request.mounts[i].snapshot, NULL);
    /* Written while the container comes up, not after: the answer to the start waits for less. */
    state_put_soon(c->daemon->state_db, c);
    return 0;
}

static void on_unpacked(void *user, const struct error *failure)
{
    struct launch *l = user;
    struct cell *c = l->cell;
    struct error err = failure ? *failure : (struct error){0};
    helper_drop(&l->helper);
    if (failure || step(l, &err) < 0)
        cell_start_failed(c, &err);
}

static int step(struct launch *l, struct error *err)
{
    static const struct helper_events events = {.on_exit = on_unpacked};
    int r = resolve_snapshots(l, err);
    if (r <= 0)
        return r < 0 ? -1 : go(l, err);
    const char *args[] = {"layer-add", "--digest", l->missing, NULL};
    const struct helper_command command = {.args = args, .fd = -1};
    return helper_spawn(&l->helper, l->cell->daemon, &command, &events, l, err);
}

void launch_cancel(struct launch *l, const char *reason)
{
    struct error err;
    if (!l->helper)
        return;
    helper_drop(&l->helper);
    error_set(&err, ERROR_GONE, "the start was ended: %s", reason);
    cell_start_failed(l->cell, &err);
}

int launch_begin(struct cell *c, struct start_request *r, struct error *err)
{
    struct launch *l = calloc(1, sizeof *l);
    if (!l) {
        spec_start_free(r);
        return error_oom(err);
    }
    l->cell = c;
    l->request = *r;
    memset(r, 0, sizeof *r);
    c->launch = l;
    int result;
    if (l->request.enable_internet)
        result = error_set(err, ERROR_UNSUPPORTED,
                           "enableInternet: this version gives containers no network; leave it out");
    else
        result = image_resolve(c->daemon->image_dir, config_image(&c->daemon->config, l->request.image),
                               &l->image, err);
    if (result == 0)
        result = fill_cell(l, err);
    if (result == 0)
        result = step(l, err);
    if (result < 0) {
        c->launch = NULL;
        launch_free(l);
    }
    return result;
}
