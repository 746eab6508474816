/* What long work tells while it runs: for people on standard error when that is a terminal, or as one JSON
 * object a line on standard output. */
#ifndef CLOISTER_IMAGE_PROGRESS_H
#define CLOISTER_IMAGE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool json;        /* --progress json */
    bool tty;         /* standard error is a terminal */
    bool line_open;   /* an unfinished line stands on the terminal */
    uint64_t next_ns; /* not before: counters are shown a few times a second */
    const char *stage;
    char what[96];
    uint64_t total;
};
/* `mode`: "json", "plain", "none", or NULL for what fits. False for another word. */
bool progress_init(struct progress *p, const char *mode);
/* Begins a stage such as "fetch", "verify", "unpack" of `what`; total bytes where known, else 0. */
void progress_stage(struct progress *p, const char *stage, const char *what, uint64_t total);
void progress_bytes(struct progress *p, uint64_t done);
/* A remark that the user should see ("owners could not be kept"). */
void progress_note(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_end(struct progress *p);

#endif
