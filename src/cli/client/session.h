/* One exec of the daemon attached to our own stdin, stdout, stderr, terminal and signals. */
#ifndef CLOISTER_CLI_CLIENT_SESSION_H
#define CLOISTER_CLI_CLIENT_SESSION_H

#include "base/buf.h"
#include "cli/client/http.h"

#include <stdint.h>

#define SESSION_CAPTURE_MAX ((size_t)1 << 20)

struct session_config {
    struct http *http;
    const char *container, *exec; /* names in the API */
    bool in;                      /* pass stdin on */
    bool tty;
    bool capture; /* keep output instead of passing it through */
};

struct session_result {
    json_t *exit;           /* the exit event: {exitCode, signal?, reason, detail?} */
    struct buf captured[2]; /* of stdout and stderr */
    uint64_t bytes[2];
    bool output_refused; /* it was ended because nobody read its output */
};

/* Stays until the exec has ended and all its output is written. The result is for session_result_free(). */
int session_run(const struct session_config *config, struct session_result *ret, struct error *err);
void session_result_free(struct session_result *r);

#endif
