/* The frame codec of the link: a fixed 12-byte header, little-endian, then a body.
 *
 *   offset 0  u32 length of the body, 0 .. FRAME_MAX_BODY
 *          4  u8  kind
 *          5  u8  flags (no flag is defined yet: must be 0)
 *          6  u16 zero
 *          8  u32 id: the call (CALL, RETURN, THROW, CANCEL), stream (DATA, WINDOW, END, RESET) or
 *             capability (DROP) the frame is about; 0 for LOG
 *
 * UNTRUSTED INPUT: everything that arrives here. Any violation is fatal to the link. */
#ifndef CLOISTER_LINK_FRAME_H
#define CLOISTER_LINK_FRAME_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_SIZE 12u
#define FRAME_MAX_BODY (1u << 20)

enum frame_kind {
    FRAME_CALL = 1, /* body: CBOR array [target, method, arguments] */
    FRAME_RETURN,   /* body: one CBOR value */
    FRAME_THROW,    /* body: CBOR map {message, code?, field?, name?, stack?} */
    FRAME_CANCEL,   /* no body */
    FRAME_DROP,     /* body: u32, how many references are released (at least 1) */
    FRAME_DATA,     /* body: stream bytes, at least 1, within the credit */
    FRAME_WINDOW,   /* body: u32, further credit in bytes, at least 1 */
    FRAME_END,      /* no body: the stream's orderly end */
    FRAME_RESET,    /* body: CBOR map as for THROW: the stream failed, or its reader wants no more */
    FRAME_LOG,      /* body: CBOR array [level, milliseconds, text] */
};

struct frame {
    uint32_t length;
    uint8_t kind;
    uint32_t id;
    const uint8_t *body; /* into the decoder's or caller's memory */
};

void frame_header_write(uint8_t out[FRAME_HEADER_SIZE], enum frame_kind kind, uint32_t id, uint32_t length);
/* Checks and decodes a header (the body length against the kind as well). */
int frame_header_read(const uint8_t in[FRAME_HEADER_SIZE], struct frame *ret, struct error *err);
/* "CALL" and so on, for messages; "unknown" for anything else. */
const char *frame_kind_name(unsigned kind);

#endif
