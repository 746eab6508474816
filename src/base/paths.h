/* Where Cloister keeps things, for the daemon, `cloister run` and the command line alike.
 *
 *              root                        an ordinary user
 *   data_dir   /var/lib/cloister           $XDG_DATA_HOME/cloister, or ~/.local/share/cloister
 *   run_dir    /run/cloister               $XDG_RUNTIME_DIR/cloister, or /tmp/cloister-<uid>
 *   socket     <run_dir>/cloister.sock
 *
 * CLOISTER_DATA_DIR, CLOISTER_RUN_DIR and CLOISTER_SOCKET override them one by one. */
#ifndef CLOISTER_BASE_PATHS_H
#define CLOISTER_BASE_PATHS_H

#include "base/error.h"

struct paths {
    char *data_dir;
    char *run_dir;
    char *socket;
};

/* Only computes; makes nothing. Call it before engine_open(), which may change what getuid() says. Any of the
 * overrides (values of --data-dir, --run-dir, --socket) may be NULL. All results are absolute. */
int paths_init(struct paths *ret, const char *data_dir, const char *run_dir, const char *socket,
               struct error *err);
void paths_free(struct paths *p);

/* Makes `path` (parents 0755, itself 0700) or checks what is there: a directory, not a symbolic link, owned
 * by the caller, accessible to nobody else. A directory that fails the check is refused with the remedy in
 * the message, never used. */
int paths_private_dir(const char *path, struct error *err);

/* Absolute path of a helper program such as "cloister-image": in one of the directories of CLOISTER_LIBEXEC
 * (separated by colons, as a build tree needs), beside the running program, or in ../libexec/cloister seen
 * from it. Caller frees. */
int paths_helper(const char *name, char **ret, struct error *err);

#endif
