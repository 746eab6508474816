/* The daemon's parts in one structure that is passed around; each part is opaque to the others. */
#ifndef CLOISTER_DAEMON_DAEMON_H
#define CLOISTER_DAEMON_DAEMON_H

#include "base/paths.h"
#include "daemon/config.h"

#include <stdint.h>
#include <uv.h>

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
    struct server *server;
    uint64_t refused; /* requests of web pages */
};

#endif
