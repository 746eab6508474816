/* An HTTP/1.1 server on the loop: connections, requests and answers, both bodies at the same time and each
 * with backpressure. Messages are parsed by the http-parser library; this is everything around that.
 * UNTRUSTED INPUT comes from every client.
 *
 * A connection has at most one exchange: from `request` to http_conn_end(), http_conn_abort() or `gone`.
 * Nothing is written from inside a call of this header: output is gathered and leaves before the loop sleeps
 * (see objects.h, the output gate).
 *
 * Why not libmicrohttpd, as for the API: it reads a request's body to its end before it sends the first byte
 * of an answer, so that a Worker that streams its request into its response stands still for ever. */
#ifndef CLOISTER_APP_HTTP_CONN_H
#define CLOISTER_APP_HTTP_CONN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define HTTP_MAX_TARGET (32u << 10)
#define HTTP_MAX_HEAD (64u << 10)
#define HTTP_MAX_CONNECTIONS 4096u
#define HTTP_OUTPUT_FULL ((size_t)256 << 10) /* writers should wait for `room` above this */
/* What all connections of a server may hold of requests and answers. Above it, those are cut off that have
 * held more than a little for longest: clients that do not read. */
#define HTTP_HELD_MAX ((size_t)256 << 20)

struct http_server;
struct http_conn;

enum http_body { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

/* Valid during `request` only. */
struct http_request {
    const char *method;
    const char *target; /* as sent: a path, or "*", or a whole URL */
    const char
        *headers; /* "name\nvalue\nname\nvalue\n", names in lower case, lines as they came; NUL-terminated */
    size_t headers_len;
    enum http_body body;
    uint64_t length; /* HTTP_BODY_LENGTH */
    bool upgrade;    /* asks for another protocol, and has no body */
};

struct http_handler {
    /* A request's head. The handler answers now or later. The pointer that it returns is what the others get.
     */
    void *(*request)(void *user, struct http_conn *c, const struct http_request *r);
    /* Bytes of its body, all of which must be taken: http_conn_pause() keeps more from coming. */
    void (*body)(void *exchange, const uint8_t *data, size_t len);
    void (*body_end)(void *exchange);
    /* The client has left (or is cut off). The connection must not be used any more. */
    void (*gone)(void *exchange);
    /* Output was full and has drained. */
    void (*room)(void *exchange);
    /* After http_conn_upgrade(). */
    void (*raw)(void *exchange, const uint8_t *data, size_t len);
    void *user;
};

struct http_server_config {
    uv_loop_t *loop;
    int fd; /* listening; taken over */
    struct http_handler handler;
};
int http_server_open(struct http_server **ret, const struct http_server_config *config, struct error *err);
/* Cuts every connection off (`gone` is called). */
void http_server_close(struct http_server *s);

/* ---- answering ---- */

/* The head. `headers` as above; hop-by-hop fields, content-length and date are left out, since they are ours.
 * `length`: bytes of the body that follow, HTTP_LENGTH_UNKNOWN: until http_conn_end(). Statuses (and HEAD)
 * that have no body get none, whatever is written. -1: a header cannot be sent as it is (nothing was
 * written). */
#define HTTP_LENGTH_UNKNOWN UINT64_MAX
int http_conn_head(struct http_conn *c, unsigned status, const char *reason, const char *headers,
                   size_t headers_len, uint64_t length, struct error *err);
/* Bytes of the body. */
void http_conn_write(struct http_conn *c, const void *data, size_t len);
size_t http_conn_pending(const struct http_conn *c); /* bytes not sent yet */
/* The answer is complete. */
void http_conn_end(struct http_conn *c);
/* It cannot be completed: the client sees the connection break. */
void http_conn_abort(struct http_conn *c);
/* A whole answer in one call, for errors of our own: text/plain. */
void http_conn_text(struct http_conn *c, unsigned status, const char *text);
/* After the head of a 101: from now on bytes come to `raw`, and http_conn_write() writes bytes as they are.
 */
void http_conn_upgrade(struct http_conn *c);
/* Nothing more is read until http_conn_resume(). */
void http_conn_pause(struct http_conn *c);
void http_conn_resume(struct http_conn *c);
/* So many bytes are held for it outside of the connection (HTTP_HELD_MAX). */
void http_conn_hold(struct http_conn *c, size_t bytes);
/* Text of the client's address. */
const char *http_conn_peer(struct http_conn *c, char *to, size_t cap);

#endif
