/* All named containers. */
#ifndef CLOISTER_DAEMON_REGISTRY_H
#define CLOISTER_DAEMON_REGISTRY_H

#include "base/error.h"
#include "daemon/list.h"

#include <stdbool.h>

struct cell;
struct daemon;
struct registry;

struct registry *registry_new(struct daemon *d);
/* Forgets all; nothing may run any more. */
void registry_free(struct registry *r);

struct cell *registry_find(struct registry *r, const char *name);
/* Makes a new name known; `name` NULL: a random one. ERROR_EXISTS when it is known already, ERROR_LIMIT when
 * there are too many. */
int registry_add(struct registry *r, const char *name, struct cell **ret, struct error *err);
/* Makes a cell that was loaded from the store known. */
void registry_adopt(struct registry *r, struct cell *c);
/* Forgets the name (and the stored record). The cell must be stopped. */
void registry_forget(struct registry *r, struct cell *c);
/* Visits all, oldest first; false stops. */
void registry_each(struct registry *r, bool (*visit)(void *user, struct cell *c), void *user);

#endif
