#include "app/project.h"

#include "app/assets.h"
#include "app/bundle.h"
#include "app/schedule.h"
#include "base/paths.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

struct project {
    const struct app_options *options;
    char *path, *name, *state_dir;
    struct app_config *config;  /* the one that was read last */
    struct app_config *running; /* the one that the Worker was made from; may be the same */
    struct bundle *bundle;
    struct host *host;
    struct assets *assets;
    struct schedule *schedule; /* NULL: there are no crons */
};

static void say(struct project *p, int level, const char *text)
{
    p->options->print(p->options->user, p->name, NULL, level, text);
}

static struct app_config *read_config(const struct app_options *o, const char *path, struct error *err)
{
    struct app_config_options co = {
        .environment = o->environment, .environ = environ, .secrets_required = !o->development};
    return app_config_read(path, &co, err);
}

static void on_cron_failed(void *user, const char *cron, const struct error *err)
{
    char text[1024];
    snprintf(text, sizeof text, "scheduled() of \"%.64s\": %.800s", cron, err->message);
    say(user, 0, text);
}

/* The crons of the configuration in force; those before them are forgotten. */
static int schedule_anew(struct project *p, struct error *err)
{
    schedule_close(p->schedule);
    p->schedule =
        p->host ? schedule_open(p->options->loop, p->host, p->config->crons, on_cron_failed, p, err) : NULL;
    return err->kind ? -1 : 0;
}

static void on_changed(void *user);

static int run_result(struct project *p, const struct bundle_result *r, struct error *err)
{
    static const enum module_type types[] = {[BUNDLE_JS] = MODULE_JS,
                                             [BUNDLE_TEXT] = MODULE_TEXT,
                                             [BUNDLE_DATA] = MODULE_DATA,
                                             [BUNDLE_WASM] = MODULE_WASM};
    struct modules m = {0};
    int ret = -1;
    for (size_t i = 0; i < r->module_count; i++)
        if (modules_add(&m, r->modules[i].name, types[r->modules[i].kind], r->modules[i].data,
                        r->modules[i].size, err) < 0)
            goto out;
    m.main = strdup(r->modules[0].name);
    if (!m.main)
        error_oom(err);
    else
        ret = host_run(p->host, p->config, &m, err);
out:
    modules_free(&m);
    return ret;
}

static void on_bundled(void *user, struct bundle_result *result, const struct error *err, const char *details)
{
    struct project *p = user;
    struct error why = err ? *err : (struct error){0};
    bool ok = result && run_result(p, result, &why) == 0;
    bundle_result_free(result);
    if (!ok) {
        say(p, 0, details ? details : why.message);
        host_refuse(p->host, &why);
    } else if (p->options->development) {
        say(p, 2, p->running ? "reloaded" : "ready");
    }
    if (p->running != p->config)
        app_config_free(p->running);
    p->running = p->config;
    if (p->options->development && bundle_watch(p->bundle, on_changed, p, &why) < 0)
        say(p, 1, why.message);
}

static void warn(struct project *p)
{
    for (char **w = p->config->warnings; *w; w++)
        say(p, 1, *w);
}

static void on_changed(void *user)
{
    struct project *p = user;
    struct error err = {0};
    struct app_config *c = read_config(p->options, p->path, &err);
    if (c && strcmp(c->name, p->name) != 0)
        error_field(&err, "name",
                    "name: it was \"%.60s\" when this was started and is \"%.60s\" now; start it anew",
                    p->name, c->name);
    else if (c && (c->main != NULL) != (p->host != NULL))
        error_field(&err, "main", "main: it came or went; start it anew");
    struct bundle *b =
        c && !err.kind && c->main ? bundle_start(p->options->loop, c, on_bundled, p, &err) : NULL;
    if (err.kind) {
        say(p, 0, err.message); /* what runs goes on, and the next change is looked at again */
        app_config_free(c);
        return;
    }
    bundle_close(p->bundle);
    p->bundle = b;
    if (p->config != p->running)
        app_config_free(p->config);
    p->config = c;
    warn(p);
    if (schedule_anew(p, &err) < 0)
        say(p, 0, err.message);
    if (p->assets)
        assets_reload(p->assets, &c->assets);
}

static int make_host(struct project *p, const struct host_config *from, struct error *err)
{
    struct host_config hc = *from;
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s/%s", p->options->state_dir, p->name);
    p->state_dir = strdup(dir);
    if (!p->state_dir)
        return error_oom(err);
    if (paths_private_dir(dir, err) < 0)
        return -1;
    hc.name = p->name;
    hc.objects_config.state_dir = p->state_dir;
    p->host = host_new(&hc, err);
    if (!p->host)
        return -1;
    p->bundle = bundle_start(p->options->loop, p->config, on_bundled, p, err);
    return p->bundle ? 0 : -1;
}

struct project *project_open(const struct app_options *o, const char *path, const struct host_config *hc,
                             struct error *err)
{
    struct project *p = calloc(1, sizeof *p);
    if (!p) {
        error_oom(err);
        return NULL;
    }
    p->options = o;
    p->path = strdup(path);
    p->config = read_config(o, path, err);
    p->name = p->config ? strdup(p->config->name) : NULL;
    if (!p->path || !p->name) {
        if (p->config)
            error_oom(err);
        goto fail;
    }
    warn(p);
    if (p->config->assets.present && assets_open(&p->assets, &p->config->assets, err) < 0)
        goto fail;
    if (p->config->main && (make_host(p, hc, err) < 0 || schedule_anew(p, err) < 0))
        goto fail;
    return p;
fail:
    project_close(p);
    return NULL;
}

void project_close(struct project *p)
{
    if (!p)
        return;
    bundle_close(p->bundle);
    schedule_close(p->schedule);
    host_free(p->host);
    assets_free(p->assets);
    if (p->running != p->config)
        app_config_free(p->running);
    app_config_free(p->config);
    free(p->state_dir);
    free(p->name);
    free(p->path);
    free(p);
}

struct host *project_host(struct project *p)
{
    return p->host;
}

struct assets *project_assets(struct project *p)
{
    return p->assets;
}

const char *project_name(const struct project *p)
{
    return p->name;
}
