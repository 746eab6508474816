#include "agent/pump.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DISCARD_CHUNK (64u << 10)
#define PIPE_DEFAULT (64u << 10)
#define FULL_READS_TO_GROW 3
#define FLOOD_OVER (16u << 10)         /* smaller pieces are cheaper to copy */
#define TERMINAL_DRAIN_MAX (128 << 10) /* more than a terminal can hold */

static void out_ready(struct source *s, uint32_t events);

/* While a terminal is being drained "writable" wakes us even when there is nothing to read: it has then been
 * emptied. */
static void resume(struct out_pump *p)
{
    bool draining = p->terminal && p->to_drain >= 0;
    source_resume(&p->agent->loop, &p->source, draining ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void stream_writable(void *user, uint32_t stream)
{
    struct out_pump *p = user;
    (void)stream;
    if (!p->done && link_stream_writable(p->agent->link, p->stream) > 0)
        resume(p);
}

static void finish(struct out_pump *p)
{
    source_forget(&p->source);
    if (p->source.fd >= 0)
        close(p->source.fd);
    p->source.fd = -1;
    p->done = true;
    if (p->link) {
        *p->link = p->next;
        if (p->next)
            p->next->link = p->link;
        p->link = NULL;
    }
    if (p->streaming && !p->hold_end) {
        p->streaming = false;
        link_stream_end(p->agent->link, p->stream);
    }
    p->to_drain = -1;
    if (p->drained)
        p->drained(p->owner);
    else
        free(p);
}

/* The reader wants no more (or the link is gone). A pipe is closed, so that the writer learns of it; a
 * terminal must stay open, or the session would be hung up. */
static void stream_reset(void *user, uint32_t stream, const struct error *why)
{
    struct out_pump *p = user;
    (void)stream;
    (void)why;
    p->streaming = false;
    if (p->done)
        return;
    if (p->terminal)
        resume(p);
    else
        finish(p);
}

static const struct link_stream_ops out_ops = {.reset = stream_reset, .writable = stream_writable};

struct out_pump *out_pump_new(struct agent *a, int fd, bool terminal, bool streaming, uint32_t stream,
                              struct error *err)
{
    struct out_pump *p = calloc(1, sizeof *p);
    if (!p) {
        close(fd);
        error_oom(err);
        return NULL;
    }
    p->agent = a;
    p->stream = stream;
    p->terminal = terminal;
    p->to_drain = -1;
    p->source.fd = fd;
    if (streaming && link_stream_open_send(a->link, stream, &out_ops, p, err) < 0) {
        close(fd);
        free(p);
        return NULL;
    }
    p->streaming = streaming;
    if (fd_set_nonblock(fd, true) < 0 || source_watch(&a->loop, &p->source, fd, EPOLLIN, out_ready) < 0) {
        error_system(err, errno, "cannot watch the output");
        if (streaming)
            link_stream_reset(a->link, stream, err);
        close(fd);
        free(p);
        return NULL;
    }
    p->next = a->pumps;
    p->link = &a->pumps;
    if (p->next)
        p->next->link = &p->next;
    a->pumps = p;
    return p;
}

/* A flood is cheaper in larger pieces, and without copies. The machine may refuse (pipe-user-pages-soft):
 * then the pipe stays as it is. */
static void judge_flood(struct out_pump *p, size_t n)
{
    if (p->terminal || (p->flood && n >= FLOOD_OVER))
        return;
    p->flood = false;
    p->full_reads = n >= PIPE_DEFAULT ? p->full_reads + 1 : 0;
    if (p->full_reads < FULL_READS_TO_GROW)
        return;
    p->full_reads = 0;
    p->flood = !p->agent->apart.unable;
    if (!p->grown && fcntl(p->source.fd, F_SETPIPE_SZ, 512 << 10) < 0)
        fcntl(p->source.fd, F_SETPIPE_SZ, 256 << 10);
    p->grown = true;
}

static void count_drained(struct out_pump *p, size_t n)
{
    if (p->to_drain < 0)
        return;
    p->to_drain -= (int64_t)n;
    if (p->to_drain > 0)
        return;
    p->to_drain = -1;
    resume(p);
    if (p->drained)
        p->drained(p->owner);
}

/* What read(2) would say; EINTR also while the link is busy with earlier output. */
static ssize_t take_flood(struct out_pump *p, size_t room)
{
    struct agent *a = p->agent;
    if (!conn_idle(a))
        conn_flush(a);
    if (!conn_idle(a)) {
        source_pause(&p->source); /* until pumps_resume() */
        errno = EINTR;
        return -1;
    }
    return apart_send(a, p->source.fd, p->stream, room < LINK_APART_MAX ? room : LINK_APART_MAX);
}

static ssize_t take(struct out_pump *p, size_t room)
{
    if (p->flood && p->streaming) {
        ssize_t n = take_flood(p, room);
        if (n >= 0 || errno != ENOSYS)
            return n;
        p->flood = false;
    }
    uint8_t *data = agent_scratch(p->agent);
    if (!data) {
        errno = EINTR; /* later */
        return -1;
    }
    ssize_t n = read(p->source.fd, data, room < LINK_DATA_MAX ? room : LINK_DATA_MAX);
    if (n > 0 && p->streaming)
        link_stream_write(p->agent->link, p->stream, data, (size_t)n);
    return n;
}

static void out_ready(struct source *s, uint32_t events)
{
    struct out_pump *p = (struct out_pump *)s;
    (void)events;
    size_t room = p->streaming ? link_stream_writable(p->agent->link, p->stream) : DISCARD_CHUNK;
    if (room == 0) {
        source_pause(s);
        return;
    }
    ssize_t n = take(p, room);
    if (n < 0 && errno == EINTR)
        return;
    if (n < 0 && errno == EAGAIN) {
        if (p->to_drain >= 0) {
            p->to_drain = 0;
            count_drained(p, 0);
        }
        return;
    }
    if (n <= 0) { /* a terminal says EIO when its last user has closed it */
        finish(p);
        return;
    }
    judge_flood(p, (size_t)n);
    count_drained(p, (size_t)n);
}

bool out_pump_drain(struct out_pump *p)
{
    if (p->done)
        return true;
    int waiting = 0;
    if (p->terminal) {
        /* what the kernel's worker has yet to hand over is not counted: read until the terminal is empty */
        p->to_drain = TERMINAL_DRAIN_MAX;
        resume(p);
        return false;
    }
    if (ioctl(p->source.fd, FIONREAD, &waiting) < 0 || waiting == 0)
        return true;
    p->to_drain = waiting;
    return false;
}

void out_pump_discard(struct out_pump *p)
{
    if (p->streaming) {
        struct error why = {0};
        error_set(&why, ERROR_GONE, "the process was detached");
        p->streaming = false;
        link_stream_reset(p->agent->link, p->stream, &why);
    }
    if (!p->done)
        resume(p);
}

void out_pump_release(struct out_pump *p)
{
    if (!p)
        return;
    p->drained = NULL;
    p->owner = NULL;
    p->hold_end = false;
    if (!p->done)
        return;
    if (p->streaming)
        link_stream_end(p->agent->link, p->stream);
    free(p);
}

void out_pump_fail(struct out_pump *p, const struct error *why)
{
    if (p->streaming) {
        p->streaming = false;
        link_stream_reset(p->agent->link, p->stream, why);
    }
    if (!p->done)
        finish(p);
}

void pumps_resume(struct agent *a)
{
    for (struct out_pump *p = a->pumps; p; p = p->next)
        if (!p->source.loop && !(p->flood && a->link_blocked) &&
            (!p->streaming || link_stream_writable(a->link, p->stream) > 0))
            resume(p);
}
