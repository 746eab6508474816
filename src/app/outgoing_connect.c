/* connect(): a TCP connection of a worker's, as a pair of streams. UNTRUSTED INPUT on both sides: the
 * worker's arguments and bytes, the server's bytes. */
#include "app/outgoing_dial.h"
#include "app/wire.h"
#include "link/cbor.h"
#include "link/idtable.h"

#include <stdlib.h>
#include <string.h>

#define HOST_MAX 255u

struct connection {
    struct outgoing_socket socket;
    struct link *link;
    struct link_call *call; /* connect, or startTls; not answered yet */
    struct outgoing_dial *dial;
    struct wire *wire;
    char *host;
    enum { TLS_OFF, TLS_ON, TLS_LATER } tls;
    uint32_t cap;     /* for startTls; 0: none (any more) */
    uint32_t in, out; /* the worker receives, the worker sends; 0: that direction is over */
    struct buf held;  /* of the server's bytes, what has no credit yet */
    size_t unconsumed;
    bool server_ended;
};

/* ---- the end ---- */

static void connection_free(struct connection *c, const struct error *why)
{
    outgoing_socket_remove(&c->socket);
    dial_cancel(c->dial);
    wire_close(c->wire);
    if (c->in)
        link_stream_reset(c->link, c->in, why);
    if (c->out)
        link_stream_reset(c->link, c->out, why);
    if (c->cap)
        link_revoke(c->link, c->cap);
    if (c->call)
        link_throw(c->call, why);
    buf_free(&c->held);
    free(c->host);
    free(c);
}

static void on_kill(struct outgoing_socket *s)
{
    struct error why = {0};
    error_set(&why, ERROR_GONE, "the connection was broken off");
    connection_free(container_of(s, struct connection, socket), &why);
}

static void on_cancel(void *user)
{
    struct connection *c = user;
    on_kill(&c->socket);
}

/* Both directions are over: in order. */
static void free_if_over(struct connection *c)
{
    struct error why = {0};
    if (c->in || c->out || c->call)
        return;
    error_set(&why, ERROR_GONE, "the connection is closed");
    connection_free(c, &why);
}

/* ---- from the server ---- */

static void send_held(struct connection *c)
{
    size_t room = c->in ? link_stream_writable(c->link, c->in) : 0,
           n = c->held.len < room ? c->held.len : room;
    if (n > 0 && link_stream_write(c->link, c->in, c->held.data, n) == 0)
        buf_consume(&c->held, n);
    if (c->held.len > 0)
        return;
    if (!c->server_ended) {
        wire_resume(c->wire);
    } else if (c->in) {
        link_stream_end(c->link, c->in);
        c->in = 0;
        free_if_over(c);
    }
}

static void on_data(void *user, const uint8_t *data, size_t len)
{
    struct connection *c = user;
    if (!c->in)
        return; /* nobody reads */
    size_t room = c->held.len == 0 ? link_stream_writable(c->link, c->in) : 0, n = len < room ? len : room;
    if (n > 0 && link_stream_write(c->link, c->in, data, n) < 0)
        n = 0;
    if (n == len)
        return;
    buf_append(&c->held, data + n, len - n);
    wire_pause(c->wire);
}

static void on_end(void *user)
{
    struct connection *c = user;
    c->server_ended = true;
    if (c->held.len == 0)
        send_held(c);
}

static void on_in_writable(void *user, uint32_t stream)
{
    send_held(user);
}

static void on_in_reset(void *user, uint32_t stream, const struct error *why)
{
    struct connection *c = user;
    c->in = 0;
    buf_clear(&c->held);
    wire_pause(c->wire); /* what nobody reads, nobody needs to send */
    free_if_over(c);
}

static void on_failed(void *user, const struct error *why)
{
    connection_free(user, why);
}

/* ---- from the worker ---- */

static void on_out_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct connection *c = user;
    wire_write(c->wire, data, len);
    if (wire_pending(c->wire) < WIRE_FULL)
        link_stream_consumed(c->link, stream, len);
    else
        c->unconsumed += len;
}

static void on_room(void *user)
{
    struct connection *c = user;
    size_t n = c->unconsumed;
    c->unconsumed = 0;
    if (c->out)
        link_stream_consumed(c->link, c->out, n);
}

static void on_out_end(void *user, uint32_t stream)
{
    struct connection *c = user;
    c->out = 0;
    wire_end(c->wire);
    free_if_over(c);
}

static void on_out_reset(void *user, uint32_t stream, const struct error *why)
{
    struct connection *c = user;
    c->out = 0;
    connection_free(c, why);
}

/* ---- the answers ---- */

static void on_start_tls(void *object, struct link_call *call, const char *method, struct cbor_reader args);

static void on_drop(void *object)
{
    struct connection *c = object;
    c->cap = 0;
}

static const struct link_object_ops later_ops = {.call = on_start_tls, .drop = on_drop};
static const struct link_stream_ops in_ops = {.writable = on_in_writable, .reset = on_in_reset};
static const struct link_stream_ops out_ops = {.data = on_out_data, .end = on_out_end, .reset = on_out_reset};

static int open_streams(struct connection *c, struct error *err)
{
    uint32_t in = link_stream_new(c->link), out = link_stream_new(c->link);
    if (link_stream_open_send(c->link, in, &in_ops, c, err) < 0)
        return -1;
    c->in = in;
    if (link_stream_open_receive(c->link, out, &out_ops, c, err) < 0)
        return -1;
    c->out = out;
    return 0;
}

/* The connection is there, as it was wanted: frees it when the worker cannot be told. */
static void answer(struct connection *c)
{
    struct error err = {0};
    struct buf b;
    bool later = c->tls == TLS_LATER && !c->cap;
    if (open_streams(c, &err) < 0) {
        connection_free(c, &err);
        return;
    }
    buf_init(&b, 1024);
    cbor_put_map(&b, later ? 3 : 2);
    cbor_put_text(&b, "in");
    cbor_put_uint(&b, c->in);
    cbor_put_text(&b, "out");
    cbor_put_uint(&b, c->out);
    if (later) {
        cbor_put_text(&b, "socket");
        c->cap = link_put_capability(c->link, &b, &later_ops, c);
    }
    struct link_call *call = c->call;
    c->call = NULL;
    link_return(call, b.data, b.len);
    buf_free(&b);
    wire_resume(c->wire);
}

static void on_secure(void *user)
{
    answer(user);
}

static int secure(struct connection *c, struct error *err)
{
    SSL_CTX *tls = outgoing_tls(c->socket.user->outgoing, err);
    return tls ? wire_secure(c->wire, tls, c->host, NULL, (uint64_t)CONNECT_SECONDS * 1000, err) : -1;
}

/* UNTRUSTED INPUT */
static void on_start_tls(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct connection *c = object;
    struct error err = {0}, over = {0};
    if (strcmp(method, "startTls") != 0)
        error_set(&err, ERROR_NOT_FOUND, "a connection has no method \"%.64s\"", method);
    else if (c->tls != TLS_LATER || c->call)
        error_set(&err, ERROR_STATE, "startTls: it has been called before");
    else if (!c->in || !c->out || c->server_ended)
        error_set(&err, ERROR_STATE, "startTls: the connection is closed");
    else if (c->held.len > 0)
        /* Whoever stands between may have put it there, for it to be read as if TLS had brought it. */
        error_set(&err, ERROR_PROTOCOL, "startTls: the server went on without waiting for TLS");
    if (err.kind) {
        link_throw(call, &err);
        return;
    }
    error_set(&over, ERROR_GONE, "the connection goes on with TLS");
    link_stream_reset(c->link, c->in, &over);
    link_stream_reset(c->link, c->out, &over);
    c->in = c->out = 0;
    c->unconsumed = 0;
    c->tls = TLS_ON;
    c->call = call;
    if (secure(c, &err) < 0)
        connection_free(c, &err);
    else
        link_call_on_cancel(call, on_cancel, c);
}

/* ---- the beginning ---- */

static void on_dialled(void *owner, int fd, const struct error *err)
{
    static const struct wire_ops ops = {
        .secure = on_secure, .data = on_data, .end = on_end, .room = on_room, .failed = on_failed};
    struct connection *c = owner;
    struct error why = {0};
    c->dial = NULL;
    if (!err) {
        c->wire = wire_open(c->socket.user->outgoing->loop, fd, &ops, c, &why);
        if (c->wire)
            wire_pause(c->wire); /* until there is a stream for it */
        err = !c->wire || (c->tls == TLS_ON && secure(c, &why) < 0) ? &why : NULL;
    }
    if (err)
        connection_free(c, err);
    else if (c->tls != TLS_ON)
        answer(c);
}

static int read_args(struct connection *c, const struct cbor_reader *args, unsigned *port, struct error *err)
{
    static const char *const names[] = {"off", "on", "starttls"};
    char tls[16] = "";
    uint64_t n = 0;
    struct cbor_reader r;
    c->host = cbor_map_dup(args, "host", HOST_MAX);
    if (!c->host)
        return error_field(err, "host", "connect: a host of at most %u bytes is expected", HOST_MAX);
    size_t len = strlen(c->host);
    if (len > 2 && c->host[0] == '[' && c->host[len - 1] == ']') { /* an IPv6 address */
        memmove(c->host, c->host + 1, len - 2);
        c->host[len - 2] = '\0';
    }
    if (cbor_map_uint(args, "port", 65535, 0, &n) < 0)
        n = 0; /* dial_start() says so */
    *port = (unsigned)n;
    if (cbor_map_find(args, "tls", &r) && cbor_get_string(&r, tls, sizeof tls) == 0)
        for (int i = 0; i < 3; i++)
            if (strcmp(names[i], tls) == 0) {
                c->tls = i == 0 ? TLS_OFF : i == 1 ? TLS_ON : TLS_LATER;
                return 0;
            }
    return error_field(err, "tls", "connect: tls: expected \"off\", \"on\" or \"starttls\"");
}

void outgoing_connect(struct outgoing_user *u, struct link_call *call, struct cbor_reader args)
{
    struct error err = {0};
    unsigned port = 0;
    struct connection *c = calloc(1, sizeof *c);
    if (!c || outgoing_socket_add(u, &c->socket, on_kill, &err) < 0) {
        if (!err.kind)
            error_oom(&err);
        free(c);
        link_throw(call, &err);
        return;
    }
    c->link = link_call_link(call);
    c->call = call;
    buf_init(&c->held, 256u << 10);
    if (read_args(c, &args, &port, &err) == 0)
        c->dial = dial_start(u, c->host, port, on_dialled, c, &err);
    if (c->dial)
        link_call_on_cancel(call, on_cancel, c);
    else
        connection_free(c, &err);
}
