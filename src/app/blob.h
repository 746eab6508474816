/* "data" of src/link/worker_protocol.h: bytes that stand in a map as `data`, or come on the stream that
 * stands there as `stream`. */
#ifndef CLOISTER_APP_BLOB_H
#define CLOISTER_APP_BLOB_H

#include "base/buf.h"
#include "base/error.h"
#include "link/link.h"

#include <stdint.h>

/* ---- coming ---- */

struct blob_reader; /* a stream that is being gathered */
/* Takes the buffer's memory if it wants to (buf_init() it then). err: it did not come; `bytes` is empty. */
typedef void (*blob_fn)(void *user, struct buf *bytes, const struct error *err);

/* What several readers may hold together: `held` is what they do, and what their owner says he kept of it. */
struct blob_budget {
    size_t max, held;
};

/* Gathers a stream of the peer's, at most `max` bytes, and at most what `budget` (NULL: none; must outlive
 * the reader) has left; what was given to `fn` does not count any more. `fn` runs once, from the link. NULL:
 * error. */
struct blob_reader *blob_read(struct link *l, uint32_t stream, size_t max, struct blob_budget *budget,
                              blob_fn fn, void *user, struct error *err);
/* `fn` does not run; the stream is RESET. NULL is fine. */
void blob_abandon(struct blob_reader *r, const struct error *why);

/* ---- going ----
 *
 * The peer must have read the call that names a stream before its first byte, so streams are gathered while a
 * call's arguments are written, and started when it has been made. */

struct blob_sender;
struct blob_outbox {
    struct blob_sender *first;
};

/* Opens a fresh stream for `bytes`, taken over (malloc'ed). Its number, or 0 when that failed; the bytes are
 * gone then. */
uint32_t blob_send(struct blob_outbox *o, struct link *l, uint8_t *bytes, size_t len, struct error *err);
/* Writes the pair `data` or `stream` of a map: inline when it is at most `inline_max`. -1: error; `b` is
 * unusable. */
int blob_put(struct blob_outbox *o, struct link *l, struct buf *b, const uint8_t *bytes, size_t len,
             size_t inline_max, struct error *err);
/* The call has been made: sends what was gathered, and ends each stream. Nobody need look after them. */
void blob_start(struct blob_outbox *o);
/* The call will not be made. */
void blob_discard(struct blob_outbox *o, const struct error *why);

#endif
