/* Reading tar archives: ustar, pax extended headers, GNU long names. UNTRUSTED INPUT, all of it. Bounded:
 * names of PATH_MAX bytes, extended headers of 1 MiB. No file system is touched here. */
#ifndef CLOISTER_AGENT_TAR_READ_H
#define CLOISTER_AGENT_TAR_READ_H

#include "agent/tar_write.h"
#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct tar_entry {
    char type; /* TAR_*; anything unknown has been refused */
    char path[PATH_MAX];
    char link[PATH_MAX]; /* "" when absent */
    uint64_t size;       /* of the data, which tar_read_data() gives; 0 for all but files */
    unsigned mode;
    uint64_t uid, gid;
    struct timespec mtime;
};

struct tar_reader {
    /* Up to `len` bytes of the archive; 0 at its end; -1 with err. */
    ssize_t (*read)(void *user, void *data, size_t len, struct error *err);
    void *user;
    uint64_t data_left;
    unsigned padding;
};

void tar_reader_init(struct tar_reader *t,
                     ssize_t (*read)(void *user, void *data, size_t len, struct error *err), void *user);
/* 1: an entry (data of the one before is skipped); 0: the end mark was read; -1: malformed, cut short, or
 * something that is not supported (devices, sparse files). */
int tar_next(struct tar_reader *t, struct tar_entry *ret, struct error *err);
/* Bytes of the entry's data; 0 at its end. */
ssize_t tar_read_data(struct tar_reader *t, void *data, size_t len, struct error *err);

#endif
