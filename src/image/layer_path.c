#include "image/layer_path.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LINKS_MAX 40
#define OPAQUE_XATTR "user.overlay.opaque"

static int open_in(int root, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS};
    for (int attempt = 0;; attempt++) {
        long fd = syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
        /* EAGAIN: something was renamed elsewhere while the kernel walked over "..". */
        if (fd >= 0 || errno != EAGAIN || attempt == 16)
            return (int)fd;
    }
}

/* One part of a name: takes it from *rest. False when nothing is left. */
static bool take_part(const char **rest, const char **part, size_t *len)
{
    *rest += strspn(*rest, "/");
    *part = *rest;
    *len = strcspn(*rest, "/");
    *rest += *len;
    return *len > 0;
}

int entry_name_parse(const char *raw, struct entry_name *ret, struct error *err)
{
    if (!raw || !*raw)
        return error_set(err, ERROR_INVALID, "an entry has an empty name");
    if (strlen(raw) > LIMIT_PATH)
        return error_set(err, ERROR_LIMIT, "the name \"%.60s...\" is longer than %d bytes", raw, LIMIT_PATH);
    const char *rest = raw, *part;
    size_t len, n = 0, base = 0;
    unsigned depth = 0;
    while (take_part(&rest, &part, &len)) {
        if (len == 1 && part[0] == '.')
            continue;
        if (len == 2 && !memcmp(part, "..", 2))
            return error_set(err, ERROR_DENIED, "entry \"%.200s\" leads upwards (\"..\")", raw);
        if (len > LIMIT_NAME)
            return error_set(err, ERROR_LIMIT, "a part of the name \"%.60s...\" is longer than %d bytes", raw,
                             LIMIT_NAME);
        if (++depth > LIMIT_DEPTH)
            return error_set(err, ERROR_LIMIT, "entry \"%.60s...\" lies more than %d directories deep", raw,
                             LIMIT_DEPTH);
        if (n > 0)
            ret->path[n++] = '/';
        base = n;
        memcpy(ret->path + n, part, len);
        n += len;
    }
    ret->path[n] = '\0';
    ret->base = ret->path + base;
    memcpy(ret->parent, ret->path, base);
    ret->parent[base > 0 ? base - 1 : 0] = '\0';
    return 0;
}

void layer_path_init(struct layer_path *p, int root, const int *lowers, size_t lower_count,
                     struct dir_attrs *dirs)
{
    *p = (struct layer_path){
        .root = root, .lowers = lowers, .lower_count = lower_count, .cached_fd = -1, .dirs = dirs};
    p->keep_owner = geteuid() == 0;
}

void layer_path_free(struct layer_path *p)
{
    layer_path_forget(p);
}

void layer_path_forget(struct layer_path *p)
{
    if (p->cached_fd >= 0)
        close(p->cached_fd);
    p->cached_fd = -1;
}

bool is_whiteout(const char *name, int dirfd)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0;
}

int dir_set_opaque(int dirfd, const char *name)
{
    cleanup_close int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -1 : fsetxattr(fd, OPAQUE_XATTR, "y", 1, 0);
}

int whiteout_to_opaque_dir(int dirfd, const char *name)
{
    if (unlinkat(dirfd, name, 0) < 0 || mkdirat(dirfd, name, 0755) < 0)
        return -1;
    return dir_set_opaque(dirfd, name);
}

/* What the layers below have at `path`: 1 a directory (*ret_st), 2 a symbolic link (*ret_link), 0 nothing to
 * take over. */
static int lower_lookup(const struct layer_path *p, const char *path, struct stat *ret_st,
                        char ret_link[LIMIT_PATH + 1])
{
    for (size_t i = 0; i < p->lower_count; i++) {
        cleanup_close int fd =
            open_in(p->lowers[i], path, O_PATH | O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
        if (fd < 0 && errno == ELOOP)
            fd = open_in(p->lowers[i], path, O_PATH | O_NOFOLLOW, RESOLVE_IN_ROOT);
        if (fd < 0 && errno == ENOTDIR) /* a parent is a file or a whiteout there: all below is hidden */
            return 0;
        if (fd < 0 || fstat(fd, ret_st) < 0)
            continue;
        if (S_ISDIR(ret_st->st_mode))
            return 1;
        ssize_t n = S_ISLNK(ret_st->st_mode) ? readlinkat(fd, "", ret_link, LIMIT_PATH) : -1;
        if (n <= 0)
            return 0; /* a file or a whiteout: hidden from here on */
        ret_link[n] = '\0';
        return 2;
    }
    return 0;
}

/* A walk of a path, part by part, in which what is missing is made. */
struct walk {
    struct layer_path *p;
    char done[LIMIT_PATH + 1]; /* resolved so far: holds no symbolic link */
    char rest[2 * LIMIT_PATH + 2];
    const char *whole; /* for messages */
    unsigned links;
    bool follow;
};

static int walk_link(struct walk *w, const char *target, struct error *err)
{
    if (!w->follow)
        return error_set(err, ERROR_DENIED, "\"%.150s\" is reached through a symbolic link", w->whole);
    if (++w->links > LINKS_MAX)
        return error_set(err, ERROR_DENIED, "\"%.150s\" is reached through too many symbolic links",
                         w->whole);
    char joined[sizeof w->rest];
    int n = snprintf(joined, sizeof joined, "%s/%s", target, w->rest);
    if (n >= (int)sizeof joined)
        return error_set(err, ERROR_LIMIT, "\"%.150s\" is too long when its links are followed", w->whole);
    if (target[0] == '/')
        w->done[0] = '\0';
    memcpy(w->rest, joined, (size_t)n + 1);
    return 0;
}

/* Notes how a directory that the tar does not list is to look in the end: as `like`, or plain. */
static int implied_dir(struct layer_path *p, int dir, const char *name, const char *path,
                       const struct stat *like, struct error *err)
{
    static const struct timespec epoch = {0};
    struct stat made;
    p->implied++;
    if (fstatat(dir, name, &made, AT_SYMLINK_NOFOLLOW) < 0)
        return error_system(err, errno, "cannot look at \"%.150s\"", path);
    return dir_attrs_put(p->dirs, made.st_ino, like ? like->st_mode & 07777 : 0755,
                         like ? like->st_mtim : epoch, err);
}

/* Makes the missing directory `name` below `dir`, or follows what the layers below have there. */
static int walk_missing(struct walk *w, int dir, const char *name, const char *path, bool *ret_linked,
                        struct error *err)
{
    struct stat st;
    char link[LIMIT_PATH + 1];
    int below = lower_lookup(w->p, path, &st, link);
    *ret_linked = below == 2;
    if (below == 2)
        return walk_link(w, link, err);
    if (mkdirat(dir, name, 0700) < 0)
        return error_system(err, errno, "cannot make directory \"%.150s\"", path);
    /* Where it stands for a directory below, it must not change how that looks. */
    if (below == 1 && w->p->keep_owner &&
        fchownat(dir, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EINVAL &&
        errno != EPERM)
        return error_system(err, errno, "cannot set the owner of \"%.150s\"", path);
    return implied_dir(w->p, dir, name, path, below == 1 ? &st : NULL, err);
}

static int walk_part(struct walk *w, const char *part, size_t len, struct error *err)
{
    char name[LIMIT_NAME + 1], path[LIMIT_PATH + LIMIT_NAME + 3], link[LIMIT_PATH + 1];
    char *slash = strrchr(w->done, '/');
    if (len == 1 && part[0] == '.')
        return 0;
    if (len == 2 && !memcmp(part, "..", 2)) {
        *(slash ? slash : w->done) = '\0';
        return 0;
    }
    if (len > LIMIT_NAME)
        return error_system(err, ENAMETOOLONG, "\"%.150s\"", w->whole);
    snprintf(name, sizeof name, "%.*s", (int)len, part);
    if (snprintf(path, sizeof path, "%s%s%s", w->done, *w->done ? "/" : "", name) > LIMIT_PATH)
        return error_system(err, ENAMETOOLONG, "\"%.150s\"", w->whole);
    cleanup_close int dir =
        open_in(w->p->root, w->done, O_PATH | O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    struct stat st;
    if (dir < 0)
        return error_system(err, errno, "cannot open \"%.150s\"", w->done);
    bool linked = false;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            return error_system(err, errno, "cannot look at \"%.150s\"", path);
        if (walk_missing(w, dir, name, path, &linked, err) < 0)
            return -1;
    } else if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(dir, name, link, LIMIT_PATH);
        if (n <= 0)
            return error_system(err, errno, "cannot read link \"%.150s\"", path);
        link[n] = '\0';
        return walk_link(w, link, err);
    } else if (S_ISCHR(st.st_mode) && st.st_rdev == 0) {
        if (whiteout_to_opaque_dir(dir, name) < 0)
            return error_system(err, errno, "cannot make directory \"%.150s\"", path);
        if (implied_dir(w->p, dir, name, path, NULL, err) < 0)
            return -1;
    } else if (!S_ISDIR(st.st_mode)) {
        return error_set(err, ERROR_INVALID, "\"%.150s\": \"%.150s\" is not a directory", w->whole, path);
    }
    if (!linked)
        memcpy(w->done, path, strlen(path) + 1);
    return 0;
}

static int walk_run(struct walk *w, struct error *err)
{
    for (;;) {
        const char *rest = w->rest, *part;
        char copy[LIMIT_NAME + 2];
        size_t len;
        if (!take_part(&rest, &part, &len))
            break;
        snprintf(copy, sizeof copy, "%.*s", (int)len, part);
        memmove(w->rest, rest, strlen(rest) + 1);
        if (walk_part(w, copy, strlen(copy), err) < 0)
            return -1;
    }
    int fd = open_in(w->p->root, w->done, O_PATH | O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    return fd < 0 ? error_system(err, errno, "cannot open \"%.150s\"", w->done) : fd;
}

static int walk_make(struct layer_path *p, const char *dir, bool links, struct error *err)
{
    struct walk *w = calloc(1, sizeof *w);
    if (!w)
        return error_oom(err);
    w->p = p;
    w->whole = dir;
    w->follow = links;
    snprintf(w->rest, sizeof w->rest, "%s", dir);
    int fd = walk_run(w, err);
    free(w);
    return fd;
}

int layer_path_open(struct layer_path *p, const char *dir, bool links, struct error *err)
{
    if (p->cached_fd >= 0 && links && !strcmp(p->cached, dir))
        return p->cached_fd;
    layer_path_forget(p);
    int fd = open_in(p->root, dir, O_PATH | O_DIRECTORY,
                     links ? RESOLVE_IN_ROOT : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || (errno == ELOOP && !links)))
        fd = walk_make(p, dir, links, err);
    else if (fd < 0)
        return error_system(err, errno, "cannot reach \"%.150s\"", dir);
    if (fd < 0)
        return -1;
    p->cached_fd = fd;
    snprintf(p->cached, sizeof p->cached, "%s", dir);
    return fd;
}

int layer_path_find(struct layer_path *p, const char *dir, struct error *err)
{
    int fd = open_in(p->root, dir, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT);
    if (fd < 0)
        return error_set(err, ERROR_NOT_FOUND, "\"%.150s\" is not in this layer", dir);
    return fd;
}
