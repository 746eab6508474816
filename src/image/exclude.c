#include "image/exclude.h"

#include "image/limits.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

int exclude_check(const char *pattern, struct error *err)
{
    size_t len = strlen(pattern);
    if (len == 0 || len > LIMIT_PATH || strspn(pattern, "/") == len)
        return error_field(err, "exclude", "a pattern must not be empty or longer than %d bytes", LIMIT_PATH);
    unsigned anywhere = 0;
    for (const char *p = pattern; *p;) {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if ((n == 1 && *p == '.') || (n == 2 && !strncmp(p, "..", 2)))
            return error_field(err, "exclude",
                               "pattern \"%.80s\" has a \".\" or \"..\" part, which matches nothing",
                               pattern);
        if (n > LIMIT_NAME)
            return error_field(err, "exclude", "a part of pattern \"%.80s\" is longer than %d bytes", pattern,
                               LIMIT_NAME);
        anywhere += n == 2 && !strncmp(p, "**", 2);
        p += n;
    }
    if (anywhere > 4)
        return error_field(err, "exclude", "pattern \"%.80s\" has more than four \"**\"", pattern);
    return 0;
}

static size_t part_len(const char *s)
{
    return strcspn(s, "/");
}

static bool part_matches(const char *pattern, size_t pn, const char *name, size_t nn)
{
    char p[LIMIT_NAME + 1], n[LIMIT_NAME + 1];
    if (pn > LIMIT_NAME || nn > LIMIT_NAME)
        return false;
    snprintf(p, sizeof p, "%.*s", (int)pn, pattern);
    snprintf(n, sizeof n, "%.*s", (int)nn, name);
    return fnmatch(p, n, 0) == 0;
}

/* Both without slashes at their ends. */
static bool path_matches(const char *pattern, const char *path)
{
    for (;;) {
        pattern += strspn(pattern, "/");
        path += strspn(path, "/");
        if (!*pattern || !*path)
            return !*pattern && !*path;
        size_t pn = part_len(pattern), nn = part_len(path);
        if (pn == 2 && !strncmp(pattern, "**", 2)) {
            for (const char *rest = path;; rest += part_len(rest), rest += strspn(rest, "/")) {
                if (*rest && path_matches(pattern + pn, rest))
                    return true;
                if (!*rest)
                    return !pattern[pn + strspn(pattern + pn, "/")];
            }
        }
        if (!part_matches(pattern, pn, path, nn))
            return false;
        pattern += pn;
        path += nn;
    }
}

static bool one_matches(const char *pattern, const char *path, bool dir)
{
    char text[LIMIT_PATH + 1];
    size_t len = strlen(pattern);
    if (pattern[len - 1] == '/' && !dir)
        return false;
    while (len > 1 && pattern[len - 1] == '/')
        len--;
    snprintf(text, sizeof text, "%.*s", (int)len, pattern);
    if (strchr(text, '/'))
        return path_matches(text, path);
    const char *slash = strrchr(path, '/');
    return fnmatch(text, slash ? slash + 1 : path, 0) == 0;
}

bool exclude_matches(const char *const *patterns, size_t count, const char *path, bool dir)
{
    for (size_t i = 0; i < count; i++)
        if (one_matches(patterns[i], path, dir))
            return true;
    return false;
}
