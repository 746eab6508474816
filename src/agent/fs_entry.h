/* How a file is described: the fields of "fs.stat". */
#ifndef CLOISTER_AGENT_FS_ENTRY_H
#define CLOISTER_AGENT_FS_ENTRY_H

#include "base/buf.h"

#include <sys/stat.h>

/* A map; `path` and `target` may be NULL (no such field). */
void fs_put_entry(struct buf *b, const char *path, const struct stat *st, const char *target);
/* The target of a link, in `to` of PATH_MAX bytes, or NULL when it is none or cannot be read. */
const char *fs_link_target(int dirfd, const char *name, char *to);

#endif
