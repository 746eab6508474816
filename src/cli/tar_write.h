/* Packs a file or a tree of this machine as a POSIX pax tar, pulled piece by piece, so that whoever sends it
 * sets the pace. Owner and group are written as 0; hard links within the tree stay
 * links. Sockets, devices and FIFOs are left out and counted. */
#ifndef CLOISTER_CLI_TAR_WRITE_H
#define CLOISTER_CLI_TAR_WRITE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tar_writer;

/* `source` becomes the entry `name` (one path component), what is below it name/... A symbolic link given as
 * `source` itself is followed; those below are packed as links. */
int tar_writer_open(struct tar_writer **ret, const char *source, const char *name, struct error *err);
void tar_writer_free(struct tar_writer *w);
/* Bytes put into `to`; 0 at the end of the archive; -1. */
ssize_t tar_writer_read(struct tar_writer *w, void *to, size_t cap, struct error *err);
/* How many were left out, and the first of them. */
uint64_t tar_writer_skipped(const struct tar_writer *w, const char **ret_first);

#endif
