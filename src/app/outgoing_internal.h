/* What the files of outgoing requests share. outgoing.c: libcurl on the loop, and who asks; outgoing_fetch.c:
 * one request; outgoing_dial.c: one connection being made; outgoing_connect.c: connect(); outgoing_upgrade.c:
 * a WebSocket's handshake. */
#ifndef CLOISTER_APP_OUTGOING_INTERNAL_H
#define CLOISTER_APP_OUTGOING_INTERNAL_H

#include "app/answer_head.h"
#include "app/outgoing.h"
#include "app/websocket.h"
#include "base/buf.h"

#include <curl/curl.h>
#include <openssl/types.h>

/* Waiting for a connection, TLS included; longer than that is no connection. */
#define CONNECT_SECONDS 30L
#define REFUSED_MAX 64
#define MAX_SOCKETS 64u /* of connect() and WebSockets, open at once by one worker */
/* Bytes of messages on their way that the WebSockets of one worker may hold here, together. */
#define MAX_HELD ((size_t)128 << 20)

struct outgoing {
    uv_loop_t *loop;
    SSL_CTX *tls; /* made when it is first needed */
};

/* What libcurl works at: the first member of whatever its handle's private pointer points to. */
struct outgoing_job {
    /* The handle is still in `multi`, and must leave it. */
    void (*done)(struct outgoing_job *job, CURLcode r);
};

/* A connection that a worker holds: the first member of what outgoing_connect.c and outgoing_upgrade.c make.
 */
struct outgoing_socket {
    struct outgoing_user *user;
    struct outgoing_socket *next, *prev;
    void (*kill)(struct outgoing_socket *s); /* its user goes: closes and frees it */
};

struct outgoing_user {
    struct outgoing *outgoing;
    enum reach reach;
    CURLM *multi;
    uv_timer_t *timer;
    struct transfer *first;
    unsigned count;
    struct outgoing_socket *first_socket;
    unsigned sockets;
    struct websocket_account held;
    bool freed;
};

struct transfer {
    struct outgoing_job job;
    struct outgoing_user *user;
    struct transfer *next, *prev;
    struct link *link;
    struct link_call *call; /* not answered yet */
    CURL *easy;
    bool running; /* handed to `multi` */
    /* the request */
    char *method, *url, *headers;
    size_t headers_len;
    struct curl_slist *list;
    enum { REDIRECT_FOLLOW, REDIRECT_MANUAL, REDIRECT_ERROR } redirect;
    unsigned redirects;
    struct buf body; /* inline: all of it; else what has come and was not sent */
    size_t body_sent;
    bool has_body, inline_body, body_ended, body_failed;
    uint32_t up;        /* the stream of the body; 0: none (any more) */
    uint64_t announced; /* bytes of a streamed body, as its content-length says; UINT64_MAX: not said */
    bool send_paused;
    bool crossed; /* to another origin, by a redirect */
    /* the answer */
    struct answer_head head;
    long status;
    bool answered, follows;
    uint32_t down; /* its body; 0: none (any more) */
    bool recv_paused;
    bool busy, abandoned; /* inside a callback of libcurl, where it must not be freed; and should have been */
    char refused[REFUSED_MAX]; /* an address that may not be reached */
};

/* outgoing.c */
/* Hands a handle that has been set up to libcurl; its private pointer is a struct outgoing_job. */
int outgoing_begin(struct outgoing_user *u, CURL *easy);
/* The rule, for CURLOPT_OPENSOCKETFUNCTION: a socket for an address that this worker may reach, else
 * CURL_SOCKET_BAD and why in `refused`. It is asked for the address that is connected to, whatever a name
 * resolved to before. */
curl_socket_t outgoing_open_socket(struct outgoing_user *u, const struct curl_sockaddr *a,
                                   char refused[REFUSED_MAX]);
/* What that said, as an error. `where`: what was asked for. */
int outgoing_refused(const char *refused, const char *where, struct error *err);
/* One more connection; -1: there are too many. */
int outgoing_socket_add(struct outgoing_user *u, struct outgoing_socket *s,
                        void (*kill)(struct outgoing_socket *s), struct error *err);
void outgoing_socket_remove(struct outgoing_socket *s);
SSL_CTX *outgoing_tls(struct outgoing *o, struct error *err);

/* outgoing_fetch.c */
void transfer_free(struct transfer *t);
/* outgoing_upgrade.c: `fetch` with `ws`. UNTRUSTED INPUT. */
void outgoing_upgrade(struct outgoing_user *u, struct link_call *call, struct cbor_reader args);

#endif
