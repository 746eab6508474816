#include "app/outgoing_dial.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_MAX 255u

struct outgoing_dial {
    struct outgoing_job job;
    struct outgoing_user *user;
    CURL *easy;
    dial_fn fn;
    void *owner;
    char refused[REFUSED_MAX];
    char where[HOST_MAX + 16]; /* "host:port" */
};

void dial_cancel(struct outgoing_dial *d)
{
    if (!d)
        return;
    curl_multi_remove_handle(d->user->multi, d->easy); /* closes its connection */
    curl_easy_cleanup(d->easy);
    free(d);
}

static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct outgoing_dial *d = user;
    return outgoing_open_socket(d->user, a, d->refused);
}

static void explain(const struct outgoing_dial *d, CURLcode r, struct error *err)
{
    if (d->refused[0])
        outgoing_refused(d->refused, d->where, err);
    else
        error_set(err, r == CURLE_OPERATION_TIMEDOUT ? ERROR_TIMEOUT : ERROR_GONE, "connect: %s (%.270s)",
                  curl_easy_strerror(r), d->where);
}

/* The connection is libcurl's, and ends with its handle: we go on with a descriptor of our own. */
static int take_descriptor(struct outgoing_dial *d, struct error *err)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (curl_easy_getinfo(d->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
        return error_set(err, ERROR_GONE, "connect: the connection was closed at once (%.270s)", d->where);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return own < 0 ? error_set(err, ERROR_LIMIT, "connect: no descriptor is left") : own;
}

static void on_done(struct outgoing_job *job, CURLcode r)
{
    struct outgoing_dial *d = (struct outgoing_dial *)(void *)job;
    struct error err = {0};
    dial_fn fn = d->fn;
    void *owner = d->owner;
    int fd = -1;
    if (r == CURLE_OK)
        fd = take_descriptor(d, &err);
    else
        explain(d, r, &err);
    dial_cancel(d);
    fn(owner, fd, fd < 0 ? &err : NULL);
}

/* Nothing that would mean something in the address that libcurl is given. */
static bool is_host(const char *host)
{
    size_t len = strlen(host);
    bool colon = strchr(host, ':') != NULL;
    if (len == 0 || len > HOST_MAX)
        return false;
    for (const char *p = host; *p; p++)
        if (!(colon ? isxdigit((unsigned char)*p) || *p == ':' || *p == '.'
                    : isalnum((unsigned char)*p) || *p == '-' || *p == '.' || *p == '_') ||
            (unsigned char)*p >= 128)
            return false;
    return true;
}

static void set_up(struct outgoing_dial *d, const char *url)
{
    CURL *e = d->easy;
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_PRIVATE, &d->job);
    curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http"); /* that is: nothing above TCP */
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_PROXY, ""); /* no environment of the daemon's decides here */
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, d);
}

struct outgoing_dial *dial_start(struct outgoing_user *u, const char *host, unsigned port, dial_fn fn,
                                 void *owner, struct error *err)
{
    char url[HOST_MAX + 32];
    if (!is_host(host)) {
        error_field(err, "host",
                    "connect: the host is empty, too long, or holds characters that no host has");
        return NULL;
    }
    if (port == 0 || port > 65535) {
        error_field(err, "port", "connect: a port from 1 to 65535 is expected");
        return NULL;
    }
    struct outgoing_dial *d = calloc(1, sizeof *d);
    if (!d || !(d->easy = curl_easy_init())) {
        free(d);
        error_oom(err);
        return NULL;
    }
    d->job.done = on_done;
    d->user = u;
    d->fn = fn;
    d->owner = owner;
    bool six = strchr(host, ':') != NULL;
    snprintf(d->where, sizeof d->where, six ? "[%s]:%u" : "%s:%u", host, port);
    snprintf(url, sizeof url, "http://%s/", d->where);
    set_up(d, url);
    if (outgoing_begin(u, d->easy) < 0) {
        curl_easy_cleanup(d->easy);
        free(d);
        error_oom(err);
        return NULL;
    }
    return d;
}
