/* Where a copy out of a container goes on this machine. */
#ifndef CLOISTER_CLI_COPY_TARGET_H
#define CLOISTER_CLI_COPY_TARGET_H

#include "base/error.h"

#include <stdbool.h>

struct copy_target {
    int dir;  /* everything goes below it */
    char *as; /* name of the one file; NULL: a tree, which goes into `dir` */
};

/* `to` is the name the copy gets; when it is a directory or ends in '/', the directory it goes into under the
 * last component of `from` (a path in the container). `tree`: a directory is copied: it is made. */
int copy_target_open(struct copy_target *ret, const char *to, const char *from, bool tree, struct error *err);
void copy_target_close(struct copy_target *t);

/* The last component of what `path` on this machine really names ("root" for /); owned. NULL with an error.
 */
char *copy_source_name(const char *path, struct error *err);

#endif
