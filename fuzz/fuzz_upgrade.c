/* What a server answers to a WebSocket's handshake, and the frames that follow. How the answer is read does
 * not depend on the pieces in which it comes. */
#include "app/handshake.h"
#include "app/websocket.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define KEY "dGhlIHNhbXBsZSBub25jZQ==" /* the key of RFC 6455, 1.3 */

struct peer {
    bool over;
    size_t written, body;
};

static void on_body(void *user, const uint8_t *data, size_t len)
{
    struct peer *p = user;
    p->body += len;
}

static void peer_write(void *conn, const void *data, size_t len)
{
    struct peer *p = conn;
    if (p->over)
        abort();
    p->written += len;
}

static bool peer_full(const void *conn)
{
    return false;
}

static void peer_nothing(void *conn)
{
}

static void peer_over(void *user)
{
    struct peer *p = user;
    p->over = true;
}

static const struct websocket_peer server = {.is_server = true,
                                             .name = "server",
                                             .write = peer_write,
                                             .full = peer_full,
                                             .pause = peer_nothing,
                                             .resume = peer_nothing,
                                             .end = peer_nothing,
                                             .abort = peer_nothing};

/* Frames, in pieces, as far as they are wanted; then the server leaves. */
static void talk(const uint8_t *data, size_t len, size_t piece)
{
    struct link_config config = {.side = LINK_HOST};
    struct websocket_account account = {.max = (size_t)1 << 20};
    struct error err = {0};
    struct peer p = {0};
    struct link *l = link_new(&config);
    struct websocket *w = l ? websocket_start(&server, &p, l, link_stream_new(l), link_stream_new(l),
                                              &account, peer_over, &p, &err)
                            : NULL;
    for (size_t at = 0; w && at < len && !p.over; at += piece)
        websocket_raw(w, data + at, len - at < piece ? len - at : piece);
    if (w && !p.over)
        websocket_gone(w);
    if (l)
        link_shutdown(l, NULL); /* of one that was closed in order, the worker's side is over only now */
    if (account.held != 0)
        abort();
    link_free(l);
}

struct outcome {
    size_t taken, headers, body;
    int phase;
    unsigned status;
    bool refused;
};

static struct outcome shake(const uint8_t *data, size_t len, size_t piece)
{
    struct handshake h;
    struct error err = {0};
    struct outcome o = {0};
    struct peer p = {0};
    if (handshake_init(&h, KEY, "one, two", &err) < 0)
        abort();
    h.body = on_body;
    h.user = &p;
    while (o.taken < len && h.phase != HANDSHAKE_UPGRADED && h.phase != HANDSHAKE_DONE) {
        size_t n = len - o.taken < piece ? len - o.taken : piece;
        ssize_t used = handshake_feed(&h, data + o.taken, n, &err);
        if (used < 0) {
            o.refused = true;
            break;
        }
        if ((size_t)used > n || used == 0)
            abort();
        o.taken += (size_t)used;
    }
    if (!o.refused && handshake_feed(&h, NULL, 0, &err) < 0)
        o.refused = true;
    o.phase = h.phase;
    o.status = h.status;
    o.headers = h.headers.len;
    o.body = p.body;
    handshake_free(&h);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1)
        return 0;
    size_t piece = data[0] % 16u + 1u;
    struct outcome whole = shake(data + 1, len - 1, len), pieces = shake(data + 1, len - 1, piece);
    if (whole.refused != pieces.refused)
        abort();
    if (!whole.refused &&
        (whole.taken != pieces.taken || whole.phase != pieces.phase || whole.status != pieces.status ||
         whole.headers != pieces.headers || whole.body != pieces.body))
        abort();
    if (whole.phase == HANDSHAKE_UPGRADED && !whole.refused) {
        talk(data + 1 + whole.taken, len - 1 - whole.taken, len);
        talk(data + 1 + whole.taken, len - 1 - whole.taken, piece);
    }
    return 0;
}
