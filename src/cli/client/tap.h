/* The output stream of an exec: one GET on a connection of its own. libcurl would copy every byte twice; here
 * large pieces go from the daemon's socket to a pipe as pages (splice(2)), and only headers and what is small
 * pass through memory. */
#ifndef CLOISTER_CLI_CLIENT_TAP_H
#define CLOISTER_CLI_CLIENT_TAP_H

#include "base/buf.h"
#include "base/error.h"
#include "cli/client/frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tap_ops {
    /* False: what was handed on earlier is not written yet, give no more. */
    bool (*ready)(void *user);
    /* The non-blocking pipe that stream 1 or 2 goes to, as it is; -1: through frames->on_output. */
    int (*pipe)(void *user, int stream);
    /* So many bytes went into that pipe; -1: nobody reads it any more. */
    void (*moved)(void *user, int stream, ssize_t n);
};

struct tap {
    const struct tap_ops *ops;
    void *user;
    struct frames *frames; /* the caller's, with its callbacks set */
    int fd;
    enum { TAP_HEAD, TAP_SIZE, TAP_BODY, TAP_REFUSAL, TAP_OVER } state;
    int status;
    size_t left; /* of the present chunk, or of a refusal's body */
    bool first, large;
    struct buf text; /* of the head, or of a refusal */
    char *in;
    size_t pos, len;
};

enum tap_outcome {
    TAP_FAILED = -1, /* the error is filled */
    TAP_WAITS,       /* for the daemon: until tap->fd is readable */
    TAP_WAITS_SINK,  /* for a pipe or for `ready` */
    TAP_AGAIN,       /* there is more to do, after whatever else the caller does */
    TAP_ENDED,
};

/* Connects and asks for `path`. On failure nothing is to be closed. */
int tap_open(struct tap *t, const char *socket_path, const char *path, struct error *err);
void tap_close(struct tap *t);
enum tap_outcome tap_run(struct tap *t, struct error *err);

#endif
