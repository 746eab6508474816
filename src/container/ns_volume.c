#include "container/ns_volume.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "container/fsconf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <linux/mount.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MKFS "/sbin/mkfs.ext4"
#define VOLUME_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME)
/* Sizes are rounded up to this, so that few templates serve many sizes. */
#define IMAGE_UNIT ((uint64_t)64 << 20)
#define LOOP_TRIES 64
/* One inode for each so many bytes of a writable layer, where not said otherwise. */
#define BYTES_PER_INODE 8192u
#define MIN_INODES 4096u

int volume_in_memory(uint64_t bytes, uint64_t inodes, int *ret_mount, struct error *err)
{
    cleanup_close int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconf_u64(fs, "size", bytes) < 0 || fsconf_u64(fs, "nr_inodes", inodes) < 0 ||
        fsconf_string(fs, "mode", "0700") < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return fsconf_error(fs, err, "the writable layer");
    int mnt = fsmount(fs, FSMOUNT_CLOEXEC, VOLUME_ATTRS);
    if (mnt < 0)
        return fsconf_error(fs, err, "the writable layer");
    *ret_mount = mnt;
    return 0;
}

int volume_resize(int dir_fd, const char *name, uint64_t bytes, uint64_t inodes, struct error *err)
{
    cleanup_close int fs = fspick(dir_fd, name, FSPICK_CLOEXEC | FSPICK_NO_AUTOMOUNT);
    if (fs < 0 || fsconf_u64(fs, "size", bytes) < 0 || fsconf_u64(fs, "nr_inodes", inodes) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
        return fsconf_error(fs, err, "the writable layer with its new size");
    return 0;
}

bool volume_image_possible(struct error *err)
{
    if (access(MKFS, X_OK) < 0) {
        error_set(err, ERROR_UNSUPPORTED, "%s is missing; install the package e2fsprogs", MKFS);
        return false;
    }
    if (access("/dev/loop-control", R_OK | W_OK) < 0) {
        error_set(err, ERROR_UNSUPPORTED,
                  "/dev/loop-control cannot be opened; load the module loop and run as root");
        return false;
    }
    return true;
}

static int run_mkfs(const char *path, uint64_t inodes, struct error *err)
{
    char count[32];
    pid_t pid;
    int status;
    snprintf(count, sizeof count, "%llu", (unsigned long long)inodes);
    /* No journal: a volume never outlives its container, so there is nothing to recover. */
    /* posix_spawn(3) takes pointers to writable strings but writes to none. */
    const char *argv[] = {MKFS,
                          "-q",
                          "-F",
                          "-O",
                          "^has_journal,^resize_inode",
                          "-E",
                          "lazy_itable_init=1,nodiscard,root_owner=0:0",
                          "-m",
                          "0",
                          "-N",
                          count,
                          path,
                          NULL};
    const char *envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    int r = posix_spawn(&pid, MKFS, NULL, NULL, (char *const *)argv, (char *const *)envp);
    if (r)
        return error_system(err, r, "cannot run %s", MKFS);
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        return error_set(err, ERROR_SYSTEM, "%s could not make a volume of this size", MKFS);
    return 0;
}

/* An empty file system of this size, made once and copied from then on. */
static int open_template(const char *dir, uint64_t bytes, uint64_t inodes, struct error *err)
{
    char path[PATH_MAX], tmp[PATH_MAX];
    snprintf(path, sizeof path, "%s/template-%llu-%llu", dir, (unsigned long long)bytes,
             (unsigned long long)inodes);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        return fd;
    snprintf(tmp, sizeof tmp, "%s.%d", path, (int)getpid());
    cleanup_close int made = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made < 0 || ftruncate(made, (off_t)bytes) < 0) {
        error_system(err, errno, "cannot create %s", tmp);
        unlink(tmp);
        return -1;
    }
    if (run_mkfs(tmp, inodes, err) < 0) {
        unlink(tmp);
        return -1;
    }
    if (rename(tmp, path) < 0) {
        error_system(err, errno, "cannot create %s", path);
        unlink(tmp);
        return -1;
    }
    return steal_fd(&made);
}

/* Copies what is not a hole. */
static int copy_sparse(int from, int to, off_t size, struct error *err)
{
    if (ftruncate(to, size) < 0)
        return error_system(err, errno, "cannot size a volume");
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            return 0;
        off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
        if (hole < 0)
            return error_system(err, errno, "cannot read a volume template");
        for (at = data; at < hole;) {
            off_t in = at, out = at;
            ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(hole - at), 0);
            if (n <= 0)
                return error_system(err, n < 0 ? errno : EIO, "cannot copy a volume template");
            at += n;
        }
    }
    return 0;
}

/* A loop device over `image` that goes away with its last user. Its node may be missing where /dev is not
 * devtmpfs. */
static int attach_loop(int image, char *to, size_t cap, struct error *err)
{
    cleanup_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return error_system(err, errno, "cannot open /dev/loop-control");
    for (int tries = 0; tries < LOOP_TRIES; tries++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE);
        if (n < 0)
            return error_system(err, errno, "no loop device is free");
        snprintf(to, cap, "/dev/loop%d", n);
        if (access(to, F_OK) < 0)
            mknod(to, S_IFBLK | 0600, makedev(LOOP_MAJOR, (unsigned)n));
        int fd = open(to, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return error_system(err, errno, "cannot open %s", to);
        struct loop_config config = {.fd = (uint32_t)image, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
            return fd;
        int saved = errno;
        close(fd);
        if (saved != EBUSY) /* busy: somebody else took it between the two calls */
            return error_system(err, saved, "cannot configure %s", to);
    }
    return error_set(err, ERROR_LIMIT, "no loop device could be had in %d tries", LOOP_TRIES);
}

static int mount_image(const char *device, struct error *err)
{
    cleanup_close int fs = fsopen("ext4", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconf_string(fs, "source", device) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return fsconf_error(fs, err, "a volume image");
    int mnt = fsmount(fs, FSMOUNT_CLOEXEC, VOLUME_ATTRS);
    return mnt < 0 ? fsconf_error(fs, err, "a volume image") : mnt;
}

int volume_in_image(const char *data_dir, uint64_t bytes, uint64_t inodes, int *ret_mount, struct error *err)
{
    char dir[PATH_MAX], device[64];
    bytes = (bytes + IMAGE_UNIT - 1) / IMAGE_UNIT * IMAGE_UNIT;
    snprintf(dir, sizeof dir, "%s/volumes", data_dir);
    if (dir_make(dir, 0700, err) < 0)
        return -1;
    cleanup_close int template = open_template(dir, bytes, inodes, err);
    if (template <0)
        return -1;
    cleanup_close int image = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (image < 0)
        return error_system(err, errno, "cannot create a volume in %s", dir);
    if (copy_sparse(template, image, (off_t)bytes, err) < 0)
        return -1;
    cleanup_close int loop = attach_loop(image, device, sizeof device, err);
    if (loop < 0)
        return -1;
    int mnt = mount_image(device, err);
    if (mnt < 0)
        return -1;
    *ret_mount = mnt;
    return 0;
}

uint64_t volume_inodes(uint64_t bytes)
{
    uint64_t n = bytes / BYTES_PER_INODE;
    return n < MIN_INODES ? MIN_INODES : n;
}

bool volume_spare_make(struct volume_spare *s, uint64_t bytes, uint64_t inodes)
{
    static const char probe[] = "user.cloister";
    char path[64];
    int got = -1;
    s->mount = -1;
    if (volume_in_memory(bytes, inodes, &got, NULL) < 0)
        return false;
    cleanup_close int mnt = got;
    snprintf(path, sizeof path, "/proc/self/fd/%d", mnt);
    if (setxattr(path, probe, "y", 1, 0) < 0 || removexattr(path, probe) < 0)
        return false;
    *s = (struct volume_spare){steal_fd(&mnt), bytes, inodes};
    return true;
}

int volume_spare_take(struct volume_spare *s, uint64_t bytes, uint64_t inodes)
{
    return s->bytes == bytes && s->inodes == inodes ? steal_fd(&s->mount) : -1;
}

int volume_in_directory(const char *data_dir, const char *name, int *ret_mount, struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/volumes/%s", data_dir, name);
    if (dir_make(path, 0700, err) < 0)
        return -1;
    cleanup_close int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return error_system(err, errno, "cannot mount %s", path);
    *ret_mount = steal_fd(&fd);
    return 0;
}

void volume_remove_directory(const char *data_dir, const char *name)
{
    char path[PATH_MAX];
    struct error err = {0};
    snprintf(path, sizeof path, "%s/volumes/%s", data_dir, name);
    if (dir_remove(AT_FDCWD, path, &err) < 0)
        log_warn("%s", err.message);
}

void volume_remove_engine(const char *data_dir, const char *engine_id)
{
    char path[PATH_MAX];
    size_t len = strlen(engine_id);
    snprintf(path, sizeof path, "%s/volumes", data_dir);
    cleanup_dir DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, engine_id, len) && e->d_name[len] == '.')
            volume_remove_directory(data_dir, e->d_name);
}
