/* "fs.watch": changes below a path, by inotify. Events are a CBOR sequence; a rename within the watched tree
 * is one event. When the kernel had to drop events, "overflow" says so: the caller must look for itself. */
#include "agent/fs_path.h"
#include "agent/fs_stream.h"
#include "agent/fs_walk.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define MASK                                                                                                 \
    (IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |          \
     IN_MOVE_SELF)
#define MAX_WATCHES 65536
#define PAIR_WAIT_MS                                                                                         \
    20 /* the two halves of a rename come together; this is for the pair split between reads */

struct watch {
    struct watch *next;
    int wd;
    char *path; /* relative; "" for the start */
};

struct watching {
    const struct fs_request *q;
    const struct fs_io *io;
    int inotify;
    struct watch *watches[1024];
    size_t count;
    struct fs_out out;
    struct buf event;
    bool gone;
    /* the first half of a rename */
    uint32_t cookie;
    bool moved_directory;
    char moved_from[PATH_MAX];
};

static struct watch **find(struct watching *w, int wd)
{
    struct watch **at = &w->watches[(unsigned)wd % 1024];
    while (*at && (*at)->wd != wd)
        at = &(*at)->next;
    return at;
}

static void emit(struct watching *w, const char *what, const char *path, bool directory, const char *to)
{
    buf_clear(&w->event);
    cbor_put_map(&w->event, to ? 4 : 3);
    cbor_put_text(&w->event, "event");
    cbor_put_text(&w->event, what);
    cbor_put_text(&w->event, "path");
    cbor_put_string(&w->event, path);
    cbor_put_text(&w->event, "isDirectory");
    cbor_put_bool(&w->event, directory);
    if (to) {
        cbor_put_text(&w->event, "to");
        cbor_put_string(&w->event, to);
    }
    fs_out_put(&w->out, w->event.data, w->event.len);
}

/* By descriptor, so that no name is walked twice. */
static int add(struct watching *w, int fd, const char *path, struct error *err)
{
    char self[64];
    if (w->count >= MAX_WATCHES)
        return error_set(err, ERROR_LIMIT, "the watched tree has more than %d directories", MAX_WATCHES);
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int wd = inotify_add_watch(w->inotify, self, MASK);
    if (wd < 0)
        return fs_fail(err, errno, "watch", *path ? path : w->q->path);
    struct watch **at = find(w, wd);
    char *copy = strdup(path);
    if (!copy)
        return error_oom(err);
    if (*at) { /* known already: it was moved within the tree */
        free((*at)->path);
        (*at)->path = copy;
        return 0;
    }
    struct watch *n = malloc(sizeof *n);
    if (!n) {
        free(copy);
        return error_oom(err);
    }
    *n = (struct watch){NULL, wd, copy};
    *at = n;
    w->count++;
    return 0;
}

struct scan {
    struct watching *w;
    const char *base; /* path of the scanned directory */
    bool report;      /* tell what is found: it came before the watch */
};

static int scan_one(void *user, const struct walk_entry *e, struct error *err)
{
    struct scan *s = user;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s%s%s", s->base, *s->base ? "/" : "", e->path) >= (int)sizeof path)
        return 0;
    bool directory = S_ISDIR(e->st.st_mode);
    if (s->report)
        emit(s->w, "create", path, directory, NULL);
    if (!directory)
        return 0;
    cleanup_close int fd = openat(e->dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    return add(s->w, fd, path, err) < 0 ? -1 : 1;
}

/* Watches the directory `fd` (taken) and, when recursive, all below it. */
static int add_tree(struct watching *w, int fd, const char *path, bool report, struct error *err)
{
    if (add(w, fd, path, err) < 0 || !w->q->recursive) {
        close(fd);
        return err->kind == ERROR_NONE ? 0 : -1;
    }
    struct scan s = {w, path, report};
    return fs_walk(fd, scan_one, &s, err);
}

static int new_directory(struct watching *w, const char *path, bool report, struct error *err)
{
    char full[2 * PATH_MAX];
    snprintf(full, sizeof full, "%s/%s", w->q->path, path);
    int fd = open(full, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? 0 : add_tree(w, fd, path, report, err);
}

/* A move whose other half did not come leads out of the tree. */
static void flush_move(struct watching *w)
{
    if (w->cookie)
        emit(w, "delete", w->moved_from, w->moved_directory, NULL);
    w->cookie = 0;
}

static int handle_named(struct watching *w, const struct inotify_event *e, const char *path,
                        struct error *err)
{
    bool directory = e->mask & IN_ISDIR;
    if (w->cookie && !(e->mask & IN_MOVED_TO && e->cookie == w->cookie))
        flush_move(w);
    if (e->mask & IN_MOVED_FROM) {
        w->cookie = e->cookie;
        w->moved_directory = directory;
        snprintf(w->moved_from, sizeof w->moved_from, "%s", path);
        return 0;
    }
    bool renamed = e->mask & IN_MOVED_TO && w->cookie;
    if (renamed) {
        emit(w, "rename", w->moved_from, directory, path);
        w->cookie = 0;
    } else if (e->mask & (IN_CREATE | IN_MOVED_TO)) {
        emit(w, "create", path, directory, NULL);
    } else if (e->mask & IN_DELETE) {
        emit(w, "delete", path, directory, NULL);
    } else if (e->mask & IN_MODIFY) {
        emit(w, "modify", path, directory, NULL);
    } else if (e->mask & IN_ATTRIB) {
        emit(w, "attrib", path, directory, NULL);
    }
    if (directory && w->q->recursive && e->mask & (IN_CREATE | IN_MOVED_TO))
        return new_directory(w, path, !renamed, err);
    return 0;
}

static int handle(struct watching *w, const struct inotify_event *e, struct error *err)
{
    if (e->mask & IN_Q_OVERFLOW) {
        emit(w, "overflow", "", false, NULL);
        return 0;
    }
    struct watch **at = find(w, e->wd), *watch = *at;
    if (!watch)
        return 0;
    bool start = watch->path[0] == '\0';
    if (e->mask & IN_IGNORED) {
        *at = watch->next;
        free(watch->path);
        free(watch);
        w->count--;
        w->gone |= start;
        return 0;
    }
    if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
        w->gone |= start;
        return 0;
    }
    char path[PATH_MAX];
    if (e->len == 0) { /* the watched thing itself: told by its parent, unless it is the start */
        if (start)
            emit(w, e->mask & IN_MODIFY ? "modify" : "attrib", "", e->mask & IN_ISDIR, NULL);
        return 0;
    }
    if (snprintf(path, sizeof path, "%s%s%s", watch->path, start ? "" : "/", e->name) >= (int)sizeof path)
        return 0;
    return handle_named(w, e, path, err);
}

static int handle_all(struct watching *w, struct error *err)
{
    static char data[32 << 10] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(w->inotify, data, sizeof data);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : fs_fail(err, errno, "watch", w->q->path);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *e = (const struct inotify_event *)(data + at);
        if (handle(w, e, err) < 0)
            return -1;
        at += (ssize_t)sizeof *e + e->len;
    }
    return 0;
}

static int watch_until_gone(struct watching *w, struct error *err)
{
    while (!w->gone) {
        /* the output pipe hangs up when nobody listens any more */
        struct pollfd fds[2] = {{w->inotify, POLLIN, 0}, {w->io->out, 0, 0}};
        int n = poll(fds, 2, w->cookie ? PAIR_WAIT_MS : -1);
        if (n < 0 && errno != EINTR)
            return fs_fail(err, errno, "watch", w->q->path);
        if (n == 0)
            flush_move(w);
        if (n > 0 && fds[1].revents & POLLERR)
            return 0;
        if (n > 0 && fds[0].revents && handle_all(w, err) < 0)
            return -1;
        if (fs_out_flush(&w->out, err) < 0)
            return -1;
    }
    flush_move(w);
    return fs_out_flush(&w->out, err);
}

int fs_watch(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    static struct watching w;
    struct stat st;
    w.q = q;
    w.io = io;
    buf_init(&w.event, 64 << 10);
    fs_out_init(&w.out, io->out);
    int fd = fs_open_path(q->path, 0, err);
    if (fd < 0 || fs_refuse_pseudo(fd, q->path, err) < 0)
        return -1;
    w.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w.inotify < 0 || fstat(fd, &st) < 0)
        return fs_fail(err, errno, "watch", q->path);
    if (S_ISDIR(st.st_mode)) {
        close(fd);
        fd = fs_open_directory(q->path, err);
        if (fd < 0 || add_tree(&w, fd, "", false, err) < 0)
            return -1;
    } else if (add(&w, fd, "", err) < 0) {
        return -1;
    }
    emit(&w, "ready", "", S_ISDIR(st.st_mode), NULL);
    if (fs_out_flush(&w.out, err) < 0 || watch_until_gone(&w, err) < 0)
        return -1;
    cbor_put_map(ret, 0);
    return 0;
}
