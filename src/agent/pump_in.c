#include "agent/pump.h"

#include "base/buf.h"
#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

struct in_pump {
    struct source source;
    struct agent *agent;
    uint32_t stream;
    bool streaming; /* the stream is open */
    bool terminal;
    bool ended; /* it ended in order */
    int commit_fd;
    struct buf pending; /* at most LINK_STREAM_WINDOW: the peer has no more credit */
    void (*gone)(void *owner);
    void *owner;
};

static void finish(struct in_pump *p)
{
    source_forget(&p->source);
    if (p->source.fd >= 0)
        close(p->source.fd);
    if (p->commit_fd >= 0) {
        if (p->ended && p->pending.len == 0 && write(p->commit_fd, "E", 1) != 1) {
            /* its reader is gone: nothing to commit */
        }
        close(p->commit_fd);
    }
    if (p->gone)
        p->gone(p->owner);
    buf_free(&p->pending);
    free(p);
}

static void refuse_more(struct in_pump *p, const struct error *why)
{
    struct error fallback = {0};
    error_system(&fallback, EPIPE, "nobody reads this input any more");
    p->ended = false;
    if (p->streaming) {
        p->streaming = false;
        link_stream_reset(p->agent->link, p->stream, why ? why : &fallback);
    }
    finish(p);
}

/* A terminal has no end of file to close: its end-of-file character says the same to a reader of lines. */
static void type_end_of_file(struct in_pump *p)
{
    struct termios t;
    if (tcgetattr(p->source.fd, &t) == 0 && (t.c_lflag & ICANON) &&
        write(p->source.fd, &t.c_cc[VEOF], 1) != 1) {
        /* its buffer is full: the program is not reading anyway */
    }
}

/* Writes what the descriptor takes. -1: nobody reads any more. */
static ssize_t write_some(struct in_pump *p, const uint8_t *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(p->source.fd, data + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static void end_if_written(struct in_pump *p)
{
    if (!p->ended || p->pending.len > 0)
        return;
    if (p->terminal)
        type_end_of_file(p);
    finish(p);
}

static void in_ready(struct source *s, uint32_t events)
{
    struct in_pump *p = (struct in_pump *)s;
    if (events & (EPOLLERR | EPOLLHUP)) {
        refuse_more(p, NULL);
        return;
    }
    ssize_t n = write_some(p, p->pending.data, p->pending.len);
    if (n < 0) {
        refuse_more(p, NULL);
        return;
    }
    buf_consume(&p->pending, (size_t)n);
    if (n > 0 && p->streaming)
        link_stream_consumed(p->agent->link, p->stream, (size_t)n);
    if (p->pending.len == 0) {
        buf_free(&p->pending);
        source_set(s, 0);
        end_if_written(p);
    }
}

static void in_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct in_pump *p = user;
    ssize_t n = 0;
    if (p->pending.len == 0)
        n = write_some(p, data, len);
    if (n < 0) {
        refuse_more(p, NULL);
        return;
    }
    if (n > 0)
        link_stream_consumed(p->agent->link, stream, (size_t)n);
    if ((size_t)n == len)
        return;
    if (buf_append(&p->pending, data + n, len - (size_t)n) < 0)
        refuse_more(p, NULL);
    else
        source_set(&p->source, EPOLLOUT);
}

static void in_end(void *user, uint32_t stream)
{
    struct in_pump *p = user;
    (void)stream;
    p->streaming = false;
    p->ended = true;
    end_if_written(p);
}

static void in_reset(void *user, uint32_t stream, const struct error *why)
{
    struct in_pump *p = user;
    (void)stream;
    (void)why;
    p->streaming = false;
    finish(p);
}

static const struct link_stream_ops in_ops = {.data = in_data, .end = in_end, .reset = in_reset};

struct in_pump *in_pump_new(struct agent *a, int fd, bool terminal, int commit_fd, uint32_t stream,
                            struct error *err)
{
    struct in_pump *p = calloc(1, sizeof *p);
    if (!p) {
        error_oom(err);
        goto fail;
    }
    p->agent = a;
    p->stream = stream;
    p->terminal = terminal;
    p->commit_fd = commit_fd;
    buf_init(&p->pending, LINK_STREAM_WINDOW);
    if (fd_set_nonblock(fd, true) < 0 || source_watch(&a->loop, &p->source, fd, 0, in_ready) < 0) {
        error_system(err, errno, "cannot watch the input");
        goto fail;
    }
    if (link_stream_open_receive(a->link, stream, &in_ops, p, err) < 0) {
        source_forget(&p->source);
        goto fail;
    }
    p->streaming = true;
    return p;
fail:
    free(p);
    close(fd);
    if (commit_fd >= 0)
        close(commit_fd);
    return NULL;
}

void in_pump_abort(struct in_pump *p, const struct error *why)
{
    refuse_more(p, why);
}

void in_pump_on_gone(struct in_pump *p, void (*gone)(void *owner), void *owner)
{
    p->gone = gone;
    p->owner = owner;
}
