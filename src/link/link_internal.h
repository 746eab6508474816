/* What the files of the link share. link.c: life, input, dispatch; link_output.c: pending output;
 * link_calls.c: calls and capabilities; link_streams.c: streams. */
#ifndef CLOISTER_LINK_LINK_INTERNAL_H
#define CLOISTER_LINK_LINK_INTERNAL_H

#include "link/frame.h"
#include "link/idtable.h"
#include "link/link.h"

#define LINK_DEFAULT_MAX_OUTPUT ((size_t)4 << 20)
/* Pending output beyond max_output at which the link gives up: an owner that goes on feeding a peer's frames
 * although the peer reads nothing must not grow without bound. */
#define LINK_OUTPUT_SLACK ((size_t)64 << 20)
#define LINK_CREDIT_MAX INT32_MAX
#define LINK_TOMBS 256u

struct chunk {
    struct chunk *next;
    uint32_t start, end, cap;
    uint8_t data[];
};

struct output {
    struct chunk *head, *tail;
    size_t pending;
    bool was_full; /* a stream found no room; see stream.waiting */
};

/* A frame that has not arrived completely. Bodies of DATA are handed on piece by piece instead. */
struct input {
    uint8_t head[FRAME_HEADER_SIZE];
    uint32_t head_len;
    struct frame frame; /* valid when head_len is FRAME_HEADER_SIZE */
    uint8_t *body;
    uint32_t body_len;
    uint32_t data_left; /* of a DATA frame for data_stream */
    uint32_t data_stream;
    bool busy;                  /* inside link_receive() */
    bool held;                  /* nothing is taken before link_go_on() */
    bool waiting;               /* `frame` was not admitted; of its body, kept_body is a copy */
    struct buf kept_body, rest; /* rest: what came after it */
};

/* How a stream ended, for frames about it that still arrive. */
enum tomb_state {
    TOMB_NONE,
    TOMB_HERE, /* we ended or refused it: what the peer had sent before it knew is ignored */
    TOMB_PEER, /* the peer said its last word on it: anything further breaks the protocol */
};

/* The most recently finished streams; the oldest is forgotten first, after which stray frames are treated
 * leniently. */
struct tombs {
    uint32_t id[LINK_TOMBS];
    uint8_t state[LINK_TOMBS];
    uint32_t next;
};

struct link {
    struct link_config config;
    bool alive;
    struct error why; /* of death */
    struct input in;
    struct output out;
    struct idtable calls;      /* struct call */
    struct idtable peer_calls; /* struct link_call */
    struct idtable exports;    /* struct export */
    struct idtable streams;    /* struct stream */
    struct stream *waiting_first, *waiting_last;
    struct tombs tombs;
    uint32_t next_call, next_cap, next_stream;
    uint32_t peer_call_max; /* highest call number that the peer has used */
    bool calls_wrapped;
};

/* link.c: ends the link because of what the peer sent. */
void link_violation(struct link *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void link_out_of_memory(struct link *l);
/* link_shutdown() because of the peer, or for want of memory. */
void link_give_up(struct link *l, const struct error *why);

/* link_output.c: queues one whole frame whose body is `head` and then `body`. -1: the link is dead (now). */
int link_put_frame(struct link *l, enum frame_kind kind, uint32_t id, const void *head, size_t head_len,
                   const void *body, size_t len);
int link_put_u32_frame(struct link *l, enum frame_kind kind, uint32_t id, uint32_t value);
void link_output_discard(struct link *l);

/* link_calls.c: UNTRUSTED INPUT in every frame. */
/* Whether the owner lets it take effect now. */
bool link_admits(struct link *l, const struct frame *f);
void link_on_call(struct link *l, const struct frame *f);
void link_on_answer(struct link *l, const struct frame *f);
void link_on_cancel(struct link *l, const struct frame *f);
void link_on_drop(struct link *l, const struct frame *f);
void link_calls_shutdown(struct link *l);
void link_exports_shutdown(struct link *l);
void link_calls_orphan(struct link *l); /* the link goes away before the calls' answers */

/* link_streams.c: UNTRUSTED INPUT in every frame. */
void link_on_data_header(struct link *l, const struct frame *f);
void link_on_data(struct link *l, uint32_t id, const uint8_t *data, size_t len);
size_t link_stream_take(struct link *l, uint32_t id, int fd, size_t len);
void link_on_window(struct link *l, const struct frame *f);
void link_on_end(struct link *l, const struct frame *f);
void link_on_reset(struct link *l, const struct frame *f);
void link_streams_wake(struct link *l); /* output has room again */
void link_streams_shutdown(struct link *l);

#endif
