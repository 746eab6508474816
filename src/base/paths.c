#include "base/paths.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/user.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An environment value that is set, and absolute where it must be: a relative XDG path is to be ignored (the
 * XDG rule), since it would mean another place in every working directory. */
static const char *env_absolute(const char *name)
{
    const char *v = getenv(name);
    return v && v[0] == '/' ? v : NULL;
}

static int join(char **ret, struct error *err, const char *a, const char *b)
{
    if (asprintf(ret, "%s%s", a, b) < 0) {
        *ret = NULL;
        return error_oom(err);
    }
    return 0;
}

/* A path somebody chose: made absolute against the working directory, trailing slashes cut. */
static int chosen(char **ret, const char *value, const char *field, struct error *err)
{
    if (!value[0])
        return error_field(err, field, "%s: expected a path, got an empty string", field);
    char cwd[PATH_MAX] = "";
    if (value[0] != '/') {
        if (!getcwd(cwd, sizeof cwd - 1))
            return error_system(err, errno, "cannot tell the working directory");
        strcat(cwd, "/");
    }
    if (join(ret, err, cwd, value) < 0)
        return -1;
    size_t len = strlen(*ret);
    while (len > 1 && (*ret)[len - 1] == '/')
        (*ret)[--len] = '\0';
    if (len >= PATH_MAX - 256) {
        free(*ret);
        *ret = NULL;
        return error_field(err, field, "%s: the path is too long", field);
    }
    return 0;
}

static int default_data(char **ret, struct error *err)
{
    if (geteuid() == 0)
        return join(ret, err, "/var/lib/cloister", "");
    const char *xdg = env_absolute("XDG_DATA_HOME");
    if (xdg)
        return join(ret, err, xdg, "/cloister");
    const char *home = env_absolute("HOME");
    struct user user = {0};
    if (!home && user_find(geteuid(), &user) && user.home[0] == '/')
        home = user.home;
    int r = home ? join(ret, err, home, "/.local/share/cloister")
                 : error_set(err, ERROR_NOT_FOUND,
                             "no home directory is known; set HOME, or choose with --data-dir");
    user_free(&user);
    return r;
}

static int default_run(char **ret, struct error *err)
{
    if (geteuid() == 0)
        return join(ret, err, "/run/cloister", "");
    const char *xdg = env_absolute("XDG_RUNTIME_DIR");
    if (xdg)
        return join(ret, err, xdg, "/cloister");
    char uid[16];
    snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
    return join(ret, err, "/tmp/cloister-", uid);
}

int paths_init(struct paths *ret, const char *data_dir, const char *run_dir, const char *socket,
               struct error *err)
{
    struct paths p = {0};
    if (!data_dir)
        data_dir = getenv("CLOISTER_DATA_DIR");
    if (!run_dir)
        run_dir = getenv("CLOISTER_RUN_DIR");
    if (!socket)
        socket = getenv("CLOISTER_SOCKET");
    int r = data_dir ? chosen(&p.data_dir, data_dir, "data-dir", err) : default_data(&p.data_dir, err);
    if (r == 0)
        r = run_dir ? chosen(&p.run_dir, run_dir, "run-dir", err) : default_run(&p.run_dir, err);
    if (r == 0)
        r = socket ? chosen(&p.socket, socket, "socket", err)
                   : join(&p.socket, err, p.run_dir, "/cloister.sock");
    if (r < 0) {
        paths_free(&p);
        return -1;
    }
    *ret = p;
    return 0;
}

void paths_free(struct paths *p)
{
    free(p->data_dir);
    free(p->run_dir);
    free(p->socket);
    memset(p, 0, sizeof *p);
}

int paths_private_dir(const char *path, struct error *err)
{
    cleanup_free char *parent = strdup(path);
    if (!parent)
        return error_oom(err);
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = '\0';
        if (dir_make(parent, 0755, err) < 0)
            return -1;
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_system(err, errno, "cannot create directory %s", path);
    cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return error_set(err, ERROR_INVALID,
                         "%s is not a directory (a link to one will not do); choose another", path);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_system(err, errno, "cannot use directory %s", path);
    if (st.st_uid != geteuid())
        return error_set(err, ERROR_DENIED,
                         "%s belongs to uid %u, not to you; remove it or choose another directory", path,
                         (unsigned)st.st_uid);
    if (st.st_mode & 077)
        return error_set(err, ERROR_DENIED, "%s is open to others (mode %04o); run: chmod 0700 %s", path,
                         (unsigned)st.st_mode & 07777, path);
    return 0;
}

/* True when dir/rest/name is a program; then *ret is its path. */
static bool helper_in(const char *dir, size_t dir_len, const char *rest, const char *name, char **ret)
{
    char *path;
    if (asprintf(&path, "%.*s%s/%s", (int)dir_len, dir, rest, name) < 0)
        return false;
    if (access(path, X_OK) == 0) {
        *ret = path;
        return true;
    }
    free(path);
    return false;
}

int paths_helper(const char *name, char **ret, struct error *err)
{
    const char *dirs = getenv("CLOISTER_LIBEXEC");
    while (dirs && *dirs) {
        size_t len = strcspn(dirs, ":");
        if (dirs[0] == '/' && helper_in(dirs, len, "", name, ret))
            return 0;
        dirs += len + (dirs[len] == ':');
    }
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return error_system(err, errno, "cannot tell where this program is installed");
    self[n] = '\0';
    size_t dir_len = (size_t)(strrchr(self, '/') - self);
    if (helper_in(self, dir_len, "", name, ret) ||
        helper_in(self, dir_len, "/../libexec/cloister", name, ret))
        return 0;
    return error_set(err, ERROR_NOT_FOUND,
                     "the helper program %s is not in %.*s nor in its ../libexec/cloister; reinstall, or set "
                     "CLOISTER_LIBEXEC",
                     name, (int)dir_len, self);
}
