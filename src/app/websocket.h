/* A WebSocket between a client's connection and a Worker's pair of streams (src/link/worker_protocol.h).
 * Frames are wslay's. UNTRUSTED INPUT from both sides. */
#ifndef CLOISTER_APP_WEBSOCKET_H
#define CLOISTER_APP_WEBSOCKET_H

#include "app/http_conn.h"
#include "base/error.h"
#include "link/link.h"

#define WEBSOCKET_MESSAGE_MAX ((size_t)32 << 20)

struct websocket;

/* The value of Sec-WebSocket-Accept for a key. */
void websocket_accept_key(const char *key, char to[32]);
bool websocket_code_ok(unsigned code); /* may it stand in a close frame? */
/* Opens the streams (`in`: we send; `out`: the Worker sends) and takes the connection, whose 101 head has
 * been written. It frees itself when both sides are done. `over` runs when it has ended the connection by
 * itself. */
struct websocket *websocket_start(struct http_conn *c, struct link *l, uint32_t in, uint32_t out,
                                  void (*over)(void *user), void *user, struct error *err);
void websocket_raw(struct websocket *w, const uint8_t *data, size_t len);
void websocket_room(struct websocket *w);
void websocket_gone(struct websocket *w);

#endif
