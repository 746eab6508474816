#include "app/http_framing.h"

/* One byte of lines that end in CRLF and are never folded. 1: it ended an empty line; 0; -1: refused. */
static int line_byte(struct http_framing *f, char byte)
{
    if (f->cr) {
        if (byte != '\n')
            return -1;
        f->cr = false;
        bool empty = !f->in_line;
        f->in_line = false;
        return empty;
    }
    if (byte == '\n')
        return -1;
    if (byte == '\r') {
        f->cr = true;
        return 0;
    }
    if (!f->in_line && (byte == ' ' || byte == '\t'))
        return -1; /* a folded header, or space before the first line */
    f->in_line = f->any_line = true;
    return 0;
}

size_t http_framing_head(struct http_framing *f, const char *data, size_t len, enum http_framing_fault *fault)
{
    for (size_t i = 0; i < len; i++) {
        int r = line_byte(f, data[i]);
        if (r < 0) {
            *fault = HTTP_FRAMING_BAD;
            return i;
        }
        if (r > 0 && f->any_line) { /* empty lines before a request are nothing */
            f->phase = FRAMING_HEAD_DONE;
            return i + 1;
        }
    }
    return len;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The line of the size is over. */
static void begin_data(struct http_framing *f)
{
    f->phase = f->left > 0 ? FRAMING_DATA : FRAMING_TRAILERS;
    f->digits = 0;
    f->in_line = false;
}

/* Of "SIZE[;extension]CRLF". */
static enum http_framing_fault size_byte(struct http_framing *f, char c)
{
    int digit = hex(c);
    if (f->cr) {
        f->cr = false;
        if (c != '\n')
            return HTTP_FRAMING_BAD;
        begin_data(f);
        return HTTP_FRAMING_OK;
    }
    if (f->phase == FRAMING_SIZE && digit >= 0) {
        if (++f->digits > 15)
            return HTTP_FRAMING_BAD;
        f->left = f->left << 4 | (unsigned)digit;
        return HTTP_FRAMING_OK;
    }
    if (f->digits == 0 || c == '\n')
        return HTTP_FRAMING_BAD;
    if (c == '\r') {
        f->cr = true;
        return HTTP_FRAMING_OK;
    }
    if (f->phase == FRAMING_SIZE && c != ';')
        return HTTP_FRAMING_BAD;
    f->phase = FRAMING_EXTENSION;
    if (++f->extensions > HTTP_MAX_CHUNK_EXTENSIONS)
        return HTTP_FRAMING_TOO_LARGE;
    return (unsigned char)c < ' ' && c != '\t' ? HTTP_FRAMING_BAD : HTTP_FRAMING_OK;
}

static enum http_framing_fault data_end_byte(struct http_framing *f, char c)
{
    if (c != (f->cr ? '\n' : '\r'))
        return HTTP_FRAMING_BAD;
    if (f->cr)
        f->phase = FRAMING_SIZE;
    f->cr = !f->cr;
    return HTTP_FRAMING_OK;
}

static enum http_framing_fault trailer_byte(struct http_framing *f, char c)
{
    int r = line_byte(f, c);
    if (r > 0)
        f->phase = FRAMING_DONE;
    if (++f->trailers > HTTP_MAX_TRAILERS)
        return HTTP_FRAMING_TOO_LARGE;
    return r < 0 ? HTTP_FRAMING_BAD : HTTP_FRAMING_OK;
}

size_t http_framing_chunks(struct http_framing *f, const char *data, size_t len,
                           enum http_framing_fault *fault)
{
    size_t i = 0;
    if (f->phase == FRAMING_HEAD_DONE)
        f->phase = FRAMING_SIZE;
    while (i < len && f->phase != FRAMING_DONE) {
        if (f->phase == FRAMING_DATA) {
            uint64_t n = len - i < f->left ? len - i : f->left;
            i += (size_t)n;
            f->left -= n;
            if (f->left == 0)
                f->phase = FRAMING_DATA_END;
            continue;
        }
        *fault = f->phase == FRAMING_DATA_END   ? data_end_byte(f, data[i])
                 : f->phase == FRAMING_TRAILERS ? trailer_byte(f, data[i])
                                                : size_byte(f, data[i]);
        if (*fault)
            return i;
        i++;
    }
    return i;
}
