/* An open TCP connection of ours on the loop, with or without TLS: bytes both ways, backpressure, half-close.
 * Nothing is written from inside a call of this header (see objects.h, the output gate).
 *
 * Callbacks may call everything here, also wire_close(). UNTRUSTED INPUT: what the server sends. */
#ifndef CLOISTER_APP_WIRE_H
#define CLOISTER_APP_WIRE_H

#include "base/error.h"

#include <openssl/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define WIRE_FULL ((size_t)256 << 10) /* writers should wait for `room` above this */

struct wire;

struct wire_ops {
    void (*secure)(void *user); /* the handshake of TLS is done; before that nothing is told */
    /* All must be taken; wire_pause() keeps more from coming. */
    void (*data)(void *user, const uint8_t *data, size_t len);
    void (*end)(void *user);  /* the server sends no more */
    void (*room)(void *user); /* output was full and has drained */
    /* It is over, both ways; only wire_close() is left to be called. */
    void (*failed)(void *user, const struct error *why);
};

/* Takes the descriptor of a connected socket; on failure too. */
struct wire *wire_open(uv_loop_t *loop, int fd, const struct wire_ops *ops, void *user, struct error *err);
/* From here on it speaks TLS; what was written before leaves as it is. The handshake has `ms`. */
int wire_secure(struct wire *w, SSL_CTX *c, const char *host, const char *protocol, uint64_t ms,
                struct error *err);
/* Something must have come in `ms`, or the connection fails with this text; until wire_expect(w, 0, NULL). */
void wire_expect(struct wire *w, uint64_t ms, const char *text);
void wire_write(struct wire *w, const void *data, size_t len);
size_t wire_pending(const struct wire *w); /* bytes not sent yet */
void wire_end(struct wire *w);             /* after what was written: we send no more */
void wire_pause(struct wire *w);
void wire_resume(struct wire *w);
/* No more callbacks. What was written still leaves, in a few seconds at most, then the connection closes. */
void wire_close(struct wire *w);

#endif
