/* One endpoint of a link: calls on capabilities, streams with credit, logs. No input or output of its own:
 * the owner feeds it received bytes and writes what it has to send, so the same code runs on epoll in the
 * agent, on libuv in the daemon, and in fuzz targets.
 *
 * Capabilities. Each side numbers what it exports; capability 0 of each side is its bootstrap object. A peer
 * can name only numbers this side handed to it (put into a value with link_put_capability) and that it has
 * not dropped; anything else is a protocol error that ends the link. Numbers are meaningful on one link only
 * and are never reused on it.
 *
 * Streams carry bytes one way. Either side opens one by choosing a number (link_stream_new: even for the host
 * side, odd for the guest side) and telling the peer in a call's arguments who sends. The receiver grants
 * credit; the sender never exceeds it. A receiver starts with LINK_STREAM_WINDOW of credit granted. Open the
 * streams that a call (or answer) names before its callback returns: bytes for a number of the peer's that is
 * not open are answered with RESET (the peer could not know that its call was refused), and the number is
 * used up.
 *
 * Re-entrancy: callbacks may call any function of this header except link_free(), link_receive() and
 * link_go_on(); want_write must not call the link at all. Not thread-safe.
 *
 * Limits against a hostile peer. More than LINK_MAX_CALLS calls of the peer in progress end the link with
 * ERROR_PROTOCOL. At LINK_MAX_CAPS exports link_put_capability() fails, at LINK_MAX_STREAMS open streams
 * opening one fails (ERROR_LIMIT): answer with link_throw(). An owner should not feed link_receive() while
 * link_output_full(), at least not on the side that distrusts its peer; one that does anyway loses the link
 * (ERROR_LIMIT) at 64 MiB above max_output.
 *
 * Frames that crossed on the wire with our END, RESET, RETURN or THROW are ignored; what no honest peer could
 * have sent (a second answer, anything for a stream after the peer's own END or RESET, a number of ours that
 * we never used) is fatal. */
#ifndef CLOISTER_LINK_LINK_H
#define CLOISTER_LINK_LINK_H

#include "base/buf.h"
#include "base/error.h"
#include "link/cbor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define LINK_STREAM_WINDOW (256u << 10)
#define LINK_DATA_MAX (128u << 10)  /* largest DATA body this side sends */
#define LINK_APART_MAX (256u << 10) /* the same for link_stream_write_apart() */
#define LINK_HEADER_SIZE 12u        /* of every frame; see frame.h */
#define LINK_MAX_CALLS 4096u
#define LINK_MAX_CAPS 4096u
#define LINK_MAX_STREAMS 8192u

struct link;
struct link_call; /* a call of the peer that this side has yet to answer */

enum link_side { LINK_HOST, LINK_GUEST };

/* What an exported capability does. */
struct link_object_ops {
    /* A call arrived. Answer exactly once, now or later, with link_return*() or link_throw(). `args` is a
     * well-formed CBOR value, valid during this call only. UNTRUSTED INPUT. */
    void (*call)(void *object, struct link_call *call, const char *method, struct cbor_reader args);
    /* The peer (or the end of the link) released the reference; called once for each link_put_capability(),
     * never for capability 0, whose object is the owner's. May be NULL. */
    void (*drop)(void *object);
};

#define LINK_TAKE_LATER ((size_t)-1)

struct link_stream_ops {
    /* Receiving side: bytes arrived, within the credit, in pieces that need not match the sender's. Give
     * credit back with link_stream_consumed(). */
    void (*data)(void *user, uint32_t stream, const uint8_t *data, size_t len);
    /* Receiving side: orderly end; or failure (also when the link dies). The stream is closed when this runs.
     */
    void (*end)(void *user, uint32_t stream);
    void (*reset)(void *user, uint32_t stream, const struct error *why);
    /* Sending side: credit grew from zero, or link_stream_writable() found the output full, or
     * link_stream_write() filled it, and it has drained to half; link_stream_writable() tells how much. May
     * be NULL on receivers. The reset callback on a sender says that the reader wants no more. */
    void (*writable)(void *user, uint32_t stream);
    /* Receiving side; may be NULL: they all come through data(). Bytes of the stream are the next on the
     * descriptor `fd` that the link's owner reads: moves up to `len` of them from there to where they are
     * wanted, without bringing them into memory. How many; 0: they come through data(); LINK_TAKE_LATER: the
     * owner is asked to wait with them, and with all that follows. See link_take(). */
    size_t (*take)(void *user, uint32_t stream, int fd, size_t len);
};

/* The answer to a call of ours. Exactly one call of this for each link_call(): `value` (a well-formed CBOR
 * value, valid during this call only; UNTRUSTED INPUT) when err is NULL. */
typedef void (*link_answer_fn)(void *user, const struct error *err, struct cbor_reader value);

struct link_config {
    enum link_side side;
    const struct link_object_ops
        *bootstrap; /* capability 0 of this side; NULL: every call to it is refused */
    void *bootstrap_object;
    /* Output went from empty to pending: arrange for link_output() to be written (later, not from in here).
     * May be NULL. */
    void (*want_write)(void *user);
    void (*log)(void *user, int level, int64_t ms, const char *text); /* a LOG frame; NULL: ignored */
    /* May this frame take effect now? Asked before each frame of the peer by which it can act on anything
     * (all but LOG and WINDOW); `ops`: of the object of ours that it calls (by `method`) or drops, else NULL.
     * false: the frame and all that follows wait for link_go_on(). NULL: all may. May shut the link down.
     * UNTRUSTED INPUT: method; the frame may still turn out to be malformed. */
    bool (*admit)(void *user, const struct link_object_ops *ops, const char *method);
    /* The link ends by itself: the peer broke the protocol or a limit. Puts that into the words that calls
     * and streams under way fail with; link_receive() gives it as it is. NULL: these are the same. */
    void (*blame)(void *user, struct error *why);
    void *user;
    size_t max_output; /* bytes of pending output before link_output_full(); 0: 4 MiB */
};

struct link *link_new(const struct link_config *config);
/* Fails every call in progress and resets every stream with `why` (or a plain ERROR_GONE when NULL), drops
 * every export, discards pending output, after which the link is dead: further calls fail at once.
 * Idempotent. */
void link_shutdown(struct link *l, const struct error *why);
void link_free(struct link *l); /* link_shutdown() first if not done; not from inside a callback */

/* --- bytes in and out --- */
/* Takes received bytes (any split). -1: the peer broke the protocol; `err` says how, and the link is shut
 * down. */
int link_receive(struct link *l, const void *data, size_t len, struct error *err);
/* For an owner that would rather not read a flood into memory: how many bytes there are up to where something
 * else begins (at least 1), and whether they are a stream's, so that link_take() may have them. Reading no
 * more than that leaves the next frame where it is. */
size_t link_next(const struct link *l, bool *ret_stream);
/* Lets the owner of the stream take its bytes from `fd`, and returns what it said. */
size_t link_take(struct link *l, int fd);
/* Up to `max` pieces of pending output; number of pieces. link_sent() takes `n` bytes off. */
int link_output(struct link *l, struct iovec *iov, int max);
void link_sent(struct link *l, size_t n);
bool link_output_full(const struct link *l);
/* From a callback: what the peer sent after the present frame waits for link_go_on(). The owner should feed
 * no more meanwhile; what it does feed is kept. */
void link_hold(struct link *l);
bool link_held(const struct link *l);
/* Takes what has waited; it may be held again. As link_receive(), and not from a callback either. */
int link_go_on(struct link *l, struct error *err);
bool link_alive(const struct link *l);

/* --- calling the peer --- */
/* Calls `method` on the peer's capability `target`. `args` is one CBOR value (NULL/0: null). Returns the call
 * id (never 0), or 0 when the link is dead, too many calls are open, the method is not 1 to 255 bytes, or
 * `args` is not one well-formed value that fits a frame (then `fn` is not called). */
uint32_t link_call(struct link *l, uint32_t target, const char *method, const void *args, size_t len,
                   link_answer_fn fn, void *user);
/* The answer is no longer wanted: fn is not called any more, the peer is told. Capabilities in an answer that
 * comes all the same are dropped. */
void link_cancel(struct link *l, uint32_t call);
/* Releases a capability that the peer gave us. */
void link_drop(struct link *l, uint32_t peer_cap);

/* --- answering the peer --- */
/* Both consume `call`. A value (NULL/0: null) that is too large or not well-formed becomes a THROW. */
void link_return(struct link_call *call, const void *value, size_t len);
void link_throw(struct link_call *call, const struct error *err);
/* Called when the peer cancels or the link dies before the answer (at once if that has happened); the call
 * must still be consumed: a cancelled call is answered too. */
void link_call_on_cancel(struct link_call *call, void (*fn)(void *user), void *user);
struct link *link_call_link(struct link_call *call); /* NULL after link_free() */

/* --- capabilities --- */
/* Writes a capability into a value that will be sent as arguments or return value, exporting `object` anew:
 * one reference more at the peer, under a new number. Returns the number. On failure marks `b` failed and
 * returns 0; the object stays the caller's. An export whose value is never sent lasts until the end of the
 * link. */
uint32_t link_put_capability(struct link *l, struct buf *b, const struct link_object_ops *ops, void *object);
/* Withdraws an export early: later calls to it are answered with THROW GONE. ops->drop is not called. */
void link_revoke(struct link *l, uint32_t cap);
/* Reads a tagged capability number from a value the peer sent. */
int link_get_capability(struct cbor_reader *r, uint32_t *ret_cap);

/* --- streams --- */
/* Picks a fresh number of this side's parity; 0 when the link is dead (or has used 2^31 of them). */
uint32_t link_stream_new(struct link *l);
/* Declares the stream `id` (of either parity) as one we send on / receive from. -1 when the id is in use or
 * of a wrong parity or has been used (a peer chose badly: ERROR_PROTOCOL), too many are open (ERROR_LIMIT),
 * the link is dead (ERROR_GONE). */
int link_stream_open_send(struct link *l, uint32_t id, const struct link_stream_ops *ops, void *user,
                          struct error *err);
int link_stream_open_receive(struct link *l, uint32_t id, const struct link_stream_ops *ops, void *user,
                             struct error *err);
/* Bytes that may be sent now: the credit, or 0 when the link's output is full or the stream is closed. */
size_t link_stream_writable(const struct link *l, uint32_t id);
/* Sends at most link_stream_writable() bytes (more is an error: -1, nothing is sent). */
int link_stream_write(struct link *l, uint32_t id, const void *data, size_t len);
/* The same for an owner that puts the bytes on the wire itself, without bringing them into its memory: takes
 * `len` (1 to LINK_APART_MAX) off the credit and writes the frame's header to `header`. The owner sends
 * header and bytes as a whole before anything that link_output() gives from now on. Only while no output is
 * pending
 * (-1 otherwise). */
int link_stream_write_apart(struct link *l, uint32_t id, size_t len, uint8_t header[LINK_HEADER_SIZE]);
/* The sender's orderly end. */
void link_stream_end(struct link *l, uint32_t id);
/* Either end gives the stream up; no further callbacks. */
void link_stream_reset(struct link *l, uint32_t id, const struct error *why);
/* The receiver gives credit back. */
void link_stream_consumed(struct link *l, uint32_t id, size_t n);
/* The receiver widens its window for good: so much more may be on its way. */
void link_stream_widen(struct link *l, uint32_t id, uint32_t n);

/* --- log --- */
void link_log(struct link *l, int level, int64_t ms, const char *text);

/* Error maps of THROW and RESET: {message, code (error_code()), field when not empty}. */
void link_put_error(struct buf *b, const struct error *err);
void link_get_error(struct cbor_reader r, struct error *ret);

#endif
