/* The daemon's HTTP API over its Unix socket, by libcurl. Errors of the API come back as struct error with
 * the same code, message and field; a daemon that cannot be reached is an error that names the address and
 * what to do. */
#ifndef CLOISTER_CLI_CLIENT_HTTP_H
#define CLOISTER_CLI_CLIENT_HTTP_H

#include "base/error.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct http;

int http_open(struct http **ret, const char *socket_path, struct error *err);
void http_close(struct http *h);
const char *http_socket(const struct http *h);

/* A path or query with every %s percent-encoded: url_make("/v1/containers/%s/files?path=%s", name, path).
 * malloc'ed; NULL: no memory. */
char *url_make(const char *fmt, ...);

/* One call with a JSON answer. `body` (may be NULL) is borrowed; `ret` may be NULL; *ret is NULL when the
 * answer is empty. */
int http_json(struct http *h, const char *method, const char *url, json_t *body, json_t **ret,
              struct error *err);

/* A call whose answer is a stream. `accept` may be NULL. The sink returns -1, with the error filled, to give
 * up. */
typedef int (*http_sink)(void *user, const void *data, size_t len, struct error *err);
int http_download(struct http *h, const char *url, const char *accept, http_sink sink, void *user,
                  struct error *err);

/* A PUT whose body is pulled from `source` (bytes, 0 at the end, -1 with the error filled). */
typedef ssize_t (*http_source)(void *user, void *to, size_t cap, struct error *err);
int http_upload(struct http *h, const char *url, http_source source, void *user, json_t **ret,
                struct error *err);

/* For transfers that the caller drives (exec): a new handle, set up for this daemon. The caller sets its
 * callbacks. */
CURL *http_handle(struct http *h, const char *method, const char *url, struct error *err);
/* What the answer `status` with this body says as an error. */
int http_error(long status, const void *body, size_t len, struct error *err);
/* What a transfer that failed in libcurl says as an error. */
int http_transport_error(struct http *h, CURLcode code, const char *detail, struct error *err);

#endif
