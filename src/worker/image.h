/* The memory that a worker begins with. Page faults dominate what a fork of this program costs, so:
 *
 *   image_settle()   the engine's code becomes anonymous memory, in huge pages where there are any: a fork
 * shares it with page tables and all, where pages of a file would each be faulted in again by each worker
 *   image_learn()    a child rehearses; the pages that it wrote are remembered
 *   image_prepare()  in each worker: private copies of those pages, a few system calls instead of a fault
 * each */
#ifndef CLOISTER_WORKER_IMAGE_H
#define CLOISTER_WORKER_IMAGE_H

#include "base/error.h"

/* Needs /proc, and that no other thread runs. What cannot be had is left as it is. */
void image_settle(void);
int image_learn(void (*rehearse)(void), struct error *err);
void image_prepare(void);

#endif
