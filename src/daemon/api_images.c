#include "daemon/api.h"

#include "daemon/daemon.h"
#include "daemon/helper.h"
#include "daemon/json_in.h"
#include "daemon/json_out.h"
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

/* Progress that a client is too slow for is left out beyond this; the last line never is. */
#define MAX_PROGRESS ((size_t)256 << 10)

static void put_image(struct buf *b, const struct image *i)
{
    json_open(b, '{');
    json_put_str(b, "name", i->name);
    json_put_str(b, "id", i->id);
    json_put_u64(b, "bytes", i->bytes);
    json_put_i64(b, "createdAt", i->created_ms);
    json_put_u64(b, "layers", i->layer_count);
    json_key(b, "config");
    json_open(b, '{');
    json_put_strv(b, "env", i->env);
    json_put_strv(b, "entrypoint", i->entrypoint);
    json_put_strv(b, "cmd", i->cmd);
    json_put_str(b, "cwd", i->workdir);
    json_put_str(b, "user", i->user);
    json_close(b, '}');
    json_close(b, '}');
}

static bool list_one(void *user, const struct image *i)
{
    put_image(user, i);
    return true;
}

void api_images_list(struct request *r)
{
    struct buf b;
    struct error err = {0};
    buf_init(&b, 0);
    buf_append_str(&b, "{\"images\":[");
    if (image_list(r->daemon->paths.data_dir, list_one, &b, &err) < 0) {
        buf_free(&b);
        request_error(r, &err);
        return;
    }
    buf_append_str(&b, "]}");
    request_json(r, 200, &b);
}

void api_image_get(struct request *r)
{
    struct buf b;
    struct error err = {0};
    struct image *i = NULL;
    if (image_name_check(r->name, "name", &err) < 0 ||
        image_resolve(r->daemon->paths.data_dir, config_image(&r->daemon->config, r->name), &i, &err) < 0) {
        request_error(r, &err);
        return;
    }
    buf_init(&b, 0);
    put_image(&b, i);
    image_free(i);
    request_json(r, 200, &b);
}

/* ---- work of the helper, its lines passed on ---- */

struct work {
    struct request *request;
    struct helper *helper;
    struct buf lines;
    size_t sent;
    bool done, concluded; /* it ended; the last line has been said */
    bool streaming;       /* the answer is the lines; otherwise just 204 or an error */
};

static ssize_t pull_lines(struct request *r, uint8_t *to, size_t max)
{
    struct work *w = r->state;
    size_t n = w->lines.len - w->sent;
    if (w->lines.failed)
        return PULL_FAILED;
    if (n == 0)
        return w->done ? PULL_END : PULL_LATER;
    n = n < max ? n : max;
    memcpy(to, w->lines.data + w->sent, n);
    w->sent += n;
    if (w->sent == w->lines.len) {
        buf_clear(&w->lines);
        w->sent = 0;
    }
    return (ssize_t)n;
}

static void begin_stream(struct work *w)
{
    if (w->request->answered)
        return;
    w->request->pull = pull_lines;
    request_stream(w->request, 200, "application/x-ndjson", -1);
}

static void on_line(void *user, const json_t *line, const char *text, size_t len)
{
    struct work *w = user;
    const char *event = json_string_value(json_object_get(line, "event"));
    bool last = event && (strcmp(event, "done") == 0 || strcmp(event, "error") == 0);
    if (!w->streaming || w->concluded || (!last && w->lines.len - w->sent > MAX_PROGRESS))
        return;
    w->concluded = last;
    buf_append(&w->lines, text, len);
    buf_append(&w->lines, "\n", 1);
    request_more(w->request);
}

static void on_exit_status(void *user, const struct error *err)
{
    struct work *w = user;
    helper_drop(&w->helper);
    w->done = true;
    if (!w->streaming) {
        if (err)
            request_error(w->request, err);
        else
            request_empty(w->request, 204);
        return;
    }
    if (!w->concluded) {
        struct error silent;
        if (!err)
            error_set(&silent, ERROR_INTERNAL, "cloister-image ended without a result");
        json_open(&w->lines, '{');
        json_put_str(&w->lines, "event", "error");
        json_put_error(&w->lines, "error", err ? err : &silent);
        json_close(&w->lines, '}');
        buf_append(&w->lines, "\n", 1);
    }
    if (w->request->complete)
        begin_stream(w);
    request_more(w->request);
}

static void on_drained(void *user)
{
    struct work *w = user;
    request_more(w->request);
}

static void close_work(struct request *r)
{
    struct work *w = r->state;
    helper_drop(&w->helper);
    buf_free(&w->lines);
    free(w);
}

static struct work *begin_work(struct request *r, const char *const *args, bool input, bool streaming)
{
    static const struct helper_events events = {
        .on_line = on_line, .on_exit = on_exit_status, .on_drained = on_drained};
    const struct helper_command command = {.args = args, .input = input, .fd = -1};
    struct error err = {0};
    struct work *w = calloc(1, sizeof *w);
    if (!w) {
        error_oom(&err);
        request_error(r, &err);
        return NULL;
    }
    w->request = r;
    w->streaming = streaming;
    buf_init(&w->lines, 0);
    r->state = w;
    r->on_close = close_work;
    request_no_timeout(r);
    if (helper_spawn(&w->helper, r->daemon, &command, &events, w, &err) == 0)
        return w;
    request_error(r, &err);
    return NULL;
}

void api_image_delete(struct request *r)
{
    struct error err = {0};
    const char *args[] = {"rm", "--no-wait", "--", r->name, NULL};
    if (image_name_check(r->name, "name", &err) < 0)
        request_error(r, &err);
    else
        begin_work(r, args, false, false);
}

void api_image_pull(struct request *r)
{
    static const char *const known[] = {"reference", "name", NULL};
    const char *reference = NULL, *name = NULL;
    struct error err = {0};
    if (json_in_known(r->body, "", known, &err) == 0 &&
        json_in_string(r->body, "", "reference", 255, &reference, &err) == 0 &&
        json_in_string(r->body, "", "name", 255, &name, &err) == 0 && !reference)
        error_field(&err, "reference", "reference: expected [registry/]path[:tag][@digest]");
    if (err.kind || image_name_check(reference, "reference", &err) < 0 ||
        (name && image_name_check(name, "name", &err) < 0)) {
        request_error(r, &err);
        return;
    }
    const char *args[] = {"pull", "--name", name ? name : reference, "--", reference, NULL};
    const char *plain[] = {"pull", "--", reference, NULL};
    struct work *w = begin_work(r, name ? args : plain, false, true);
    if (w)
        begin_stream(w);
}

/* UNTRUSTED INPUT: the archive goes to the helper unseen. */
static size_t take_archive(struct request *r, const uint8_t *data, size_t len)
{
    struct work *w = r->state;
    /* After a refusal of the helper the rest is read and dropped. What it takes it takes whole; when it has
     * enough for now, the next piece waits. */
    if (!w->helper)
        return len;
    return helper_ready(w->helper) ? (helper_write(w->helper, data, len), len) : 0;
}

static void end_archive(struct request *r)
{
    struct work *w = r->state;
    if (w->helper)
        helper_end_input(w->helper);
    else
        begin_stream(w);
}

void api_image_import(struct request *r)
{
    struct error err = {0};
    const char *name = uri_query(&r->uri, "name");
    if (name && image_name_check(name, "name", &err) < 0) {
        request_error(r, &err);
        return;
    }
    const char *args[] = {"import", "--name", name, "--", "-", NULL};
    const char *plain[] = {"import", "--", "-", NULL};
    r->on_body = take_archive;
    r->on_body_end = end_archive;
    begin_work(r, name ? args : plain, true, true);
}
