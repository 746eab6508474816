/* From time to time what nothing needs any more is removed from the store: expired snapshots, layers and
 * blobs that no image or snapshot names, leftovers of killed helpers. */
#ifndef CLOISTER_DAEMON_COLLECT_H
#define CLOISTER_DAEMON_COLLECT_H

#include "base/error.h"

struct collector;
struct daemon;

/* The first collection comes a minute later, then one every hour. */
int collector_start(struct collector **ret, struct daemon *d, struct error *err);
void collector_stop(struct collector *c);

#endif
