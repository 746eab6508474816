/* What the files of the ingress share. ingress.c: the request; ingress_answer.c: the answer; host_check.c:
 * names; websocket.c: what follows a 101. */
#ifndef CLOISTER_APP_INGRESS_INTERNAL_H
#define CLOISTER_APP_INGRESS_INTERNAL_H

#include "app/http_conn.h"
#include "app/ingress.h"
#include "base/buf.h"
#include "link/link.h"

struct host_waiter;
struct websocket;

struct ingress {
    struct ingress_config config;
    struct http_server *server;
    size_t wide; /* bytes by which windows of answers are widened, of all together */
};

/* One request and its answer. Freed when both are over, or the client has left. */
struct exchange {
    struct ingress *ingress;
    struct http_conn *conn;
    struct host_waiter *waiter;
    struct alarm_call *scheduled; /* instead of a request; NULL: none */
    struct websocket *websocket;  /* NULL: none; then it has everything */
    struct link *link;
    uint32_t call; /* under way; 0: none */
    uint32_t up;   /* the stream of the request's body; 0: none */
    uint32_t down; /* the stream of the answer's body; 0: none */
    size_t unconsumed;
    uint32_t wide;   /* its part of the ingress' */
    struct buf args; /* pairs of the call's map, without the body */
    unsigned pairs;
    struct buf body; /* gathered whole (`small`), or what has no credit yet */
    bool small, has_body, body_done, started;
    bool head_request;
    bool hook; /* runs scheduled() by hand */
    char *method, *url;
    char ws_key[32]; /* of a request for an upgrade; "": none */
};

void exchange_free(struct exchange *x);
/* ingress_answer.c */
void exchange_answer(void *user, const struct error *err, struct cbor_reader value);
void exchange_fail(struct exchange *x, unsigned status, const struct error *err); /* frees it */
/* host_check.c: is the name in a Host header one that this address may be asked by? */
/* UNTRUSTED INPUT */
bool host_is_valid(const char *host, size_t len);
bool host_check(const struct ingress_config *c, const char *host, size_t len);

#endif
