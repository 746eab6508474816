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
    char path[PATH_MAX];
    if (make_private(config->data_dir, err) < 0 || make_private(config->run_dir, err) < 0)
        return -1;
    engine_random_hex(e->id, ENGINE_ID_LEN);
    e->data_dir = strdup(config->data_dir);
    e->run_root = strdup(config->run_dir);
    snprintf(path, sizeof path, "%s/%s", config->run_dir, e->id);
    e->run_dir = strdup(path);
    if (!e->data_dir || !e->run_root || !e->run_dir)
        return error_oom(err);
    if (mkdir(e->run_dir, 0700) < 0)
        return error_system(err, errno, "cannot create %s", e->run_dir);
    /* It gets its name once it is locked: a lock file that is not locked means a dead owner to others. */
    char name[PATH_MAX];
    snprintf(path, sizeof path, "%s/lock.new", e->run_dir);
    snprintf(name, sizeof name, "%s/lock", e->run_dir);
    e->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (e->lock_fd < 0 || flock(e->lock_fd, LOCK_EX | LOCK_NB) < 0 || rename(path, name) < 0)
        return error_system(err, errno, "cannot lock %s", path);
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
    g->disk_in_memory = volume_memory_possible();
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
        open_dirs(e, config, err) < 0)
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
    e->lock_fd = e->agent_memfd = e->null_fd = e->idmap.lock_fd = -1;
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
    cgroups_remove_engine(&e->cgroups, e->id);
    idmap_close(&e->idmap);
    cgroups_free(&e->cgroups);
    if (e->run_dir)
        dir_remove(AT_FDCWD, e->run_dir, NULL);
    int fds[] = {e->lock_fd, e->agent_memfd, e->null_fd};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(e->data_dir);
    free(e->run_root);
    free(e->run_dir);
    uv_close((uv_handle_t *)&e->pool.timer, engine_closed);
}

/* ---- what dead owners left ---- */

static bool is_engine_id(const char *name)
{
    return strlen(name) == ENGINE_ID_LEN && strspn(name, "0123456789abcdef") == ENGINE_ID_LEN;
}

static int reap_one(struct engine *e, int root_fd, const char *name)
{
    char path[NAME_MAX + 16];
    snprintf(path, sizeof path, "%s/lock", name);
    cleanup_close int lock = openat(root_fd, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0 && errno != ENOENT)
        return 0;
    /* Locked: its owner lives. Missing: its owner died between mkdir and open, or is just there: left if
     * young. */
    struct stat st;
    if (lock < 0 && (fstatat(root_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || time(NULL) - st.st_mtime < 60))
        return 0;
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0)
        return 0;
    int count = 0;
    int fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    cleanup_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (d && (entry = readdir(d)))
        count += entry->d_type == DT_DIR && entry->d_name[0] != '.';
    if (!cgroups_remove_engine(&e->cgroups, name))
        log_warn("control groups of the ended engine %s could not be removed yet", name);
    struct error err = {0};
    volume_remove_engine(e->data_dir, name);
    if (dir_remove(root_fd, name, &err) < 0)
        log_warn("%s", err.message);
    return count;
}

int engine_reap_orphans(struct engine *e)
{
    int count = 0;
    cleanup_dir DIR *d = opendir(e->run_root);
    struct dirent *entry;
    while (d && (entry = readdir(d)))
        if (is_engine_id(entry->d_name) && strcmp(entry->d_name, e->id) != 0)
            count += reap_one(e, dirfd(d), entry->d_name);
    cgroups_sweep(&e->cgroups);
    return count;
}
