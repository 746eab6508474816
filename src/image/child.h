/* Runs the programs that fetch and build images (skopeo, mmdebstrap). */
#ifndef CLOISTER_IMAGE_CHILD_H
#define CLOISTER_IMAGE_CHILD_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
    const char *program; /* for messages */
    pid_t pid;
    int out; /* read end of its standard output when asked for, else -1: standard output joins standard error
              */
    int log; /* its messages */
    void (*on_line)(void *user, const char *line); /* called from a thread of its own */
    void *user;
    pthread_t thread;
    char last[256]; /* the last line that speaks of an error, else the last line */
    bool last_is_error;
};
/* `ret` is filled in place and must not move. Standard input is /dev/null. The child dies with us. */
int child_start(struct child *ret, char *const argv[], bool want_out,
                void (*on_line)(void *user, const char *line), void *user, struct error *err);
/* Waits; -1 with its last words unless it exited with 0. `quiet_pipe`: we stopped reading its output, so
 * SIGPIPE is no news. */
int child_finish(struct child *c, bool kill_it, struct error *err);

#endif
