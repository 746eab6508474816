#include "app/config_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct field field_key(const char *at, const char *key)
{
    struct field f;
    snprintf(f.path, sizeof f.path, "%s%s%s", at, *at ? "." : "", key);
    return f;
}

struct field field_index(const char *at, size_t i)
{
    struct field f;
    snprintf(f.path, sizeof f.path, "%s[%zu]", at, i);
    return f;
}

int config_fail(struct config_reader *r, const char *at, const char *fmt, ...)
{
    char text[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return error_field(r->err, *at ? at : r->file, "%s: %s%s%s", r->file, at, *at ? ": " : "", text);
}

int config_warn(struct config_reader *r, const char *at, const char *fmt, ...)
{
    char text[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *line = text_format("%s: %s%s%s", r->file, at, *at ? ": " : "", text);
    if (!line)
        return error_oom(r->err);
    return strv_add(&r->config->warnings, line, r->err);
}

static const char *type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        break;
    }
    return "null";
}

static int wrong_type(struct config_reader *r, const char *at, const char *key, const char *wanted,
                      const json_t *v)
{
    return config_fail(r, field_key(at, key).path, "%s is wanted, not %s", wanted, type_name(v));
}

int config_text(struct config_reader *r, const json_t *o, const char *at, const char *key, char **ret)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    if (!json_is_string(v))
        return wrong_type(r, at, key, "a text", v);
    if (json_string_length(v) == 0 || strlen(json_string_value(v)) != json_string_length(v))
        return config_fail(r, field_key(at, key).path, "the text is empty or holds a NUL");
    char *copy = strdup(json_string_value(v));
    if (!copy)
        return error_oom(r->err);
    free(*ret);
    *ret = copy;
    return 0;
}

int config_needed(struct config_reader *r, const json_t *o, const char *at, const char *key, const char *what,
                  char **ret)
{
    if (!json_object_get(o, key))
        return config_fail(r, field_key(at, key).path, "missing: give %s", what);
    return config_text(r, o, at, key, ret);
}

int config_bool(struct config_reader *r, const json_t *o, const char *at, const char *key, bool *ret)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    if (!json_is_boolean(v))
        return wrong_type(r, at, key, "true or false", v);
    *ret = json_is_true(v);
    return 0;
}

int config_uint(struct config_reader *r, const json_t *o, const char *at, const char *key, unsigned max,
                unsigned *ret)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    if (!json_is_integer(v))
        return wrong_type(r, at, key, "a whole number", v);
    json_int_t n = json_integer_value(v);
    if (n < 1 || n > (json_int_t)max)
        return config_fail(r, field_key(at, key).path, "a number from 1 to %u is wanted", max);
    *ret = (unsigned)n;
    return 0;
}

int config_list(struct config_reader *r, const json_t *o, const char *at, const char *key, json_t **ret)
{
    *ret = json_object_get(o, key);
    if (*ret && !json_is_array(*ret))
        return wrong_type(r, at, key, "a list", *ret);
    return 0;
}

int config_map(struct config_reader *r, const json_t *o, const char *at, const char *key, json_t **ret)
{
    *ret = json_object_get(o, key);
    if (*ret && !json_is_object(*ret))
        return wrong_type(r, at, key, "an object", *ret);
    return 0;
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; (p = strstr(p, word)) != NULL; p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

int config_known(struct config_reader *r, const json_t *o, const char *at, const char *names)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)o, key, v)
    {
        if (!has_word(names, key) &&
            config_warn(r, field_key(at, key).path, "not supported; it has no effect") < 0)
            return -1;
    }
    return 0;
}

int strv_add(char ***strv, char *text, struct error *err)
{
    size_t n = 0;
    while (*strv && (*strv)[n])
        n++;
    char **grown = text ? realloc(*strv, (n + 2) * sizeof *grown) : NULL;
    if (!grown) {
        free(text);
        return error_oom(err);
    }
    grown[n] = text;
    grown[n + 1] = NULL;
    *strv = grown;
    return 0;
}

void strv_free(char **strv)
{
    for (char **p = strv; p && *p; p++)
        free(*p);
    free(strv);
}

char *text_format(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    return n < 0 ? NULL : text;
}

char *path_below(const char *directory, const char *path)
{
    if (path[0] == '/')
        return strdup(path);
    while (path[0] == '.' && path[1] == '/')
        for (path += 2; *path == '/'; path++) {
        }
    if (strcmp(path, ".") == 0 || !*path)
        return strdup(directory);
    return text_format("%s/%s", directory, path);
}

void *array_add(void *array_pointer, size_t *count, size_t size, struct error *err)
{
    void *old;
    memcpy(&old, array_pointer, sizeof old);
    char *grown = reallocarray(old, *count + 1, size);
    if (!grown) {
        error_oom(err);
        return NULL;
    }
    memcpy(array_pointer, &grown, sizeof grown);
    memset(grown + *count * size, 0, size);
    return grown + (*count)++ * size;
}
