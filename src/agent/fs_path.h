/* Opening things of the container by path, from a file operation's child. UNTRUSTED INPUT: whatever lies at a
 * path is the guest's and may change at any moment. Magic links (/proc/PID/fd and the like) are never
 * followed. */
#ifndef CLOISTER_AGENT_FS_PATH_H
#define CLOISTER_AGENT_FS_PATH_H

#include "agent/fs_request.h"

#include <limits.h>
#include <sys/stat.h>

/* -1 with "cannot <what> <path>: ..." */
int fs_fail(struct error *err, int errnum, const char *what, const char *path);
/* O_PATH of what is there, links followed. */
int fs_open_path(const char *path, int extra_flags, struct error *err);
/* Opens a regular file for reading or writing by way of O_PATH, so that nothing else is ever opened. */
int fs_open_regular(const struct fs_io *io, const char *path, int flags, struct stat *ret, struct error *err);
/* A directory for reading, not on procfs or sysfs. */
int fs_open_directory(const char *path, struct error *err);
/* EACCES when fd is on procfs or sysfs. */
int fs_refuse_pseudo(int fd, const char *path, struct error *err);
/* O_PATH of the directory that holds the last component of `path`, and that component. The last component is
 * not followed; it is never empty, "." or "..". With `parents`, missing directories are made. */
int fs_open_parent(const char *path, bool parents, char name[NAME_MAX + 1], struct error *err);
/* The same, but a symbolic link at the end is followed to where it leads, existing or not. */
int fs_open_target_parent(const char *path, bool parents, char name[NAME_MAX + 1], struct error *err);
/* mkdir -p of a whole path. */
int fs_make_directories(const char *path, unsigned mode, struct error *err);

#endif
