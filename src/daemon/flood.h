/* Output in large pieces on its way to the journal and, at the same time, to a client: the bytes are copied
 * once, into the journal, and the pages that they came in go on to the client. Nothing looks at them there: a
 * guest may have kept such a page and still change it. */
#ifndef CLOISTER_DAEMON_FLOOD_H
#define CLOISTER_DAEMON_FLOOD_H

#include <stddef.h>
#include <stdint.h>

/* Takes up to `len` bytes from the socket `from`, into `copy` and into flood_pipe(). How many; 0: none, or
 * this is not possible here. */
size_t flood_take(int from, uint8_t *copy, size_t len);
/* The pipe to move them on from, at once; what nobody wanted is forgotten by flood_clear(). */
int flood_pipe(void);
void flood_clear(void);

#endif
