#include "app/outgoing_headers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool header_is_token(const char *s)
{
    for (const char *p = s; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr("!#$%&'*+-.^_`|~", *p)))
            return false;
    return *s != '\0';
}

bool header_is_ours(const char *name)
{
    static const char *const names[] = {"connection", "keep-alive", "transfer-encoding", "te",
                                        "trailer",    "upgrade",    "proxy-connection",  "content-length",
                                        "expect",     "host"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

int headers_each(const char *headers, size_t len, header_fn fn, void *user, struct error *err)
{
    const char *p = headers, *end = headers + len;
    while (p < end) {
        const char *value = memchr(p, '\n', (size_t)(end - p)),
                   *stop = value ? memchr(value + 1, '\n', (size_t)(end - value - 1)) : NULL;
        if (!value)
            return error_field(err, "headers", "headers: a name without a value");
        if (!stop)
            stop = end;
        char *name = strndup(p, (size_t)(value - p)), *text = strndup(value + 1, (size_t)(stop - value - 1));
        int r = -1;
        if (!name || !text)
            error_oom(err);
        else if (!header_is_token(name) || strpbrk(text, "\r\n"))
            error_field(err, "headers", "headers: \"%.64s\" cannot be sent", name);
        else
            r = fn(user, name, text, err);
        free(name);
        free(text);
        if (r < 0)
            return -1;
        p = stop < end ? stop + 1 : end;
    }
    return 0;
}
