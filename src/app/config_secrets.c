/* Secrets: the values of .dev.vars, and of the environment for those that the configuration declares. */
#include "app/config_read.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 20)

static struct app_var *find_var(struct app_config *c, const char *name)
{
    for (size_t i = 0; i < c->var_count; i++)
        if (strcmp(c->vars[i].name, name) == 0)
            return &c->vars[i];
    return NULL;
}

/* A secret takes the place of a variable of its name. */
static int set_secret(struct config_reader *r, const char *name, const char *value, size_t len)
{
    struct app_config *c = r->config;
    json_t *text = json_stringn(value, len);
    char *json = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    json_decref(text);
    if (!json)
        return config_fail(r, name, "the secret is not UTF-8 text");
    struct app_var *v = find_var(c, name);
    if (!v) {
        v = array_add(&c->vars, &c->var_count, sizeof *v, r->err);
        if (v)
            v->name = strdup(name);
    }
    if (!v || !v->name) {
        free(json);
        return error_oom(r->err);
    }
    free(v->json);
    v->json = json;
    v->secret = true;
    return 0;
}

/* The value behind `=`: quoted with ", ' or `, or up to the end of the line or " #". Returns behind it; the
 * value, in place, is at *ret_value. NULL: a quote does not end. */
static char *read_value(char *p, char **ret_value, size_t *ret_len)
{
    while (*p == ' ' || *p == '\t')
        p++;
    char quote = *p;
    if (quote != '"' && quote != '\'' && quote != '`') {
        char *end = p + strcspn(p, "\n");
        char *comment = p[0] == '#' ? p : strstr(p, " #");
        char *stop = comment && comment < end ? comment : end;
        while (stop > p && isspace((unsigned char)stop[-1]))
            stop--;
        *ret_value = p;
        *ret_len = (size_t)(stop - p);
        return end;
    }
    char *from = p + 1, *to = strchr(from, quote);
    if (!to)
        return NULL;
    *ret_value = from;
    *ret_len = (size_t)(to - from);
    if (quote == '"') {
        char *w = from;
        for (char *q = from; q < to; q++) {
            if (q[0] == '\\' && q + 1 < to && (q[1] == 'n' || q[1] == 'r')) {
                *w++ = q[1] == 'n' ? '\n' : '\r';
                q++;
            } else {
                *w++ = *q;
            }
        }
        *ret_len = (size_t)(w - from);
    }
    return to + 1 + strcspn(to + 1, "\n");
}

static int bad_line(struct config_reader *r, unsigned line, const char *what)
{
    return error_field(r->err, ".dev.vars", "%s: line %u: %s", r->config->dev_vars, line, what);
}

static int read_dev_vars(struct config_reader *r, char *text)
{
    unsigned line = 1;
    for (char *p = text; *p;) {
        while (*p == ' ' || *p == '\t' || *p == '\r')
            p++;
        if (strncmp(p, "export ", 7) == 0)
            p += 7;
        size_t n = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");
        char *after = p + n + strspn(p + n, " \t");
        if (*p == '#' || *p == '\n' || !*p) {
            p += strcspn(p, "\n");
        } else if (n == 0 || *after != '=') {
            return bad_line(r, line, "NAME=VALUE is wanted");
        } else {
            char *name = p, *value;
            size_t len;
            char *end = read_value(after + 1, &value, &len);
            if (!end)
                return bad_line(r, line, "a quote that does not end");
            for (char *q = after; q < end; q++)
                line += *q == '\n';
            char saved = name[n];
            name[n] = '\0';
            int ret = set_secret(r, name, value, len);
            name[n] = saved;
            if (ret < 0)
                return -1;
            p = end;
        }
        if (*p == '\n') {
            p++;
            line++;
        }
    }
    return 0;
}

static const char *environment_value(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (char *const *p = environment; p && *p; p++)
        if (strncmp(*p, name, n) == 0 && (*p)[n] == '=')
            return *p + n + 1;
    return NULL;
}

static int read_declared(struct config_reader *r, const json_t *list, const char *at)
{
    const json_t *v;
    size_t i;
    json_array_foreach((json_t *)list, i, v)
    {
        const char *name = json_string_value(v);
        if (!name || !*name)
            return config_fail(r, field_index(at, i).path, "the name of a secret is wanted");
        const struct app_var *var = find_var(r->config, name);
        if (var && var->secret)
            continue;
        const char *value = environment_value(r->options ? r->options->environ : NULL, name);
        if (value) {
            if (set_secret(r, name, value, strlen(value)) < 0)
                return -1;
        } else if (r->options && r->options->secrets_required) {
            return config_fail(r, field_index(at, i).path,
                               "the secret \"%s\" has no value: put %s=... into %s, or into the environment",
                               name, name, r->config->dev_vars);
        } else if (config_warn(
                       r, field_index(at, i).path,
                       "the secret \"%s\" has no value: put %s=... into .dev.vars, or into the environment",
                       name, name) < 0) {
            return -1;
        }
    }
    return 0;
}

int config_read_secrets(struct config_reader *r, const json_t *root)
{
    cleanup_free char *text = NULL;
    size_t len;
    struct error e = {0};
    if (file_slurp(AT_FDCWD, r->config->dev_vars, MAX_FILE, &text, &len, &e) == 0) {
        if (strlen(text) != len)
            return error_field(r->err, ".dev.vars", "%s: it holds a NUL", r->config->dev_vars);
        if (read_dev_vars(r, text) < 0)
            return -1;
    } else if (e.errnum != ENOENT) {
        return error_field(r->err, ".dev.vars", "%s", e.message);
    }
    /* {"required": [...]}, or the list itself. */
    const json_t *secrets = json_object_get(root, "secrets");
    if (json_is_array(secrets))
        return read_declared(r, secrets, "secrets");
    json_t *map, *list;
    if (config_map(r, root, "", "secrets", &map) < 0 || config_list(r, map, "secrets", "required", &list) < 0)
        return -1;
    if (map && config_known(r, map, "secrets", "required") < 0)
        return -1;
    return list ? read_declared(r, list, "secrets.required") : 0;
}
