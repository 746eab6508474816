#include "container/engine.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths.h"
#include "container/container_internal.h"
#include "container/ns_spawn.h"
#include "container/ns_volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the run directory: a file named by its id for each engine, and the place where each mounts a file system
 * of its own. */
#define MOUNTS_NAME "mounts"
#define LOCK_NEW ".new" /* end of the name until the file is locked */

void engine_random_hex(char *to, size_t n)
{
    uint8_t raw[32];
    if (n > sizeof raw * 2 || getrandom(raw, n / 2, 0) != (ssize_t)(n / 2))
        abort(); /* the kernel's generator cannot fail after boot (getrandom(2)); ids must not be guessable */
    for (size_t i = 0; i < n / 2; i++)
        snprintf(to + 2 * i, 3, "%02x", raw[i]);
}

/* ---- where things are ---- */

/* cloister-init lies in libexec, beside or near the running program, also in a build tree. */
static int find_agent(const char *given, char *to, size_t cap, struct error *err)
{
    cleanup_free char *found = NULL;
    if (!given && paths_helper("cloister-init", &found, err) < 0)
        return -1;
    if (snprintf(to, cap, "%s", given ? given : found) >= (int)cap)
        return error_set(err, ERROR_LIMIT, "the path of cloister-init is too long");
    return 0;
}

static int make_private(const char *dir, struct error *err)
{
    struct stat st;
    if (dir_make(dir, 0755, err) < 0)
        return -1;
    /* Looked at before anything is changed: a slip on the command line must not touch a file or somebody's
     * directory. */
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOTDIR)
        return error_set(err, ERROR_INVALID, "%s is not a directory", dir);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_system(err, errno, "cannot open %s", dir);
    if (st.st_uid != geteuid())
        return error_set(err, ERROR_DENIED, "%s belongs to somebody else", dir);
    if ((st.st_mode & 07777) != 0700 && fchmod(fd, 0700) < 0)
        return error_system(err, errno, "cannot make %s private", dir);
    return 0;
}

static int open_dirs(struct engine *e, const struct engine_config *config, struct error *err)
{
    if (make_private(config->data_dir, err) < 0 || make_private(config->run_dir, err) < 0)
        return -1;
    engine_random_hex(e->id, ENGINE_ID_LEN);
    e->data_dir = strdup(config->data_dir);
    e->run_root = strdup(config->run_dir);
    if (!e->data_dir || !e->run_root || asprintf(&e->run_dir, "%s/" MOUNTS_NAME, config->run_dir) < 0)
        return error_oom(err);
    return 0;
}

/* Says to others that this engine lives. The file gets its name once it is locked: one that is not locked
 * means a dead owner. */
static int take_lock(struct engine *e, struct error *err)
{
    char path[PATH_MAX], name[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s" LOCK_NEW, e->run_root, e->id);
    snprintf(name, sizeof name, "%s/%s", e->run_root, e->id);
    e->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (e->lock_fd < 0 || flock(e->lock_fd, LOCK_EX | LOCK_NB) < 0 || rename(path, name) < 0)
        return error_system(err, errno, "cannot lock %s", path);
    return 0;
}

static void drop_lock(struct engine *e)
{
    char name[PATH_MAX];
    if (e->lock_fd < 0)
        return;
    snprintf(name, sizeof name, "%s/%s", e->run_root, e->id);
    unlink(name);
    close(e->lock_fd);
}

/* The containers' directories hold mount points only, so they lie in a file system that is, like the mounts,
 * this process's alone, and goes away with it. */
static int mount_run_dir(struct engine *e, struct error *err)
{
    if (mkdir(e->run_dir, 0700) < 0 && errno != EEXIST)
        return error_system(err, errno, "cannot create %s", e->run_dir);
    if (mount("cloister", e->run_dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700,size=64k") < 0)
        return error_system(err, errno, "cannot mount a file system at %s", e->run_dir);
    e->mounted = true;
    return 0;
}

/* ---- the grade ---- */

static enum enforcement by_cgroup(const struct engine *e, enum cgroup_controller c,
                                  enum enforcement otherwise)
{
    if (!e->cgroups.has[c])
        return otherwise;
    return e->cgroups.v2 ? ENFORCE_CGROUP_V2 : ENFORCE_CGROUP_V1;
}

const char *enforcement_name(enum enforcement x)
{
    static const char *const names[] = {"none", "watcher", "rlimit", "cgroup v1", "cgroup v2"};
    return names[x];
}

int engine_grade_fill(struct engine *e)
{
    struct grade *g = &e->grade;
    g->root = e->idmap.root;
    g->uid_range = e->idmap.count > 1;
    g->memory = by_cgroup(e, CGROUP_MEMORY, ENFORCE_WATCHER);
    g->pids = by_cgroup(e, CGROUP_PIDS, ENFORCE_RLIMIT);
    g->cpu = by_cgroup(e, CGROUP_CPU, ENFORCE_NONE);
    g->freeze = g->tree_kill = e->cgroups.has[CGROUP_UNIFIED] ? ENFORCE_CGROUP_V2 : ENFORCE_NONE;
    if (g->tree_kill == ENFORCE_NONE)
        g->tree_kill = ENFORCE_WATCHER;
    g->disk_in_memory = volume_spare_make(&e->spare, LIMIT_DEFAULT_DISK, volume_inodes(LIMIT_DEFAULT_DISK));
    g->disk_in_image = g->root && volume_image_possible(NULL);
    snprintf(g->text, sizeof g->text, "namespace, %s, memory: %s, pids: %s, cpu: %s, disk: %s",
             g->root        ? "own id range"
             : g->uid_range ? "ids of the user's subordinate range"
                            : "one id",
             enforcement_name(g->memory), enforcement_name(g->pids), enforcement_name(g->cpu),
             g->disk_in_memory  ? (g->disk_in_image ? "tmpfs or image" : "tmpfs")
             : g->disk_in_image ? "image"
                                : "none");
    return 0;
}

const struct cgroups *engine_cgroups(const struct engine *e)
{
    return &e->cgroups;
}

const char *engine_id(const struct engine *e)
{
    return e->id;
}

void engine_cgroups_left(struct engine *e)
{
    e->cgroups_left = true;
}

const struct grade *engine_grade(const struct engine *e)
{
    return &e->grade;
}

/* ---- opening and closing ---- */

static int enter(struct engine *e, const struct engine_config *config, struct error *err)
{
    if (geteuid() == 0) {
        if (unshare(CLONE_NEWNS) < 0)
            return error_system(err, errno, "cannot enter a private mount namespace");
    } else if (idmap_enter_rootless(&e->idmap, err) < 0) {
        return -1;
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return error_system(err, errno, "cannot make mounts private");
    return 0;
}

static int open_all(struct engine *e, const struct engine_config *config, struct error *err)
{
    char agent[PATH_MAX];
    bool root = geteuid() == 0;
    if (find_agent(config->agent, agent, sizeof agent, err) < 0 || enter(e, config, err) < 0 ||
        open_dirs(e, config, err) < 0 || take_lock(e, err) < 0 || mount_run_dir(e, err) < 0)
        return -1;
    if (root && idmap_open_root(&e->idmap, e->run_root, err) < 0)
        return -1;
    e->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (e->null_fd < 0)
        return error_system(err, errno, "cannot open /dev/null");
    if (ns_seal_program(agent, &e->agent_memfd, err) < 0 ||
        transport_set_init(&e->transports, e->loop, err) < 0)
        return -1;
    cgroups_probe(&e->cgroups);
    return engine_grade_fill(e);
}

int engine_open(struct engine **ret, const struct engine_config *config, struct error *err)
{
    struct engine *e = calloc(1, sizeof *e);
    if (!e)
        return error_oom(err);
    e->loop = config->loop;
    e->backend = &namespace_sandbox;
    e->lock_fd = e->agent_memfd = e->null_fd = e->idmap.lock_fd = e->spare.mount = -1;
    e->last = config->last;
    pool_init(&e->pool, e, config->pool);
    if (open_all(e, config, err) < 0) {
        engine_close(e);
        return -1;
    }
    pool_poke(&e->pool);
    *ret = e;
    return 0;
}

static void engine_closed(uv_handle_t *h)
{
    struct pool *p = h->data;
    free(p->engine);
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    e->closing = true;
    pool_empty(&e->pool);
    while (e->containers)
        container_abandon(e->containers);
    transport_set_close(&e->transports);
    if (e->cgroups_left)
        cgroups_remove_engine(&e->cgroups, e->id);
    idmap_close(&e->idmap);
    cgroups_free(&e->cgroups);
    if (e->mounted && !e->last)
        umount2(e->run_dir, MNT_DETACH);
    drop_lock(e);
    int fds[] = {e->agent_memfd, e->null_fd, e->spare.mount};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(e->data_dir);
    free(e->run_root);
    free(e->run_dir);
    uv_close((uv_handle_t *)&e->pool.timer, engine_closed);
}

/* ---- what dead owners left ---- */

/* "<engine id>", or that and LOCK_NEW. */
static bool is_lock(const char *name)
{
    size_t len = strspn(name, "0123456789abcdef");
    return len == ENGINE_ID_LEN && (!name[len] || strcmp(name + len, LOCK_NEW) == 0);
}

/* True when this was what a dead engine left. */
static bool reap_one(struct engine *e, int root_fd, const char *name)
{
    char id[ENGINE_ID_LEN + 1];
    struct stat st;
    bool named = !name[ENGINE_ID_LEN];
    cleanup_close int lock = openat(root_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0 || fstat(lock, &st) < 0)
        return false;
    /* Without its final name: its owner died before it had the lock, or is just there. Locked: it lives. */
    if ((!named && time(NULL) - st.st_mtime < 60) || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return false;
    snprintf(id, sizeof id, "%s", name);
    if (!cgroups_remove_engine(&e->cgroups, id))
        log_warn("control groups of the ended engine %s could not be removed yet", id);
    volume_remove_engine(e->data_dir, id);
    if (unlinkat(root_fd, name, 0) < 0)
        log_warn("cannot remove %s/%s: %s", e->run_root, name, strerror(errno));
    return named;
}

int engine_reap_orphans(struct engine *e, bool thorough)
{
    int count = 0;
    cleanup_dir DIR *d = opendir(e->run_root);
    struct dirent *entry;
    while (d && (entry = readdir(d)))
        if (is_lock(entry->d_name) && strncmp(entry->d_name, e->id, ENGINE_ID_LEN) != 0)
            count += reap_one(e, dirfd(d), entry->d_name);
    if (thorough || count > 0)
        cgroups_sweep(&e->cgroups);
    return count;
}
