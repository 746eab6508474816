#include "daemon/uri.h"

#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place. In a query '+' is a space, as forms write it. */
static int decode(char *s, bool plus, struct error *err)
{
    char *to = s;
    for (char *p = s; *p; p++) {
        if (*p == '+' && plus) {
            *to++ = ' ';
        } else if (*p != '%') {
            *to++ = *p;
        } else {
            int hi = hex(p[1]), lo = hi < 0 ? -1 : hex(p[2]);
            if (lo < 0 || (hi | lo) == 0)
                return error_field(err, "url", "url: %s",
                                   lo < 0 ? "'%' must be followed by two hex digits" : "%00 is not allowed");
            *to++ = (char)(hi << 4 | lo);
            p += 2;
        }
    }
    *to = '\0';
    return 0;
}

static int parse_path(struct uri *u, char *path, struct error *err)
{
    if (path[0] != '/' || !path[1])
        return error_field(err, "url", "url: expected a path such as /v1/version");
    while (path) {
        char *segment = path + 1;
        path = strchr(segment, '/');
        if (path)
            *path = '\0';
        if (!*segment)
            return error_field(err, "url", "url: an empty path segment");
        if (u->segment_count == URI_MAX_SEGMENTS)
            return error_field(err, "url", "url: more than %d path segments", URI_MAX_SEGMENTS);
        if (decode(segment, false, err) < 0)
            return -1;
        u->segments[u->segment_count++] = segment;
    }
    return 0;
}

static int parse_query(struct uri *u, char *query, struct error *err)
{
    char *next;
    for (char *pair = query; pair; pair = next) {
        next = strchr(pair, '&');
        if (next)
            *next++ = '\0';
        if (!*pair)
            continue;
        if (u->query_count == URI_MAX_QUERY)
            return error_field(err, "url", "url: more than %d query parameters", URI_MAX_QUERY);
        char *value = strchr(pair, '=');
        if (value)
            *value++ = '\0';
        if (decode(pair, true, err) < 0 || (value && decode(value, true, err) < 0))
            return -1;
        u->query[u->query_count].key = pair;
        u->query[u->query_count++].value = value ? value : "";
    }
    return 0;
}

int uri_parse(struct uri *ret, const char *target, struct error *err)
{
    memset(ret, 0, sizeof *ret);
    if (strlen(target) > URI_MAX_LENGTH)
        return error_field(err, "url", "url: longer than %u bytes", URI_MAX_LENGTH);
    if (strchr(target, '#'))
        return error_field(err, "url", "url: a fragment is not allowed");
    ret->text = strdup(target);
    if (!ret->text)
        return error_oom(err);
    char *query = strchr(ret->text, '?');
    if (query)
        *query++ = '\0';
    if (parse_path(ret, ret->text, err) < 0 || (query && parse_query(ret, query, err) < 0)) {
        uri_free(ret);
        return -1;
    }
    return 0;
}

void uri_free(struct uri *u)
{
    free(u->text);
    memset(u, 0, sizeof *u);
}

const char *uri_query(const struct uri *u, const char *key)
{
    for (size_t i = 0; i < u->query_count; i++)
        if (strcmp(u->query[i].key, key) == 0)
            return u->query[i].value;
    return NULL;
}

int uri_query_bool(const struct uri *u, const char *key, bool *ret, struct error *err)
{
    const char *v = uri_query(u, key);
    if (!v)
        return 0;
    bool yes = strcmp(v, "true") == 0;
    if (!yes && strcmp(v, "false") != 0)
        return error_field(err, key, "%s: expected true or false", key);
    *ret = yes;
    return 0;
}

int uri_query_u64(const struct uri *u, const char *key, uint64_t max, uint64_t *ret, struct error *err)
{
    const char *v = uri_query(u, key);
    return v ? parse_u64(v, key, 0, max, ret, err) : 0;
}
