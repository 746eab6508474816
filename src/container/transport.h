/* Carries links over stream descriptors on a libuv loop. Output of one loop turn is gathered and written
 * once, just before the loop would sleep. */
#ifndef CLOISTER_CONTAINER_TRANSPORT_H
#define CLOISTER_CONTAINER_TRANSPORT_H

#include "base/error.h"
#include "link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define TRANSPORT_READ_SIZE (256u << 10)

struct transport;

/* One per loop: the shared read buffer and the list of transports with something to write. */
struct transport_set {
    uv_loop_t *loop;
    uv_prepare_t prepare;
    uv_idle_t idle; /* keeps the loop from sleeping while something is to be written */
    struct transport *dirty;
    uint8_t *read_buffer;
};

int transport_set_init(struct transport_set *s, uv_loop_t *loop, struct error *err);
void transport_set_close(struct transport_set *s);

struct transport_config {
    struct transport_set *set;
    int fd;                         /* owned from here on */
    const struct link_config *link; /* want_write and its user are replaced */
    const char *peer;               /* who is at the other end, for messages; NULL: "container" */
    /* The stream ended or failed; the link is shut down already. Once. */
    void (*closed)(void *user, const struct error *why);
    /* The link stays as it is when the stream ends, until the owner (whom `closed` tells) has found out why
     * and calls link_shutdown() with that. */
    bool keep_link;
    /* The peer has gone away while the link was held: what it said before is handled all the same, once the
     * link goes on, and `closed` comes after that. May be NULL. */
    void (*left)(void *user);
    void *user;
};

struct transport *transport_new(const struct transport_config *config, struct error *err);
struct link *transport_link(struct transport *t);
/* The `user` of the configuration: callbacks of the link get the transport as theirs. */
void *transport_user(const struct transport *t);
/* Sends the link's pending output now, with `fds` attached to its first byte (SCM_RIGHTS). So: flush, make
 * the call, then this. The descriptors stay the caller's. */
int transport_send_with_fds(struct transport *t, const int *fds, int count, struct error *err);
void transport_flush(struct transport *t);
/* Reads again after a stream asked to wait (LINK_TAKE_LATER), or the link was held (link_hold()). Not from a
 * callback of the link. */
void transport_go_on(struct transport *t);
/* Reads what the peer, now dead, left behind. */
void transport_drain(struct transport *t);
/* Closes descriptor and link; no callback. The memory goes when libuv has let go of the handle. */
void transport_close(struct transport *t);

#endif
