#include "cli/environment.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES ((size_t)1 << 20)

void environment_free(struct environment *e)
{
    for (size_t i = 0; i < e->count; i++)
        free(e->items[i]);
    free(e->items);
    *e = (struct environment){0};
}

static long index_of(const struct environment *e, const char *name, size_t len)
{
    for (size_t i = 0; i < e->count; i++)
        if (strncmp(e->items[i], name, len) == 0 && e->items[i][len] == '=')
            return (long)i;
    return -1;
}

bool environment_has(const struct environment *e, const char *name)
{
    return index_of(e, name, strlen(name)) >= 0;
}

int environment_set(struct environment *e, const char *entry, struct error *err)
{
    if (parse_env(entry, "env", err) < 0)
        return -1;
    cleanup_free char *copy = strdup(entry);
    if (!copy)
        return error_oom(err);
    long at = index_of(e, entry, strcspn(entry, "="));
    if (at >= 0) {
        free(e->items[at]);
        e->items[at] = steal_pointer(&copy);
        return 0;
    }
    char **grown = realloc(e->items, (e->count + 2) * sizeof *grown);
    if (!grown)
        return error_oom(err);
    e->items = grown;
    e->items[e->count++] = steal_pointer(&copy);
    e->items[e->count] = NULL;
    return 0;
}

/* "K=V", or "K" alone for the caller's own value. */
static int set_given(struct environment *e, const char *field, const char *given, struct error *err)
{
    if (strchr(given, '='))
        return environment_set(e, given, err);
    const char *value = given[0] ? getenv(given) : NULL;
    if (!value)
        return error_field(err, field, "%s: \"%.64s\" is not set in your environment; give it as %.64s=VALUE",
                           field, given, given[0] ? given : "NAME");
    size_t size = strlen(given) + strlen(value) + 2;
    cleanup_free char *entry = malloc(size);
    if (!entry)
        return error_oom(err);
    snprintf(entry, size, "%s=%s", given, value);
    return environment_set(e, entry, err);
}

/* Lines "K=V" or "K"; empty lines and lines that begin with '#' are skipped; nothing is unquoted. */
static int from_file(struct environment *e, const char *path, struct error *err)
{
    cleanup_free char *text = NULL;
    size_t len;
    if (file_slurp(AT_FDCWD, path, FILE_MAX_BYTES, &text, &len, err) < 0)
        return error_wrap(err, "--env-file");
    if (strlen(text) != len)
        return error_field(err, "--env-file", "--env-file: %s holds a NUL byte", path);
    char *rest = text, *line;
    for (unsigned number = 1; (line = strsep(&rest, "\n")); number++) {
        size_t n = strlen(line);
        if (n && line[n - 1] == '\r')
            line[n - 1] = '\0';
        if (!line[0] || line[0] == '#')
            continue;
        if (set_given(e, "--env-file", line, err) < 0)
            return error_wrap(err, "%s:%u", path, number);
    }
    return 0;
}

int environment_from_options(struct environment *e, const struct options *o, struct error *err)
{
    const char *const *values;
    size_t n = options_values(o, "env-file", &values);
    for (size_t i = 0; i < n; i++)
        if (from_file(e, values[i], err) < 0)
            return -1;
    n = options_values(o, "env", &values);
    for (size_t i = 0; i < n; i++)
        if (set_given(e, "--env", values[i], err) < 0)
            return -1;
    return 0;
}

int environment_set_term(struct environment *e, struct error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-";
    const char *term = getenv("TERM");
    char entry[80];
    if (!term || !term[0] || strlen(term) > 64 || strspn(term, allowed) != strlen(term))
        term = "xterm";
    snprintf(entry, sizeof entry, "TERM=%s", term);
    return environment_set(e, entry, err);
}
