/* Descriptors and small files. */
#ifndef CLOISTER_BASE_FD_H
#define CLOISTER_BASE_FD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Writes everything, over EINTR and short writes. 0, or -1 with errno. */
int fd_write_all(int fd, const void *data, size_t len);
/* Reads up to `len` bytes until end of file, over EINTR. Bytes read, or -1 with errno. */
ssize_t fd_read_full(int fd, void *data, size_t len);
int fd_set_nonblock(int fd, bool on);
int fd_set_cloexec(int fd, bool on);
/* Writes a whole short string to an existing file (cgroup and /proc controls) in one write(2). dirfd may be
 * AT_FDCWD. 0, or -1 with errno. */
int file_put(int dirfd, const char *path, const char *text);
/* Reads a whole file of at most `max` bytes, NUL-terminated, into memory the caller frees. */
int file_slurp(int dirfd, const char *path, size_t max, char **ret_text, size_t *ret_len, struct error *err);
/* Atomic replacement: temporary file beside it, write, fsync, rename, fsync of the directory. */
int file_replace(int dirfd, const char *path, const void *data, size_t len, mode_t mode, struct error *err);
/* mkdir -p; existing directories are fine. */
int dir_make(const char *path, mode_t mode, struct error *err);
/* Removes a tree without following symbolic links or crossing into other mounts. A missing tree is success.
 */
int dir_remove(int dirfd, const char *path, struct error *err);

#endif
