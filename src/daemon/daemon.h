/* The daemon's parts in one structure that is passed around; each part is opaque to the others. */
#ifndef CLOISTER_DAEMON_DAEMON_H
#define CLOISTER_DAEMON_DAEMON_H

#include "base/paths.h"
#include "daemon/config.h"

#include <stdint.h>
#include <uv.h>

struct app;
struct engine;
struct registry;
struct server;
struct state;

struct daemon {
    uv_loop_t *loop;
    struct paths paths;
    struct config config;
    struct engine *engine;
    struct state *state_db;
    struct registry *registry;
    struct server *server; /* NULL: the API is not served (cloister dev) */
    struct app *app;       /* NULL: none is hosted */
    const char *image_dir; /* where images are: data_dir, or what --image-dir says */
    uint64_t refused;      /* requests of web pages */
};

#endif
