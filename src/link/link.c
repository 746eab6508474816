/* The link's life, its input, and the frames that concern neither calls nor streams. */
#include "link/link_internal.h"

#include "base/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_TEXT_MAX (32u << 10)
#define LOG_LEVEL_MAX 7

struct link *link_new(const struct link_config *config)
{
    struct link *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->config = *config;
    if (l->config.max_output == 0)
        l->config.max_output = LINK_DEFAULT_MAX_OUTPUT;
    l->alive = true;
    buf_init(&l->in.kept_body, FRAME_MAX_BODY);
    buf_init(&l->in.rest, 0);
    l->next_call = l->next_cap = 1;
    l->next_stream = config->side == LINK_HOST ? 2 : 1;
    return l;
}

void link_shutdown(struct link *l, const struct error *why)
{
    if (!l->alive)
        return;
    l->alive = false;
    if (why)
        l->why = *why;
    else
        error_set(&l->why, ERROR_GONE, "the link was closed");
    link_output_discard(l);
    link_calls_shutdown(l);
    link_streams_shutdown(l);
    link_exports_shutdown(l);
}

void link_free(struct link *l)
{
    if (!l)
        return;
    link_shutdown(l, NULL);
    link_calls_orphan(l);
    free(l->in.body);
    buf_free(&l->in.kept_body);
    buf_free(&l->in.rest);
    free(l);
}

bool link_alive(const struct link *l)
{
    return l->alive;
}

void link_give_up(struct link *l, const struct error *why)
{
    struct error told = *why;
    if (!l->alive)
        return;
    if (l->config.blame)
        l->config.blame(l->config.user, &told);
    link_shutdown(l, &told);
    l->why = *why; /* what the owner hears, of link_receive() */
}

void link_violation(struct link *l, const char *fmt, ...)
{
    struct error err = {0};
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    error_set(&err, ERROR_PROTOCOL, "%s", text);
    link_give_up(l, &err);
}

void link_out_of_memory(struct link *l)
{
    struct error err = {0};
    error_oom(&err);
    link_give_up(l, &err);
}

/* --- input: UNTRUSTED INPUT --- */

static void on_log(struct link *l, const struct frame *f)
{
    struct cbor_reader r;
    uint64_t n, level;
    int64_t ms;
    cbor_reader_init(&r, f->body, f->length);
    if (cbor_get_array(&r, 3, &n) < 0 || n != 3 || cbor_get_uint(&r, LOG_LEVEL_MAX, &level) < 0 ||
        cbor_get_int(&r, &ms) < 0) {
        link_violation(l, "LOG frame whose body is not [level, milliseconds, text]");
        return;
    }
    char *text = cbor_dup_string(&r, FRAME_MAX_BODY);
    if (!text || !cbor_at_end(&r))
        link_violation(l, "LOG frame whose body is not [level, milliseconds, text]");
    else if (l->config.log)
        l->config.log(l->config.user, (int)level, ms, text);
    free(text);
}

/* The body of a DATA frame is handed on as it arrives, never as a whole. */
static void begin_data(struct link *l, const struct frame *f)
{
    l->in.data_left = f->length;
    l->in.data_stream = f->id;
    link_on_data_header(l, f);
}

static void dispatch(struct link *l, const struct frame *f)
{
    switch ((enum frame_kind)f->kind) {
    case FRAME_CALL:
        link_on_call(l, f);
        break;
    case FRAME_RETURN:
    case FRAME_THROW:
        link_on_answer(l, f);
        break;
    case FRAME_CANCEL:
        link_on_cancel(l, f);
        break;
    case FRAME_DROP:
        link_on_drop(l, f);
        break;
    case FRAME_WINDOW:
        link_on_window(l, f);
        break;
    case FRAME_END:
        link_on_end(l, f);
        break;
    case FRAME_RESET:
        link_on_reset(l, f);
        break;
    case FRAME_LOG:
        on_log(l, f);
        break;
    case FRAME_DATA:
        begin_data(l, f);
        break;
    }
}

/* `f` may be l->in.frame. */
static void keep(struct link *l, const struct frame *f)
{
    struct input *in = &l->in;
    in->held = in->waiting = true;
    in->frame = *f;
    buf_clear(&in->kept_body);
    if (f->kind != FRAME_DATA && buf_append(&in->kept_body, f->body, f->length) < 0)
        link_out_of_memory(l);
}

static void dispatch_if_admitted(struct link *l, const struct frame *f)
{
    bool admitted = link_admits(l, f);
    if (l->alive && admitted)
        dispatch(l, f);
    else if (l->alive)
        keep(l, f);
}

/* Hands on what is here of a DATA body. Returns how much that is. */
static size_t take_data(struct link *l, const uint8_t *p, size_t len)
{
    struct input *in = &l->in;
    size_t n = len < in->data_left ? len : in->data_left;
    in->data_left -= (uint32_t)n;
    link_on_data(l, in->data_stream, p, n);
    return n;
}

/* Goes on with a body that came in pieces. */
static size_t take_body(struct link *l, const uint8_t *p, size_t len)
{
    struct input *in = &l->in;
    size_t want = in->frame.length - in->body_len, n = len < want ? len : want;
    memcpy(in->body + in->body_len, p, n);
    in->body_len += (uint32_t)n;
    if (n == want) {
        in->frame.body = in->body;
        in->head_len = 0;
        dispatch_if_admitted(l, &in->frame);
        free(in->body);
        in->body = NULL;
    }
    return n;
}

/* Decodes the header at `head`, with `len` bytes of body (and more) at `body`. Returns how many of them it
 * took. */
static size_t take_header(struct link *l, const uint8_t *head, const uint8_t *body, size_t len)
{
    struct input *in = &l->in;
    struct error err = {0};
    in->head_len = 0;
    if (frame_header_read(head, &in->frame, &err) < 0) {
        link_give_up(l, &err);
        return 0;
    }
    if (in->frame.kind == FRAME_DATA) {
        dispatch_if_admitted(l, &in->frame);
        return 0;
    }
    if (len >= in->frame.length) {
        struct frame f = in->frame;
        f.body = body;
        dispatch_if_admitted(l, &f);
        return f.length;
    }
    in->body = malloc(in->frame.length);
    if (!in->body)
        link_out_of_memory(l);
    in->body_len = 0;
    in->head_len = FRAME_HEADER_SIZE;
    return 0;
}

static size_t take(struct link *l, const uint8_t *p, size_t len)
{
    struct input *in = &l->in;
    if (in->data_left > 0)
        return take_data(l, p, len);
    if (in->body)
        return take_body(l, p, len);
    if (in->head_len == 0 && len >= FRAME_HEADER_SIZE)
        return FRAME_HEADER_SIZE + take_header(l, p, p + FRAME_HEADER_SIZE, len - FRAME_HEADER_SIZE);
    size_t want = FRAME_HEADER_SIZE - in->head_len, n = len < want ? len : want;
    memcpy(in->head + in->head_len, p, n);
    in->head_len += (uint32_t)n;
    if (n == want)
        n += take_header(l, in->head, p + n, len - n);
    return n;
}

static void feed(struct link *l, const uint8_t *p, size_t len)
{
    const uint8_t *end = p + len;
    while (l->alive && !l->in.held && p < end)
        p += take(l, p, (size_t)(end - p));
    if (l->alive && p < end && buf_append(&l->in.rest, p, (size_t)(end - p)) < 0)
        link_out_of_memory(l);
}

/* The end of having received. */
static int settle(struct link *l, struct error *err)
{
    l->in.busy = false;
    if (l->alive)
        return 0;
    free(l->in.body);
    l->in.body = NULL;
    if (err)
        *err = l->why;
    return -1;
}

int link_receive(struct link *l, const void *data, size_t len, struct error *err)
{
    if (l->in.busy)
        return error_set(err, ERROR_INTERNAL, "link_receive() was called from inside one of its callbacks");
    l->in.busy = true;
    feed(l, data, len);
    return settle(l, err);
}

void link_hold(struct link *l)
{
    l->in.held = true;
}

bool link_held(const struct link *l)
{
    return l->alive && l->in.held;
}

int link_go_on(struct link *l, struct error *err)
{
    struct input *in = &l->in;
    struct buf rest = in->rest;
    if (in->busy)
        return error_set(err, ERROR_INTERNAL, "link_go_on() was called from inside a callback");
    in->busy = true;
    in->held = false;
    if (l->alive && in->waiting) {
        struct buf body = in->kept_body;
        struct frame f = in->frame;
        in->waiting = false;
        f.body = body.data;
        buf_init(&in->kept_body, FRAME_MAX_BODY);
        dispatch_if_admitted(l, &f);
        buf_free(&body);
    }
    buf_init(&in->rest, 0);
    feed(l, rest.data, rest.len);
    buf_free(&rest);
    return settle(l, err);
}

size_t link_next(const struct link *l, bool *ret_stream)
{
    const struct input *in = &l->in;
    *ret_stream = in->data_left > 0;
    if (in->data_left > 0)
        return in->data_left;
    return in->body ? in->frame.length - in->body_len : FRAME_HEADER_SIZE - in->head_len;
}

size_t link_take(struct link *l, int fd)
{
    struct input *in = &l->in;
    if (!l->alive || in->busy || in->held || in->data_left == 0)
        return 0;
    in->busy = true;
    size_t n = link_stream_take(l, in->data_stream, fd, in->data_left);
    in->busy = false;
    if (n != LINK_TAKE_LATER)
        in->data_left -= (uint32_t)n;
    return n;
}

/* --- logs and errors --- */

void link_log(struct link *l, int level, int64_t ms, const char *text)
{
    struct buf b;
    size_t len = strlen(text);
    if (len > LOG_TEXT_MAX)
        len = utf8_whole_prefix(text, LOG_TEXT_MAX);
    buf_init(&b, LOG_TEXT_MAX + 64);
    cbor_put_array(&b, 3);
    cbor_put_uint(&b, level < 0 ? 0 : level > LOG_LEVEL_MAX ? LOG_LEVEL_MAX : (uint64_t)level);
    cbor_put_int(&b, ms);
    if (utf8_valid(text, len))
        cbor_put_text_n(&b, text, len);
    else
        cbor_put_bytes(&b, text, len);
    if (!b.failed)
        link_put_frame(l, FRAME_LOG, 0, b.data, b.len, NULL, 0);
    buf_free(&b);
}

void link_put_error(struct buf *b, const struct error *err)
{
    cbor_put_map(b, err->field[0] ? 4 : 3);
    cbor_put_text(b, "name");
    cbor_put_text(b, "Error");
    cbor_put_text(b, "message");
    cbor_put_string(b, err->message);
    cbor_put_text(b, "code");
    cbor_put_text(b, error_code(err));
    if (err->field[0]) {
        cbor_put_text(b, "field");
        cbor_put_string(b, err->field);
    }
}

/* Reads map[key] as one line of UTF-8 without control characters, cut to fit: the peer chose it, and it goes
 * to logs and terminals. Left empty when it is absent or no string. */
static void read_line(const struct cbor_reader *map, const char *key, char *to, size_t cap)
{
    struct cbor_reader value;
    const uint8_t *data;
    size_t len;
    to[0] = '\0';
    if (!cbor_map_find(map, key, &value) || cbor_get_bytes(&value, &data, &len) < 0)
        return;
    if (len >= cap)
        len = utf8_whole_prefix(data, cap - 1);
    bool utf8 = utf8_valid(data, len);
    for (size_t i = 0; i < len; i++)
        to[i] = data[i] < 0x20 || data[i] == 0x7f ? ' ' : data[i] >= 0x80 && !utf8 ? '?' : (char)data[i];
    to[len] = '\0';
}

void link_get_error(struct cbor_reader r, struct error *ret)
{
    char code[32], message[sizeof ret->message], field[sizeof ret->field];
    read_line(&r, "code", code, sizeof code);
    read_line(&r, "message", message, sizeof message);
    read_line(&r, "field", field, sizeof field);
    *ret = (struct error){0};
    error_from_code(ret, code, message[0] ? message : "the other side gave no reason");
    if (ret->kind == ERROR_NONE)
        ret->kind = ERROR_INTERNAL; /* an error that calls itself success is still an error */
    memcpy(ret->field, field, sizeof field);
}
