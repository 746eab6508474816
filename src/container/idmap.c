#include "container/idmap.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/user.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct subid {
    unsigned long start, count;
};

/* The first range of at least IDMAP_RANGE - 1 ids that `file` (subuid(5)) gives to this user. */
static bool subid_find(const char *file, const char *user, uid_t uid, struct subid *ret)
{
    cleanup_file FILE *f = fopen(file, "re");
    char line[256], uid_text[24];
    snprintf(uid_text, sizeof uid_text, "%u", uid);
    while (f && fgets(line, sizeof line, f)) {
        char *owner = strtok(line, ":"), *start = strtok(NULL, ":"), *count = strtok(NULL, ":\n");
        if (!owner || !start || !count || (strcmp(owner, user) && strcmp(owner, uid_text)))
            continue;
        ret->start = strtoul(start, NULL, 10);
        ret->count = strtoul(count, NULL, 10);
        if (ret->count >= IDMAP_RANGE - 1 && ret->start > 0)
            return true;
    }
    return false;
}

static int run_mapper(const char *program, pid_t pid, unsigned id, const struct subid *sub)
{
    char p[24], own[24], start[24], count[24];
    snprintf(p, sizeof p, "%d", pid);
    snprintf(own, sizeof own, "%u", id);
    snprintf(start, sizeof start, "%lu", sub->start);
    snprintf(count, sizeof count, "%u", IDMAP_RANGE - 1);
    execlp(program, program, p, "0", own, "1", "1", start, count, (char *)NULL);
    return 127;
}

/* Forks a child, still in the old user namespace, that maps this process once told (newuidmap(1) must run
 * outside). Returns the pid, and a descriptor to write the go byte to. */
static pid_t fork_mapper(uid_t uid, gid_t gid, const struct subid *u, const struct subid *g, int *ret_go)
{
    int go[2];
    pid_t target = getpid();
    if (pipe2(go, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        close(go[1]);
        if (read(go[0], &c, 1) != 1)
            _exit(1);
        int status;
        pid_t inner = fork();
        if (inner == 0)
            _exit(run_mapper("newgidmap", target, gid, g));
        if (inner < 0 || waitpid(inner, &status, 0) < 0 || status != 0)
            _exit(1);
        _exit(run_mapper("newuidmap", target, uid, u));
    }
    close(go[0]);
    if (pid < 0)
        close(go[1]);
    *ret_go = go[1];
    return pid;
}

static int map_single(uid_t uid, gid_t gid, struct error *err)
{
    char text[64];
    if (file_put(AT_FDCWD, "/proc/self/setgroups", "deny") < 0)
        return error_system(err, errno, "cannot write /proc/self/setgroups");
    snprintf(text, sizeof text, "0 %u 1\n", uid);
    if (file_put(AT_FDCWD, "/proc/self/uid_map", text) < 0)
        return error_system(err, errno, "cannot write /proc/self/uid_map");
    snprintf(text, sizeof text, "0 %u 1\n", gid);
    if (file_put(AT_FDCWD, "/proc/self/gid_map", text) < 0)
        return error_system(err, errno, "cannot write /proc/self/gid_map");
    return 0;
}

/* What containers use of the things that the kernel counts per user is this user's own share, so half of it
 * stays for his other programs. A limit on signals and timers holds for the user namespaces made after it. */
static void halve_signals(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_SIGPENDING, &l) == 0 && l.rlim_cur != RLIM_INFINITY) {
        l.rlim_cur /= 2;
        setrlimit(RLIMIT_SIGPENDING, &l);
    }
}

/* Inside the new namespace: its limits are its own, the machine's are known from elsewhere. */
static void halve_watches(void)
{
    static const char *const names[][2] = {
        {"/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances"},
        {"/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cleanup_file FILE *f = fopen(names[i][0], "re");
        unsigned long most;
        char text[24];
        if (!f || fscanf(f, "%lu", &most) != 1)
            continue; /* a kernel without inotify */
        snprintf(text, sizeof text, "%lu", most / 2);
        file_put(AT_FDCWD, names[i][1], text);
    }
}

int idmap_enter_rootless(struct idmap *m, struct error *err)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    struct subid u, g;
    struct user user;
    const char *name = user_find(uid, &user) ? user.name : "";
    int go = -1;
    pid_t mapper = -1;
    memset(m, 0, sizeof *m);
    m->lock_fd = -1;
    if (subid_find("/etc/subuid", name, uid, &u) && subid_find("/etc/subgid", name, uid, &g) &&
        (access("/usr/bin/newuidmap", X_OK) == 0))
        mapper = fork_mapper(uid, gid, &u, &g, &go);
    user_free(&user);
    halve_signals();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        int saved = errno;
        if (mapper > 0) {
            close(go);
            waitpid(mapper, NULL, 0);
        }
        return error_set(
            err, ERROR_UNSUPPORTED,
            "cannot create a user namespace (%s); allow it with: sysctl kernel.unprivileged_userns_clone=1 "
            "user.max_user_namespaces=15000 (and kernel.apparmor_restrict_unprivileged_userns=0 where "
            "it exists), or run as root",
            strerror(saved));
    }
    m->count = 1;
    if (mapper > 0) {
        int status = -1;
        ssize_t n = write(go, "g", 1);
        close(go);
        if (n == 1 && waitpid(mapper, &status, 0) == mapper && status == 0)
            m->count = IDMAP_RANGE;
    }
    if (m->count == 1 && map_single(uid, gid, err) < 0)
        return -1;
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return error_system(err, errno, "cannot become root of the user namespace");
    halve_watches();
    return 0;
}

int idmap_open_root(struct idmap *m, const char *run_root, struct error *err)
{
    char path[4096];
    uint32_t seed;
    memset(m, 0, sizeof *m);
    m->root = true;
    m->count = IDMAP_RANGE;
    snprintf(path, sizeof path, "%s/ids.lock", run_root);
    m->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (m->lock_fd < 0)
        return error_system(err, errno, "cannot open %s", path);
    m->used = calloc(1, IDMAP_SLOTS);
    if (!m->used) {
        close(m->lock_fd);
        m->lock_fd = -1;
        return error_oom(err);
    }
    if (getrandom(&seed, sizeof seed, 0) == sizeof seed)
        m->next = seed % IDMAP_SLOTS;
    return 0;
}

void idmap_close(struct idmap *m)
{
    if (m->lock_fd >= 0)
        close(m->lock_fd);
    free(m->used);
    m->used = NULL;
    m->lock_fd = -1;
}

static int slot_lock(struct idmap *m, uint32_t slot, short type)
{
    struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return fcntl(m->lock_fd, F_OFD_SETLK, &fl);
}

int idmap_take(struct idmap *m, uint32_t *ret_base, struct error *err)
{
    *ret_base = 0;
    if (!m->root)
        return 0;
    for (uint32_t tried = 0; tried < IDMAP_SLOTS; tried++) {
        uint32_t slot = m->next;
        m->next = (slot + 1) % IDMAP_SLOTS;
        if (m->used[slot] || slot_lock(m, slot, F_WRLCK) < 0)
            continue;
        m->used[slot] = 1;
        *ret_base = IDMAP_FIRST + slot * IDMAP_RANGE;
        return 0;
    }
    return error_set(err, ERROR_LIMIT, "all %u id ranges are in use", IDMAP_SLOTS);
}

void idmap_give(struct idmap *m, uint32_t base)
{
    if (!m->root || base < IDMAP_FIRST)
        return;
    uint32_t slot = (base - IDMAP_FIRST) / IDMAP_RANGE;
    m->used[slot] = 0;
    slot_lock(m, slot, F_UNLCK);
}

int idmap_write(const struct idmap *m, pid_t pid, uint32_t base, struct error *err)
{
    char path[64], map[96];
    if (m->root)
        snprintf(map, sizeof map, "0 %u %u\n", base, m->count);
    else if (m->count == 1)
        snprintf(map, sizeof map, "0 0 1\n");
    else /* two extents outside, so two inside (user_namespaces(7)) */
        snprintf(map, sizeof map, "0 0 1\n1 1 %u\n", m->count - 1);
    snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
    if (m->count == 1 && file_put(AT_FDCWD, path, "deny") < 0 && errno != EPERM)
        return error_system(err, errno, "cannot write %s", path);
    snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    if (file_put(AT_FDCWD, path, map) < 0)
        return error_system(err, errno, "cannot write %s", path);
    snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    if (file_put(AT_FDCWD, path, map) < 0)
        return error_system(err, errno, "cannot write %s", path);
    return 0;
}
