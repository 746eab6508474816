#include "base/cleanup.h"
#include "cli/options.h"
#include "cli/run.h"
#include "image/snapshot.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int env_make(struct run_plan *p, const struct run_request *q, struct error *err)
{
    for (char **e = p->image->env; *e; e++)
        if (environment_set(&p->env, *e, err) < 0)
            return error_wrap(err, "image %s", q->image);
    if (!environment_has(&p->env, "PATH") && environment_set(&p->env, ENVIRONMENT_PATH, err) < 0)
        return -1;
    if (q->tty && environment_set_term(&p->env, err) < 0)
        return -1;
    return environment_from_options(&p->env, q->options, err);
}

static size_t vector_length(char *const *v)
{
    size_t n = 0;
    while (v && v[n])
        n++;
    return n;
}

/* The given command, or the image's entrypoint and command. */
static int argv_make(struct run_plan *p, const struct run_request *q, struct error *err)
{
    char *const *given = options_command(q->options);
    if (given) {
        p->argv = (const char *const *)given;
        return given[0][0] ? 0 : error_field(err, "argv", "the command's name is empty");
    }
    size_t a = vector_length(p->image->entrypoint), b = vector_length(p->image->cmd);
    if (a + b == 0)
        return error_field(err, "command", "no command: the image \"%s\" has none of its own; add -- COMMAND",
                           q->image);
    p->image_argv = calloc(a + b + 1, sizeof *p->image_argv);
    if (!p->image_argv)
        return error_oom(err);
    if (a)
        memcpy(p->image_argv, p->image->entrypoint, a * sizeof *p->image_argv);
    if (b)
        memcpy(p->image_argv + a, p->image->cmd, b * sizeof *p->image_argv);
    p->argv = (const char *const *)p->image_argv;
    return 0;
}

/* Has the image helper unpack a snapshot's layer; its messages go to our stderr. */
static int unpack_layer(const struct run_request *q, const char *digest, struct error *err)
{
    cleanup_free char *helper = NULL;
    if (paths_helper("cloister-image", &helper, err) < 0)
        return -1;
    char *argv[] = {helper,
                    (char *)"layer-add",
                    (char *)"--data-dir",
                    q->paths.data_dir,
                    (char *)"--digest",
                    (char *)digest,
                    NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    pid_t pid;
    int failed = posix_spawn(&pid, helper, &actions, NULL, argv, environ), status = -1;
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return error_system(err, failed, "cannot run %s", helper);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        return error_set(err, ERROR_CORRUPT, "the layer %.16s... of the snapshot cannot be unpacked", digest);
    return 0;
}

/* The unpacked layer of one element of the chain, locked against collection. */
static int snapshot_layer(struct run_plan *p, const struct run_request *q, const char *digest,
                          struct error *err)
{
    size_t at = p->snapshot_layer_count;
    char *dir = snapshot_layer_dir(q->paths.data_dir, digest);
    if (!dir && unpack_layer(q, digest, err) < 0)
        return -1;
    if (!dir && !(dir = snapshot_layer_dir(q->paths.data_dir, digest)))
        return error_set(err, ERROR_CORRUPT, "the layer %.16s... of the snapshot is missing", digest);
    p->snapshot_layers[at] = dir;
    p->snapshot_holds[at] = -1;
    p->snapshot_layer_count++;
    p->snapshot_holds[at] = image_layer_hold(dir, err);
    return p->snapshot_holds[at] < 0 ? -1 : 0;
}

static int snapshot_use(struct run_plan *p, const struct run_request *q, struct error *err)
{
    struct snapshot *s = NULL;
    if (!q->snapshot)
        return 0;
    if (snapshot_load(q->paths.data_dir, q->snapshot, &s, err) < 0)
        return -1;
    int r = 0;
    p->snapshot_layers = calloc(s->chain_count, sizeof *p->snapshot_layers);
    p->snapshot_holds = calloc(s->chain_count, sizeof *p->snapshot_holds);
    if (!p->snapshot_layers || !p->snapshot_holds)
        r = error_oom(err);
    else if (s->kind != SNAPSHOT_CONTAINER)
        r = error_field(err, "--snapshot", "--snapshot: %s is of a directory, not of a container",
                        q->snapshot);
    else if (strcmp(s->image_id, p->image->id) != 0)
        r = error_field(err, "--snapshot", "--snapshot: %s belongs to another image (%s), not to \"%s\"",
                        q->snapshot, s->image_id, q->image);
    for (size_t i = 0; r == 0 && i < s->chain_count; i++)
        r = snapshot_layer(p, q, s->chain[i], err);
    if (r == 0)
        r = snapshot_touch(q->paths.data_dir, q->snapshot, err);
    snapshot_free(s);
    return r;
}

static int layers_make(struct run_plan *p, struct error *err)
{
    size_t a = p->image->layer_count, b = p->snapshot_layer_count;
    p->layers = calloc(a + b + 1, sizeof *p->layers);
    if (!p->layers)
        return error_oom(err);
    for (size_t i = 0; i < a; i++)
        p->layers[i] = p->image->layers[i];
    for (size_t i = 0; i < b; i++)
        p->layers[a + i] = p->snapshot_layers[i];
    p->layer_count = a + b;
    return 0;
}

int run_plan_make(struct run_plan *ret, const struct run_request *q, struct error *err)
{
    if (image_resolve(q->paths.data_dir, q->image, &ret->image, err) < 0)
        return -1;
    if (argv_make(ret, q, err) < 0 || env_make(ret, q, err) < 0 || snapshot_use(ret, q, err) < 0)
        return -1;
    return layers_make(ret, err);
}

void run_plan_free(struct run_plan *p)
{
    for (size_t i = 0; i < p->snapshot_layer_count; i++) {
        free(p->snapshot_layers[i]);
        if (p->snapshot_holds[i] >= 0)
            close(p->snapshot_holds[i]);
    }
    free(p->snapshot_layers);
    free(p->snapshot_holds);
    free(p->layers);
    free(p->image_argv);
    environment_free(&p->env);
    image_free(p->image);
}
