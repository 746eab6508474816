/* The strict reading of how an HTTP/1.1 request is framed. The http-parser library, built as distributions
 * build it, forgives lines that end in a bare LF, folded headers, and chunks without their CRLF: shapes that
 * two readers can read in two ways. So each byte of a head and of a chunked body's frame passes here before
 * that library sees it. UNTRUSTED INPUT */
#ifndef CLOISTER_APP_HTTP_FRAMING_H
#define CLOISTER_APP_HTTP_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_MAX_CHUNK_EXTENSIONS ((size_t)4 << 10) /* bytes of all extensions of a body */
#define HTTP_MAX_TRAILERS ((size_t)8 << 10)

enum http_framing_fault { HTTP_FRAMING_OK, HTTP_FRAMING_BAD, HTTP_FRAMING_TOO_LARGE };

/* Zeroed: before a message. */
struct http_framing {
    enum {
        FRAMING_HEAD,
        FRAMING_HEAD_DONE,
        FRAMING_SIZE,
        FRAMING_EXTENSION,
        FRAMING_DATA,
        FRAMING_DATA_END,
        FRAMING_TRAILERS,
        FRAMING_DONE
    } phase;
    bool cr;       /* the last byte was a CR that its LF must follow */
    bool in_line;  /* the current line has bytes */
    bool any_line; /* there was a line that is not empty */
    unsigned digits;
    uint64_t left; /* bytes of the chunk's data */
    size_t extensions, trailers;
};

/* Checks bytes of a head, up to its end: bytes looked at. Then `phase` is FRAMING_HEAD_DONE, or more is
 * needed. */
size_t http_framing_head(struct http_framing *f, const char *data, size_t len,
                         enum http_framing_fault *fault);
/* The same for a chunked body that follows; FRAMING_DONE after its trailers. */
size_t http_framing_chunks(struct http_framing *f, const char *data, size_t len,
                           enum http_framing_fault *fault);

#endif
