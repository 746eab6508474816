/* Header fields of outgoing requests, as a worker gives them. UNTRUSTED INPUT */
#ifndef CLOISTER_APP_OUTGOING_HEADERS_H
#define CLOISTER_APP_OUTGOING_HEADERS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

bool header_is_token(const char *s);   /* what a field's name or a method may be */
bool header_is_ours(const char *name); /* of the connection: left out, since we say it */
typedef int (*header_fn)(void *user, const char *name, const char *value, struct error *err);
/* Calls `fn` for each of "name\nvalue\nname\nvalue"..., until one gives -1. The names are tokens, and neither
 * holds the end of a line. */
int headers_each(const char *headers, size_t len, header_fn fn, void *user, struct error *err);

#endif
