/* The limit options that run and start share. */
#ifndef CLOISTER_CLI_LIMIT_OPTIONS_H
#define CLOISTER_CLI_LIMIT_OPTIONS_H

#include "base/error.h"
#include "cli/options.h"

#include <stdint.h>

struct limit_options { /* 0: not given */
    uint64_t memory_bytes, disk_bytes, timeout_ms;
    uint32_t cpu_milli, pids, open_files;
};

int limit_options_read(const struct options *o, struct limit_options *ret, struct error *err);
/* A duration that must not be zero. */
int timeout_read(const struct options *o, uint64_t *ret_ms, struct error *err);
/* "512M", "1.5G": for messages. */
const char *size_text(uint64_t bytes, char text[16]);

#endif
