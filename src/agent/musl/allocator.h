/* A small cache in front of musl's allocator, which gives memory of some ten kilobytes back to the kernel at
 * every free(): with the pieces of output that the link allocates all the time, that costs a page fault for
 * every page sent. */
#ifndef CLOISTER_AGENT_MUSL_ALLOCATOR_H
#define CLOISTER_AGENT_MUSL_ALLOCATOR_H

/* Gives back what is kept. */
void allocator_trim(void);

#endif
