/* One exec of the daemon attached to our own stdin, stdout, stderr, terminal and signals. */
#ifndef CLOISTER_CLI_CLIENT_ATTACH_H
#define CLOISTER_CLI_CLIENT_ATTACH_H

#include "base/buf.h"
#include "cli/client/http.h"

#include <stdint.h>

#define ATTACH_CAPTURE_MAX ((size_t)1 << 20)

struct attach_config {
    struct http *http;
    const char *container, *exec; /* names in the API */
    bool in;                      /* pass stdin on */
    bool tty;
    bool capture; /* keep output instead of passing it through */
};

struct attach_result {
    json_t *exit;           /* the exit event: {exitCode, signal?, reason, detail?} */
    struct buf captured[2]; /* of stdout and stderr */
    uint64_t bytes[2];      /* received, and lost */
    uint64_t dropped[2];    /* bytes that the daemon had to let go before we read them */
    bool output_refused;    /* it was ended because nobody read its output */
};

/* Stays until the exec has ended and all its output is written. The result is for attach_result_free(). */
int attach_run(const struct attach_config *config, struct attach_result *ret, struct error *err);
void attach_result_free(struct attach_result *r);

#endif
