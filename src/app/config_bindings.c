/* vars, worker_loaders, services and assets. */
#include "app/config_read.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int read_vars(struct config_reader *r, const json_t *root)
{
    struct app_config *c = r->config;
    json_t *map, *v;
    const char *key;
    if (config_map(r, root, "", "vars", &map) < 0)
        return -1;
    json_object_foreach(map, key, v)
    {
        struct app_var *var = array_add(&c->vars, &c->var_count, sizeof *var, r->err);
        if (!var)
            return -1;
        var->name = strdup(key);
        var->json = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!var->name || !var->json)
            return error_oom(r->err);
    }
    return 0;
}

static int read_loaders(struct config_reader *r, const json_t *root)
{
    struct app_config *c = r->config;
    json_t *list, *v;
    size_t i;
    if (config_list(r, root, "", "worker_loaders", &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        struct field f = field_index("worker_loaders", i);
        if (!json_is_object(v))
            return config_fail(r, f.path, "an object with a binding is wanted");
        struct app_loader *l = array_add(&c->loaders, &c->loader_count, sizeof *l, r->err);
        if (!l || config_needed(r, v, f.path, "binding", "the name in env", &l->name) < 0 ||
            config_text(r, v, f.path, "id", &l->id) < 0 || config_known(r, v, f.path, "binding id") < 0)
            return -1;
    }
    return 0;
}

static int read_services(struct config_reader *r, const json_t *root)
{
    struct app_config *c = r->config;
    json_t *list, *v;
    size_t i;
    if (config_list(r, root, "", "services", &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        struct field f = field_index("services", i);
        if (!json_is_object(v))
            return config_fail(r, f.path, "an object with binding and service is wanted");
        struct app_service *s = array_add(&c->services, &c->service_count, sizeof *s, r->err);
        if (!s || config_needed(r, v, f.path, "binding", "the name in env", &s->name) < 0 ||
            config_needed(r, v, f.path, "service", "the name of a Worker", &s->service) < 0 ||
            config_text(r, v, f.path, "entrypoint", &s->entrypoint) < 0)
            return -1;
        if (strcmp(s->service, c->name) == 0) {
            free(s->service);
            s->service = NULL;
        }
        json_t *props;
        if (config_map(r, v, f.path, "props", &props) < 0)
            return -1;
        if (props && !(s->props = json_dumps(props, JSON_COMPACT)))
            return error_oom(r->err);
        if (config_known(r, v, f.path, "binding service entrypoint props") < 0)
            return -1;
    }
    return 0;
}

static int read_word(struct config_reader *r, const json_t *o, const char *at, const char *key,
                     const char *const *words, int *ret)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    char all[160] = "";
    for (int i = 0; words[i]; i++) {
        if (json_is_string(v) && strcmp(json_string_value(v), words[i]) == 0) {
            *ret = i;
            return 0;
        }
        strncat(all, i ? ", " : "", sizeof all - strlen(all) - 1);
        strncat(all, words[i], sizeof all - strlen(all) - 1);
    }
    return config_fail(r, field_key(at, key).path, "one of %s is wanted", all);
}

static int read_worker_first(struct config_reader *r, const json_t *o, struct app_assets *a)
{
    const json_t *v = json_object_get(o, "run_worker_first");
    const json_t *one;
    size_t i;
    if (!json_is_array(v))
        return config_bool(r, o, "assets", "run_worker_first", &a->run_worker_first);
    json_array_foreach((json_t *)v, i, one)
    {
        const char *pattern = json_string_value(one);
        if (!pattern || !(pattern[0] == '/' || (pattern[0] == '!' && pattern[1] == '/')))
            return config_fail(r, field_index("assets.run_worker_first", i).path,
                               "a path that starts with / or !/ is wanted");
        if (strv_add(&a->run_worker_first_routes, strdup(pattern), r->err) < 0)
            return -1;
    }
    return 0;
}

/* Since 2025-04-01, unless a flag says otherwise, as on Cloudflare. */
static bool navigation_prefers_assets(const struct app_config *c)
{
    bool prefers = strcmp(c->compatibility_date, "2025-04-01") >= 0;
    for (char **f = c->compatibility_flags; *f; f++)
        if (strcmp(*f, "assets_navigation_prefers_asset_serving") == 0)
            prefers = true;
        else if (strcmp(*f, "assets_navigation_has_no_effect") == 0)
            prefers = false;
    return prefers;
}

static int read_assets(struct config_reader *r, const json_t *root)
{
    static const char *const html[] = {"auto-trailing-slash", "force-trailing-slash", "drop-trailing-slash",
                                       "none", NULL};
    static const char *const missing[] = {"none", "404-page", "single-page-application", NULL};
    struct app_assets *a = &r->config->assets;
    json_t *map;
    if (config_map(r, root, "", "assets", &map) < 0)
        return -1;
    if (!map)
        return 0;
    char *directory = NULL;
    if (config_needed(r, map, "assets", "directory", "the directory of the files", &directory) < 0)
        return -1;
    a->present = true;
    a->directory = path_below(r->config->directory, directory);
    free(directory);
    if (!a->directory)
        return error_oom(r->err);
    struct stat st;
    if (stat(a->directory, &st) < 0 || !S_ISDIR(st.st_mode))
        return config_fail(r, "assets.directory", "%s is not a directory", a->directory);
    int html_handling = 0, not_found = 0;
    if (config_text(r, map, "assets", "binding", &a->binding) < 0 ||
        read_word(r, map, "assets", "html_handling", html, &html_handling) < 0 ||
        read_word(r, map, "assets", "not_found_handling", missing, &not_found) < 0 ||
        read_worker_first(r, map, a) < 0)
        return -1;
    a->html_handling = (enum app_html_handling)html_handling;
    a->not_found = (enum app_not_found)not_found;
    a->navigation = navigation_prefers_assets(r->config);
    return config_known(r, map, "assets",
                        "directory binding html_handling not_found_handling run_worker_first");
}

int config_read_bindings(struct config_reader *r, const json_t *root)
{
    if (read_vars(r, root) < 0 || read_loaders(r, root) < 0 || read_services(r, root) < 0)
        return -1;
    return read_assets(r, root);
}

/* What a binding is called and where it stands, one after the other. NULL at the end. */
static const char *binding_at(const struct app_config *c, size_t i, const char **ret_where)
{
    if (i < c->var_count) {
        *ret_where = c->vars[i].secret ? "secrets" : "vars";
        return c->vars[i].name;
    }
    i -= c->var_count;
    *ret_where = "worker_loaders";
    if (i < c->loader_count)
        return c->loaders[i].name;
    i -= c->loader_count;
    *ret_where = "durable_objects";
    if (i < c->object_count)
        return c->objects[i].name;
    i -= c->object_count;
    *ret_where = "services";
    if (i < c->service_count)
        return c->services[i].name;
    i -= c->service_count;
    *ret_where = "assets";
    return i == 0 ? c->assets.binding : NULL;
}

int config_check_bindings(struct config_reader *r)
{
    const char *name, *other, *where, *other_where;
    for (size_t i = 0; (name = binding_at(r->config, i, &where)) != NULL; i++)
        for (size_t j = 0; j < i; j++) {
            other = binding_at(r->config, j, &other_where);
            if (strcmp(name, other) == 0)
                return config_fail(r, where,
                                   "the binding \"%s\" exists already, in %s; names in env are unique", name,
                                   other_where);
        }
    return 0;
}
