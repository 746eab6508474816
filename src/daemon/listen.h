/* The daemon's claims: on its directories (one daemon each) and on its socket. */
#ifndef CLOISTER_DAEMON_LISTEN_H
#define CLOISTER_DAEMON_LISTEN_H

#include "base/error.h"
#include "base/paths.h"

/* Locks <dir>/daemon.lock for this process's life and writes pid and socket into it. When another holds it,
 * the message names that daemon. The descriptor must stay open. */
int claim_directory(const char *dir, const char *socket, int *ret_fd, struct error *err);
/* A listening Unix socket, mode 0600. A stale one is replaced, one that somebody answers on is not. */
int listen_unix(const char *path, int *ret_fd, struct error *err);

#endif
