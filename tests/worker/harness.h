/* A zygote with the library of bundle.js, workers forked from it, and the daemon's end of their links. Every
 * function fails the test when it cannot do what it says within 20 s. */
#ifndef CLOISTER_TESTS_WORKER_HARNESS_H
#define CLOISTER_TESTS_WORKER_HARNESS_H

#include "base/buf.h"
#include "link/link.h"
#include "worker/zygote_client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct zygote_process {
    int control;
    pid_t pid;
    bool is_ready;
};

struct peer {
    struct zygote_process *zygote;
    struct link *link;
    int fd, pidfd;
    uint32_t id;
    pid_t pid;  /* ours */
    bool ended; /* reaped by the zygote */
    int status;
    bool closed; /* the link's socket */
    struct buf log;
    unsigned log_lines;
};

/* The answer to one call. */
struct answer {
    bool done;
    struct error err; /* kind ERROR_NONE: it returned */
    struct buf value; /* CBOR */
};

void zygote_open(struct zygote_process *z);
void zygote_close(struct zygote_process *z);
void peer_open(struct peer *p, struct zygote_process *z, const struct link_object_ops *ops, void *object);
void peer_close(struct peer *p);

/* Moves bytes until *flag is set. */
void peer_pump_until(struct peer *p, const bool *flag);
/* ... or for so long. */
void peer_pump_for(struct peer *p, unsigned ms);
/* Waits for the worker's end; its wait status. */
int peer_wait_end(struct peer *p);
void peer_call(struct peer *p, const char *method, const struct buf *args, struct answer *ret);
/* Starts a call; the answer comes while pumping. */
void peer_call_start(struct peer *p, const char *method, const struct buf *args, struct answer *ret);
void answer_free(struct answer *a);
/* Runs JavaScript in the worker: the text of its value, or "!code: message". Static storage. cpu_ms 0: no
 * limit. */
const char *peer_eval(struct peer *p, unsigned cpu_ms, const char *source);
void peer_eval_start(struct peer *p, unsigned cpu_ms, const char *source, struct answer *ret);

#endif
