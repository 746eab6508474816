/* Limits: which control group hierarchies can be used by us, tried by making a group; uid ranges. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/user.h"
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True when `word` is one of the words of `list`, separated by any of `separators`. */
static bool has_word(const char *list, const char *separators, const char *word)
{
    size_t len = strlen(word);
    while (*list) {
        size_t n = strcspn(list, separators);
        if (n == len && strncmp(list, word, n) == 0)
            return true;
        list += n;
        list += strspn(list, separators);
    }
    return false;
}

/* Our own path in a hierarchy: of version 1 with this controller, or with "" of version 2. */
static bool own_path(const char *controller, char path[PATH_MAX])
{
    cleanup_file FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX + 256];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *at = list ? strchr(list + 1, ':') : NULL;
        if (!at)
            continue;
        *at = '\0';
        if (controller[0] ? has_word(list + 1, ",", controller) : list[1] == '\0') {
            snprintf(path, PATH_MAX, "%s", at + 1);
            return true;
        }
    }
    return false;
}

/* Where that hierarchy is mounted, and which part of it (`root`) is. */
static bool mount_of(const char *controller, char at[PATH_MAX], char root[PATH_MAX])
{
    cleanup_file FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[3 * PATH_MAX], type[64], options[512];
    while (file && fgets(line, sizeof line, file)) {
        const char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*s %*s %*s %4095s %4095s", root, at) != 2 ||
            sscanf(dash + 3, "%63s %*s %511s", type, options) != 2)
            continue;
        if (controller[0] ? strcmp(type, "cgroup") == 0 && has_word(options, ",", controller)
                          : strcmp(type, "cgroup2") == 0)
            return true;
    }
    return false;
}

/* The directory of our own group. */
static bool own_dir(const char *controller, char dir[PATH_MAX])
{
    char path[PATH_MAX], at[PATH_MAX], root[PATH_MAX];
    if (!own_path(controller, path) || !mount_of(controller, at, root))
        return false;
    size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(path, root, skip) != 0)
        skip = 0;
    return snprintf(dir, PATH_MAX, "%s%s", at, path + skip) < PATH_MAX;
}

/* Whether a group with this file can be made below `dir`; errno says why not. */
static bool can_make(const char *dir, const char *file)
{
    char group[PATH_MAX];
    if (snprintf(group, sizeof group, "%s/cloister-doctor.%d", dir, (int)getpid()) >= (int)sizeof group ||
        mkdir(group, 0755) < 0)
        return false;
    cleanup_close int fd = open(group, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int failed = faccessat(fd, file, W_OK, 0) < 0 ? errno : 0;
    rmdir(group);
    errno = failed;
    return failed == 0;
}

/* Version 2: the controller is there and our group can hand it down. */
static bool v2_has(const char *controller, char dir[PATH_MAX])
{
    char path[PATH_MAX];
    cleanup_free char *list = NULL;
    if (!own_dir("", dir) || snprintf(path, sizeof path, "%s/cgroup.controllers", dir) >= (int)sizeof path)
        return false;
    return file_slurp(AT_FDCWD, path, 4096, &list, NULL, NULL) == 0 && has_word(list, " \n", controller);
}

static void check_controller(const struct doctor *d, struct finding *f, const char *controller,
                             const char *v1_file, const char *otherwise)
{
    char dir[PATH_MAX];
    bool version_2 = v2_has(controller, dir);
    if (version_2) {
        if (can_make(dir, "cgroup.procs")) {
            finding_ok(f, "by cgroup version 2");
            return;
        }
    } else if (own_dir(controller, dir)) {
        if (can_make(dir, v1_file)) {
            finding_ok(f, "by cgroup version 1 (%s)", controller);
            return;
        }
    } else {
        finding_set(f, FINDING_LIMITED, "no cgroup controller \"%s\" is mounted; %s", controller, otherwise);
        finding_remedy(
            f, d->root ? "mount cgroup2 at /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1"
                       : "boot with systemd.unified_cgroup_hierarchy=1");
        return;
    }
    finding_set(f, FINDING_LIMITED, "no group can be made in %.100s: %s; %s", dir, strerror(errno),
                otherwise);
    if (d->root)
        finding_remedy(f, "outside of another container root may make groups");
    else if (version_2)
        finding_remedy(f, "systemd-run --user --scope -p Delegate=yes cloister ..., or run as root");
    else
        finding_remedy(f, "run as root, or boot with systemd.unified_cgroup_hierarchy=1");
}

static void check_memory(const struct doctor *d, struct finding *f)
{
    check_controller(d, f, "memory", "memory.limit_in_bytes", "a watcher ends what uses too much");
}

static void check_cpu(const struct doctor *d, struct finding *f)
{
    check_controller(d, f, "cpu", "cpu.cfs_quota_us", "--cpus is refused");
}

static void check_pids(const struct doctor *d, struct finding *f)
{
    check_controller(d, f, "pids", "pids.max", "RLIMIT_NPROC does it");
}

static void check_kill(const struct doctor *d, struct finding *f)
{
    char dir[PATH_MAX];
    bool there = own_dir("", dir);
    if (there && can_make(dir, "cgroup.kill")) {
        finding_ok(f, "by cgroup.kill and cgroup.freeze");
        return;
    }
    if (there)
        finding_set(f, FINDING_LIMITED, "no group with cgroup.kill can be made in %.100s: %s", dir,
                    strerror(errno));
    else
        finding_set(f, FINDING_LIMITED,
                    "no cgroup version 2 hierarchy is mounted: execs with a timeout, and freezing for "
                    "snapshots, are less exact");
    finding_remedy(f, "Linux 5.14 or later with cgroup2 mounted, and %s",
                   d->root ? "not inside another container" : "a delegated group, or run as root");
}

static bool listed(const char *file, const char *name, uid_t uid, unsigned long *ret_count)
{
    cleanup_file FILE *f = fopen(file, "re");
    char line[256], number[16];
    snprintf(number, sizeof number, "%u", (unsigned)uid);
    while (f && fgets(line, sizeof line, f)) {
        char owner[128];
        unsigned long count;
        if (sscanf(line, "%127[^:]:%*u:%lu", owner, &count) == 2 &&
            ((name && strcmp(owner, name) == 0) || strcmp(owner, number) == 0)) {
            *ret_count = count;
            return true;
        }
    }
    return false;
}

static void check_uid_range(const struct doctor *d, struct finding *f)
{
    if (d->root) {
        finding_ok(f, "root gives each container 65536 ids of its own");
        return;
    }
    struct user user;
    const char *name = user_find(getuid(), &user) ? user.name : NULL;
    unsigned long uids = 0, gids = 0;
    if (access("/usr/bin/newuidmap", X_OK) < 0 || access("/usr/bin/newgidmap", X_OK) < 0) {
        finding_set(f, FINDING_LIMITED,
                    "newuidmap is not installed: a container has the one user root, no others");
        finding_remedy(f, "apt-get install uidmap");
    } else if (!listed("/etc/subuid", name, getuid(), &uids) ||
               !listed("/etc/subgid", name, getuid(), &gids)) {
        finding_set(f, FINDING_LIMITED,
                    "%s has no ids in /etc/subuid and /etc/subgid: a container has the one user root",
                    name ? name : "this user");
        finding_remedy(f, "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s",
                       name ? name : "USER");
    } else if (uids < 65536 || gids < 65536) {
        finding_set(f, FINDING_LIMITED, "only %lu uids and %lu gids in /etc/subuid and /etc/subgid", uids,
                    gids);
        finding_remedy(f, "give 65536 of each");
    } else {
        finding_ok(f, "%lu uids and %lu gids by newuidmap", uids, gids);
    }
    user_free(&user);
}

const struct check doctor_limit_checks[] = {
    {"memory-limit", "memory limit", false, false, check_memory},
    {"cpu-limit", "CPU limit", false, false, check_cpu},
    {"pids-limit", "process limit", false, false, check_pids},
    {"tree-kill", "ending process trees", false, false, check_kill},
    {"uid-range", "uid range", false, false, check_uid_range},
    {NULL},
};
