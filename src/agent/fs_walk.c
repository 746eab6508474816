#include "agent/fs_walk.h"

#include "agent/fs_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A path of PATH_MAX bytes has at most this many levels; a deeper tree could not be named anyway. */
#define MAX_DEPTH (PATH_MAX / 2)

struct level {
    struct level *up;
    DIR *dir;
    size_t path_len; /* of the directory's own path, with a trailing slash */
};

struct walk {
    char path[PATH_MAX];
    struct level *top;
    int depth;
    walk_fn fn;
    void *user;
};

static int push(struct walk *w, int fd, size_t path_len, struct error *err)
{
    struct level *l = malloc(sizeof *l);
    DIR *dir = l ? fdopendir(fd) : NULL;
    if (!dir) {
        free(l);
        close(fd);
        return error_oom(err);
    }
    *l = (struct level){w->top, dir, path_len};
    w->top = l;
    w->depth++;
    return 0;
}

static void pop(struct walk *w)
{
    struct level *l = w->top;
    w->top = l->up;
    w->depth--;
    closedir(l->dir);
    free(l);
}

static int enter(struct walk *w, int dir, const char *name, size_t path_len, struct error *err)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
            return 0; /* it is no directory any more */
        return fs_fail(err, errno, "open", w->path);
    }
    if (fs_refuse_pseudo(fd, w->path, NULL) < 0) {
        close(fd);
        return 0;
    }
    if (w->depth >= MAX_DEPTH || path_len + 1 >= sizeof w->path) {
        close(fd);
        return fs_fail(err, ENAMETOOLONG, "enter", w->path);
    }
    w->path[path_len] = '/';
    return push(w, fd, path_len + 1, err);
}

static int visit(struct walk *w, const char *name, struct error *err)
{
    struct walk_entry e = {.dir = dirfd(w->top->dir), .name = name, .path = w->path};
    size_t len = strlen(name), at = w->top->path_len;
    if (at + len >= sizeof w->path)
        return fs_fail(err, ENAMETOOLONG, "list", name);
    memcpy(w->path + at, name, len + 1);
    if (fstatat(e.dir, name, &e.st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fs_fail(err, errno, "look at", w->path);
    int r = w->fn(w->user, &e, err);
    if (r != 1 || !S_ISDIR(e.st.st_mode))
        return r < 0 ? -1 : 0;
    return enter(w, e.dir, name, at + len, err);
}

int fs_walk(int fd, walk_fn fn, void *user, struct error *err)
{
    struct walk *w = calloc(1, sizeof *w);
    if (!w) {
        close(fd);
        return error_oom(err);
    }
    w->fn = fn;
    w->user = user;
    int r = push(w, fd, 0, err);
    while (r == 0 && w->top) {
        errno = 0;
        struct dirent *d = readdir(w->top->dir);
        if (!d && errno != 0 && errno != ENOENT)
            r = fs_fail(err, errno, "list", w->path);
        else if (!d)
            pop(w);
        else if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            r = visit(w, d->d_name, err);
    }
    while (w->top)
        pop(w);
    free(w);
    return r;
}
