/* ctx.container of Durable Objects (app/containers.h) on the daemon's cells: each object of a class with a
 * container has one, whose name is made of Worker, class and id. Whoever uses the API sees it among the
 * others. */
#ifndef CLOISTER_DAEMON_CONTAINER_CAPABILITY_H
#define CLOISTER_DAEMON_CONTAINER_CAPABILITY_H

#include "app/containers.h"

/* `user` is the struct daemon. */
extern const struct object_containers_ops container_capabilities;

/* The name of an object's container, 63 bytes at most. */
void container_capability_name(char to[64], const char *worker, const char *class_name, const char *id);

#endif
