/* The link's socket. One frame is given to the link at a time, and the library told of it before the next: so
 * it can open the streams that a call names before their first bytes count, and a synchronous call can take
 * its answer from behind frames that wait. A link that closes or breaks ends the process from inside these
 * functions: there is nobody left to work for. */
#ifndef CLOISTER_WORKER_CONNECTION_H
#define CLOISTER_WORKER_CONNECTION_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link;

struct connection {
    int fd;
    uint8_t *data; /* received and not yet given to the link: data[start, end) */
    size_t start, end, cap;
};

extern struct connection connection;

/* Takes what the socket has, up to a bound. False: there was nothing. */
bool connection_read(void);
/* Gives the next whole frame to the link. False: there is none. */
bool connection_feed(void);
/* Gives the answer of this call to the link if it has arrived, before what arrived earlier. */
bool connection_feed_answer(uint32_t call);
/* Writes what the link has to send. False: not all of it, the socket is full. */
bool connection_flush(void);
/* Waits for the socket alone: input, and output if some is pending. */
void connection_wait(void);

/* Ends the process: logs the reason, sends what can be sent at once. */
_Noreturn void worker_exit(int status, const char *reason);

#endif
