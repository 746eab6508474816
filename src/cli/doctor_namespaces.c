/* What isolation needs of the kernel, each tried. */
#include "base/fd.h"
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void try_userns(const struct doctor *d, struct finding *f)
{
    if (doctor_enter_userns(f, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        return;
    /* Some security modules let the namespace be made and then take its capabilities away. */
    if (mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0) {
        finding_set(f, FINDING_MISSING, "a user namespace can be made, but mounting in it fails: %s",
                    strerror(errno));
        finding_remedy(f, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or the like");
        return;
    }
    finding_ok(f, "unprivileged, with mount, pid, net, ipc and uts namespaces");
}

/* A tmpfs of our own at /tmp of a new mount namespace, in a user namespace. */
static int own_tmpfs(struct finding *f)
{
    if (doctor_enter_userns(f, CLONE_NEWNS) < 0)
        return -1;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0 || chdir("/tmp") < 0) {
        finding_set(f, FINDING_MISSING, "cannot mount a tmpfs in a user namespace: %s", strerror(errno));
        finding_remedy(f, "see user namespaces");
        return -1;
    }
    return 0;
}

static void try_overlay(const struct doctor *d, struct finding *f)
{
    if (own_tmpfs(f) < 0)
        return;
    if (mkdir("lower", 0755) < 0 || mkdir("upper", 0755) < 0 || mkdir("work", 0755) < 0 ||
        mkdir("merged", 0755) < 0) {
        finding_set(f, FINDING_MISSING, "cannot make directories on a tmpfs: %s", strerror(errno));
        return;
    }
    if (mount("overlay", "merged", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work,userxattr") <
        0) {
        finding_set(f, d->root ? FINDING_LIMITED : FINDING_MISSING, "overlay in a user namespace: %s",
                    strerror(errno));
        finding_remedy(f, "Linux 5.11 or later with overlayfs (modprobe overlay)%s",
                       d->root ? "" : ", or run as root");
        return;
    }
    finding_ok(f, "mounted with userxattr in a user namespace");
}

static void try_tmpfs_xattr(const struct doctor *d, struct finding *f)
{
    if (own_tmpfs(f) < 0)
        return;
    int fd = open("x", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || fsetxattr(fd, "user.cloister", "1", 1, 0) < 0) {
        finding_set(f, FINDING_LIMITED, "tmpfs keeps no user attributes: %s", strerror(errno));
        finding_remedy(f, "Linux 6.6 or later; until then keep the run directory on ext4, xfs or btrfs");
        return;
    }
    finding_ok(f, "user attributes are kept");
}

static void try_idmap(const struct doctor *d, struct finding *f)
{
    if (!d->root) {
        finding_set(f, FINDING_LIMITED, "only root can map owners of layers per container");
        finding_remedy(f, "run the daemon as root to give each container a uid range of its own");
        return;
    }
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(p[1]);
        if (unshare(CLONE_NEWUSER) == 0)
            (void)!read(p[0], &byte, 1);
        _exit(0);
    }
    char path[64];
    int ns = -1, tree = -1;
    /* The child's user namespace appears a moment after the fork. */
    for (int i = 0; i < 200 && child > 0; i++) {
        struct stat mine, theirs;
        snprintf(path, sizeof path, "/proc/%d/ns/user", (int)child);
        if (stat("/proc/self/ns/user", &mine) == 0 && stat(path, &theirs) == 0 &&
            mine.st_ino != theirs.st_ino)
            break;
        usleep(1000);
    }
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)child);
    file_put(AT_FDCWD, path, "0 100000 65536\n");
    snprintf(path, sizeof path, "/proc/%d/gid_map", (int)child);
    file_put(AT_FDCWD, path, "0 100000 65536\n");
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)child);
    ns = open(path, O_RDONLY | O_CLOEXEC);
    const char *where = access(d->paths.data_dir, F_OK) == 0 ? d->paths.data_dir : "/var/lib";
    tree = (int)syscall(SYS_open_tree, AT_FDCWD, where, OPEN_TREE_CLONE | O_CLOEXEC);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)ns};
    if (ns < 0 || tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0) {
        finding_set(f, FINDING_LIMITED, "an idmapped mount of %s: %s", where, strerror(errno));
        finding_remedy(
            f, "Linux 5.12 or later, and a data directory on ext4, xfs, btrfs or tmpfs (6.3 or later)");
    } else {
        finding_ok(f, "%s can be mounted with owners mapped", where);
    }
    close(p[1]);
    if (child > 0)
        waitpid(child, NULL, 0);
}

static void try_time(const struct doctor *d, struct finding *f)
{
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
    if (doctor_enter_userns(f, 0) < 0)
        return;
    if (unshare(CLONE_NEWTIME) < 0) {
        finding_set(f, FINDING_LIMITED,
                    "unshare(CLONE_NEWTIME): %s; a container can read how long this machine is up",
                    strerror(errno));
        finding_remedy(f, "Linux 5.6 or later with CONFIG_TIME_NS");
        return;
    }
    finding_ok(f, "a container's clock starts at 0");
}

static int mount_proc_in_child(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? errno : 0);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static void try_proc(const struct doctor *d, struct finding *f)
{
    if (doctor_enter_userns(f, CLONE_NEWNS | CLONE_NEWPID) < 0)
        return;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    int failed = mount_proc_in_child();
    if (failed) {
        finding_set(f, FINDING_MISSING,
                    "a fresh /proc cannot be mounted: %s; parts of /proc are probably covered here",
                    strerror(failed));
        finding_remedy(
            f, "outside of another container it works; in Docker: --security-opt systempaths=unconfined");
        return;
    }
    finding_ok(f, "a fresh one can be mounted");
}

static void try_mount_api(const struct doctor *d, struct finding *f)
{
    int fs = (int)syscall(SYS_fsopen, "tmpfs", 1 /* FSOPEN_CLOEXEC */);
    if (fs < 0 && (errno == ENOSYS || errno == EINVAL)) {
        finding_set(f, FINDING_MISSING, "fsopen: %s", strerror(errno));
        finding_remedy(f, "Linux 5.2 or later; a seccomp filter around this process may forbid it");
        return;
    }
    if (fs >= 0)
        close(fs);
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/", O_CLOEXEC);
    if (tree < 0) {
        finding_set(f, FINDING_MISSING, "open_tree: %s", strerror(errno));
        finding_remedy(f, "Linux 5.2 or later; a seccomp filter around this process may forbid it");
        return;
    }
    close(tree);
    finding_ok(f, "fsopen, open_tree and move_mount");
}

const struct check doctor_namespace_checks[] = {
    {"user-namespaces", "user namespaces", true, true, try_userns},
    {"overlay", "overlay file system", true, true, try_overlay},
    {"mount-api", "mount system calls", true, true, try_mount_api},
    {"proc", "/proc", true, true, try_proc},
    {"tmpfs-xattr", "tmpfs attributes", false, true, try_tmpfs_xattr},
    {"idmapped-mounts", "idmapped mounts", false, true, try_idmap},
    {"time-namespace", "time namespaces", false, true, try_time},
    {NULL},
};
