#include "daemon/helper.h"

#include "base/buf.h"
#include "base/paths.h"
#include "daemon/daemon.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE ((size_t)1 << 20)
#define MAX_ARGS 340
#define PENDING_MAX ((size_t)1 << 20)

struct helper {
    const struct helper_events *events; /* NULL: dropped */
    void *user;
    uv_process_t process;
    uv_pipe_t in, out, err;
    bool has_in, exited, out_ended;
    int open_handles;
    int code, signal;
    struct buf line, complaint;
    size_t pending; /* bytes written but not taken by the pipe yet */
    struct error error;
    char chunk[65536];
};

struct write_request {
    uv_write_t request;
    size_t len;
    char data[];
};

static void on_closed(uv_handle_t *handle)
{
    struct helper *h = handle->data;
    if (--h->open_handles > 0)
        return;
    buf_free(&h->line);
    buf_free(&h->complaint);
    free(h);
}

static void close_handle(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void close_pipes(struct helper *h)
{
    close_handle(&h->out);
    close_handle(&h->err);
    if (h->has_in)
        close_handle(&h->in);
}

/* ---- what it prints ---- */

static void note_error(struct helper *h, const json_t *line)
{
    const json_t *e = json_object_get(line, "error");
    const char *code = json_string_value(json_object_get(e, "code"));
    const char *message = json_string_value(json_object_get(e, "message"));
    const char *field = json_string_value(json_object_get(e, "field"));
    if (!code || !message)
        return;
    error_from_code(&h->error, code, message);
    snprintf(h->error.field, sizeof h->error.field, "%s", field ? field : "");
}

static void take_line(struct helper *h, const char *text, size_t len)
{
    json_t *v = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    if (json_is_object(v)) {
        note_error(h, v);
        if (h->events && h->events->on_line)
            h->events->on_line(h->user, v, text, len);
    }
    json_decref(v);
}

static void take_lines(struct helper *h)
{
    uint8_t *end;
    while (h->line.len && (end = memchr(h->line.data, '\n', h->line.len))) {
        size_t len = (size_t)(end - h->line.data);
        take_line(h, (const char *)h->line.data, len);
        buf_consume(&h->line, len + 1);
    }
}

static void maybe_done(struct helper *h)
{
    if (!h->exited || !h->out_ended || !h->events)
        return;
    bool ok = h->code == 0 && h->signal == 0 && !h->error.kind;
    if (!ok && !h->error.kind) {
        const char *said = buf_str(&h->complaint);
        size_t len = said ? strcspn(said, "\n") : 0;
        if (h->signal)
            error_set(&h->error, ERROR_INTERNAL, "cloister-image was killed by signal %d", h->signal);
        else
            error_set(&h->error, ERROR_INTERNAL, "cloister-image failed with code %d%s%.*s", h->code,
                      len ? ": " : "", (int)len, len ? said : "");
    }
    const struct helper_events *events = h->events;
    h->events = NULL;
    events->on_exit(h->user, ok ? NULL : &h->error);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct helper *h = handle->data;
    *buf = uv_buf_init(h->chunk, sizeof h->chunk);
}

static void on_out(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct helper *h = stream->data;
    if (n > 0 && buf_append(&h->line, buf->base, (size_t)n) == 0)
        take_lines(h);
    if (n >= 0)
        return;
    uv_read_stop(stream);
    h->out_ended = true;
    maybe_done(h);
}

static void on_err(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct helper *h = stream->data;
    if (n > 0 && h->complaint.len < 4096)
        buf_append(&h->complaint, buf->base, (size_t)n < 4096 ? (size_t)n : 4096);
    if (n < 0)
        uv_read_stop(stream);
}

static void on_exit_status(uv_process_t *p, int64_t code, int signal)
{
    struct helper *h = p->data;
    h->exited = true;
    h->code = (int)code;
    h->signal = signal;
    if (h->events)
        maybe_done(h);
    else
        close_handle(&h->process); /* dropped meanwhile; it had to be waited for */
}

/* ---- what it is fed ---- */

static void on_written(uv_write_t *w, int status)
{
    struct helper *h = w->handle->data;
    struct write_request *r = w->data;
    h->pending -= r->len;
    free(r);
    if (h->pending < PENDING_MAX && h->events && h->events->on_drained)
        h->events->on_drained(h->user);
}

bool helper_write(struct helper *h, const void *data, size_t len)
{
    if (!h->has_in || uv_is_closing((uv_handle_t *)&h->in))
        return true; /* it has ended: on_exit tells */
    struct write_request *r = malloc(sizeof *r + len);
    if (!r) {
        error_oom(&h->error);
        uv_process_kill(&h->process, SIGKILL);
        return true;
    }
    memcpy(r->data, data, len);
    r->len = len;
    r->request.data = r;
    uv_buf_t b = uv_buf_init(r->data, (unsigned)len);
    h->pending += len;
    if (uv_write(&r->request, (uv_stream_t *)&h->in, &b, 1, on_written) < 0) {
        h->pending -= len;
        free(r);
    }
    return h->pending < PENDING_MAX;
}

bool helper_ready(const struct helper *h)
{
    return h->pending < PENDING_MAX;
}

static void on_shutdown(uv_shutdown_t *s, int status)
{
    free(s);
}

void helper_end_input(struct helper *h)
{
    if (!h->has_in || uv_is_closing((uv_handle_t *)&h->in))
        return;
    uv_shutdown_t *s = calloc(1, sizeof *s);
    if (s && uv_shutdown(s, (uv_stream_t *)&h->in, on_shutdown) == 0)
        return;
    free(s);
    close_handle(&h->in);
}

/* ---- spawning ---- */

static void add_handle(struct helper *h, void *handle)
{
    ((uv_handle_t *)handle)->data = h;
    h->open_handles++;
}

static int spawn(struct helper *h, uv_loop_t *loop, const char *program, const char **argv, int extra_fd)
{
    uv_stdio_container_t stdio[4] = {
        {.flags = h->has_in ? UV_CREATE_PIPE | UV_READABLE_PIPE : UV_IGNORE,
         .data.stream = (uv_stream_t *)&h->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&h->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&h->err},
        {.flags = UV_INHERIT_FD, .data.fd = extra_fd},
    };
    uv_process_options_t options = {
        .file = program,
        .args = (char **)(uintptr_t)argv,
        .exit_cb = on_exit_status,
        .stdio = stdio,
        .stdio_count = extra_fd < 0 ? 3 : 4,
    };
    uv_pipe_init(loop, &h->out, 0);
    uv_pipe_init(loop, &h->err, 0);
    add_handle(h, &h->out);
    add_handle(h, &h->err);
    if (h->has_in) {
        uv_pipe_init(loop, &h->in, 0);
        add_handle(h, &h->in);
    }
    int r = uv_spawn(loop, &h->process, &options);
    add_handle(h, &h->process);
    return r;
}

int helper_spawn(struct helper **ret, struct daemon *d, const struct helper_command *command,
                 const struct helper_events *events, void *user, struct error *err)
{
    char *program = NULL;
    if (paths_helper("cloister-image", &program, err) < 0)
        return -1;
    struct helper *h = calloc(1, sizeof *h);
    if (!h) {
        free(program);
        return error_oom(err);
    }
    const char *argv[MAX_ARGS] = {program, command->args[0], "--progress",
                                  "json",  "--data-dir",     d->paths.data_dir};
    for (int i = 1, n = 6; command->args[i] && n < MAX_ARGS - 1; i++)
        argv[n++] = command->args[i];
    h->events = events;
    h->user = user;
    h->has_in = command->input;
    buf_init(&h->line, MAX_LINE);
    buf_init(&h->complaint, 0);
    int r = spawn(h, d->loop, program, argv, command->fd);
    free(program);
    if (r < 0) {
        h->events = NULL;
        close_handle(&h->process);
        close_pipes(h);
        return error_system(err, -r, "cannot run cloister-image");
    }
    uv_read_start((uv_stream_t *)&h->out, on_alloc, on_out);
    uv_read_start((uv_stream_t *)&h->err, on_alloc, on_err);
    *ret = h;
    return 0;
}

void helper_drop(struct helper **slot)
{
    struct helper *h = *slot;
    if (!h)
        return;
    *slot = NULL;
    h->events = NULL;
    if (h->exited)
        close_handle(&h->process);
    else
        uv_process_kill(&h->process, SIGKILL);
    close_pipes(h);
}
