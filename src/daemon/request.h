/* One HTTP request as the handlers see it, and the ways to answer it.
 *
 * A handler runs once, when the request is complete (or, for a streamed body, when its head is). It answers
 * now with one of the request_*() responders, or later from any callback of the loop: a request that is not
 * answered yet is simply waiting. Exactly one answer is given. When the client leaves first, `on_close` comes
 * without an answer.
 *
 * `on_close` runs exactly once, last, and must detach `state` from whatever still refers to it. */
#ifndef CLOISTER_DAEMON_REQUEST_H
#define CLOISTER_DAEMON_REQUEST_H

#include "base/buf.h"
#include "base/error.h"
#include "daemon/uri.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct cell;
struct daemon;
struct request;
struct route;

#define REQUEST_MAX_JSON ((size_t)1 << 20)

enum { PULL_LATER = 0, PULL_END = -1, PULL_FAILED = -2 };

struct request {
    struct daemon *daemon;
    const struct route *route;
    struct uri uri;
    const char *name;  /* {name} of the route, or NULL */
    const char *id;    /* {id} */
    struct cell *cell; /* the container that the route's {name} means; held until the end */
    json_t *body;      /* of a JSON route; NULL when the body was empty and may be */

    /* Set by handlers. */
    void *state;
    void (*on_close)(struct request *r);
    /* Streamed bodies: takes up to `len` bytes and returns how many; fewer means: wait for request_more().
     * UNTRUSTED INPUT. */
    size_t (*on_body)(struct request *r, const uint8_t *data, size_t len);
    void (*on_body_end)(struct request *r);
    /* Streamed answers: fills `to`; bytes written, or one of PULL_*. After PULL_LATER it is called again
     * after request_more(). */
    ssize_t (*pull)(struct request *r, uint8_t *to, size_t max);

    /* The connection of a waiting streamed answer takes bytes again: request_send() may go on. */
    void (*on_room)(struct request *r);

    /* The server's own. */
    struct MHD_Connection *conn;
    struct connection *peer;
    struct MHD_Response *response;
    int status;
    struct buf text;
    struct error uri_error;
    uint64_t discarded;
    bool begun, complete, suspended, answered, gone;
    bool chunked, pulling; /* for request_sendable() */
    struct buf rest;       /* of what request_send() got, until the connection takes it */
    size_t rest_sent;
    struct {
        char name[32], value[128];
    } headers[4];
    int header_count;
};

const char *request_header(const struct request *r, const char *name);
/* The declared body length; false when it is chunked. */
bool request_length(const struct request *r, uint64_t *ret);

/* ---- answers ---- */

/* A header for the answer that comes next; at most 4. */
void request_add_header(struct request *r, const char *name, const char *value);
/* Takes the text out of `json` (left empty). A failed buffer becomes an error answer. */
void request_json(struct request *r, int status, struct buf *json);
void request_empty(struct request *r, int status);
void request_error(struct request *r, const struct error *err);
void request_error_status(struct request *r, int status, const struct error *err);
/* Begins a streamed answer that r->pull fills; `size` bytes long, or unknown (-1: chunked). */
void request_stream(struct request *r, int status, const char *type, int64_t size);
/* Something happened that a waiting on_body or pull may go on with. */
void request_more(struct request *r);
/* A shorter way for large pieces of a streamed answer of unknown length: straight to the connection, without
 * a copy, from inside r->pull or while it waits after PULL_LATER. Sendable: the connection is known to be
 * clear and there is such a way (HTTP/1.1). The pieces are sent as one chunk; what the connection does not
 * take at once is copied and sent later, after which r->on_room is called. False: the client has left. */
bool request_sendable(const struct request *r);
bool request_send(struct request *r, const struct iovec *pieces, int count);
/* The same with a chunk whose bytes, after `head`, are moved out of a pipe. `copy` is what the chunk holds
 * after the head: from it comes what the pipe does not have or the connection does not take at once. */
bool request_move(struct request *r, struct iovec head, int pipe, const struct iovec *copy, int count);
/* No idle timeout on this connection from now on until the request ends: for streams and long polls. */
void request_no_timeout(struct request *r);

int error_status(const struct error *err);

/* ---- for server.c, in this order ---- */

#define REQUEST_REFUSED ((size_t)-1) /* close the connection */

void request_begin(struct request *r, const char *method);
/* Body bytes taken: all of them, fewer (wait), or REQUEST_REFUSED. UNTRUSTED INPUT. */
size_t request_take(struct request *r, const uint8_t *data, size_t len);
void request_complete(struct request *r);
void request_finish(struct request *r);

#endif
