/* <data_dir>/config.json, optional: what the operator decides beyond the command line. */
#ifndef CLOISTER_DAEMON_CONFIG_H
#define CLOISTER_DAEMON_CONFIG_H

#include "base/error.h"
#include "container/engine.h"

#include <jansson.h>

struct config {
    json_t *aliases;      /* {name: image name}: names that stand for other names; NULL: none */
    struct limits limits; /* of a container that names none */
    unsigned pool;
    unsigned max_containers; /* names known at once, running or not */
};

#define CONFIG_DEFAULT_POOL 4u
#define CONFIG_MAX_POOL 256u
#define CONFIG_DEFAULT_MAX_CONTAINERS 4096u

/* A missing file means the defaults. Unknown fields are refused. */
int config_load(struct config *ret, const char *data_dir, struct error *err);
void config_free(struct config *c);
/* What an image name stands for. */
const char *config_image(const struct config *c, const char *name);

#endif
