#include "app/app.h"

#include "app/compile.h"
#include "app/host.h"
#include "app/ingress.h"
#include "app/listen_tcp.h"
#include "app/outgoing.h"
#include "app/project.h"
#include "app/shortage.h"
#include "app/worker.h"
#include "container/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct app {
    struct app_options options;
    struct workers *workers;
    struct compiler *compiler;
    struct outgoing *outgoing;
    struct ingress *ingress;
    struct project **projects;
    size_t count;
    struct shortage *shortage;
    uint64_t said_ms; /* when it was last said that memory is short; 0: never */
    char url[96];
};

#define SAY_AGAIN_MS 60000u

static struct host *find_host(void *user, const char *name)
{
    struct app *a = user;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(project_name(a->projects[i]), name) == 0)
            return project_host(a->projects[i]);
    return NULL;
}

static struct host *first_host(void *user)
{
    struct app *a = user;
    return project_host(a->projects[0]);
}

static struct assets *first_assets(void *user)
{
    struct app *a = user;
    return project_assets(a->projects[0]);
}

static void on_log(void *user, const char *worker, const char *dynamic, int level, int64_t ms,
                   const char *text)
{
    struct app *a = user;
    a->options.print(a->options.user, worker, dynamic, level, text);
}

static void on_failed(void *user, const char *method, const char *url, const struct error *err)
{
    struct app *a = user;
    char text[1024];
    snprintf(text, sizeof text, "%s %.300s: %.600s", method, url, err->message);
    a->options.print(a->options.user, project_name(a->projects[0]), NULL, 0, text);
}

/* Who does nothing costs memory that others need. */
static void on_shortage(void *user, uint64_t left, uint64_t kept)
{
    struct app *a = user;
    char text[200];
    uint64_t now = uv_now(a->options.loop);
    for (size_t i = 0; i < a->count; i++) {
        struct host *h = project_host(a->projects[i]);
        if (h)
            host_end_idle(h);
    }
    workers_shrink(a->workers);
    if (a->said_ms && now - a->said_ms < SAY_AGAIN_MS)
        return;
    a->said_ms = now;
    snprintf(text, sizeof text,
             "memory is short (%llu MiB are left, %llu MiB should be): idle Dynamic Workers are ended",
             (unsigned long long)(left >> 20), (unsigned long long)(kept >> 20));
    a->options.print(a->options.user, NULL, NULL, 1, text);
}

static int open_shortage(struct app *a, struct error *err)
{
    const struct app_options *o = &a->options;
    const char *groups = o->engine ? engine_cgroups(o->engine)->base[CGROUP_MEMORY] : NULL;
    struct shortage_config config = {
        .loop = o->loop, .keep_free = o->keep_free, .fn = on_shortage, .user = a};
    char *own = groups ? strdup(groups) : NULL, *end = own ? strrchr(own, '/') : NULL;
    if (groups && !own)
        return error_oom(err);
    if (end) {
        *end = '\0'; /* the directory of our own group, in which that of the containers' groups is */
        config.cgroup_dir = own;
    }
    a->shortage = shortage_new(&config);
    free(own);
    return a->shortage ? 0 : error_oom(err);
}

static int open_projects(struct app *a, struct error *err)
{
    const struct app_options *o = &a->options;
    struct host_config hc = {
        .workers = a->workers,
        .compiler = a->compiler,
        .outgoing = a->outgoing,
        .objects = &storage_objects,
        .objects_config = {.loop = o->loop,
                           .engine = o->engine,
                           .no_engine = o->no_engine,
                           .image_dir = o->image_dir,
                           .containers = o->containers,
                           .containers_user = o->containers_user},
        .find = find_host,
        .assets = first_assets,
        .log = on_log,
        .user = a,
    };
    size_t count = 0;
    while (o->projects[count])
        count++;
    a->projects = calloc(count, sizeof *a->projects);
    if (!a->projects)
        return error_oom(err);
    for (size_t i = 0; i < count; i++) {
        struct project *p = project_open(&a->options, o->projects[i], &hc, err);
        if (!p)
            return -1;
        bool twice = find_host(a, project_name(p)) != NULL;
        a->projects[a->count++] = p;
        if (twice)
            return error_field(err, "name", "name: two Workers of this application are called \"%.100s\"",
                               project_name(p));
    }
    return 0;
}

static int open_ingress(struct app *a, struct error *err)
{
    struct listen_address at;
    if (listen_tcp(a->options.listen ? a->options.listen : APP_DEFAULT_ADDRESS, "listen", &at, err) < 0)
        return -1;
    struct ingress_config config = {.loop = a->options.loop,
                                    .fd = at.fd,
                                    .any_host = !at.loopback,
                                    .hosts = a->options.hosts,
                                    .verbose = a->options.development,
                                    .host = first_host,
                                    .assets = first_assets,
                                    .failed = on_failed,
                                    .user = a};
    snprintf(a->url, sizeof a->url, "%s", at.url);
    if (ingress_open(&a->ingress, &config, err) == 0)
        return 0;
    close(at.fd);
    return -1;
}

int app_open(struct app **ret, const struct app_options *options, struct error *err)
{
    struct app *a = calloc(1, sizeof *a);
    if (!a)
        return error_oom(err);
    a->options = *options;
    struct workers_config wc = {
        .loop = options->loop, .program = options->worker_program, .engine = options->engine};
    if (workers_open(&a->workers, &wc, err) < 0 || outgoing_open(&a->outgoing, options->loop, err) < 0)
        goto fail;
    a->compiler = compiler_new(a->workers, COMPILE_CACHE_BYTES);
    if (!a->compiler) {
        error_oom(err);
        goto fail;
    }
    if (open_projects(a, err) < 0 || open_ingress(a, err) < 0 || open_shortage(a, err) < 0)
        goto fail;
    *ret = a;
    return 0;
fail:
    app_close(a);
    return -1;
}

void app_close(struct app *a)
{
    if (!a)
        return;
    shortage_free(a->shortage);
    ingress_close(a->ingress);
    for (size_t i = 0; i < a->count; i++)
        project_close(a->projects[i]);
    free(a->projects);
    compiler_free(a->compiler);
    outgoing_close(a->outgoing);
    workers_close(a->workers);
    free(a);
}

const char *app_url(const struct app *a)
{
    return a->url;
}
