/* "setup", second half: a private root of our own (a small tmpfs) with every mount that a container needs,
 * and nothing of the host any more. The order matters: proc and sysfs can be mounted only while the host's
 * are still visible. */
#include "agent/agent.h"
#include "agent/kernel.h"
#include "agent/masks.h"
#include "agent/mount.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define QUIET (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

struct stage {
    int root;  /* the tmpfs that holds everything else */
    int null;  /* O_PATH of our own /dev/null: the source of masks, whatever an image ships (attack A6) */
    int empty; /* O_PATH of an empty read-only directory: the source of directory masks */
};

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
               {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

/* Mounts a new file system at stage/<name>, a directory that is made for it. */
static int add_filesystem(const struct stage *s, const char *name, const char *fstype,
                          const struct mount_option *options, unsigned attributes, struct error *err)
{
    if (mkdirat(s->root, name, 0755) < 0 && errno != EEXIST)
        return error_system(err, errno, "cannot make /%s", name);
    cleanup_close int fd = mount_new(fstype, options, attributes, err);
    if (fd < 0)
        return -1;
    return mount_attach(fd, s->root, name, err);
}

/* Covers below/path with the null device or the empty directory. */
static int mask(const struct stage *s, int below, const char *path, struct error *err)
{
    cleanup_close int at = openat(below, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (at < 0 && errno == ENOENT)
        return 0;
    if (at < 0 || fstat(at, &st) < 0)
        return error_system(err, errno, "cannot mask %s", path);
    bool dir = S_ISDIR(st.st_mode);
    cleanup_close int cover = mount_clone(dir ? s->empty : s->null, "", 0, err);
    if (cover < 0)
        return -1;
    return mount_attach(cover, at, "", err);
}

static int make_readonly(int below, const char *path, struct error *err)
{
    cleanup_close int at = openat(below, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (at < 0 && errno == ENOENT)
        return 0;
    if (at < 0)
        return error_system(err, errno, "cannot make %s read-only", path);
    cleanup_close int copy = mount_clone(at, "", MOUNT_ATTR_RDONLY | QUIET, err);
    if (copy < 0)
        return -1;
    return mount_attach(copy, at, "", err);
}

static int add_proc(const struct stage *s, struct error *err)
{
    if (add_filesystem(s, "proc", "proc", NULL, QUIET, err) < 0)
        return error_wrap(err, "no /proc for the container (is the host's own /proc partly covered?)");
    cleanup_close int proc = openat(s->root, "proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return error_system(err, errno, "cannot open /proc");
    /* Second lock besides seccomp: no user namespace can be made in this one, by whatever call. */
    file_put(proc, "sys/user/max_user_namespaces", "0");
    for (size_t i = 0; i < MASK_COUNT(proc_masked); i++)
        if (mask(s, proc, proc_masked[i], err) < 0)
            return error_wrap(err, "/proc");
    for (size_t i = 0; i < MASK_COUNT(proc_readonly); i++)
        if (make_readonly(proc, proc_readonly[i], err) < 0)
            return error_wrap(err, "/proc");
    return 0;
}

static int add_sys(struct agent *a, const struct stage *s, struct error *err)
{
    struct error why = {0};
    if (add_filesystem(s, "sys", "sysfs", NULL, QUIET | MOUNT_ATTR_RDONLY, &why) < 0) {
        /* Where the host's /sys is itself covered, the kernel refuses: the container then sees an empty one.
         */
        agent_log(a, 1, "/sys is empty in this container: %s", why.message);
        return add_filesystem(s, "sys", "tmpfs", NULL, QUIET | MOUNT_ATTR_RDONLY, err);
    }
    cleanup_close int sys = openat(s->root, "sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (sys < 0)
        return error_system(err, errno, "cannot open /sys");
    for (size_t i = 0; i < MASK_COUNT(sys_masked); i++)
        if (mask(s, sys, sys_masked[i], err) < 0)
            return error_wrap(err, "/sys");
    return 0;
}

static int add_device(int dev, const char *name, unsigned major_number, unsigned minor_number,
                      struct error *err)
{
    char path[32];
    snprintf(path, sizeof path, "/dev/%s", name);
    cleanup_close int fd = mount_clone(AT_FDCWD, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
    if (fd < 0)
        return -1;
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(major_number, minor_number))
        return error_set(err, ERROR_UNSUPPORTED, "the host's %s is not the device it should be", path);
    cleanup_close int place = openat(dev, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (place < 0)
        return error_system(err, errno, "cannot make %s", path);
    return mount_attach(fd, dev, name, err);
}

/* devpts wants gid 5 (tty) where the identity map knows it. */
static bool gid_is_mapped(unsigned gid)
{
    char *text;
    if (file_slurp(AT_FDCWD, "/proc/self/gid_map", 65536, &text, NULL, NULL) < 0)
        return false;
    bool found = false;
    unsigned inside, outside, count;
    int used;
    for (const char *p = text; sscanf(p, "%u %u %u%n", &inside, &outside, &count, &used) == 3; p += used)
        if (gid >= inside && gid - inside < count)
            found = true;
    free(text);
    return found;
}

static int add_links(int dev, struct error *err)
{
    static const char *const links[][2] = {{"pts/ptmx", "ptmx"},
                                           {"/proc/self/fd", "fd"},
                                           {"/proc/self/fd/0", "stdin"},
                                           {"/proc/self/fd/1", "stdout"},
                                           {"/proc/self/fd/2", "stderr"}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (symlinkat(links[i][0], dev, links[i][1]) < 0)
            return error_system(err, errno, "cannot make /dev/%s", links[i][1]);
    return 0;
}

static int add_dev(struct stage *s, struct error *err)
{
    static const struct mount_option tmpfs[] = {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "256"}, {0}};
    static const struct mount_option shm[] = {{"mode", "1777"}, {"size", "64m"}, {"nr_inodes", "65536"}, {0}};
    /* terminals are counted for the whole machine (kernel.pty.max, 4096) */
    static const struct mount_option with_tty[] = {
        {"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", "64"}, {"gid", "5"}, {0}};
    static const struct mount_option without[] = {
        {"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", "64"}, {0}};

    if (add_filesystem(s, "dev", "tmpfs", tmpfs, QUIET, err) < 0)
        return -1;
    cleanup_close int dev = openat(s->root, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dev < 0)
        return error_system(err, errno, "cannot open /dev");
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (add_device(dev, devices[i].name, devices[i].major, devices[i].minor, err) < 0)
            return -1;
    const struct mount_option *pts = gid_is_mapped(5) ? with_tty : without;
    if (add_filesystem(s, "dev/pts", "devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err) < 0 ||
        add_filesystem(s, "dev/shm", "tmpfs", shm, QUIET, err) < 0 ||
        add_filesystem(s, "dev/mqueue", "mqueue", NULL, QUIET, err) < 0 || add_links(dev, err) < 0)
        return -1;
    s->null = openat(dev, "null", O_PATH | O_CLOEXEC);
    return s->null < 0 ? error_system(err, errno, "cannot open /dev/null") : 0;
}

static int add_empty(struct stage *s, struct error *err)
{
    if (add_filesystem(s, "empty", "tmpfs", NULL, QUIET | MOUNT_ATTR_RDONLY, err) < 0)
        return -1;
    s->empty = openat(s->root, "empty", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return s->empty < 0 ? error_system(err, errno, "cannot open the empty directory") : 0;
}

/* Makes the stage our root and lets go of the host's tree. */
static int leave_host(const struct stage *s, struct error *err)
{
    if (fchdir(s->root) < 0 || sys_pivot_root(".", ".") < 0)
        return error_system(err, errno, "cannot change to the stage root");
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_system(err, errno, "cannot detach the host's file systems");
    return 0;
}

static int open_handles(struct agent *a, struct error *err)
{
    a->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    a->sys_fd = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    a->dev_fd = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    a->run_fd = open("/run", O_PATH | O_DIRECTORY | O_CLOEXEC);
    a->pts_fd = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);
    a->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (a->proc_fd < 0 || a->sys_fd < 0 || a->dev_fd < 0 || a->run_fd < 0 || a->pts_fd < 0 || a->null_fd < 0)
        return error_system(err, errno, "cannot open the stage");
    return 0;
}

int stage_build(struct agent *a, struct error *err)
{
    static const struct mount_option root[] = {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "64"}, {0}};
    static const struct mount_option run[] = {{"mode", "0755"}, {"size", "64m"}, {"nr_inodes", "65536"}, {0}};

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_system(err, errno, "cannot make mounts private");
    struct stage s = {.root = mount_new("tmpfs", root, QUIET, err), .null = -1, .empty = -1};
    cleanup_close int owned_root = s.root;
    if (s.root < 0 || mount_attach(s.root, AT_FDCWD, "/", err) < 0)
        return -1;
    int r = -1;
    if (add_dev(&s, err) == 0 && add_empty(&s, err) == 0 && add_proc(&s, err) == 0 &&
        add_sys(a, &s, err) == 0 && add_filesystem(&s, "run", "tmpfs", run, QUIET, err) == 0 &&
        leave_host(&s, err) == 0)
        r = open_handles(a, err);
    if (s.null >= 0)
        close(s.null);
    if (s.empty >= 0)
        close(s.empty);
    return r;
}
