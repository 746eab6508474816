#include "cli/client/attach.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/client/frames.h"
#include "cli/stream.h"
#include "cli/tty.h"

#include <errno.h>
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
};

struct attach {
    const struct attach_config *config;
    struct attach_result *result;
    CURLM *multi;
    CURL *output, *input;
    struct frames frames;
    struct sink sinks[2];
    struct stream in;
    bool out_paused, in_paused, in_attached, done;
    int signals; /* signalfd */
    sigset_t old_mask;
    struct buf refusal; /* body of an error answer to the output request */
    struct error *err;  /* where callbacks put their error */
    bool gave_up;
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
    if (buf_append(&k->pending, data, len) < 0)
        return error_oom(err);
    flush(s, k);
    return 0;
}

static int on_event(void *user, const char *json, size_t len, struct error *err)
{
    struct attach *s = user;
    json_t *e = json_loadb(json, len, 0, NULL);
    const char *event = json_string_value(json_object_get(e, "event"));
    if (event && strcmp(event, "exit") == 0 && !s->result->exit)
        s->result->exit = json_incref(e);
    json_decref(e);
    return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    struct attach *s = user;
    long status = 0;
    curl_easy_getinfo(s->output, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300)
        return buf_append(&s->refusal, data, size * n) < 0 ? 0 : size * n;
    /* A chunk is taken whole, or not at all while an earlier one waits for its reader. */
    if (!idle(&s->sinks[0]) || !idle(&s->sinks[1])) {
        s->out_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (frames_feed(&s->frames, data, size * n, s->err) == 0)
        return size * n;
    s->gave_up = true;
    return 0;
}

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
    s->output = url ? http_handle(s->config->http, "GET", url, err) : NULL;
    if (!s->output)
        return -1;
    static struct curl_slist accept = {.data = (char *)"Accept: " FRAMES_TYPE};
    curl_easy_setopt(s->output, CURLOPT_HTTPHEADER, &accept);
    curl_easy_setopt(s->output, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(s->output, CURLOPT_WRITEDATA, s);
    return curl_multi_add_handle(s->multi, s->output) ? error_oom(err) : 0;
}

static int attach_input(struct attach *s, struct error *err)
{
    if (!s->config->in)
        return 0;
    cleanup_free char *url =
        url_make("/v1/containers/%s/exec/%s/stdin", s->config->container, s->config->exec);
    s->input = url ? http_handle(s->config->http, "PUT", url, err) : NULL;
    if (!s->input)
        return -1;
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
    s->multi = curl_multi_init();
    if (!s->multi)
        return error_oom(err);
    for (int i = 0; i < 2; i++) {
        stream_open(&s->sinks[i].stream, i + 1);
        buf_init(&s->sinks[i].pending, 0);
        buf_init(&s->result->captured[i], ATTACH_CAPTURE_MAX);
    }
    stream_open(&s->in, 0);
    buf_init(&s->refusal, 64 << 10);
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
    CURL *handles[] = {s->output, s->input};
    for (size_t i = 0; i < 2; i++) {
        if (!handles[i])
            continue;
        curl_multi_remove_handle(s->multi, handles[i]);
        curl_easy_cleanup(handles[i]);
    }
    if (s->multi)
        curl_multi_cleanup(s->multi);
    for (int i = 0; i < 2; i++) {
        stream_close(&s->sinks[i].stream);
        buf_free(&s->sinks[i].pending);
    }
    stream_close(&s->in);
    buf_free(&s->refusal);
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

static void add_fd(struct curl_waitfd *fds, unsigned *n, int fd, short events)
{
    fds[(*n)++] = (struct curl_waitfd){.fd = fd, .events = events};
}

static void wait_some(struct attach *s)
{
    struct curl_waitfd fds[4];
    unsigned n = 0;
    add_fd(fds, &n, s->signals, CURL_WAIT_POLLIN);
    if (s->in_attached && s->in_paused)
        add_fd(fds, &n, s->in.fd, CURL_WAIT_POLLIN);
    for (int i = 0; i < 2; i++)
        if (!idle(&s->sinks[i]))
            add_fd(fds, &n, s->sinks[i].stream.fd, CURL_WAIT_POLLOUT);
    curl_multi_poll(s->multi, fds, n, 1000, NULL);
    take_signals(s);
    for (int i = 0; i < 2; i++)
        flush(s, &s->sinks[i]);
    if (s->out_paused && idle(&s->sinks[0]) && idle(&s->sinks[1])) {
        s->out_paused = false;
        curl_easy_pause(s->output, CURLPAUSE_CONT);
    }
    if (s->in_attached && s->in_paused) {
        s->in_paused = false;
        curl_easy_pause(s->input, CURLPAUSE_CONT);
    }
}

static int output_ended(struct attach *s, CURLcode code, struct error *err)
{
    long status = 0;
    s->done = true;
    if (s->gave_up)
        return -1;
    curl_easy_getinfo(s->output, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300)
        return http_error(status, s->refusal.data, s->refusal.len, err);
    if (s->result->exit)
        return 0;
    if (code != CURLE_OK)
        return http_transport_error(s->config->http, code, NULL, err);
    return error_set(err, ERROR_GONE, "the daemon ended the output before the command did");
}

static int take_messages(struct attach *s, struct error *err)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(s->multi, &left))) {
        if (m->msg != CURLMSG_DONE)
            continue;
        if (m->easy_handle == s->input)
            s->in_attached = false;
        else if (output_ended(s, m->data.result, err) < 0)
            return -1;
    }
    return 0;
}

int attach_run(const struct attach_config *config, struct attach_result *ret, struct error *err)
{
    struct attach s = {.config = config, .result = ret, .signals = -1, .err = err};
    *ret = (struct attach_result){0};
    int r = begin(&s, err), running;
    while (r == 0 && !(s.done && idle(&s.sinks[0]) && idle(&s.sinks[1]))) {
        curl_multi_perform(s.multi, &running);
        r = take_messages(&s, err);
        if (r == 0 && !(s.done && idle(&s.sinks[0]) && idle(&s.sinks[1])))
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
