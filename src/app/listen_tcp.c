#include "app/listen_tcp.h"

#include "app/app.h"
#include "base/cleanup.h"
#include "base/parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static int split(const char *text, const char *field, char *host, size_t cap, uint64_t *port,
                 struct error *err)
{
    const char *colon = strrchr(text, ':'), *number = colon ? colon + 1 : text;
    size_t len = colon ? (size_t)(colon - text) : 0;
    *port = APP_DEFAULT_PORT;
    if (!colon && strspn(text, "0123456789") != strlen(text)) {
        number = NULL; /* an address alone */
        len = strlen(text);
    }
    if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return error_field(err, field, "%s: an IPv6 address is written in brackets, as in [::1]:8787", field);
    }
    if (len >= cap)
        return error_field(err, field, "%s: expected ADDRESS:PORT, as in 127.0.0.1:8787", field);
    snprintf(host, cap, "%.*s", (int)len, text);
    if (len == 0)
        snprintf(host, cap, "%s", APP_DEFAULT_ADDRESS);
    if (strcmp(host, "localhost") == 0)
        snprintf(host, cap, "127.0.0.1");
    return number && parse_u64(number, field, 0, 65535, port, err) < 0 ? -1 : 0;
}

static int bind_failed(int errnum, const char *host, unsigned port, const char *field, struct error *err)
{
    if (errnum == EADDRINUSE)
        return error_field(err, field,
                           "%s: port %u on %s is in use by another program; stop that, or choose another "
                           "port (0: any free one)",
                           field, port, host);
    if (errnum == EACCES)
        return error_field(err, field, "%s: port %u is reserved for root; choose one of 1024 or more", field,
                           port);
    if (errnum == EADDRNOTAVAIL)
        return error_field(err, field, "%s: %s is no address of this machine", field, host);
    return error_system(err, errnum, "cannot listen on %s port %u", host, port);
}

int listen_tcp(const char *text, const char *field, struct listen_address *ret, struct error *err)
{
    char host[64];
    uint64_t port;
    union address a = {0};
    int on = 1;
    if (split(text, field, host, sizeof host, &port, err) < 0)
        return -1;
    socklen_t len = sizeof a.v4;
    if (inet_pton(AF_INET, host, &a.v4.sin_addr) == 1) {
        a.v4.sin_family = AF_INET;
        a.v4.sin_port = htons((uint16_t)port);
        ret->loopback = ntohl(a.v4.sin_addr.s_addr) >> 24 == 127;
    } else if (inet_pton(AF_INET6, host, &a.v6.sin6_addr) == 1) {
        a.v6.sin6_family = AF_INET6;
        a.v6.sin6_port = htons((uint16_t)port);
        len = sizeof a.v6;
        ret->loopback = IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr);
    } else {
        return error_field(err, field,
                           "%s: \"%s\" is no IP address (names are not looked up; localhost is 127.0.0.1)",
                           field, host);
    }
    cleanup_close int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_system(err, errno, "cannot create a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, &a.any, len) < 0 || listen(fd, 1024) < 0)
        return bind_failed(errno, host, (unsigned)port, field, err);
    if (getsockname(fd, &a.any, &len) < 0)
        return error_system(err, errno, "cannot ask for the port");
    unsigned got = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    snprintf(ret->url, sizeof ret->url, a.any.sa_family == AF_INET ? "http://%s:%u" : "http://[%s]:%u", host,
             got);
    ret->fd = steal_fd(&fd);
    return 0;
}
