#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int http_open(struct http *h, const char *socket_path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_path);
    h->len = h->pos = 0;
    h->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return h->fd < 0 ? -1 : connect(h->fd, (struct sockaddr *)&a, sizeof a);
}

void http_close(struct http *h)
{
    close(h->fd);
    h->fd = -1;
}

static int fill(struct http *h)
{
    if (h->pos == h->len)
        h->pos = h->len = 0;
    if (h->len == sizeof h->buf)
        return -1;
    ssize_t n = read(h->fd, h->buf + h->len, sizeof h->buf - h->len);
    if (n <= 0)
        return -1;
    h->len += (size_t)n;
    return 0;
}

/* The next line without its CRLF, or NULL. */
static char *line(struct http *h)
{
    for (;;) {
        char *start = h->buf + h->pos, *end = memmem(start, h->len - h->pos, "\r\n", 2);
        if (end) {
            *end = '\0';
            h->pos = (size_t)(end - h->buf) + 2;
            return start;
        }
        if (h->pos > 0) {
            memmove(h->buf, start, h->len - h->pos);
            h->len -= h->pos;
            h->pos = 0;
        }
        if (fill(h) < 0)
            return NULL;
    }
}

static int send_request(struct http *h, const char *method, const char *path, const char *json,
                        const char *accept)
{
    char head[8192];
    size_t body = json ? strlen(json) : 0;
    int n = snprintf(head, sizeof head,
                     "%s %s HTTP/1.1\r\nHost: cloister\r\nContent-Type: application/json\r\nAccept: "
                     "%s\r\nContent-Length: %zu\r\n\r\n%s",
                     method, path, accept ? accept : "application/json", body, json ? json : "");
    return write(h->fd, head, (size_t)n) == n ? 0 : -1;
}

/* Reads the head. Status, with *length (-1: chunked). */
static int head(struct http *h, long *length)
{
    char *l = line(h);
    if (!l)
        return -1;
    int status = atoi(l + 9);
    *length = 0;
    while ((l = line(h)) && *l) {
        if (!strncasecmp(l, "content-length:", 15))
            *length = atol(l + 15);
        else if (!strncasecmp(l, "transfer-encoding: chunked", 26))
            *length = -1;
    }
    return l ? status : -1;
}

static int take(struct http *h, char *to, size_t cap, size_t n)
{
    size_t kept = 0;
    while (n > 0) {
        if (h->pos == h->len && fill(h) < 0)
            return -1;
        size_t have = h->len - h->pos;
        if (have > n)
            have = n;
        size_t keep = kept + have <= cap ? have : cap - kept;
        memcpy(to + kept, h->buf + h->pos, keep);
        kept += keep;
        h->pos += have;
        n -= have;
    }
    return (int)kept;
}

long http_read_chunk(struct http *h, char *to, size_t cap)
{
    char *l = line(h);
    if (!l)
        return -1;
    long n = strtol(l, NULL, 16);
    if (n > 0 && take(h, to, cap, (size_t)n) < 0)
        return -1;
    return line(h) ? n : -1;
}

int http_request(struct http *h, const char *method, const char *path, const char *json, char *body,
                 size_t cap)
{
    long length;
    if (send_request(h, method, path, json, NULL) < 0)
        return -1;
    int status = head(h, &length);
    size_t used = 0;
    if (length >= 0) {
        int n = take(h, body, cap - 1, (size_t)length);
        used = n < 0 ? 0 : (size_t)n;
    } else {
        long n;
        while ((n = http_read_chunk(h, body + used, cap - 1 - used)) > 0)
            used += (size_t)n < cap - 1 - used ? (size_t)n : cap - 1 - used;
    }
    body[used] = '\0';
    return status;
}

int http_begin(struct http *h, const char *method, const char *path, const char *accept)
{
    long length;
    if (send_request(h, method, path, NULL, accept) < 0)
        return -1;
    return head(h, &length);
}
