/* How the objects of a hosted Worker get their containers: the daemon, which has the containers, fills this
 * in. */
#ifndef CLOISTER_APP_CONTAINERS_H
#define CLOISTER_APP_CONTAINERS_H

#include "base/buf.h"
#include "base/error.h"
#include "link/link.h"

struct object_class;

struct object_container {
    const char *worker; /* name of the hosted Worker */
    const struct object_class *of;
    const char *id; /* of the object: 64 hexadecimal digits */
};

struct object_containers_ops {
    /* Writes the container capability of the object (link/worker_protocol.h) into `b`, which belongs to a
     * value sent on `l`: link_put_capability(). Everything in `which` is copied. */
    int (*put)(void *user, struct link *l, struct buf *b, const struct object_container *which,
               struct error *err);
};

#endif
