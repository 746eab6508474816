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
