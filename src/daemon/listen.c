#include "daemon/listen.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int claim_directory(const char *dir, const char *socket, int *ret_fd, struct error *err)
{
    char path[PATH_MAX], text[512] = "";
    snprintf(path, sizeof path, "%s/daemon.lock", dir);
    cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_system(err, errno, "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return error_system(err, errno, "cannot lock %s", path);
        if (fd_read_full(fd, text, sizeof text - 1) <= 0)
            snprintf(text, sizeof text, "another process");
        text[strcspn(text, "\n")] = '\0';
        return error_set(err, ERROR_EXISTS,
                         "%s is in use by %s; stop that daemon, or choose other directories", dir, text);
    }
    int n = snprintf(text, sizeof text, "the daemon with pid %d and socket %s\n", (int)getpid(), socket);
    if (n >= (int)sizeof text)
        n = sizeof text - 1;
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return error_system(err, errno, "cannot write %s", path);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int remove_stale(const struct sockaddr_un *address, struct error *err)
{
    struct stat st;
    if (lstat(address->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : error_system(err, errno, "cannot look at %s", address->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, ERROR_EXISTS, "%s exists and is no socket; remove it or choose with --socket",
                         address->sun_path);
    cleanup_close int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return error_system(err, errno, "cannot create a socket");
    if (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0 || errno != ECONNREFUSED)
        return error_set(err, ERROR_EXISTS, "somebody serves on %s already", address->sun_path);
    if (unlink(address->sun_path) < 0)
        return error_system(err, errno, "cannot remove %s", address->sun_path);
    return 0;
}

/* Without a directory of its own the socket would stand where others may rename things. */
static int make_parent(const char *path, struct error *err)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    return parent[0] && access(parent, F_OK) < 0 ? paths_private_dir(parent, err) : 0;
}

int listen_unix(const char *path, int *ret_fd, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return error_field(err, "socket",
                           "socket: %s is longer than %zu bytes; choose a shorter one with --socket", path,
                           sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    if (make_parent(path, err) < 0 || remove_stale(&address, err) < 0)
        return -1;
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_system(err, errno, "cannot create a socket");
    mode_t before = umask(0177);
    int r = bind(fd, (const struct sockaddr *)&address, sizeof address), saved = errno;
    umask(before);
    if (r < 0)
        return error_system(err, saved, "cannot bind %s", path);
    if (listen(fd, 1024) < 0)
        return error_system(err, errno, "cannot listen on %s", path);
    *ret_fd = steal_fd(&fd);
    return 0;
}
