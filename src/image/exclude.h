/* What a snapshot leaves out.
 *
 * A pattern without a slash matches a name at any depth. With a slash (but at its end) it is matched part by
 * part from the top of the tree; a leading slash says only that. `*`, `?` and `[...]` stay within a part,
 * `**` as a part stands for any number of parts, none too. A slash at the end: directories only. Whatever
 * lies below a match is left out with it. */
#ifndef CLOISTER_IMAGE_EXCLUDE_H
#define CLOISTER_IMAGE_EXCLUDE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Refuses empty patterns, "." and ".." parts, and patterns longer than 4096 bytes. */
int exclude_check(const char *pattern, struct error *err);
/* `path` is relative to the top ("a/b"). */
bool exclude_matches(const char *const *patterns, size_t count, const char *path, bool dir);

#endif
