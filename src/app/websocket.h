/* A WebSocket between a connection and a Worker's pair of streams (src/link/worker_protocol.h): of a client
 * of ours, or to a server. Frames are wslay's. UNTRUSTED INPUT from both sides. */
#ifndef CLOISTER_APP_WEBSOCKET_H
#define CLOISTER_APP_WEBSOCKET_H

#include "base/error.h"
#include "link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEBSOCKET_MESSAGE_MAX ((size_t)32 << 20)

struct websocket;

/* What is at the other side of the connection, and how the connection is used. */
struct websocket_peer {
    bool is_server;   /* then ours is the client's side: we mask, the peer must not */
    const char *name; /* "client" */
    void (*write)(void *conn, const void *data, size_t len);
    bool (*full)(const void *conn); /* websocket_room() is called when it has drained */
    void (*pause)(void *conn);
    void (*holds)(void *conn, size_t bytes); /* so many are held for it here; NULL: nobody counts */
    void (*resume)(void *conn);
    /* We have sent a close and wait for the peer's; NULL: nobody counts the time. */
    void (*closing)(void *conn);
    /* The connection is not used any more: in order, when both closes have passed; or broken off. */
    void (*end)(void *conn);
    void (*abort)(void *conn);
};

/* Bytes that many WebSockets may hold together. */
struct websocket_account {
    size_t held, max;
};

/* The value of Sec-WebSocket-Accept for a key. */
void websocket_accept_key(const char *key, char to[32]);
bool websocket_code_ok(unsigned code); /* may it stand in a close frame? */
/* Opens the streams (`in`: we send; `out`: the Worker sends) and takes the connection, whose handshake is
 * done. It frees itself when both sides are done. `over` runs when it has ended the connection by itself,
 * before `end` or `abort`. `account`: outlives it, or NULL. */
struct websocket *websocket_start(const struct websocket_peer *peer, void *conn, struct link *l, uint32_t in,
                                  uint32_t out, struct websocket_account *account, void (*over)(void *user),
                                  void *user, struct error *err);
/* Bytes of the connection. They may be part of what follows a pause: all are taken. */
void websocket_raw(struct websocket *w, const uint8_t *data, size_t len);
void websocket_room(struct websocket *w);
/* The connection has gone, or must not be used any more. */
void websocket_gone(struct websocket *w);

#endif
