/* A restartable one-shot timer that may be dropped at any moment by the structure that points at it. */
#ifndef CLOISTER_DAEMON_ALARM_H
#define CLOISTER_DAEMON_ALARM_H

#include <stdint.h>
#include <uv.h>

struct alarm;

/* (Re)starts the alarm of *slot, which is made when NULL. */
void alarm_set(struct alarm **slot, uv_loop_t *loop, uint64_t ms, void (*ring)(void *user), void *user);
void alarm_stop(struct alarm *a); /* keeps it for the next alarm_set(); NULL is fine */
void alarm_drop(struct alarm **slot);

#endif
