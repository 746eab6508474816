#include "cli/client/tap.h"

#include "base/fd.h"
#include "cli/client/http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HEAD_MAX ((size_t)16 << 10)
#define REFUSAL_MAX ((size_t)64 << 10)
#define IN_SIZE ((size_t)64 << 10)
#define CHUNK_MAX ((size_t)1 << 30)
#define PEEK 64           /* holds the end of a chunk, the size of the next and the header of a frame */
#define LARGE (16u << 10) /* pieces from here on are spliced */
#define STEPS_PER_RUN 32

static int bad(struct error *err)
{
    return error_set(err, ERROR_PROTOCOL, "the daemon's output stream is malformed");
}

int tap_open(struct tap *t, const char *socket_path, const char *path, struct error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct buf request;
    t->fd = -1;
    if (strlen(socket_path) >= sizeof a.sun_path)
        return error_field(err, "--socket", "--socket: the path is too long");
    memcpy(a.sun_path, socket_path, strlen(socket_path) + 1);
    t->in = malloc(IN_SIZE);
    buf_init(&request, 0);
    buf_init(&t->text, HEAD_MAX + REFUSAL_MAX);
    buf_printf(&request, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: " FRAMES_TYPE "\r\n\r\n", path);
    int r = !t->in || request.failed ? error_oom(err) : 0;
    if (r == 0) {
        t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&a, sizeof a) < 0)
            r = error_set(err, ERROR_GONE, "no daemon answers at %s; start it with \"cloister serve\"",
                          socket_path);
        else if (fd_write_all(t->fd, request.data, request.len) < 0 || fd_set_nonblock(t->fd, true) < 0)
            r = error_system(err, errno, "the connection to the daemon at %s failed", socket_path);
    }
    buf_free(&request);
    if (r < 0)
        tap_close(t);
    t->state = TAP_HEAD;
    t->first = true;
    return r;
}

void tap_close(struct tap *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    free(t->in);
    t->in = NULL;
    buf_free(&t->text);
}

/* ---- bytes in ---- */

/* How much of what comes next is not the body of a frame. */
static size_t overhead(const char *p, size_t n, bool first)
{
    size_t at = first ? 0 : 2;
    const char *end = n > at ? memmem(p + at, n - at, "\r\n", 2) : NULL;
    size_t head = end ? (size_t)(end - p) + 2 + sizeof((struct frames *)0)->header : n;
    return head < n ? head : n;
}

/* 1: there are bytes; 0: not yet; -1: the connection ended. */
static int fill(struct tap *t)
{
    size_t want = IN_SIZE;
    ssize_t n;
    if (t->pos < t->len)
        return 1;
    t->pos = t->len = 0;
    if (t->large && t->state == TAP_SIZE) {
        n = recv(t->fd, t->in, PEEK, MSG_PEEK);
        want = n > 0 ? overhead(t->in, (size_t)n, t->first) : IN_SIZE;
    }
    do
        n = recv(t->fd, t->in, want, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        t->len = (size_t)n;
    return n > 0 ? 1 : n < 0 && errno == EAGAIN ? 0 : -1;
}

/* Takes a line (without its end) off the input into t->text. 1: it is whole; 0: more has to come. */
static int take_line(struct tap *t, struct error *err)
{
    while (t->pos < t->len) {
        char c = t->in[t->pos++];
        if (c == '\n')
            return 1;
        if (c != '\r' && (t->text.len >= HEAD_MAX || buf_append(&t->text, &c, 1) < 0))
            return bad(err);
    }
    return 0;
}

/* ---- the head ---- */

static int on_head_line(struct tap *t, struct error *err)
{
    const char *line = buf_str(&t->text);
    if (!line)
        return error_oom(err);
    if (t->first) {
        t->status = strncmp(line, "HTTP/1.1 ", 9) == 0 ? atoi(line + 9) : 0;
        t->first = false;
        if (t->status < 100)
            return bad(err);
    } else if (strncasecmp(line, "Content-Length:", 15) == 0) {
        t->left = (size_t)strtoul(line + 15, NULL, 10);
    } else if (!*line) {
        t->state = t->status >= 300 ? TAP_REFUSAL : TAP_SIZE;
        t->first = true;
    }
    buf_clear(&t->text);
    return 0;
}

static int refuse(struct tap *t, struct error *err)
{
    return http_error(t->status, t->text.data, t->text.len, err);
}

static int take_refusal(struct tap *t, struct error *err)
{
    size_t n = t->len - t->pos < t->left ? t->len - t->pos : t->left;
    if (t->text.len + n > REFUSAL_MAX || buf_append(&t->text, t->in + t->pos, n) < 0)
        return refuse(t, err);
    t->pos += n;
    t->left -= n;
    return t->left > 0 ? 0 : refuse(t, err);
}

/* ---- chunks ---- */

static int on_size_line(struct tap *t, struct error *err)
{
    const char *line = buf_str(&t->text);
    char *end;
    if (!line)
        return error_oom(err);
    if (!*line && !t->first) { /* what ends the chunk before */
        t->first = true;
        return 0;
    }
    t->left = strtoul(line, &end, 16);
    if (end == line || t->left > CHUNK_MAX)
        return bad(err);
    t->state = t->left ? TAP_BODY : TAP_OVER;
    t->first = false;
    buf_clear(&t->text);
    return 0;
}

/* Moves what it can of a frame's body. 1: some; 0: nothing to be had; -1: this way is closed. */
static int move(struct tap *t, int pipe, size_t n, enum tap_outcome *why)
{
    struct pollfd p = {.fd = pipe, .events = POLLOUT};
    int stream = t->frames->header[0];
    ssize_t moved;
    do
        moved = splice(t->fd, NULL, pipe, NULL, n, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    while (moved < 0 && errno == EINTR);
    if (moved > 0) {
        frames_skip(t->frames, (size_t)moved);
        t->left -= (size_t)moved;
        t->ops->moved(t->user, stream, moved);
        return 1;
    }
    if (moved < 0 && errno == EAGAIN) {
        *why = poll(&p, 1, 0) > 0 ? TAP_WAITS : TAP_WAITS_SINK;
        return 0;
    }
    if (moved < 0 && errno == EPIPE)
        t->ops->moved(t->user, stream, -1);
    return -1; /* read(2) tells what is the matter */
}

/* Bytes of the present frame that are still on the socket and worth moving. */
static size_t movable(struct tap *t, int *ret_pipe)
{
    size_t n = frames_output_left(t->frames);
    n = n < t->left ? n : t->left;
    t->large = n >= LARGE || (t->large && n > 0);
    if (!t->large || t->pos < t->len)
        return 0;
    *ret_pipe = t->ops->pipe(t->user, t->frames->header[0]);
    return *ret_pipe < 0 ? 0 : n;
}

static int take_body(struct tap *t, struct error *err)
{
    size_t n = t->len - t->pos < t->left ? t->len - t->pos : t->left;
    t->pos += n;
    t->left -= n;
    return frames_feed(t->frames, t->in + t->pos - n, n, err);
}

/* ---- one step ---- */

static int take(struct tap *t, struct error *err)
{
    if (t->state == TAP_REFUSAL)
        return take_refusal(t, err);
    if (t->state == TAP_BODY)
        return take_body(t, err);
    int r = take_line(t, err);
    if (r > 0)
        r = t->state == TAP_HEAD ? on_head_line(t, err) : on_size_line(t, err);
    return r;
}

static enum tap_outcome step(struct tap *t, struct error *err)
{
    enum tap_outcome why = TAP_AGAIN;
    int pipe = -1;
    if (t->state == TAP_OVER)
        return TAP_ENDED;
    if (!t->ops->ready(t->user))
        return TAP_WAITS_SINK;
    if (t->state == TAP_BODY && t->left == 0)
        t->state = TAP_SIZE;
    size_t n = t->state == TAP_BODY ? movable(t, &pipe) : 0;
    if (n > 0) {
        int r = move(t, pipe, n, &why);
        if (r >= 0)
            return why;
    }
    int r = fill(t);
    if (r <= 0)
        return r == 0 ? TAP_WAITS : TAP_ENDED;
    return take(t, err) < 0 ? TAP_FAILED : TAP_AGAIN;
}

enum tap_outcome tap_run(struct tap *t, struct error *err)
{
    enum tap_outcome r = TAP_AGAIN;
    for (int i = 0; i < STEPS_PER_RUN && r == TAP_AGAIN; i++)
        r = step(t, err);
    return r;
}
