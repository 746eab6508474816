/* Channels: whole messages over a pair of streams (worker_protocol.h). UNTRUSTED INPUT: what arrives was
 * written by another worker. */
#ifndef CLOISTER_WORKER_CHANNELS_H
#define CLOISTER_WORKER_CHANNELS_H

#include "worker/engine_api.h"

#include <stdint.h>

/* The library has a message: its bytes' credit may go back. */
void channels_consumed(uint32_t channel, uint32_t bytes);
void natives_channels(JSContextRef ctx, JSObjectRef natives);

#endif
