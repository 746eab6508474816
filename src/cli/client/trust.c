#include "cli/client/trust.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int unreachable(const char *path, struct error *err)
{
    return error_system(err, errno, "the daemon's socket %s cannot be used by you (uid %u)", path,
                        (unsigned)geteuid());
}

/* 1: it is there, and ours or root's; 0: it is not there. */
static int owned(const char *path, const char *what, struct stat *st, struct error *err)
{
    for (int follow = 0; follow < 2; follow++) {
        if ((follow ? stat(path, st) : lstat(path, st)) < 0)
            return errno == ENOENT || errno == ENOTDIR ? 0 : unreachable(path, err);
        if (st->st_uid != geteuid() && st->st_uid != 0)
            return error_set(err, ERROR_DENIED,
                             "%s %s belongs to uid %u, neither to you nor to root: not trusted; choose the "
                             "daemon's with --socket",
                             what, path, (unsigned)st->st_uid);
    }
    return 1;
}

int socket_trust(const char *path, struct error *err)
{
    struct stat st;
    cleanup_free char *dir = strdup(path);
    if (!dir)
        return error_oom(err);
    char *slash = strrchr(dir, '/'); /* paths.c makes them absolute */
    if (slash)
        slash[slash == dir] = '\0';
    int r = owned(dir, "the socket's directory", &st, err);
    if (r > 0)
        r = owned(path, "the socket", &st, err);
    if (r <= 0)
        return r;
    if (!S_ISSOCK(st.st_mode))
        return error_field(err, "--socket", "%s is no socket; choose the daemon's with --socket", path);
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0 ? unreachable(path, err) : 0;
}
