/* Our own stdin, stdout and stderr without ever blocking on them, and without changing the flags of
 * descriptions that we share with the shell that started us. */
#ifndef CLOISTER_CLI_STREAM_H
#define CLOISTER_CLI_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stream {
    int fd;
    bool own;      /* a description of our own, opened again from /proc/self/fd */
    bool pollable; /* else a file: reads and writes never wait */
    bool socket, pipe;
};

/* Call it before the process changes its namespaces. `fd` is 0, 1 or 2. */
void stream_open(struct stream *s, int fd);
void stream_close(struct stream *s);
/* As read(2) and write(2) on a non-blocking descriptor: -1 with EAGAIN when it would wait. */
ssize_t stream_read(struct stream *s, void *data, size_t len);
ssize_t stream_write(struct stream *s, const void *data, size_t len);
/* Moves bytes from a socket into a pipe. How many; 0: none are there, or the pipe is full, or this is not the
 * way. */
size_t stream_move(struct stream *s, int from, size_t len, bool *ret_full);

#endif
