#include "cli/client/attach.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/client/client.h"
#include "cli/client/frames.h"
#include "cli/client/tap.h"
#include "cli/stream.h"
#include "cli/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SIGPIPE_GRACE_NS ((uint64_t)1000000000)

struct sink {
    struct stream stream;
    struct buf pending; /* what our reader has not taken yet */
    size_t off;
    uint64_t broken_ns; /* when our reader went away; 0: it did not */
    bool pipe;          /* a pipe that we may splice(2) into */
};

struct attach {
    const struct attach_config *config;
    struct attach_result *result;
    CURLM *multi; /* NULL: no input to pass on */
    CURL *input;
    struct tap tap; /* the output */
    struct frames frames;
    struct sink sinks[2];
    struct stream in;
    bool in_paused, in_attached, done;
    enum tap_outcome tap_state;
    int signals; /* signalfd */
    sigset_t old_mask;
};

/* ---- small calls beside the streams ---- */

static void post(struct attach *s, const char *verb, json_t *body)
{
    char fmt[64];
    snprintf(fmt, sizeof fmt, "/v1/containers/%%s/exec/%%s/%s", verb);
    cleanup_free char *url = url_make(fmt, s->config->container, s->config->exec);
    if (url && body)
        http_json(s->config->http, "POST", url, body, NULL, NULL); /* fails only when it has just ended */
    json_decref(body);
}

static void send_signal(struct attach *s, int signal)
{
    post(s, "kill", json_pack("{s:i}", "signal", signal));
}

static void send_size(struct attach *s)
{
    uint16_t cols, rows;
    tty_size(&cols, &rows);
    post(s, "resize", json_pack("{s:i, s:i}", "cols", cols, "rows", rows));
}

/* ---- output ---- */

static bool idle(const struct sink *k)
{
    return k->off == k->pending.len;
}

/* As in `run`: nobody reads this stream, so the command gets SIGPIPE; when it goes on regardless, it is
 * killed. */
static void broken(struct attach *s, struct sink *k)
{
    k->broken_ns = clock_monotonic_ns();
    buf_clear(&k->pending);
    k->off = 0;
    send_signal(s, SIGPIPE);
}

static void flush(struct attach *s, struct sink *k)
{
    while (!idle(k)) {
        ssize_t n = stream_write(&k->stream, k->pending.data + k->off, k->pending.len - k->off);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            broken(s, k);
            return;
        }
        k->off += (size_t)n;
    }
    buf_clear(&k->pending);
    k->off = 0;
}

static int capture(struct attach *s, int fd, const uint8_t *data, size_t len)
{
    struct buf *b = &s->result->captured[fd - 1];
    if (s->result->dropped[fd - 1]) /* what comes behind a gap must not look as if it joined on */
        return 0;
    size_t room = ATTACH_CAPTURE_MAX - b->len;
    return buf_append(b, data, len < room ? len : room);
}

static int on_output(void *user, int fd, const uint8_t *data, size_t len, struct error *err)
{
    struct attach *s = user;
    struct sink *k = &s->sinks[fd - 1];
    s->result->bytes[fd - 1] += len;
    if (s->config->capture)
        return capture(s, fd, data, len) < 0 ? error_oom(err) : 0;
    if (k->broken_ns) {
        if (clock_monotonic_ns() - k->broken_ns > SIGPIPE_GRACE_NS && !s->result->output_refused) {
            s->result->output_refused = true;
            send_signal(s, SIGKILL);
        }
        return 0;
    }
    ssize_t n = idle(k) ? stream_write(&k->stream, data, len) : 0;
    if (n < 0 && errno != EAGAIN) {
        broken(s, k);
        return 0;
    }
    size_t done = n > 0 ? (size_t)n : 0;
    return buf_append(&k->pending, data + done, len - done) < 0 ? error_oom(err) : 0;
}

static void on_dropped(struct attach *s, const json_t *e)
{
    int i = strcmp(json_text_of(e, "stream", "stdout"), "stderr") == 0;
    json_int_t n = json_int_of(e, "bytes", 0);
    uint64_t bytes = n > 0 ? (uint64_t)n : 0;
    s->result->dropped[i] += bytes;
    s->result->bytes[i] += bytes;
}

static int on_event(void *user, const char *json, size_t len, struct error *err)
{
    struct attach *s = user;
    json_t *e = json_loadb(json, len, 0, NULL);
    const char *event = json_string_value(json_object_get(e, "event"));
    if (event && strcmp(event, "exit") == 0 && !s->result->exit)
        s->result->exit = json_incref(e);
    else if (event && strcmp(event, "dropped") == 0)
        on_dropped(s, e);
    json_decref(e);
    return 0;
}

static bool sinks_idle(void *user)
{
    const struct attach *s = user;
    return idle(&s->sinks[0]) && idle(&s->sinks[1]);
}

static int sink_pipe(void *user, int fd)
{
    const struct attach *s = user;
    const struct sink *k = &s->sinks[fd - 1];
    return k->pipe && !k->broken_ns && !s->config->capture ? k->stream.fd : -1;
}

static void sink_moved(void *user, int fd, ssize_t n)
{
    struct attach *s = user;
    if (n < 0)
        broken(s, &s->sinks[fd - 1]);
    else
        s->result->bytes[fd - 1] += (uint64_t)n;
}

static const struct tap_ops tap_ops = {.ready = sinks_idle, .pipe = sink_pipe, .moved = sink_moved};

/* ---- input ---- */

static size_t on_stdin(char *to, size_t size, size_t n, void *user)
{
    struct attach *s = user;
    ssize_t got = stream_read(&s->in, to, size * n);
    if (got >= 0)
        return (size_t)got;
    if (errno != EAGAIN)
        return 0; /* the end, as far as we can tell */
    s->in_paused = true;
    return CURL_READFUNC_PAUSE;
}

static size_t discard(char *data, size_t size, size_t n, void *user)
{
    return size * n;
}

/* ---- setting up ---- */

static int attach_output(struct attach *s, struct error *err)
{
    cleanup_free char *url =
        url_make("/v1/containers/%s/exec/%s/output", s->config->container, s->config->exec);
    s->tap.ops = &tap_ops;
    s->tap.user = s;
    s->tap.frames = &s->frames;
    return url ? tap_open(&s->tap, http_socket(s->config->http), url, err) : error_oom(err);
}

static int attach_input(struct attach *s, struct error *err)
{
    if (!s->config->in)
        return 0;
    cleanup_free char *url =
        url_make("/v1/containers/%s/exec/%s/stdin", s->config->container, s->config->exec);
    s->multi = curl_multi_init();
    s->input = url && s->multi ? http_handle(s->config->http, "PUT", url, err) : NULL;
    if (!s->input)
        return s->multi && url ? -1 : error_oom(err);
    curl_easy_setopt(s->input, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(s->input, CURLOPT_READFUNCTION, on_stdin);
    curl_easy_setopt(s->input, CURLOPT_READDATA, s);
    curl_easy_setopt(s->input, CURLOPT_WRITEFUNCTION, discard);
    s->in_attached = true;
    return curl_multi_add_handle(s->multi, s->input) ? error_oom(err) : 0;
}

static int catch_signals(struct attach *s, struct error *err)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    sigset_t set;
    signal(SIGPIPE, SIG_IGN); /* a write says EPIPE instead */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sigaddset(&set, all[i]);
    sigprocmask(SIG_BLOCK, &set, &s->old_mask);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signals < 0 ? error_system(err, errno, "cannot catch signals") : 0;
}

static int begin(struct attach *s, struct error *err)
{
    for (int i = 0; i < 2; i++) {
        struct stream *out = &s->sinks[i].stream;
        stream_open(out, i + 1);
        s->sinks[i].pipe = out->own && fcntl(out->fd, F_GETPIPE_SZ) > 0;
        buf_init(&s->sinks[i].pending, 0);
        buf_init(&s->result->captured[i], ATTACH_CAPTURE_MAX);
    }
    stream_open(&s->in, 0);
    frames_init(&s->frames);
    s->frames.on_output = on_output;
    s->frames.on_event = on_event;
    s->frames.user = s;
    if (catch_signals(s, err) < 0 || attach_output(s, err) < 0 || attach_input(s, err) < 0)
        return -1;
    if (s->config->tty)
        tty_raw();
    return 0;
}

static void end(struct attach *s)
{
    tty_restore();
    if (s->input) {
        curl_multi_remove_handle(s->multi, s->input);
        curl_easy_cleanup(s->input);
    }
    if (s->multi)
        curl_multi_cleanup(s->multi);
    for (int i = 0; i < 2; i++) {
        stream_close(&s->sinks[i].stream);
        buf_free(&s->sinks[i].pending);
    }
    stream_close(&s->in);
    tap_close(&s->tap);
    frames_free(&s->frames);
    if (s->signals >= 0)
        close(s->signals);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

/* ---- the loop ---- */

static void take_signals(struct attach *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (s->done) /* it has ended: what is left is waiting for a reader that does not read */
            _exit(128 + (int)info.ssi_signo);
        if (info.ssi_signo == SIGWINCH && s->config->tty)
            send_size(s);
        else
            send_signal(s, (int)info.ssi_signo);
    }
}

static void add_fd(struct pollfd *fds, unsigned *n, int fd, short events)
{
    fds[(*n)++] = (struct pollfd){.fd = fd, .events = events};
}

/* With libcurl where it has something to do. */
static void poll_all(struct attach *s, struct pollfd *fds, unsigned n, int timeout_ms)
{
    struct curl_waitfd extra[8];
    if (!s->in_attached) {
        poll(fds, n, timeout_ms);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        extra[i] = (struct curl_waitfd){
            .fd = fds[i].fd, .events = fds[i].events & POLLOUT ? CURL_WAIT_POLLOUT : CURL_WAIT_POLLIN};
    curl_multi_poll(s->multi, extra, n, timeout_ms, NULL);
}

static void wait_some(struct attach *s)
{
    struct pollfd fds[8];
    unsigned n = 0;
    add_fd(fds, &n, s->signals, POLLIN);
    if (s->in_attached && s->in_paused)
        add_fd(fds, &n, s->in.fd, POLLIN);
    if (!s->done && s->tap_state == TAP_WAITS)
        add_fd(fds, &n, s->tap.fd, POLLIN);
    bool moving = s->tap_state == TAP_WAITS_SINK && sinks_idle(s);
    for (int i = 0; i < 2; i++)
        if (!idle(&s->sinks[i]) || (moving && i == s->tap.frames->header[0] - 1))
            add_fd(fds, &n, s->sinks[i].stream.fd, POLLOUT);
    poll_all(s, fds, n, !s->done && s->tap_state == TAP_AGAIN ? 0 : 1000);
    take_signals(s);
    for (int i = 0; i < 2; i++)
        flush(s, &s->sinks[i]);
    if (s->in_attached && s->in_paused) {
        s->in_paused = false;
        curl_easy_pause(s->input, CURLPAUSE_CONT);
    }
}

static void drive_input(struct attach *s)
{
    CURLMsg *m;
    int left;
    if (!s->in_attached)
        return;
    curl_multi_perform(s->multi, &left);
    while ((m = curl_multi_info_read(s->multi, &left)))
        if (m->msg == CURLMSG_DONE && m->easy_handle == s->input)
            s->in_attached = false;
}

static int drive_output(struct attach *s, struct error *err)
{
    if (s->done)
        return 0;
    s->tap_state = tap_run(&s->tap, err);
    if (s->tap_state == TAP_FAILED)
        return -1;
    s->done = s->tap_state == TAP_ENDED;
    if (!s->done || s->result->exit)
        return 0;
    return error_set(err, ERROR_GONE, "the daemon ended the output before the command did");
}

int attach_run(const struct attach_config *config, struct attach_result *ret, struct error *err)
{
    struct attach s = {.config = config, .result = ret, .signals = -1, .tap = {.fd = -1}};
    *ret = (struct attach_result){0};
    int r = begin(&s, err);
    while (r == 0 && !(s.done && sinks_idle(&s))) {
        drive_input(&s);
        r = drive_output(&s, err);
        if (r == 0 && !(s.done && sinks_idle(&s)))
            wait_some(&s);
    }
    end(&s);
    return r;
}

void attach_result_free(struct attach_result *r)
{
    json_decref(r->exit);
    buf_free(&r->captured[0]);
    buf_free(&r->captured[1]);
}
