/* Files below one directory, by names that nobody vouches for. No name leads outside the directory, not
 * through "..", not through symbolic links, not by a race with whoever else writes there. */
#ifndef CLOISTER_CLI_BENEATH_H
#define CLOISTER_CLI_BENEATH_H

#include "base/error.h"

#include <stdbool.h>

#define BENEATH_MAX_PATH 4096u
#define BENEATH_MAX_DEPTH 256u

/* Cleans a name into `to` ("./a//b/" becomes "a/b", "." becomes ""): refuses absolute names, "..", too long
 * and too deep ones. */
int beneath_clean(const char *name, char to[BENEATH_MAX_PATH], struct error *err);
/* True when a symbolic link at the clean `name` may point to `target`: a relative path that climbs, by ".."
 * at its beginning only, no higher than the top. (".." further on could climb out through another link.) */
bool beneath_link_stays(const char *name, const char *target);

/* All names below are clean and not empty. */
int beneath_mkdir(int dir, const char *name, unsigned mode,
                  struct error *err); /* with parents; an existing one is fine */
/* A new file in place of whatever but a directory has that name; parents are made. A descriptor. */
int beneath_create(int dir, const char *name, struct error *err);
int beneath_symlink(int dir, const char *name, const char *target, struct error *err);
/* Makes `name` a further name of the regular file `existing`. */
int beneath_hardlink(int dir, const char *name, const char *existing, struct error *err);

#endif
