/* Whether the daemon's socket is one to talk to: what we send, and believe, must not go to somebody else who
 * put a socket where ours was expected (such as below /tmp). */
#ifndef CLOISTER_CLI_CLIENT_TRUST_H
#define CLOISTER_CLI_CLIENT_TRUST_H

#include "base/error.h"

/* The socket and its directory, and what they are links to, must belong to the caller or to root. Says too
 * when it may not be used, or is no socket. One that does not exist passes: connecting tells. */
int socket_trust(const char *path, struct error *err);

#endif
