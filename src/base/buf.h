/* A growable byte buffer with a hard maximum. Once an append fails (maximum reached or out of memory) the
 * buffer is marked failed and every later append fails too, so a writer checks once, at the end. */
#ifndef CLOISTER_BASE_BUF_H
#define CLOISTER_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t max; /* 0: BUF_DEFAULT_MAX */
    bool failed;
};

#define BUF_DEFAULT_MAX ((size_t)64 << 20)

void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */
int buf_append(struct buf *b, const void *data, size_t len);
int buf_append_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for `len` more bytes and returns where they go (NULL on failure); buf_commit() counts them. */
uint8_t *buf_reserve(struct buf *b, size_t len);
void buf_commit(struct buf *b, size_t len);
/* Drops the first `len` bytes. */
void buf_consume(struct buf *b, size_t len);
/* NUL-terminates (the NUL is not counted) and returns the text, NULL when failed. Owned by the buffer. */
const char *buf_str(struct buf *b);

#endif
