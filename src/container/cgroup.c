#include "container/cgroup.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_CAP 1024
#define SWEEP_AGE_S 60
/* Of the memory limit, what sockets may hold on top of it under version 1. */
#define SOCKET_MEMORY_SHARE 8
#define LISTING_MAX ((size_t)4 << 20)

static const char *const v1_names[] = {"memory", "pids", "cpu"};

/* True when the comma-separated list holds the word. */
static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += len)
        if ((p == list || p[-1] == ',' || p[-1] == ' ') && (!p[len] || strchr(", \n", p[len])))
            return true;
    return false;
}

/* The two files that say where cgroups are, read once for all hierarchies. */
struct listing {
    char *mounts, *own; /* /proc/self/mountinfo, /proc/self/cgroup */
};

/* Copies the line at *at, without its end, and moves on. */
static bool next_line(const char **at, char *to, size_t cap)
{
    size_t len = strcspn(*at, "\n");
    if (!**at)
        return false;
    snprintf(to, cap, "%.*s", (int)len, *at);
    *at += len + ((*at)[len] == '\n');
    return true;
}

/* The path of this process in a hierarchy: "word" is a v1 controller, or NULL for version 2. */
static bool own_path(const struct listing *l, const char *word, char *to, size_t cap)
{
    char line[PATH_CAP];
    for (const char *at = l->own; next_line(&at, line, sizeof line);) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        names++;
        if (word ? list_has(names, word) : !*names) {
            snprintf(to, cap, "%s", path);
            return true;
        }
    }
    return false;
}

/* Finds where a hierarchy is mounted, and which of its directories that mount shows. */
static bool find_mount(const struct listing *l, const char *word, char *mount, char *root, size_t cap)
{
    char line[4096];
    for (const char *at = l->mounts; next_line(&at, line, sizeof line);) {
        char r[PATH_CAP], m[PATH_CAP], type[32], options[512];
        char *tail = strstr(line, " - cgroup");
        if (!tail || sscanf(line, "%*d %*d %*s %1023s %1023s", r, m) != 2 ||
            sscanf(tail, " - %31s %*s %511s", type, options) != 2)
            continue;
        if (word ? (!strcmp(type, "cgroup") && list_has(options, word)) : !strcmp(type, "cgroup2")) {
            snprintf(mount, cap, "%s", m);
            snprintf(root, cap, "%s", r);
            return true;
        }
    }
    return false;
}

/* The directory of this process's own cgroup. */
static bool own_directory(const struct listing *l, const char *word, char *to, char *top, size_t cap)
{
    char path[PATH_CAP], root[PATH_CAP];
    if (!find_mount(l, word, top, root, cap) || !own_path(l, word, path, sizeof path))
        return false;
    const char *below = path;
    size_t n = strcmp(root, "/") ? strlen(root) : 0;
    if (n && strncmp(path, root, n) == 0)
        below += n;
    return snprintf(to, cap, "%s%s", top, strcmp(below, "/") ? below : "") < (int)cap;
}

static char *make_base(const char *dir)
{
    char path[PATH_CAP + 16];
    snprintf(path, sizeof path, "%s/cloister", dir);
    if ((mkdir(path, 0755) < 0 && errno != EEXIST) || access(path, W_OK) < 0)
        return NULL;
    return strdup(path);
}

static int put(const char *dir, const char *file, const char *text)
{
    char path[PATH_CAP * 2];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return file_put(AT_FDCWD, path, text);
}

static bool get(const char *dir, const char *file, char *to, size_t cap)
{
    char path[PATH_CAP * 2];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, cap - 1);
    if (n < 0)
        return false;
    to[n] = '\0';
    return true;
}

/* Hands the controllers down to <dir>/cloister and its children. A cgroup that holds processes cannot hand
 * controllers down (cgroups(7), "no internal processes"), so this process moves into a leaf when it is alone.
 */
static char *v2_base(const char *dir)
{
    static const char enable[] = "+memory +pids +cpu";
    cleanup_free char *base = make_base(dir);
    if (!base)
        return NULL;
    if (put(dir, "cgroup.subtree_control", enable) < 0) {
        char leaf[PATH_CAP + 32];
        snprintf(leaf, sizeof leaf, "%s/cloister-self", dir);
        if (errno != EBUSY || (mkdir(leaf, 0755) < 0 && errno != EEXIST) ||
            put(leaf, "cgroup.procs", "0") < 0 || put(dir, "cgroup.subtree_control", enable) < 0)
            return NULL;
    }
    if (put(base, "cgroup.subtree_control", enable) < 0)
        return NULL;
    return steal_pointer(&base);
}

static void probe_v2(struct cgroups *s, const struct listing *l)
{
    char dir[PATH_CAP], top[PATH_CAP], controllers[256];
    if (!own_directory(l, NULL, dir, top, sizeof dir))
        return;
    if (get(top, "cgroup.controllers", controllers, sizeof controllers) && list_has(controllers, "memory") &&
        list_has(controllers, "pids")) {
        char *base = v2_base(dir);
        if (!base && strcmp(dir, top) != 0)
            base = v2_base(top);
        if (base) {
            s->v2 = true;
            s->base[CGROUP_UNIFIED] = base;
            for (int i = 0; i < CGROUP_CONTROLLERS; i++)
                s->has[i] = true;
            return;
        }
    }
    s->base[CGROUP_UNIFIED] = make_base(dir);
    s->has[CGROUP_UNIFIED] = s->base[CGROUP_UNIFIED] != NULL;
}

void cgroups_probe(struct cgroups *s)
{
    char dir[PATH_CAP], top[PATH_CAP];
    struct listing l = {0};
    memset(s, 0, sizeof *s);
    if (file_slurp(AT_FDCWD, "/proc/self/mountinfo", LISTING_MAX, &l.mounts, NULL, NULL) == 0 &&
        file_slurp(AT_FDCWD, "/proc/self/cgroup", LISTING_MAX, &l.own, NULL, NULL) == 0) {
        probe_v2(s, &l);
        for (int i = 0; !s->v2 && i < CGROUP_UNIFIED; i++) {
            if (!own_directory(&l, v1_names[i], dir, top, sizeof dir))
                continue;
            s->base[i] = make_base(dir);
            s->has[i] = s->base[i] != NULL;
        }
    }
    free(l.mounts);
    free(l.own);
}

void cgroups_free(struct cgroups *s)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        free(s->base[i]);
    memset(s, 0, sizeof *s);
}

static bool dir_of(const struct cgroup *g, enum cgroup_controller c, char *to, size_t cap)
{
    enum cgroup_controller at = g->set->v2 ? CGROUP_UNIFIED : c;
    if (!g->made[at])
        return false;
    return snprintf(to, cap, "%s/%s", g->set->base[at], g->name) < (int)cap;
}

static int make(struct cgroup *g, enum cgroup_controller c, struct error *err)
{
    char dir[PATH_CAP];
    if (!g->set->base[c])
        return 0;
    snprintf(dir, sizeof dir, "%s/%s", g->set->base[c], g->name);
    if (mkdir(dir, 0755) < 0)
        return error_system(err, errno, "cannot create cgroup %s", dir);
    g->made[c] = true;
    return 0;
}

int cgroup_create(const struct cgroups *s, const char *name, struct cgroup *ret, struct error *err)
{
    static const struct limits none;
    memset(ret, 0, sizeof *ret);
    ret->set = s;
    snprintf(ret->name, sizeof ret->name, "%s", name);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (make(ret, (enum cgroup_controller)i, err) < 0)
            goto fail;
    if (cgroup_limit(ret, &none, err) < 0)
        goto fail;
    return 0;
fail:
    cgroup_remove(ret);
    return -1;
}

int cgroup_open(const struct cgroup *g, int *ret_unified, int *ret_tasks, int *ret_count, struct error *err)
{
    char path[PATH_CAP + 8];
    *ret_unified = -1;
    *ret_count = 0;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (!g->made[i])
            continue;
        bool unified = i == CGROUP_UNIFIED;
        snprintf(path, sizeof path, "%s/%s%s", g->set->base[i], g->name, unified ? "" : "/tasks");
        int fd = open(path, (unified ? O_RDONLY | O_DIRECTORY : O_WRONLY) | O_CLOEXEC);
        if (fd < 0) {
            error_system(err, errno, "cannot open cgroup %s", path);
            while (*ret_count > 0)
                close(ret_tasks[--*ret_count]);
            return -1; /* the unified one is the last */
        }
        if (unified)
            *ret_unified = fd;
        else
            ret_tasks[(*ret_count)++] = fd;
    }
    return 0;
}

/* Memory and swap together must never be below memory alone, whichever way the limit moves. */
static int put_v1_memory(const char *dir, uint64_t now, uint64_t bytes, const char *text)
{
    static const char both[] = "memory.memsw.limit_in_bytes", alone[] = "memory.limit_in_bytes";
    bool raise = now && bytes > now;
    if (raise)
        put(dir, both, text); /* absent where swap accounting is off; then there is nothing to limit */
    if (put(dir, alone, text) < 0)
        return -1;
    if (!raise)
        put(dir, both, text);
    return 0;
}

static int set_memory(struct cgroup *g, uint64_t bytes, struct error *err)
{
    char dir[PATH_CAP], text[32], buffers[32];
    if (!dir_of(g, CGROUP_MEMORY, dir, sizeof dir) || g->memory_now == bytes)
        return 0;
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    if ((g->set->v2 ? put(dir, "memory.max", text) : put_v1_memory(dir, g->memory_now, bytes, text)) < 0)
        return error_system(err, errno, "cannot limit memory to %s bytes", text);
    if (g->set->v2) {
        put(dir, "memory.swap.max", "0"); /* absent where swap accounting is off */
        put(dir, "memory.oom.group", "0");
    } else {
        if (!g->memory_now)
            put(dir, "memory.swappiness", "0");
        /* Version 1 counts the buffers of sockets by themselves, and only where they are limited. */
        snprintf(buffers, sizeof buffers, "%llu", (unsigned long long)(bytes / SOCKET_MEMORY_SHARE));
        put(dir, "memory.kmem.tcp.limit_in_bytes", buffers);
    }
    g->memory_now = bytes;
    return 0;
}

static int set_pids(struct cgroup *g, uint64_t pids, struct error *err)
{
    char dir[PATH_CAP], text[32];
    if (!dir_of(g, CGROUP_PIDS, dir, sizeof dir) || g->pids_now == pids)
        return 0;
    snprintf(text, sizeof text, "%llu", (unsigned long long)pids);
    if (put(dir, "pids.max", text) < 0)
        return error_system(err, errno, "cannot limit processes to %s", text);
    g->pids_now = pids;
    return 0;
}

static int set_cpu(struct cgroup *g, uint32_t milli, struct error *err)
{
    char dir[PATH_CAP], text[48];
    if (milli == g->cpu_now)
        return 0;
    if (!g->set->has[CGROUP_CPU])
        return error_set(err, ERROR_UNSUPPORTED,
                         "a CPU limit needs a cgroup with the cpu controller; run as root or delegate one "
                         "(systemd-run --user --scope -p Delegate=yes)");
    if (!dir_of(g, CGROUP_CPU, dir, sizeof dir))
        return 0;
    unsigned long quota = milli * 100ul; /* microseconds of each 100,000 */
    if (g->set->v2 && milli)
        snprintf(text, sizeof text, "%lu 100000", quota);
    else if (g->set->v2)
        snprintf(text, sizeof text, "max 100000");
    else
        snprintf(text, sizeof text, "%ld", milli ? (long)quota : -1l);
    if ((!g->set->v2 && put(dir, "cpu.cfs_period_us", "100000") < 0) ||
        put(dir, g->set->v2 ? "cpu.max" : "cpu.cfs_quota_us", text) < 0)
        return error_system(err, errno, "cannot limit the CPU to %u thousandths", milli);
    g->cpu_now = milli;
    return 0;
}

int cgroup_limit(struct cgroup *g, const struct limits *l, struct error *err)
{
    if (set_memory(g, l->memory_bytes ? l->memory_bytes : LIMIT_DEFAULT_MEMORY, err) < 0)
        return -1;
    /* One more for the agent. */
    if (set_pids(g, (l->pids ? l->pids : LIMIT_DEFAULT_PIDS) + 1u, err) < 0)
        return -1;
    return set_cpu(g, l->cpu_milli, err);
}

int cgroup_freeze(struct cgroup *g, bool on, struct error *err)
{
    char dir[PATH_CAP], text[256];
    if (!g->made[CGROUP_UNIFIED])
        return error_set(err, ERROR_UNSUPPORTED,
                         "freezing needs a cgroup version 2 hierarchy; mount one, or run as root");
    dir_of(g, CGROUP_UNIFIED, dir, sizeof dir);
    snprintf(dir, sizeof dir, "%s/%s", g->set->base[CGROUP_UNIFIED], g->name);
    if (put(dir, "cgroup.freeze", on ? "1" : "0") < 0)
        return error_system(err, errno, "cannot %s the container", on ? "freeze" : "thaw");
    /* Freezing is asynchronous; a process in an uninterruptible sleep delays it. */
    for (int tries = 0; on && tries < 2000; tries++) {
        if (get(dir, "cgroup.events", text, sizeof text) && strstr(text, "frozen 1"))
            return 0;
        usleep(500);
    }
    if (on) {
        put(dir, "cgroup.freeze", "0");
        return error_set(err, ERROR_TIMEOUT, "the container's processes did not stop within a second");
    }
    return 0;
}

void cgroup_kill(struct cgroup *g)
{
    char dir[PATH_CAP];
    if (g->made[CGROUP_UNIFIED] &&
        snprintf(dir, sizeof dir, "%s/%s", g->set->base[CGROUP_UNIFIED], g->name) > 0) {
        put(dir, "cgroup.kill", "1");
        put(dir, "cgroup.freeze", "0");
    }
}

static uint64_t keyed(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, len) == 0 && p[len] == ' ')
            return strtoull(p + len + 1, NULL, 10);
    return 0;
}

uint64_t cgroup_oom_kills(struct cgroup *g)
{
    char dir[PATH_CAP], text[1024];
    if (!dir_of(g, CGROUP_MEMORY, dir, sizeof dir) ||
        !get(dir, g->set->v2 ? "memory.events" : "memory.oom_control", text, sizeof text))
        return 0;
    return keyed(text, "oom_kill");
}

bool cgroup_empty(struct cgroup *g)
{
    char dir[PATH_CAP], text[64];
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (dir_of(g, (enum cgroup_controller)i, dir, sizeof dir) &&
            (!get(dir, "cgroup.procs", text, sizeof text) || text[0]))
            return false;
    return true;
}

static uint64_t number(const char *dir, const char *file)
{
    char text[64];
    return get(dir, file, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

void cgroup_usage(struct cgroup *g, struct container_usage *ret)
{
    char dir[PATH_CAP], text[1024];
    bool v2 = g->set->v2;
    if (dir_of(g, CGROUP_MEMORY, dir, sizeof dir)) {
        ret->memory_bytes = number(dir, v2 ? "memory.current" : "memory.usage_in_bytes");
        ret->memory_peak_bytes = number(dir, v2 ? "memory.peak" : "memory.max_usage_in_bytes");
    }
    if (dir_of(g, CGROUP_PIDS, dir, sizeof dir))
        ret->pids = (uint32_t)number(dir, "pids.current");
    if (g->made[CGROUP_UNIFIED]) {
        snprintf(dir, sizeof dir, "%s/%s", g->set->base[CGROUP_UNIFIED], g->name);
        if (get(dir, "cpu.stat", text, sizeof text))
            ret->cpu_us = keyed(text, "usage_usec");
    }
}

int cgroup_delegate(struct cgroup *g, uid_t uid, gid_t gid)
{
    char dir[PATH_CAP + 8];
    static const char *const files[] = {"cgroup.procs", "cgroup.threads", "cgroup.subtree_control"};
    if (!g->made[CGROUP_UNIFIED])
        return -1;
    snprintf(dir, sizeof dir, "%s/%s/exec", g->set->base[CGROUP_UNIFIED], g->name);
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return -1;
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    /* Moving a process needs write access to the common ancestor's cgroup.procs too (cgroups(7), delegation).
     */
    char own[PATH_CAP * 2];
    snprintf(own, sizeof own, "%s/%s/cgroup.procs", g->set->base[CGROUP_UNIFIED], g->name);
    bool ok = fchownat(fd, "", uid, gid, AT_EMPTY_PATH) == 0 && chown(own, uid, gid) == 0;
    for (size_t i = 0; ok && i < sizeof files / sizeof *files; i++)
        ok = fchownat(fd, files[i], uid, gid, 0) == 0;
    if (!ok) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Removes a cgroup directory and those below it; cgroup directories hold no other files that can be removed.
 */
static bool remove_tree(const char *path)
{
    if (rmdir(path) == 0 || errno == ENOENT)
        return true;
    cleanup_dir DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char child[PATH_CAP * 2];
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        remove_tree(child);
    }
    return rmdir(path) == 0 || errno == ENOENT;
}

bool cgroup_remove(struct cgroup *g)
{
    bool all = true;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        char dir[PATH_CAP];
        if (!g->made[i])
            continue;
        snprintf(dir, sizeof dir, "%s/%s", g->set->base[i], g->name);
        if (remove_tree(dir))
            g->made[i] = false;
        else
            all = false;
    }
    return all;
}

/* SIGKILL to everything in a directory of a version 1 hierarchy. */
static void kill_listed(const char *dir)
{
    char path[PATH_CAP * 2], line[32];
    snprintf(path, sizeof path, "%s/cgroup.procs", dir);
    cleanup_file FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        int pid = atoi(line);
        if (pid > 1)
            kill(pid, SIGKILL);
    }
}

bool cgroups_remove_engine(const struct cgroups *s, const char *engine_id)
{
    bool all = true;
    size_t len = strlen(engine_id);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        cleanup_dir DIR *d = s->base[i] ? opendir(s->base[i]) : NULL;
        struct dirent *e;
        while (d && (e = readdir(d))) {
            char dir[PATH_CAP * 2];
            if (strncmp(e->d_name, engine_id, len) != 0 || e->d_name[len] != '.')
                continue;
            snprintf(dir, sizeof dir, "%s/%s", s->base[i], e->d_name);
            if (i == CGROUP_UNIFIED)
                put(dir, "cgroup.kill", "1");
            kill_listed(dir);
            for (int tries = 0; tries < 200 && !remove_tree(dir); tries++)
                usleep(5000);
            all = all && access(dir, F_OK) < 0;
        }
    }
    return all;
}

/* Empty and old: nobody is just making it, and nobody is in it. */
static void sweep_one(const char *dir)
{
    char text[64];
    struct stat st;
    if (stat(dir, &st) < 0 || time(NULL) - st.st_ctime < SWEEP_AGE_S)
        return;
    if (get(dir, "cgroup.procs", text, sizeof text) && !text[0])
        remove_tree(dir); /* fails where a child still holds processes */
}

void cgroups_sweep(const struct cgroups *s)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        cleanup_dir DIR *d = s->base[i] ? opendir(s->base[i]) : NULL;
        struct dirent *e;
        while (d && (e = readdir(d))) {
            char dir[PATH_CAP * 2];
            if (e->d_type != DT_DIR || !strchr(e->d_name, '.') || e->d_name[0] == '.')
                continue;
            snprintf(dir, sizeof dir, "%s/%s", s->base[i], e->d_name);
            sweep_one(dir);
        }
    }
}
