#include "worker/jail.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "worker/jail_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZYGOTE_ID 1u   /* inside; nobody is 0 */
#define ID_RANGE 4096u /* ids of a zygote of root */
#define FIRST_ID                                                                                             \
    0x0c000000u /* outside: ids below those of containers (container/idmap.h), above what systems hand out   \
                 */
#define ID_SLOTS 16384u /* so that the last range ends at 0x10000000 */
#define ZYGOTE_FILES 64u
#define WORKER_FILES 16u
#define WORKER_TASKS 96u /* where each worker has an id of its own */
#define SHARED_TASKS 8192u

/* --- ids --- */

/* Whether this process may hand out `count` ids from `first` on: whether they exist in its user namespace. */
static bool ids_exist(uint32_t first, uint32_t count)
{
    cleanup_file FILE *f = fopen("/proc/self/uid_map", "re");
    unsigned long inside, outside, length;
    while (f && fscanf(f, "%lu %lu %lu", &inside, &outside, &length) == 3)
        if (first >= inside && first - inside + count <= length)
            return true;
    return false;
}

static int write_map(pid_t pid, const char *name, uint32_t outside, uint32_t count, struct error *err)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    snprintf(text, sizeof text, "%u %u %u\n", ZYGOTE_ID, outside, count);
    return file_put(AT_FDCWD, path, text) < 0 ? error_system(err, errno, "cannot write %s", path) : 0;
}

static int map_ids(const struct jail *jail, pid_t pid, struct error *err)
{
    char path[64];
    /* A number that no other live process has. */
    uint32_t first = FIRST_ID + (uint32_t)getpid() % ID_SLOTS * ID_RANGE;
    if (jail->ids > 1)
        return write_map(pid, "uid_map", first, ID_RANGE, err) < 0
                   ? -1
                   : write_map(pid, "gid_map", first, ID_RANGE, err);
    snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
    if (file_put(AT_FDCWD, path, "deny") < 0)
        return error_system(err, errno, "cannot write %s", path);
    return write_map(pid, "uid_map", geteuid(), 1, err) < 0 ? -1
                                                            : write_map(pid, "gid_map", getegid(), 1, err);
}

/* --- splitting --- */

_Noreturn static void wait_and_exit(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

_Noreturn static void be_outside(const struct jail *jail, pid_t pid, int control_fd, int go)
{
    struct error err = {0};
    close(control_fd);
    if (map_ids(jail, pid, &err) < 0 || write(go, "", 1) != 1) {
        fprintf(stderr, "cloister-worker: %s\n", err.kind ? err.message : "the jailed half has ended");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        _exit(1);
    }
    close(go);
    wait_and_exit(pid);
}

static int take_id(const struct jail *jail, uint32_t id, struct error *err)
{
    if (jail->ids > 1 && setgroups(0, NULL) < 0)
        return error_system(err, errno, "cannot drop supplementary groups");
    if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return error_system(err, errno, "cannot take on id %u", id);
    return 0;
}

int jail_split(struct jail *jail, int control_fd, struct error *err)
{
    /* 1 keeps core_pattern's program from being started, where 0 does not (core(5)). Where it cannot be had,
     * nobody of us is dumpable anyway. */
    const struct rlimit core = {1, 1};
    setrlimit(RLIMIT_CORE, &core);
    char c;
    int go[2];
    const unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                CLONE_NEWUTS | CLONE_NEWCGROUP;
    jail->ids = geteuid() == 0 && ids_exist(FIRST_ID, ID_RANGE * ID_SLOTS) ? ID_RANGE - 1 : 1;
    if (pipe2(go, O_CLOEXEC) < 0)
        return error_system(err, errno, "cannot create a pipe");
    pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0)
        return error_set(
            err, ERROR_UNSUPPORTED,
            "cannot create namespaces for workers (%s); allow user namespaces (`cloister doctor` says how)",
            strerror(errno));
    if (pid > 0) {
        close(go[0]);
        be_outside(jail, pid, control_fd, go[1]);
    }
    close(go[1]);
    bool mapped = read(go[0], &c, 1) == 1;
    close(go[0]);
    if (!mapped)
        return error_set(err, ERROR_GONE, "the outer half has ended");
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || take_id(jail, ZYGOTE_ID, err) < 0)
        return error_system(err, errno, "cannot take on the zygote's id");
    /* Reset by the change of ids, and so after it. Its own /proc entries stay its own until jail_close(). */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return error_system(err, errno, "cannot keep access to own /proc entries");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return error_system(err, errno, "cannot ask to end with the outer half");
    return 0;
}

/* --- closing --- */

static int raise_capabilities(struct error *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &head, data) < 0)
        return error_system(err, errno, "cannot read capabilities");
    for (int i = 0; i < 2; i++)
        data[i].effective = data[i].permitted;
    return syscall(SYS_capset, &head, data) < 0 ? error_system(err, errno, "cannot raise capabilities") : 0;
}

static int empty_root(struct error *err)
{
    static const char *const places[] = {"/tmp", "/dev", "/proc"};
    int r = -1;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_system(err, errno, "cannot make mounts private");
    for (size_t i = 0; r < 0 && i < sizeof places / sizeof *places; i++)
        if ((r = mount("none", places[i], "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                       "size=4k,nr_inodes=2,mode=0555")) == 0)
            r = chdir(places[i]);
    if (r < 0)
        return error_system(err, errno, "cannot mount an empty root");
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_system(err, errno, "cannot move into the empty root");
    if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return error_system(err, errno, "cannot make the root read-only");
    return 0;
}

static int drop_bounding_set(struct error *err)
{
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return error_system(err, errno, "cannot drop capability %d from the bounding set", cap);
    return 0;
}

/* All of them, but for `keep` of the first 32. */
static int drop_capabilities(uint32_t keep, struct error *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = keep, .permitted = keep}};
    if (syscall(SYS_capset, &head, data) < 0)
        return error_system(err, errno, "cannot drop capabilities");
    return 0;
}

/* Whoever started us may have set a lower one, which we may not be able to raise, and need not. */
static int limit(int resource, rlim_t value, struct error *err)
{
    struct rlimit l;
    if (getrlimit((__rlimit_resource_t)resource, &l) < 0)
        return error_system(err, errno, "cannot read a resource limit");
    if (l.rlim_max < value)
        value = l.rlim_max;
    l = (struct rlimit){value, value};
    return setrlimit((__rlimit_resource_t)resource, &l) < 0
               ? error_system(err, errno, "cannot set a resource limit")
               : 0;
}

int jail_close(const struct jail *jail, struct error *err)
{
    static const uint32_t keep = 1u << CAP_SETUID | 1u << CAP_SETGID;
    if (raise_capabilities(err) < 0 || sethostname("worker", 6) < 0 || empty_root(err) < 0)
        return err->kind ? -1 : error_system(err, errno, "cannot name the jail's host");
    /* Core dumps: 1, not 0, keeps the kernel from starting a dump helper outside (core(5)). */
    if (limit(RLIMIT_CORE, 1, err) < 0 || limit(RLIMIT_NOFILE, ZYGOTE_FILES, err) < 0 ||
        limit(RLIMIT_NPROC, SHARED_TASKS, err) < 0 || limit(RLIMIT_MEMLOCK, 0, err) < 0 ||
        limit(RLIMIT_MSGQUEUE, 0, err) < 0)
        return -1;
    if (jail_filter_prepare(err) < 0 || drop_bounding_set(err) < 0 ||
        drop_capabilities(jail->ids > 1 ? keep : 0, err) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return error_system(err, errno, "cannot give up privileges");
    return jail_filter_zygote(err);
}

int jail_worker(const struct jail *jail, uint32_t number, struct error *err)
{
    if (jail->ids > 1) {
        uint32_t id = ZYGOTE_ID + 1 + number % (jail->ids - 1);
        if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
            return error_system(err, errno, "cannot take on the worker's id");
        if (drop_capabilities(0, err) < 0 || limit(RLIMIT_NPROC, WORKER_TASKS, err) < 0)
            return -1;
    }
    if (limit(RLIMIT_NOFILE, WORKER_FILES, err) < 0 || limit(RLIMIT_FSIZE, 0, err) < 0)
        return -1;
    /* Changes of ids reset it. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return error_system(err, errno, "cannot protect the worker's memory");
    return jail_filter_worker(err);
}
