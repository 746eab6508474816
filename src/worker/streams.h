/* The library's streams of the link. */
#ifndef CLOISTER_WORKER_STREAMS_H
#define CLOISTER_WORKER_STREAMS_H

#include "worker/engine_api.h"

void natives_streams(JSContextRef ctx, JSObjectRef natives);

#endif
