/* A minimal HTTP/1.1 client over a Unix socket, for measuring only: keep-alive, sized or chunked answers. */
#ifndef CLOISTER_BENCH_HTTP_H
#define CLOISTER_BENCH_HTTP_H

#include <stddef.h>

struct http {
    int fd;
    char buf[65536];
    size_t len, pos;
};

int http_open(struct http *h, const char *socket_path);
void http_close(struct http *h);
/* Sends a request and reads the whole answer; status code, body (at most cap-1 bytes) NUL-terminated in
 * `body`. */
int http_request(struct http *h, const char *method, const char *path, const char *json, char *body,
                 size_t cap);
/* Sends a request and reads the head only; the body follows with http_read_chunk(). */
int http_begin(struct http *h, const char *method, const char *path, const char *accept);
/* Bytes of the next piece of a chunked body, 0 at its end; the bytes are discarded beyond cap. */
long http_read_chunk(struct http *h, char *to, size_t cap);

#endif
