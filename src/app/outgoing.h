/* Requests of Workers to other servers: `fetch` and `connect` of src/link/worker_protocol.h, made by libcurl.
 */
#ifndef CLOISTER_APP_OUTGOING_H
#define CLOISTER_APP_OUTGOING_H

#include "base/error.h"
#include "link/link.h"

#include <stdbool.h>
#include <uv.h>

struct outgoing;      /* one for each application */
struct outgoing_user; /* one for each worker process: connections are never shared between two */

/* Whom a worker may reach. */
enum reach {
    REACH_ALL,    /* the operator's own Worker: everything */
    REACH_PUBLIC, /* a Dynamic Worker: addresses of the Internet, none of this machine or its network */
};

int outgoing_open(struct outgoing **ret, uv_loop_t *loop, struct error *err);
void outgoing_close(struct outgoing *o); /* every user is gone */

struct outgoing_user *outgoing_user_new(struct outgoing *o, enum reach reach);
/* Breaks off what is under way. The link is dead or dies next. NULL is fine. */
void outgoing_user_free(struct outgoing_user *u);
/* These answer the call. UNTRUSTED INPUT. */
void outgoing_fetch(struct outgoing_user *u, struct link_call *call, struct cbor_reader args);
void outgoing_connect(struct outgoing_user *u, struct link_call *call, struct cbor_reader args);

#endif
