/* Walking a tree by descriptors, depth first, without following links and without entering procfs or sysfs.
 * UNTRUSTED INPUT: the tree changes while we walk. */
#ifndef CLOISTER_AGENT_FS_WALK_H
#define CLOISTER_AGENT_FS_WALK_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

struct walk_entry {
    int dir;          /* where it is */
    const char *name; /* in dir */
    const char *path; /* relative to the start */
    struct stat st;
};

/* Called for every entry below the start. 1: enter it if it is a directory; 0: go on; -1: stop with err. */
typedef int (*walk_fn)(void *user, const struct walk_entry *e, struct error *err);

/* `fd`, a readable directory, is taken over. Things that vanish meanwhile are skipped. */
int fs_walk(int fd, walk_fn fn, void *user, struct error *err);

#endif
