/* The client's side of a WebSocket's opening handshake (RFC 6455, 4): the request, and the reading of what
 * the server answers to it. No input or output of its own. UNTRUSTED INPUT: every byte of the answer. */
#ifndef CLOISTER_APP_HANDSHAKE_H
#define CLOISTER_APP_HANDSHAKE_H

#include "app/http_framing.h"
#include "base/buf.h"
#include "base/error.h"

#include <http_parser.h>
#include <sys/types.h>

#define HANDSHAKE_MAX_HEAD ((size_t)64 << 10)

struct handshake {
    enum {
        HANDSHAKE_HEAD,
        HANDSHAKE_UPGRADED, /* the rest is frames */
        HANDSHAKE_BODY,     /* an ordinary answer instead; its body is told with `body` */
        HANDSHAKE_DONE,     /* and that is over */
    } phase;
    unsigned status;
    struct buf headers; /* "name\nvalue\n"..., names in lower case */
    struct buf reason;
    void (*body)(void *user, const uint8_t *data, size_t len);
    void *user;
    /* private */
    char accept[32];
    char *offered; /* the value of our Sec-WebSocket-Protocol, or NULL */
    http_parser parser;
    struct http_framing framing;
    bool in_value, no_body;
};

/* `key`: of our request, drawn anew for each. `offered`: names of protocols with commas between, or NULL. */
int handshake_init(struct handshake *h, const char *key, const char *offered, struct error *err);
void handshake_free(struct handshake *h);
/* Takes bytes of the answer: how many (all of them, unless it ends before), or -1: it is malformed, or no
 * answer to what was asked. len 0: the server sends no more. */
ssize_t handshake_feed(struct handshake *h, const uint8_t *data, size_t len, struct error *err);

#endif
