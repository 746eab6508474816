/* Small steps of the file descriptor based mount API (fsopen(2), fsconfig(2)). */
#ifndef CLOISTER_CONTAINER_FSCONF_H
#define CLOISTER_CONTAINER_FSCONF_H

#include "base/error.h"

#include <stdint.h>

/* The kernel takes option values of at most this many bytes. */
#define FSCONF_MAX 255

int fsconf_string(int fs, const char *key, const char *value);
int fsconf_u64(int fs, const char *key, uint64_t value);
/* Fills `err` from errno and from the last message the kernel left in the context `fs` (-1: none). Returns
 * -1. */
int fsconf_error(int fs, struct error *err, const char *what);

#endif
