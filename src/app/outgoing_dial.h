/* A TCP connection being made for a worker: names, addresses in turn, the rule and the time limit are
 * libcurl's and outgoing.c's work, as for fetch(). */
#ifndef CLOISTER_APP_OUTGOING_DIAL_H
#define CLOISTER_APP_OUTGOING_DIAL_H

#include "app/outgoing_internal.h"

struct outgoing_dial;

/* Called once, from the loop: `fd` is connected and the callee's, or -1 and `err` says why. */
typedef void (*dial_fn)(void *owner, int fd, const struct error *err);

/* UNTRUSTED INPUT: a name, or an address (without brackets). */
struct outgoing_dial *dial_start(struct outgoing_user *u, const char *host, unsigned port, dial_fn fn,
                                 void *owner, struct error *err);
void dial_cancel(struct outgoing_dial *d); /* `fn` is not called any more. NULL is fine */

#endif
