#include "app/config.h"

#include "app/config_read.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_FILE ((size_t)4 << 20)

static const char *const file_names[] = {"wrangler.jsonc", "wrangler.json", "wrangler.toml"};

/* What some of the keys that do nothing here would have done. Everything else is "not supported". */
static const struct {
    const char *key;
    const char *note;
} notes[] = {
    {"routes", "ignored: every request of the port reaches the Worker"},
    {"route", "ignored: every request of the port reaches the Worker"},
    {"workers_dev", "ignored: there is no workers.dev here"},
    {"preview_urls", "ignored: there is no workers.dev here"},
    {"account_id", "ignored: there are no accounts"},
    {"observability", "ignored: logs go to the terminal, or to the daemon's log"},
    {"logpush", "ignored: logs go to the terminal, or to the daemon's log"},
    {"upload_source_maps", "ignored: nothing is uploaded"},
    {"keep_vars", "ignored: nothing is uploaded"},
    {"send_metrics", "ignored: no metrics are sent"},
    {"placement", "ignored: there is one place"},
    {"dev", "ignored: give --port to cloister dev"},
    {"build", "not run: run the command yourself before"},
    {"kv_namespaces", "not supported: env has no such binding"},
    {"r2_buckets", "not supported: env has no such binding"},
    {"d1_databases", "not supported: env has no such binding"},
    {"queues", "not supported: env has no such binding"},
    {"ai", "not supported: env has no such binding"},
    {"browser", "not supported: env has no such binding"},
    {"vectorize", "not supported: env has no such binding"},
    {"hyperdrive", "not supported: env has no such binding"},
    {"workflows", "not supported: env has no such binding"},
    {"images", "not supported: env has no such binding"},
    {"send_email", "not supported: env has no such binding"},
    {"version_metadata", "not supported: env has no such binding"},
};

static const char known_keys[] = "$schema name main compatibility_date compatibility_flags vars secrets "
                                 "worker_loaders durable_objects migrations exports "
                                 "containers services assets triggers rules define alias tsconfig limits env";

static int warn_unknown(struct config_reader *r, const json_t *root)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)root, key, v)
    {
        const char *note = NULL;
        for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
            if (strcmp(notes[i].key, key) == 0)
                note = notes[i].note;
        if (note && config_warn(r, key, "%s", note) < 0)
            return -1;
        if (note)
            continue;
        json_t *one = json_pack("{s:n}", key);
        int ret = one ? config_known(r, one, "", known_keys) : error_oom(r->err);
        json_decref(one);
        if (ret < 0)
            return -1;
    }
    return 0;
}

/* --env NAME: its fields take the place of the top level's. Bindings are not inherited. */
static json_t *apply_environment(struct config_reader *r, const json_t *root)
{
    static const char *const own[] = {"vars",     "secrets", "worker_loaders", "durable_objects",
                                      "services", "define",  "containers",     NULL};
    const char *name = r->options ? r->options->environment : NULL;
    json_t *merged = json_copy((json_t *)root), *map, *v;
    const char *key;
    if (!merged) {
        error_oom(r->err);
        return NULL;
    }
    if (!name)
        return merged;
    map = json_object_get(json_object_get(root, "env"), name);
    if (!json_is_object(map)) {
        config_fail(r, field_key("env", name).path, "there is no such environment");
        json_decref(merged);
        return NULL;
    }
    for (int i = 0; own[i]; i++)
        if (json_object_get(merged, own[i]) && !json_object_get(map, own[i])) {
            json_object_del(merged, own[i]);
            if (config_warn(r, own[i], "not inherited by the environment \"%s\": repeat it there", name) <
                0) {
                json_decref(merged);
                return NULL;
            }
        }
    json_object_foreach(map, key, v)
    {
        json_object_set(merged, key, v);
    }
    const char *top = json_string_value(json_object_get(root, "name"));
    if (top && !json_object_get(map, "name")) {
        char *full = text_format("%s-%s", top, name);
        if (full)
            json_object_set_new(merged, "name", json_string(full));
        free(full);
    }
    return merged;
}

static bool name_valid(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
    return n > 0 && n <= 63 && !name[n];
}

static int read_date(struct config_reader *r, const json_t *root)
{
    struct app_config *c = r->config;
    if (config_text(r, root, "", "compatibility_date", &c->compatibility_date) < 0)
        return -1;
    if (c->compatibility_date && strcmp(c->compatibility_date, "$today") != 0) {
        struct tm tm = {0};
        const char *end = strptime(c->compatibility_date, "%Y-%m-%d", &tm);
        if (!end || *end || strlen(c->compatibility_date) != strlen("2026-01-01"))
            return config_fail(r, "compatibility_date", "a date such as \"2026-11-01\" is wanted");
        return 0;
    }
    if (!c->compatibility_date && config_warn(r, "compatibility_date", "missing: today's is taken") < 0)
        return -1;
    char text[16];
    time_t now = time(NULL);
    struct tm tm;
    strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &tm));
    free(c->compatibility_date);
    c->compatibility_date = strdup(text);
    return c->compatibility_date ? 0 : error_oom(r->err);
}

static int read_strv(struct config_reader *r, const json_t *o, const char *at, const char *key, char ***ret)
{
    json_t *list, *v;
    size_t i;
    if (config_list(r, o, at, key, &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        if (!json_is_string(v) || json_string_length(v) == 0)
            return config_fail(r, field_index(field_key(at, key).path, i).path, "a text is wanted");
        if (strv_add(ret, strdup(json_string_value(v)), r->err) < 0)
            return -1;
    }
    return 0;
}

/* A map of texts as "key=value". */
static int read_pairs(struct config_reader *r, const json_t *root, const char *name, char ***ret)
{
    json_t *map, *v;
    const char *key;
    if (config_map(r, root, "", name, &map) < 0)
        return -1;
    json_object_foreach(map, key, v)
    {
        if (!json_is_string(v))
            return config_fail(r, field_key(name, key).path, "a text is wanted");
        if (strv_add(ret, text_format("%s=%s", key, json_string_value(v)), r->err) < 0)
            return -1;
    }
    return 0;
}

static int read_rules(struct config_reader *r, const json_t *root)
{
    static const struct {
        const char *type;
        enum app_module_kind kind;
    } kinds[] = {{"Text", APP_MODULE_TEXT}, {"Data", APP_MODULE_DATA}, {"CompiledWasm", APP_MODULE_WASM}};
    struct app_config *c = r->config;
    json_t *list, *v, *glob;
    size_t i, j;
    if (config_list(r, root, "", "rules", &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        struct field f = field_index("rules", i);
        const char *type = json_string_value(json_object_get(v, "type"));
        int kind = -1;
        for (size_t k = 0; type && k < sizeof kinds / sizeof *kinds; k++)
            if (strcmp(kinds[k].type, type) == 0)
                kind = (int)kinds[k].kind;
        if (kind < 0) {
            if (config_warn(r, field_key(f.path, "type").path,
                            "only Text, Data and CompiledWasm mean something here; code is always bundled") <
                0)
                return -1;
            continue;
        }
        json_t *globs;
        if (config_list(r, v, f.path, "globs", &globs) < 0)
            return -1;
        json_array_foreach(globs, j, glob)
        {
            struct field g = field_index(field_key(f.path, "globs").path, j);
            const char *pattern = json_is_string(glob) ? json_string_value(glob) : "";
            const char *suffix = strncmp(pattern, "**/*.", 5) == 0 ? pattern + 4
                                 : strncmp(pattern, "*.", 2) == 0  ? pattern + 1
                                                                   : "";
            if (!*suffix || strpbrk(suffix, "*?[{/"))
                return config_fail(r, g.path, "only patterns such as \"**/*.txt\" are supported");
            struct app_rule *rule = array_add(&c->rules, &c->rule_count, sizeof *rule, r->err);
            if (!rule)
                return -1;
            rule->kind = (enum app_module_kind)kind;
            rule->suffix = strdup(suffix);
            if (!rule->suffix)
                return error_oom(r->err);
        }
        if (config_known(r, v, f.path, "type globs fallthrough") < 0)
            return -1;
    }
    return 0;
}

static int read_limits(struct config_reader *r, const json_t *root)
{
    struct app_config *c = r->config;
    json_t *map;
    if (config_map(r, root, "", "limits", &map) < 0)
        return -1;
    if (config_uint(r, map, "limits", "cpu_ms", 300000, &c->cpu_ms) < 0 ||
        config_uint(r, map, "limits", "subrequests", 10000000, &c->subrequests) < 0)
        return -1;
    return map ? config_known(r, map, "limits", "cpu_ms subrequests") : 0;
}

static int read_basics(struct config_reader *r, const json_t *root)
{
    struct app_config *c = r->config;
    char *main_file = NULL, *tsconfig = NULL;
    json_t *triggers;
    int ret = -1;
    if (config_needed(r, root, "", "name", "the Worker's name", &c->name) < 0)
        goto out;
    if (!name_valid(c->name)) {
        config_fail(r, "name", "\"%s\" is no name: up to 63 letters, digits, - and _", c->name);
        goto out;
    }
    if (config_text(r, root, "", "main", &main_file) < 0 ||
        config_text(r, root, "", "tsconfig", &tsconfig) < 0)
        goto out;
    if (!main_file && !json_object_get(root, "assets")) {
        config_fail(r, "main", "missing: give the entry module, such as \"src/index.ts\"");
        goto out;
    }
    if ((main_file && !(c->main = path_below(c->directory, main_file))) ||
        (tsconfig && !(c->tsconfig = path_below(c->directory, tsconfig)))) {
        error_oom(r->err);
        goto out;
    }
    if (c->main && access(c->main, R_OK) < 0) {
        config_fail(r, "main", "there is no file %s", c->main);
        goto out;
    }
    if (read_date(r, root) < 0 ||
        read_strv(r, root, "", "compatibility_flags", &c->compatibility_flags) < 0 ||
        config_map(r, root, "", "triggers", &triggers) < 0 ||
        (triggers && config_known(r, triggers, "triggers", "crons") < 0) ||
        read_strv(r, triggers, "triggers", "crons", &c->crons) < 0 ||
        read_pairs(r, root, "define", &c->defines) < 0 || read_pairs(r, root, "alias", &c->aliases) < 0 ||
        read_rules(r, root) < 0)
        goto out;
    ret = read_limits(r, root);
out:
    free(main_file);
    free(tsconfig);
    return ret;
}

static int read_fields(struct config_reader *r, const json_t *root)
{
    if (!json_is_object(root))
        return config_fail(r, "", "an object is wanted");
    json_t *merged = apply_environment(r, root);
    if (!merged)
        return -1;
    int ret = -1;
    if (read_basics(r, merged) == 0 && config_read_bindings(r, merged) == 0 &&
        config_read_objects(r, merged) == 0 && config_read_secrets(r, merged) == 0 &&
        config_check_bindings(r) == 0)
        ret = warn_unknown(r, merged);
    json_decref(merged);
    return ret;
}

/* The configuration file: `path` itself, or the first of its names in that directory. */
static char *find_file(const char *path, struct error *err)
{
    struct stat st;
    cleanup_free char *absolute = realpath(path, NULL);
    if (!absolute || stat(absolute, &st) < 0) {
        error_field(err, "directory", "%s: %s", path, strerror(errno));
        return NULL;
    }
    if (!S_ISDIR(st.st_mode))
        return steal_pointer(&absolute);
    for (size_t i = 0; i < sizeof file_names / sizeof *file_names; i++) {
        char *file = text_format("%s/%s", absolute, file_names[i]);
        if (!file || access(file, F_OK) == 0) {
            if (!file)
                error_oom(err);
            return file;
        }
        free(file);
    }
    error_field(err, "directory", "%s holds no wrangler.jsonc, wrangler.json or wrangler.toml", absolute);
    return NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int read_file(struct config_reader *r)
{
    struct app_config *c = r->config;
    cleanup_free char *text = NULL;
    size_t len;
    struct error e = {0};
    if (file_slurp(AT_FDCWD, c->file, MAX_FILE, &text, &len, &e) < 0)
        return error_field(r->err, r->file, "%s", e.message);
    json_t *root =
        ends_with(c->file, ".toml") ? app_toml_parse(text, len, &e) : app_jsonc_parse(text, len, &e);
    if (!root)
        return error_field(r->err, r->file, "%s: %s", c->file, e.message);
    int ret = read_fields(r, root);
    json_decref(root);
    return ret;
}

static char **empty_strv(void)
{
    return calloc(1, sizeof(char *));
}

struct app_config *app_config_read(const char *directory, const struct app_config_options *options,
                                   struct error *err)
{
    struct app_config *c = calloc(1, sizeof *c);
    if (!c) {
        error_oom(err);
        return NULL;
    }
    c->file = find_file(directory, err);
    if (!c->file)
        goto fail;
    const char *last = strrchr(c->file, '/') + 1;
    c->directory = strndup(c->file, last - c->file > 1 ? (size_t)(last - c->file - 1) : 1);
    const char *environment = options ? options->environment : NULL;
    c->compatibility_flags = empty_strv();
    c->crons = empty_strv();
    c->defines = empty_strv();
    c->aliases = empty_strv();
    c->warnings = empty_strv();
    if (c->directory)
        c->dev_vars = text_format("%s/.dev.vars%s%s", c->directory, environment ? "." : "",
                                  environment ? environment : "");
    if (!c->dev_vars || !c->compatibility_flags || !c->crons || !c->defines || !c->aliases || !c->warnings) {
        error_oom(err);
        goto fail;
    }
    /* As wrangler has it: .dev.vars.NAME where there is one, else .dev.vars. */
    if (environment && access(c->dev_vars, F_OK) < 0)
        c->dev_vars[strlen(c->dev_vars) - strlen(environment) - 1] = '\0';
    struct config_reader r = {.config = c, .options = options, .file = last, .err = err};
    if (read_file(&r) < 0)
        goto fail;
    return c;
fail:
    app_config_free(c);
    return NULL;
}

void app_config_free(struct app_config *c)
{
    if (!c)
        return;
    free(c->file);
    free(c->directory);
    free(c->name);
    free(c->main);
    free(c->compatibility_date);
    strv_free(c->compatibility_flags);
    for (size_t i = 0; i < c->var_count; i++) {
        free(c->vars[i].name);
        free(c->vars[i].json);
    }
    free(c->vars);
    for (size_t i = 0; i < c->loader_count; i++) {
        free(c->loaders[i].name);
        free(c->loaders[i].id);
    }
    free(c->loaders);
    config_classes_free(c);
    for (size_t i = 0; i < c->service_count; i++) {
        free(c->services[i].name);
        free(c->services[i].service);
        free(c->services[i].entrypoint);
        free(c->services[i].props);
    }
    free(c->services);
    free(c->assets.directory);
    free(c->assets.binding);
    strv_free(c->assets.run_worker_first_routes);
    for (size_t i = 0; i < c->rule_count; i++)
        free(c->rules[i].suffix);
    free(c->rules);
    strv_free(c->crons);
    strv_free(c->defines);
    strv_free(c->aliases);
    free(c->tsconfig);
    free(c->dev_vars);
    strv_free(c->warnings);
    free(c);
}
