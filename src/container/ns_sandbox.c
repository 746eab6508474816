/* The `namespace` backend. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "container/engine_internal.h"
#include "container/ns_root.h"
#include "container/ns_spawn.h"
#include "link/cbor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Room for a few processes' worth of output in flight. */
#define LINK_SOCKET_BUFFER (1 << 20)

struct sandbox {
    struct engine *engine;
    char id[CONTAINER_ID_LEN + 1];
    char *dir;
    char *upper;
    uint32_t id_base;
    bool have_ids;
    pid_t pid;
    int pidfd, link_fd, userns_fd;
    struct cgroup cgroup;
    bool have_cgroup;
    struct ns_root root;
    uv_poll_t poll;
    bool polling, dead;
    int wait_status;
    struct sandbox_events events;
    void *user;
};

/* What is left of a destroyed sandbox whose cgroups were still busy. */
struct remains {
    struct cgroup cgroup;
    uv_timer_t timer;
    unsigned tries;
};

static void close_if(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int open_userns(struct sandbox *s, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", s->pid);
    s->userns_fd = open(path, O_RDONLY | O_CLOEXEC);
    return s->userns_fd < 0 ? error_system(err, errno, "cannot open %s", path) : 0;
}

static int spawn_agent(struct sandbox *s, struct error *err)
{
    int sv[2], size = LINK_SOCKET_BUFFER;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
        return error_system(err, errno, "cannot create the link");
    for (int i = 0; i < 2; i++)
        setsockopt(sv[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    struct ns_spawn spawn = {.agent_memfd = s->engine->agent_memfd,
                             .null_fd = s->engine->null_fd,
                             .link_fd = sv[1],
                             .owner = s->id_base};
    int r = cgroup_open(&s->cgroup, &spawn.cgroup_fd, spawn.tasks_fds, &spawn.tasks_count, err);
    if (r == 0) {
        r = ns_spawn(&spawn, &s->pid, &s->pidfd, err);
        close_if(spawn.cgroup_fd);
        for (int i = 0; i < spawn.tasks_count; i++)
            close(spawn.tasks_fds[i]);
    }
    close(sv[1]);
    if (r < 0) {
        close(sv[0]);
        return -1;
    }
    s->link_fd = sv[0];
    return 0;
}

static int make_dir(struct sandbox *s, struct error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", s->engine->run_dir, s->id) >= (int)sizeof path)
        return error_system(err, ENAMETOOLONG, "cannot create a run directory below %s", s->engine->run_dir);
    s->dir = strdup(path);
    if (!s->dir)
        return error_oom(err);
    if (mkdir(s->dir, 0700) < 0)
        return error_system(err, errno, "cannot create %s", s->dir);
    s->root.dir_fd = open(s->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->root.dir_fd < 0)
        return error_system(err, errno, "cannot open %s", s->dir);
    snprintf(path, sizeof path, "%s/disk/0/upper", s->dir);
    s->upper = strdup(path);
    return s->upper ? 0 : error_oom(err);
}

static enum volume_kind volume_kind(const struct engine *e, const struct limits *l)
{
    uint64_t disk = l->disk_bytes ? l->disk_bytes : LIMIT_DEFAULT_DISK;
    uint64_t memory = l->memory_bytes ? l->memory_bytes : LIMIT_DEFAULT_MEMORY;
    const struct grade *g = &e->grade;
    /* A writable layer that could eat more than half of the memory limit goes to disk, so that filling it
     * ends in ENOSPC and not in the memory limit. */
    if (g->disk_in_memory && (disk <= memory / 2 || !g->disk_in_image))
        return VOLUME_MEMORY;
    return g->disk_in_image ? VOLUME_IMAGE : VOLUME_DIRECTORY;
}

static int set_volume(struct sandbox *s, const struct limits *l, struct error *err)
{
    uint64_t disk = l->disk_bytes ? l->disk_bytes : LIMIT_DEFAULT_DISK;
    enum volume_kind kind = volume_kind(s->engine, l);
    if (kind == VOLUME_DIRECTORY && disk != LIMIT_DEFAULT_DISK)
        return error_set(err, ERROR_UNSUPPORTED,
                         "this machine cannot limit the disk for you: that takes Linux 6.6, or root and a "
                         "loop device; leave the limit out");
    return ns_root_volume(&s->root, disk, l->disk_inodes ? l->disk_inodes : volume_inodes(disk), kind, err);
}

static void ns_destroy(struct sandbox *s);

static int ns_create(struct engine *e, const char *id, struct sandbox **ret, struct error *err)
{
    static const struct limits defaults;
    char name[80];
    struct sandbox *s = calloc(1, sizeof *s);
    if (!s)
        return error_oom(err);
    s->engine = e;
    s->pid = -1;
    s->pidfd = s->link_fd = s->userns_fd = s->root.dir_fd = -1;
    snprintf(s->id, sizeof s->id, "%s", id);
    if (make_dir(s, err) < 0 || idmap_take(&e->idmap, &s->id_base, err) < 0)
        goto fail;
    s->have_ids = true;
    snprintf(name, sizeof name, "%s.%s", e->id, s->id);
    if (cgroup_create(&e->cgroups, name, &s->cgroup, err) < 0)
        goto fail;
    s->have_cgroup = true;
    if (spawn_agent(s, err) < 0 || idmap_write(&e->idmap, s->pid, s->id_base, err) < 0 ||
        open_userns(s, err) < 0)
        goto fail;
    s->root.dir = s->dir;
    s->root.uid = s->id_base;
    s->root.userns_fd = s->userns_fd;
    s->root.idmap = e->idmap.root;
    s->root.data_dir = e->data_dir;
    s->root.name = s->cgroup.name;
    s->root.spare = &e->spare;
    if (set_volume(s, &defaults, err) < 0)
        goto fail;
    *ret = s;
    return 0;
fail:
    ns_destroy(s);
    return -1;
}

static int ns_link_fd(struct sandbox *s)
{
    return steal_fd(&s->link_fd);
}

static void on_pidfd(uv_poll_t *p, int status, int events)
{
    struct sandbox *s = p->data;
    if (waitpid(s->pid, &s->wait_status, WNOHANG) != s->pid)
        return;
    s->dead = true;
    uv_poll_stop(p);
    if (s->events.dead)
        s->events.dead(s->user, s->wait_status);
}

static void ns_watch(struct sandbox *s, const struct sandbox_events *events, void *user)
{
    s->events = *events;
    s->user = user;
    uv_poll_init(s->engine->loop, &s->poll, s->pidfd);
    s->poll.data = s;
    s->polling = true;
    uv_poll_start(&s->poll, UV_READABLE, on_pidfd);
}

static int add_fd(int *fds, int max, int *n, int fd, struct error *err)
{
    if (*n >= max) {
        close(fd);
        return error_set(err, ERROR_LIMIT, "too many mounts: at most %d fit", max);
    }
    fds[(*n)++] = fd;
    return *n - 1;
}

static int prepare_mounts(struct sandbox *s, const struct start_spec *spec, struct buf *args, int *fds,
                          int max, int *n, struct error *err)
{
    int fd = -1;
    cbor_put_text(args, "mounts");
    cbor_put_array(args, spec->mount_count + (spec->host_usr ? 1 : 0));
    for (size_t i = 0; i < spec->mount_count + (spec->host_usr ? 1 : 0); i++) {
        bool usr = spec->host_usr && i == 0;
        const struct root_mount *m = usr ? NULL : &spec->mounts[i - (spec->host_usr ? 1 : 0)];
        if (usr ? ns_root_usr(&s->root, &fd, err) < 0
                : ns_root_overlay(&s->root, m->layers, m->layer_count, &fd, err) < 0)
            return -1;
        int index = add_fd(fds, max, n, fd, err);
        if (index < 0)
            return -1;
        cbor_put_map(args, 2);
        cbor_put_text(args, "fd");
        cbor_put_uint(args, (uint64_t)index);
        cbor_put_text(args, "target");
        cbor_put_string(args, usr ? "/usr" : m->target);
    }
    return 0;
}

static int ns_prepare(struct sandbox *s, const struct start_spec *spec, struct buf *args, unsigned *pairs,
                      int *fds, int max_fds, int *nfds, struct error *err)
{
    const struct limits *l = &spec->limits;
    int fd = -1;
    *nfds = 0;
    *pairs = 0;
    if (cgroup_limit(&s->cgroup, l, err) < 0 || set_volume(s, l, err) < 0 ||
        ns_root_overlay(&s->root, spec->layers, spec->layer_count, &fd, err) < 0)
        goto fail;
    int index = add_fd(fds, max_fds, nfds, fd, err);
    if (index < 0)
        goto fail;
    cbor_put_text(args, "root");
    cbor_put_uint(args, (uint64_t)index);
    if (prepare_mounts(s, spec, args, fds, max_fds, nfds, err) < 0)
        goto fail;
    *pairs = 2;
    fd = cgroup_delegate(&s->cgroup, s->id_base, s->id_base);
    if (fd >= 0) {
        index = add_fd(fds, max_fds, nfds, fd, err);
        if (index < 0)
            goto fail;
        cbor_put_text(args, "cgroup");
        cbor_put_uint(args, (uint64_t)index);
        ++*pairs;
    }
    return 0;
fail:
    while (*nfds > 0)
        close(fds[--*nfds]);
    return -1;
}

static void ns_settle(struct sandbox *s)
{
    if (!s->engine->last)
        ns_root_release_layers(&s->root);
}

static bool ns_can_adjust(const struct engine *e, const struct limits *l)
{
    static const struct limits defaults;
    enum volume_kind kind = volume_kind(e, l);
    /* The volume of a warm container is in use: in memory it can be resized, otherwise it must be what is
     * wanted. */
    return kind == VOLUME_MEMORY || (kind == volume_kind(e, &defaults) && !l->disk_inodes &&
                                     (!l->disk_bytes || l->disk_bytes == LIMIT_DEFAULT_DISK));
}

static int ns_adjust(struct sandbox *s, const struct limits *l, const char *hostname, struct error *err)
{
    if (cgroup_limit(&s->cgroup, l, err) < 0 || set_volume(s, l, err) < 0)
        return -1;
    return hostname ? ns_set_hostname(s->pidfd, hostname, err) : 0;
}

static void ns_kill(struct sandbox *s)
{
    if (s->dead || s->pidfd < 0)
        return;
    /* The end of PID 1 ends its namespace; the cgroup thaws what is frozen, so that it can end. */
    syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
    if (s->have_cgroup)
        cgroup_kill(&s->cgroup);
}

static int ns_freeze(struct sandbox *s, bool on, struct error *err)
{
    return cgroup_freeze(&s->cgroup, on, err);
}

static uint64_t ns_oom_kills(struct sandbox *s)
{
    return s->have_cgroup ? cgroup_oom_kills(&s->cgroup) : 0;
}

static int ns_usage(struct sandbox *s, struct container_usage *ret, struct error *err)
{
    memset(ret, 0, sizeof *ret);
    cgroup_usage(&s->cgroup, ret);
    ns_root_usage(&s->root, &ret->disk_bytes, &ret->disk_inodes);
    return 0;
}

static int ns_upper(struct sandbox *s, const char **ret_dir, int *ret_userns, struct error *err)
{
    *ret_dir = s->upper;
    *ret_userns = s->root.idmap ? s->userns_fd : -1;
    return 0;
}

static void remains_closed(uv_handle_t *h)
{
    free(h->data);
}

static void remains_retry(uv_timer_t *t)
{
    struct remains *r = t->data;
    if (cgroup_remove(&r->cgroup) || ++r->tries >= 200)
        uv_close((uv_handle_t *)t, remains_closed);
}

/* A cgroup stays busy for a moment after its last process was reaped. */
static void remove_cgroup(struct sandbox *s)
{
    if (cgroup_remove(&s->cgroup))
        return;
    s->engine->cgroups_left = true;
    struct remains *r = calloc(1, sizeof *r);
    if (!r)
        return;
    r->cgroup = s->cgroup;
    uv_timer_init(s->engine->loop, &r->timer);
    r->timer.data = r;
    uv_timer_start(&r->timer, remains_retry, 5, 50);
    uv_unref((uv_handle_t *)&r->timer);
}

static void sandbox_closed(uv_handle_t *h)
{
    free(h->data);
}

static void ns_destroy(struct sandbox *s)
{
    if (!s)
        return;
    if (s->pid > 0 && !s->dead) {
        ns_kill(s);
        waitpid(s->pid, NULL, 0);
    }
    if (s->have_cgroup)
        remove_cgroup(s);
    /* The process ends: its mounts, and the directories they are in, go with it. */
    bool leave = s->engine->last && s->engine->mounted;
    ns_root_remove(&s->root, leave);
    close_if(s->root.dir_fd);
    close_if(s->link_fd);
    close_if(s->userns_fd);
    if (s->dir && !leave)
        dir_remove(AT_FDCWD, s->dir, NULL);
    if (s->have_ids)
        idmap_give(&s->engine->idmap, s->id_base);
    free(s->dir);
    free(s->upper);
    if (s->polling) {
        uv_close((uv_handle_t *)&s->poll, sandbox_closed);
        close_if(s->pidfd);
        return;
    }
    close_if(s->pidfd);
    free(s);
}

const struct sandbox_ops namespace_sandbox = {
    .name = "namespace",
    .create = ns_create,
    .link_fd = ns_link_fd,
    .watch = ns_watch,
    .prepare = ns_prepare,
    .settle = ns_settle,
    .can_adjust = ns_can_adjust,
    .adjust = ns_adjust,
    .kill = ns_kill,
    .freeze = ns_freeze,
    .oom_kills = ns_oom_kills,
    .usage = ns_usage,
    .upper = ns_upper,
    .destroy = ns_destroy,
};
