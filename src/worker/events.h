/* What the link brought and the library has yet to be told. The link's callbacks only queue here: JavaScript
 * runs when link_receive() has returned, because it may wait for an answer (callSync) and so need
 * link_receive() itself. */
#ifndef CLOISTER_WORKER_EVENTS_H
#define CLOISTER_WORKER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
    EVENT_CALL,            /* id; text: method; bytes: arguments */
    EVENT_FETCH,           /* id; bytes: arguments */
    EVENT_CANCELLED,       /* id */
    EVENT_ANSWER,          /* id; code and text when it failed, else bytes */
    EVENT_STREAM_DATA,     /* id; bytes */
    EVENT_STREAM_END,      /* id */
    EVENT_STREAM_RESET,    /* id; text */
    EVENT_STREAM_WRITABLE, /* id */
    EVENT_CHANNEL_MESSAGE, /* id; bytes; credit */
    EVENT_CHANNEL_CLOSED,  /* id; text, or NULL for an orderly end */
};

struct event {
    struct event *next;
    enum event_kind kind;
    uint32_t id;
    uint32_t request; /* whose it is */
    uint32_t credit;  /* CHANNEL_MESSAGE: bytes of the stream to be given back when the library has it */
    size_t len;
    uint8_t *bytes; /* owned; malloc'ed */
    char *text;     /* owned */
    const char *code;
};

/* A queued event to fill in. Ends the process when there is no memory: the peer's frame could not be told. */
struct event *events_push(enum event_kind kind, uint32_t id, uint32_t request);
void event_set_bytes(struct event *e, const void *bytes, size_t len);
void event_set_text(struct event *e, const char *text);
/* Tells the library everything that is queued, oldest first, with what comes meanwhile. */
void events_run(void);

#endif
