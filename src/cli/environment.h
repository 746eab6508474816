/* The environment of a command, put together entry by entry. Nothing of our own environment gets in unless it
 * is asked for by name. */
#ifndef CLOISTER_CLI_ENVIRONMENT_H
#define CLOISTER_CLI_ENVIRONMENT_H

#include "base/error.h"
#include "cli/options.h"

#include <stdbool.h>
#include <stddef.h>

#define ENVIRONMENT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct environment {
    char **items; /* "K=V", NULL-terminated once there is one; owned */
    size_t count;
};

void environment_free(struct environment *e);
/* Copies the entry; one of the same name is replaced. */
int environment_set(struct environment *e, const char *entry, struct error *err);
bool environment_has(const struct environment *e, const char *name);
/* From --env-file, then --env, of a command that has both. */
int environment_from_options(struct environment *e, const struct options *o, struct error *err);
/* TERM of the caller's terminal, where it is a plausible name; "xterm" otherwise. */
int environment_set_term(struct environment *e, struct error *err);

#endif
