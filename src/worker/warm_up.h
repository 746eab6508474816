/* Touches what a first request touches, in a worker that was forked ahead, and leaves nothing behind that
 * code could observe. */
#ifndef CLOISTER_WORKER_WARM_UP_H
#define CLOISTER_WORKER_WARM_UP_H

void warm_up(void);

#endif
