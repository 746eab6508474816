/* Stdin, stdout and stderr of a run. What the command writes goes to our descriptors at the pace of whoever
 * reads them; only what was written counts as consumed, so a slow reader slows the command and memory stays
 * bounded by the engine's window. */
#include "base/clock.h"
#include "cli/run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)64 << 10)
/* How long everything waits for the reader of one stream before what it has not taken goes through memory. */
#define HOLD_MS 10
#define SIGPIPE_GRACE_NS ((uint64_t)1000000000)

/* ---- output ---- */

static void consumed(struct run_sink *s, size_t n)
{
    if (s->run->command && n)
        exec_consumed(s->run->command, s->number, n);
}

/* Nobody takes this stream any more. In a pipe the command would get SIGPIPE at its next write, so it gets it
 * now; when it goes on writing regardless, run_sink_push() ends it. */
static void broken(struct run_sink *s, int errnum)
{
    size_t left = s->pending.len - s->off;
    s->broken_ns = clock_monotonic_ns();
    buf_clear(&s->pending);
    s->off = 0;
    consumed(s, left);
    if (errnum != EPIPE && s->run->error.kind == ERROR_NONE)
        error_system(&s->run->error, errnum, "cannot write to %s", s->number == 1 ? "stdout" : "stderr");
    if (s->run->command)
        exec_kill(s->run->command, SIGPIPE, NULL);
}

/* Writes what the reader takes now. Bytes taken, or -1 when it is gone. */
static ssize_t write_some(struct run_sink *s, const uint8_t *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = stream_write(&s->stream, data + done, len - done);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static void poll_stop(struct run_sink *s)
{
    if (s->polling)
        uv_poll_stop(&s->poll);
    s->polling = false;
}

static void on_pollout(uv_poll_t *handle, int status, int events);

/* Polls exactly while something is pending or held. */
static void poll_as_needed(struct run_sink *s)
{
    bool want = s->off < s->pending.len || s->holds;
    if (want && !s->polling && s->poll_open)
        s->polling = uv_poll_start(&s->poll, UV_WRITABLE, on_pollout) == 0;
    if (!want)
        poll_stop(s);
}

static void hold_end(struct run_sink *s)
{
    if (!s->holds)
        return;
    s->holds = false;
    uv_timer_stop(&s->run->hold);
    poll_as_needed(s);
    if (s->run->container)
        container_go_on(s->run->container);
}

static void on_pollout(uv_poll_t *handle, int status, int events)
{
    struct run_sink *s = handle->data;
    if (status < 0) /* libuv has stopped polling: the write below says why */
        s->polling = false;
    if (s->holds) {
        hold_end(s);
        return;
    }
    ssize_t n = write_some(s, s->pending.data + s->off, s->pending.len - s->off);
    if (n < 0) {
        broken(s, errno);
    } else {
        s->off += (size_t)n;
        if (s->off == s->pending.len) {
            buf_clear(&s->pending);
            s->off = 0;
        }
        consumed(s, (size_t)n);
    }
    poll_as_needed(s);
    run_settle(s->run);
}

static void capture(struct run_sink *s, const uint8_t *data, size_t len)
{
    size_t room = RUN_CAPTURE_MAX - s->captured.len;
    buf_append(&s->captured, data, len < room ? len : room);
    consumed(s, len);
}

void run_sink_push(struct run_sink *s, const uint8_t *data, size_t len)
{
    s->bytes += len;
    if (s->run->request.json) {
        capture(s, data, len);
        return;
    }
    if (s->broken_ns) {
        consumed(s, len);
        if (clock_monotonic_ns() - s->broken_ns > SIGPIPE_GRACE_NS) { /* it ignores SIGPIPE */
            s->run->output_refused = true;
            run_end(s->run, "its output is not read any more");
        }
        return;
    }
    ssize_t n = s->pending.len > 0 ? 0 : write_some(s, data, len);
    if (n < 0) {
        int errnum = errno;
        consumed(s, len);
        broken(s, errnum);
        return;
    }
    consumed(s, (size_t)n);
    if ((size_t)n < len) {
        /* What was written goes first: with a reader that never catches up the buffer would grow for ever. */
        buf_consume(&s->pending, s->off);
        s->off = 0;
        buf_append(&s->pending, data + n, len - (size_t)n); /* bounded by the engine's window */
        poll_as_needed(s);
    }
}

/* The reader is slow: the other stream, and what else there is, must not wait for it. */
static void on_hold_over(uv_timer_t *timer)
{
    struct run *r = timer->data;
    struct run_sink *s = r->out.holds ? &r->out : &r->err;
    s->through_memory = true;
    hold_end(s);
}

size_t run_sink_move(struct run_sink *s, int from, size_t len)
{
    bool full;
    if (s->run->request.json || s->broken_ns || s->pending.len > 0 || !s->poll_open)
        return 0;
    size_t n = stream_move(&s->stream, from, len, &full);
    if (n == 0 && full && !s->through_memory) {
        s->holds = true;
        poll_as_needed(s);
        uv_timer_start(&s->run->hold, on_hold_over, HOLD_MS, 0);
        return FLOOD_LATER;
    }
    s->through_memory = false;
    s->bytes += n;
    consumed(s, n);
    return n;
}

bool run_sink_idle(const struct run_sink *s)
{
    return s->broken_ns || s->off == s->pending.len;
}

/* ---- input ---- */

static void source_poll(struct run_source *s, bool on);

static void source_finish(struct run *r)
{
    struct run_source *s = &r->in;
    s->open = false;
    source_poll(s, false);
    if (!r->command)
        return;
    /* On a terminal the end of input is a character; closing would hang up. */
    static const uint8_t end_of_transmission = 4;
    if (r->request.tty)
        exec_write(r->command, &end_of_transmission, 1);
    else
        exec_close_stdin(r->command);
}

/* False when it has to wait (for input or for the command), or is at its end. */
static bool source_step(struct run *r)
{
    struct run_source *s = &r->in;
    if (s->off == s->have) {
        ssize_t n = stream_read(&s->stream, s->chunk, CHUNK);
        if (n < 0 && errno == EAGAIN) {
            source_poll(s, true);
            return false;
        }
        if (n <= 0) {
            source_finish(r);
            return false;
        }
        s->have = (size_t)n;
        s->off = 0;
    }
    ssize_t taken = exec_write(r->command, s->chunk + s->off, s->have - s->off);
    if (taken < 0) { /* the command does not read any more */
        s->open = false;
        source_poll(s, false);
        return false;
    }
    s->off += (size_t)taken;
    if (s->off < s->have)
        source_poll(s, false); /* run_source_continue() goes on */
    return s->off == s->have;
}

void run_source_continue(struct run *r)
{
    while (r->in.open && r->command && source_step(r))
        ;
}

static void on_pollin(uv_poll_t *handle, int status, int events)
{
    struct run_source *s = handle->data;
    /* One chunk a turn, so that a fast producer does not starve output and signals. */
    if (s->open && s->run->command)
        source_step(s->run);
}

static void source_poll(struct run_source *s, bool on)
{
    if (!s->poll_open)
        return;
    if (on)
        uv_poll_start(&s->poll, UV_READABLE | UV_DISCONNECT, on_pollin);
    else
        uv_poll_stop(&s->poll);
}

void run_source_begin(struct run *r)
{
    if (!r->in.open)
        return;
    if (r->in.poll_open)
        source_poll(&r->in, true);
    else
        run_source_continue(r);
}

void run_source_end(struct run *r)
{
    r->in.open = false;
    source_poll(&r->in, false);
}

/* ---- opening and closing ---- */

static int watch(struct run *r, uv_poll_t *poll, const struct stream *s, bool *ret_open, void *data,
                 struct error *err)
{
    if (!s->pollable)
        return 0;
    int failed = uv_poll_init(&r->loop, poll, s->fd);
    if (failed)
        return error_set(err, ERROR_INTERNAL, "cannot watch descriptor %d: %s", s->fd, uv_strerror(failed));
    poll->data = data;
    *ret_open = true;
    return 0;
}

static int sink_open(struct run *r, struct run_sink *s, int number, struct error *err)
{
    s->run = r;
    s->number = number;
    buf_init(&s->pending, 0);
    buf_init(&s->captured, RUN_CAPTURE_MAX);
    stream_open(&s->stream, number);
    return watch(r, &s->poll, &s->stream, &s->poll_open, s, err);
}

static int source_open(struct run *r, struct error *err)
{
    struct run_source *s = &r->in;
    s->run = r;
    stream_open(&s->stream, 0);
    if (r->request.no_stdin)
        return 0;
    s->chunk = malloc(CHUNK);
    if (!s->chunk)
        return error_oom(err);
    s->open = true;
    return watch(r, &s->poll, &s->stream, &s->poll_open, s, err);
}

int run_stdio_open(struct run *r, struct error *err)
{
    if (sink_open(r, &r->out, 1, err) < 0 || sink_open(r, &r->err, 2, err) < 0)
        return -1;
    return source_open(r, err);
}

void run_stdio_close(struct run *r)
{
    run_source_end(r);
    if (r->in.poll_open)
        uv_close((uv_handle_t *)&r->in.poll, NULL);
    if (r->out.poll_open)
        uv_close((uv_handle_t *)&r->out.poll, NULL);
    if (r->err.poll_open)
        uv_close((uv_handle_t *)&r->err.poll, NULL);
    r->in.poll_open = r->out.poll_open = r->err.poll_open = false;
    stream_close(&r->in.stream);
    stream_close(&r->out.stream);
    stream_close(&r->err.stream);
    buf_free(&r->out.pending);
    buf_free(&r->err.pending);
    buf_free(&r->out.captured);
    buf_free(&r->err.captured);
    free(r->in.chunk);
    r->in.chunk = NULL;
}
