/* The output of an exec as a stream: the journal from a cursor on, then what comes, then how it ended. */
#include "daemon/api.h"

#include "base/parse.h"
#include "daemon/cell.h"
#include "daemon/flood.h"
#include "daemon/json_out.h"
#include "daemon/record.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of one stream in one line or frame. */
#define PIECE ((size_t)32 << 10)
/* Encoded bytes made ahead of the connection. */
#define AHEAD ((size_t)128 << 10)
#define FRAME_HEADER 16u
/* Bytes of a frame that goes straight to the connection, and how many must be there to send them at once
 * rather than together with what else arrives in this turn of the loop. */
#define PUSH_MAX ((size_t)256 << 10)
#define PUSH_AT_ONCE ((size_t)32 << 10)

struct output {
    struct request *request;
    struct execution *execution;
    struct exec_watch watch;
    struct exec_reader reader;
    bool frames, follow, done;
    int turn; /* which stream is next */
    struct buf encoded;
    size_t sent;
};

static const char *const names[] = {"stdout", "stderr"};

/* ---- encoding ---- */

static void frame_header(uint8_t to[FRAME_HEADER], uint8_t kind, uint64_t cursor, size_t len)
{
    uint32_t le_len = htole32((uint32_t)len);
    uint64_t le_cursor = htole64(cursor);
    memset(to, 0, FRAME_HEADER);
    to[0] = kind;
    memcpy(to + 4, &le_len, 4);
    memcpy(to + 8, &le_cursor, 8);
}

static void put_frame(struct buf *b, uint8_t kind, uint64_t cursor, const void *data, size_t len)
{
    uint8_t header[FRAME_HEADER];
    frame_header(header, kind, cursor, len);
    buf_append(b, header, sizeof header);
    buf_append(b, data, len);
}

static void put_event(struct output *o, struct buf *json, uint64_t cursor)
{
    if (o->frames)
        put_frame(&o->encoded, 3, cursor, json->data, json->len);
    else {
        buf_append(&o->encoded, json->data, json->len);
        buf_append(&o->encoded, "\n", 1);
    }
    if (json->failed)
        o->encoded.failed = true;
    buf_free(json);
}

static void put_line(struct output *o, int i, uint64_t cursor, const uint8_t *data, size_t len, bool text)
{
    struct buf *b = &o->encoded;
    json_open(b, '{');
    json_put_str(b, "stream", names[i]);
    json_put_u64(b, "cursor", cursor);
    json_key(b, text ? "text" : "base64");
    if (text)
        json_text(b, data, len);
    else
        json_base64(b, data, len);
    json_close(b, '}');
    buf_append(b, "\n", 1);
}

/* How much of the piece is well-formed text. */
static size_t text_prefix(const uint8_t *p, size_t len)
{
    size_t i = 0, n;
    while (i < len && (n = utf8_step(p + i, len - i)) > 0)
        i += n;
    return i;
}

/* A piece of text, or what is none. Returns the bytes used; 0: a character is not complete yet. */
static size_t put_text(struct output *o, int i, uint64_t cursor, const uint8_t *data, size_t len, bool final)
{
    size_t whole = utf8_whole_prefix(data, len);
    if (whole == 0 && !final)
        return 0;
    if (whole > 0)
        len = whole;
    size_t good = text_prefix(data, len);
    if (good > 0) {
        put_line(o, i, cursor, data, good, true);
        return good;
    }
    put_line(o, i, cursor, data, len, false);
    return len;
}

static void put_dropped(struct output *o, int i, uint64_t bytes, uint64_t cursor)
{
    struct buf b;
    buf_init(&b, 0);
    json_open(&b, '{');
    json_put_str(&b, "event", "dropped");
    json_put_str(&b, "stream", names[i]);
    json_put_u64(&b, "bytes", bytes);
    json_put_u64(&b, "cursor", cursor);
    json_close(&b, '}');
    put_event(o, &b, cursor);
}

/* ---- reading the journal ---- */

/* Encodes the next piece of a stream. False: nothing (complete) is there. */
static bool encode_piece(struct output *o, int i)
{
    const struct journal *j = &o->execution->out[i];
    uint64_t *cursor = &o->reader.cursor[i], before = *cursor, lost = 0;
    const uint8_t *p = NULL;
    uint8_t copy[PIECE];
    size_t n = journal_peek(j, cursor, &p, &lost);
    if (lost)
        put_dropped(o, i, lost, *cursor);
    if (n == 0)
        return *cursor != before;
    n = n < PIECE ? n : PIECE;
    bool at_end = *cursor + n == j->total;
    if (!at_end && n < PIECE) { /* the seam of head and ring, or of the ring, may cut a character */
        n = journal_copy(j, *cursor, copy, sizeof copy);
        p = copy;
        at_end = *cursor + n == j->total;
    }
    if (o->frames) {
        put_frame(&o->encoded, (uint8_t)(i + 1), *cursor, p, n);
    } else {
        bool final = at_end ? j->ended || o->execution->state == EXECUTION_EXITED || !o->follow : n < PIECE;
        n = put_text(o, i, *cursor, p, n, final);
    }
    *cursor += n;
    return n > 0 || *cursor != before;
}

static void put_ending(struct output *o)
{
    const struct execution *x = o->execution;
    struct buf b;
    buf_init(&b, 0);
    json_open(&b, '{');
    json_put_str(&b, "event", x->state == EXECUTION_EXITED ? "exit" : "running");
    if (x->state == EXECUTION_EXITED)
        record_exit(&b, &x->status);
    json_close(&b, '}');
    put_event(o, &b, 0);
    o->done = true;
}

static void encode(struct output *o)
{
    bool more = true;
    while (more && o->encoded.len < AHEAD) {
        more = encode_piece(o, 0);
        more = encode_piece(o, 1) || more;
    }
    if (!more && !o->done && (!o->follow || o->execution->state == EXECUTION_EXITED))
        put_ending(o);
    execution_read_on(o->execution);
}

/* The short way for frames of bytes: from the journal straight to the connection, while it takes them. True:
 * there is nothing to do until something happens; false: go the long way. */
static bool push(struct output *o)
{
    int empty = 0;
    while (empty < 2 && request_sendable(o->request)) {
        int i = o->turn;
        const struct journal *j = &o->execution->out[i];
        uint64_t cursor = o->reader.cursor[i], lost;
        const uint8_t *p = NULL;
        uint8_t header[FRAME_HEADER];
        size_t n = journal_peek(j, &cursor, &p, &lost);
        if (lost)
            return false;
        o->turn = !i; /* neither stream starves the other */
        empty = n == 0 ? empty + 1 : 0;
        if (n == 0)
            continue;
        n = n < PUSH_MAX ? n : PUSH_MAX;
        frame_header(header, (uint8_t)(i + 1), cursor, n);
        struct iovec pieces[] = {{header, sizeof header}, {(void *)(uintptr_t)p, n}};
        if (!request_send(o->request, pieces, 2))
            return false;
        o->reader.cursor[i] += n;
        execution_read_on(o->execution);
    }
    bool ended = !o->follow || o->execution->state == EXECUTION_EXITED;
    return empty < 2 ? o->request->rest.len > 0 : !ended;
}

static bool can_push(const struct output *o)
{
    return o->frames && !o->done && o->sent == o->encoded.len && request_sendable(o->request);
}

static ssize_t pull(struct request *r, uint8_t *to, size_t max)
{
    struct output *o = r->state;
    if (can_push(o) && push(o))
        return PULL_LATER;
    if (o->sent == o->encoded.len) {
        buf_clear(&o->encoded);
        o->sent = 0;
        if (!o->done)
            encode(o);
    }
    if (o->encoded.failed)
        return PULL_FAILED;
    size_t n = o->encoded.len - o->sent;
    if (n == 0)
        return o->done ? PULL_END : PULL_LATER;
    n = n < max ? n : max;
    memcpy(to, o->encoded.data + o->sent, n);
    o->sent += n;
    return (ssize_t)n;
}

/* ---- the request ---- */

static void on_event(void *user, struct execution *x)
{
    struct output *o = user;
    uint64_t unread = x->out[0].total - o->reader.cursor[0] + x->out[1].total - o->reader.cursor[1];
    if (o->request->suspended && o->request->rest.len > 0)
        return; /* on_room() goes on */
    if (o->request->suspended && unread == 0 && x->state != EXECUTION_EXITED)
        return; /* it has been moved on already */
    if (unread >= PUSH_AT_ONCE && can_push(o) && push(o))
        return;
    request_more(o->request);
}

static bool follows(void *user, int i)
{
    const struct output *o = user;
    return can_push(o) && o->reader.cursor[i] == o->execution->out[i].total;
}

static void move(void *user, int i, uint64_t cursor, size_t len)
{
    struct output *o = user;
    const struct journal *j = &o->execution->out[i];
    struct iovec copy[4];
    uint8_t header[FRAME_HEADER];
    size_t have = 0;
    int count = 0;
    for (; have < len && count < 4; count++) {
        const uint8_t *p = NULL;
        uint64_t at = cursor + have, lost;
        size_t n = journal_peek(j, &at, &p, &lost);
        if (n == 0 || lost)
            return; /* then it goes the long way */
        n = n < len - have ? n : len - have;
        copy[count] = (struct iovec){(void *)(uintptr_t)p, n};
        have += n;
    }
    frame_header(header, (uint8_t)(i + 1), cursor, len);
    if (have < len ||
        !request_move(o->request, (struct iovec){header, sizeof header}, flood_pipe(), copy, count))
        return;
    o->reader.cursor[i] = cursor + len;
    execution_read_on(o->execution);
}

static void on_room(struct request *r)
{
    struct output *o = r->state;
    if (!can_push(o) || !push(o))
        request_more(r);
}

static void close_output(struct request *r)
{
    struct output *o = r->state;
    execution_unwatch(&o->watch);
    execution_detach(o->execution, &o->reader);
    execution_unref(o->execution);
    buf_free(&o->encoded);
    free(o);
}

static int read_query(const struct request *r, struct output *o, struct error *err)
{
    const char *accept = request_header(r, "Accept");
    o->follow = true;
    o->frames = accept && strstr(accept, "application/vnd.cloister.frames");
    if (uri_query_bool(&r->uri, "follow", &o->follow, err) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        if (uri_query_u64(&r->uri, names[i], UINT64_MAX, &o->reader.cursor[i], err) < 0)
            return -1;
    for (int i = 0; i < 2; i++)
        if (o->reader.cursor[i] > o->execution->out[i].total)
            return error_field(err, names[i], "%s: the stream has only %llu bytes yet", names[i],
                               (unsigned long long)o->execution->out[i].total);
    return 0;
}

void api_exec_output(struct request *r)
{
    struct error err = {0};
    struct execution *x = cell_find_exec(r->cell, r->id);
    struct output *o = x ? calloc(1, sizeof *o) : NULL;
    if (!x)
        error_set(&err, ERROR_NOT_FOUND, "container %s has no exec %.64s", r->cell->name, r->id);
    else if (!o)
        error_oom(&err);
    if (o)
        o->execution = x;
    if (!o || read_query(r, o, &err) < 0) {
        free(o);
        request_error(r, &err);
        return;
    }
    o->request = r;
    o->watch = (struct exec_watch){.fn = on_event, .follows = follows, .move = move, .user = o};
    buf_init(&o->encoded, 0);
    execution_ref(x);
    execution_watch(x, &o->watch);
    execution_attach(x, &o->reader);
    r->state = o;
    r->on_close = close_output;
    r->pull = pull;
    r->on_room = on_room;
    request_stream(r, 200, o->frames ? "application/vnd.cloister.frames" : "application/x-ndjson", -1);
}
