/* A web page somewhere can make a browser ask 127.0.0.1 by a name of that page's own (DNS rebinding). So an
 * application on a loopback address answers only to names of this machine. */
#include "app/ingress_internal.h"

#include <string.h>
#include <strings.h>

/* Without the port. */
static size_t name_length(const char *host, size_t len)
{
    const char *end = len > 0 && host[0] == '[' ? memchr(host, ']', len) : NULL;
    if (end)
        return (size_t)(end - host) + 1;
    const char *colon = memchr(host, ':', len);
    return colon ? (size_t)(colon - host) : len;
}

static bool same(const char *a, size_t len, const char *b)
{
    return strlen(b) == len && strncasecmp(a, b, len) == 0;
}

/* "name", "name:port", "[address]:port" of which an URL can be made (RFC 3986, 3.2.2 and 3.2.3). */
bool host_is_valid(const char *host, size_t len)
{
    size_t n = name_length(host, len);
    unsigned port = 0;
    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)host[i] <= ' ' || (unsigned char)host[i] >= 0x7f ||
            strchr("\"#%/<>?@\\^`{|}", host[i]))
            return false;
    if (n < len && host[n] != ':')
        return false;
    for (size_t i = n + 1; i < len; i++) {
        if (host[i] < '0' || host[i] > '9' || (port = port * 10 + (unsigned)(host[i] - '0')) > 65535)
            return false;
    }
    return true;
}

bool host_check(const struct ingress_config *c, const char *host, size_t len)
{
    static const char suffix[] = ".localhost"; /* resolves to loopback by itself (RFC 6761) */
    size_t n = name_length(host, len), s = sizeof suffix - 1;
    if (c->any_host || same(host, n, "localhost") || same(host, n, "127.0.0.1") || same(host, n, "[::1]"))
        return true;
    if (n > s && strncasecmp(host + n - s, suffix, s) == 0)
        return true;
    for (const char *const *h = c->hosts; h && *h; h++)
        if (same(host, n, *h))
            return true;
    return false;
}

const char *header_find(const char *headers, size_t len, const char *name, size_t *ret_len)
{
    size_t n = strlen(name);
    for (const char *p = headers, *end = headers + len; p < end;) {
        const char *value = memchr(p, '\n', (size_t)(end - p));
        if (!value)
            return NULL;
        const char *stop = memchr(value + 1, '\n', (size_t)(end - value - 1));
        if (!stop)
            stop = end;
        if ((size_t)(value - p) == n && strncasecmp(p, name, n) == 0) {
            *ret_len = (size_t)(stop - value - 1);
            return value + 1;
        }
        p = stop < end ? stop + 1 : end;
    }
    return NULL;
}

bool header_has_word(const char *value, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = value, *end = value + len; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
        const char *from = p, *to = stop;
        while (from < to && (*from == ' ' || *from == '\t'))
            from++;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        if ((size_t)(to - from) == n && strncasecmp(from, word, n) == 0)
            return true;
        p = comma ? comma + 1 : end;
    }
    return false;
}
