/* HTTP over our own Unix socket: libmicrohttpd, driven by the loop. */
#ifndef CLOISTER_DAEMON_SERVER_H
#define CLOISTER_DAEMON_SERVER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct daemon;
struct request;
struct server;

#define SERVER_MAX_CONNECTIONS 2048u
#define SERVER_IDLE_SECONDS 30u

/* Serves on the listening socket `fd` (taken over). */
int server_open(struct server **ret, struct daemon *d, int fd, struct error *err);
/* Ends every connection; requests are closed. The loop must run once more for its handles to close. */
void server_close(struct server *s);

/* For request.c: lets a waiting request go on at the next turn of the loop. */
void server_resume(struct request *r);
/* For request.c: see request_send(). */
bool server_send(struct request *r, const struct iovec *pieces, int count);
/* For request.c: see request_move(). */
bool server_move(struct request *r, struct iovec head, int pipe, const struct iovec *copy, int count);
/* For request.c: the library's reader of a streamed answer; `cls` is the request. */
ssize_t server_pull(void *cls, uint64_t position, char *to, size_t max);

#endif
