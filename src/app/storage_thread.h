/* A thread for work that would hold up the loop: one piece at a time. It is started by the first.
 *
 * A thread of its own rather than libuv's pool: a piece may take seconds, and the pool's few threads resolve
 * names and watch files for everybody. */
#ifndef CLOISTER_APP_STORAGE_THREAD_H
#define CLOISTER_APP_STORAGE_THREAD_H

#include "base/error.h"

#include <stdbool.h>
#include <uv.h>

struct storage_thread;

int storage_thread_new(struct storage_thread **ret, uv_loop_t *loop, struct error *err);
/* Waits for the piece under way, whose `done` will not run. NULL is fine. */
void storage_thread_free(struct storage_thread *t);
/* Waits for the piece under way, so long at most. True: it is done, and its `done` will not run. */
bool storage_thread_wait(struct storage_thread *t, unsigned us);
/* Runs `work` on the thread and after that `done` from the loop; not before that again. */
int storage_thread_run(struct storage_thread *t, void (*work)(void *user), void (*done)(void *user),
                       void *user, struct error *err);

#endif
