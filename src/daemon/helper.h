/* A run of the helper program cloister-image, which does everything about images and snapshots that is heavy
 * or handles hostile archives. It prints one JSON object a line; the last may be {"event": "error", "error":
 * {...}}. */
#ifndef CLOISTER_DAEMON_HELPER_H
#define CLOISTER_DAEMON_HELPER_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct daemon;
struct helper;

struct helper_events {
    /* A line, parsed and as it came (without its newline). May be NULL. */
    void (*on_line)(void *user, const json_t *line, const char *text, size_t len);
    /* Once, last; `err` NULL: it succeeded. helper_drop() is due. */
    void (*on_exit)(void *user, const struct error *err);
    /* What helper_write() took is on its way. May be NULL. */
    void (*on_drained)(void *user);
};

struct helper_command {
    const char *const
        *args;  /* begins with the subcommand; the data directory and --progress json are added */
    bool input; /* its standard input is a pipe that helper_write() feeds; otherwise empty */
    int fd;     /* -1, or a descriptor that it finds as number 3 */
};
int helper_spawn(struct helper **ret, struct daemon *d, const struct helper_command *command,
                 const struct helper_events *events, void *user, struct error *err);
/* Takes a copy of the bytes. False: enough for now, wait for on_drained. */
bool helper_write(struct helper *h, const void *data, size_t len);
bool helper_ready(const struct helper *h); /* false: wait for on_drained */
void helper_end_input(struct helper *h);
/* No more events; kills it when it still runs. */
void helper_drop(struct helper **slot);

#endif
