#include "daemon/json_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jansson recurses per level, so depth is judged before it sees the text. */
static bool too_deep(const char *p, size_t len)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = p[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_IN_MAX_DEPTH)
                return true;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return false;
}

json_t *json_in_parse(const void *text, size_t len, struct error *err)
{
    json_error_t why;
    if (too_deep(text, len)) {
        error_field(err, "body", "body: nested deeper than %d levels", JSON_IN_MAX_DEPTH);
        return NULL;
    }
    json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!v) {
        error_field(err, "body", "body: not valid JSON at line %d, column %d: %.120s", why.line, why.column,
                    why.text);
        return NULL;
    }
    if (!json_is_object(v)) {
        json_decref(v);
        error_field(err, "body", "body: expected a JSON object");
        return NULL;
    }
    return v;
}

int json_in_known(const json_t *o, const char *at, const char *const *known, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)o, key, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (known[i])
            continue;
        char field[48];
        snprintf(field, sizeof field, "%s%s", at, key);
        return error_field(err, field, "%s%.64s: unknown field", at, key);
    }
    return 0;
}

static int wrong(const char *at, const char *key, const char *expected, struct error *err)
{
    char field[48];
    snprintf(field, sizeof field, "%s%s", at, key);
    return error_field(err, field, "%s%s: expected %s", at, key, expected);
}

int json_in_text(const json_t *o, const char *at, const char *key, const char **ret, size_t *ret_len,
                 struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    if (!json_is_string(v))
        return wrong(at, key, "a string", err);
    *ret = json_string_value(v);
    *ret_len = json_string_length(v);
    return 0;
}

int json_in_string(const json_t *o, const char *at, const char *key, size_t max, const char **ret,
                   struct error *err)
{
    const char *text = NULL;
    size_t len = 0;
    char expected[48];
    if (json_in_text(o, at, key, &text, &len, err) < 0)
        return -1;
    if (!text)
        return 0;
    if (strlen(text) != len)
        return wrong(at, key, "a string without NUL", err);
    if (len > max) {
        snprintf(expected, sizeof expected, "at most %zu bytes", max);
        return wrong(at, key, expected, err);
    }
    *ret = text;
    return 0;
}

int json_in_bool(const json_t *o, const char *at, const char *key, bool *ret, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    if (!json_is_boolean(v))
        return wrong(at, key, "true or false", err);
    *ret = json_is_true(v);
    return 0;
}

int json_in_int(const json_t *o, const char *at, const char *key, int64_t min, int64_t max, int64_t *ret,
                struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)min, (long long)max);
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return wrong(at, key, expected, err);
    *ret = json_integer_value(v);
    return 0;
}

int json_in_word(const json_t *o, const char *at, const char *key, const char *const *words, int *ret,
                 struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    char expected[160] = "one of";
    for (int i = 0; words[i]; i++) {
        if (json_is_string(v) && strcmp(json_string_value(v), words[i]) == 0) {
            *ret = i;
            return 0;
        }
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s \"%s\"", i ? "," : "", words[i]);
    }
    return wrong(at, key, expected, err);
}

int json_in_object(const json_t *o, const char *at, const char *key, const json_t **ret, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    if (!json_is_object(v))
        return wrong(at, key, "an object", err);
    *ret = v;
    return 0;
}

int json_in_array(const json_t *o, const char *at, const char *key, size_t max, const json_t **ret,
                  struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    char expected[64];
    snprintf(expected, sizeof expected, "an array of at most %zu elements", max);
    if (!json_is_array(v) || json_array_size(v) > max)
        return wrong(at, key, expected, err);
    *ret = v;
    return 0;
}

int json_in_strv(const json_t *o, const char *at, const char *key, size_t max_count, size_t max_bytes,
                 const char ***ret, struct error *err)
{
    const json_t *a = NULL;
    if (json_in_array(o, at, key, max_count, &a, err) < 0)
        return -1;
    if (!a)
        return 0;
    size_t n = json_array_size(a), bytes = 0;
    const char **v = calloc(n + 1, sizeof *v);
    if (!v)
        return error_oom(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(a, i);
        char element[48];
        snprintf(element, sizeof element, "%s[%zu]", key, i);
        v[i] = json_string_value(s);
        if (!v[i] || strlen(v[i]) != json_string_length(s)) {
            free(v);
            return wrong(at, element, "a string without NUL", err);
        }
        bytes += json_string_length(s) + 1;
    }
    if (bytes > max_bytes) {
        char expected[64];
        free(v);
        snprintf(expected, sizeof expected, "at most %zu bytes together", max_bytes);
        return wrong(at, key, expected, err);
    }
    *ret = v;
    return 0;
}
