/* Unpacks a tar that came out of a container. UNTRUSTED INPUT: nothing is ever written outside the target
 * directory, whatever the archive says and whatever lies in the directory; bytes and entries are bounded.
 *
 * Refused with an error, which ends the copy: names that are absolute or hold "..", hard links to anything
 * but a file below the directory, malformed headers, more than the limits. Left out and counted: symbolic
 * links that lead out of the tree, devices, FIFOs, sockets. Owners are not restored, setuid and setgid bits
 * are cleared, directories stay open for their owner. */
#ifndef CLOISTER_CLI_TAR_READ_H
#define CLOISTER_CLI_TAR_READ_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct tar_reader;

struct tar_reader_config {
    int dir;        /* borrowed: everything goes below it */
    const char *as; /* borrowed; the archive is of one file, which gets this name; NULL: of a tree, which goes
                       into `dir` */
    uint64_t max_bytes;
    uint64_t max_entries;
};

int tar_reader_new(struct tar_reader **ret, const struct tar_reader_config *config, struct error *err);
void tar_reader_free(struct tar_reader *r);
int tar_reader_feed(struct tar_reader *r, const void *data, size_t len, struct error *err);
/* The archive is complete: fails when it was cut short. */
int tar_reader_finish(struct tar_reader *r, struct error *err);
/* How many entries were left out, and which was the first and why. */
uint64_t tar_reader_skipped(const struct tar_reader *r, const char **ret_first);

#endif
