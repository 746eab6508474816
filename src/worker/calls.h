/* Calls over the link, both ways, and the lean way of HTTP requests. */
#ifndef CLOISTER_WORKER_CALLS_H
#define CLOISTER_WORKER_CALLS_H

#include "worker/engine_api.h"

#include <stddef.h>
#include <stdint.h>

struct link_object_ops;

/* This side's capability 0. */
extern const struct link_object_ops calls_bootstrap;
/* dispatch.fetch() with the arguments of a call of that name. */
void calls_tell_fetch(uint32_t id, const uint8_t *args, size_t len);
void natives_calls(JSContextRef ctx, JSObjectRef natives);

#endif
