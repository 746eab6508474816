/* This machine's state: what could leak between guests and the disk, where data lies, which helpers are
 * there. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

static void check_ksm(const struct doctor *d, struct finding *f)
{
    cleanup_free char *text = NULL;
    if (file_slurp(AT_FDCWD, "/sys/kernel/mm/ksm/run", 16, &text, NULL, NULL) < 0 || text[0] == '0') {
        finding_ok(f, "memory of guests is not merged");
        return;
    }
    finding_set(f, FINDING_LIMITED,
                "/sys/kernel/mm/ksm/run is %.1s: merging pages lets guests time each other", text);
    finding_remedy(f, "echo 2 > /sys/kernel/mm/ksm/run");
}

/* A swap device whose contents do not survive or are unreadable: compressed memory, or on dm-crypt. */
static bool swap_harmless(const char *device)
{
    char path[PATH_MAX], real[PATH_MAX];
    if (strncmp(device, "/dev/zram", 9) == 0)
        return true;
    if (!realpath(device, real))
        return false;
    const char *name = strrchr(real, '/') + 1;
    cleanup_free char *uuid = NULL;
    if (snprintf(path, sizeof path, "/sys/block/%s/dm/uuid", name) >= (int)sizeof path)
        return false;
    return file_slurp(AT_FDCWD, path, 256, &uuid, NULL, NULL) == 0 && strncmp(uuid, "CRYPT-", 6) == 0;
}

static void check_swap(const struct doctor *d, struct finding *f)
{
    cleanup_file FILE *file = fopen("/proc/swaps", "re");
    char line[PATH_MAX + 128], device[PATH_MAX];
    bool heading = true, any = false;
    while (file && fgets(line, sizeof line, file)) {
        if (heading) {
            heading = false;
            continue;
        }
        if (sscanf(line, "%4095s", device) != 1)
            continue;
        any = true;
        if (swap_harmless(device))
            continue;
        finding_set(f, FINDING_LIMITED, "%.100s is plain swap: a guest's memory may be written to the disk",
                    device);
        finding_remedy(f, "swapoff -a, or encrypt it");
        return;
    }
    finding_ok(f, any ? "compressed or encrypted" : "off");
}

static const char *fs_name(long type)
{
    static const struct {
        long type;
        const char *name;
    } known[] = {
        {0xef53, "ext4"},        {0x58465342, "xfs"},  {0x9123683e, "btrfs"}, {0x01021994, "tmpfs"},
        {0x794c7630, "overlay"}, {0x2fc12fc1, "zfs"},  {0x6969, "nfs"},       {0x65735546, "fuse"},
        {0xff534d42, "cifs"},    {0xf2f52010, "f2fs"}, {0x01021997, "9p"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].type == type)
            return known[i].name;
    return "an unknown file system";
}

/* The directory itself, or the nearest parent that exists. */
static void nearest_existing(const char *path, char to[PATH_MAX])
{
    snprintf(to, PATH_MAX, "%s", path);
    while (access(to, F_OK) < 0 && strlen(to) > 1) {
        char *slash = strrchr(to, '/');
        slash[slash == to] = '\0';
    }
}

static void check_data_dir(const struct doctor *d, struct finding *f)
{
    static const char *const remote[] = {"nfs", "fuse", "cifs", "9p"};
    char dir[PATH_MAX];
    struct statfs s;
    nearest_existing(d->paths.data_dir, dir);
    if (statfs(dir, &s) < 0) {
        finding_set(f, FINDING_MISSING, "%.100s: %s", dir, strerror(errno));
        finding_remedy(f, "name another one: --data-dir or CLOISTER_DATA_DIR");
        return;
    }
    const char *name = fs_name((long)s.f_type);
    unsigned long long free_mb = (unsigned long long)s.f_bavail * (unsigned long long)s.f_bsize >> 20;
    bool is_remote = false;
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        is_remote = is_remote || strcmp(name, remote[i]) == 0;
    if (access(dir, W_OK) < 0) {
        finding_set(f, FINDING_MISSING, "%.100s cannot be written to: %s", dir, strerror(errno));
        finding_remedy(f, "name another one: --data-dir or CLOISTER_DATA_DIR");
    } else if (is_remote || strcmp(name, "overlay") == 0) {
        finding_set(f, FINDING_LIMITED, "%.100s is on %s, which overlay cannot write its upper layer to",
                    d->paths.data_dir, name);
        finding_remedy(f, "a directory on ext4, xfs or btrfs: --data-dir or CLOISTER_DATA_DIR");
    } else if (strcmp(name, "tmpfs") == 0) {
        finding_set(f, FINDING_LIMITED, "%.100s is on tmpfs: images and snapshots are lost at a reboot",
                    d->paths.data_dir);
        finding_remedy(f, "a directory on ext4, xfs or btrfs: --data-dir or CLOISTER_DATA_DIR");
    } else if (free_mb < 1024) {
        finding_set(f, FINDING_LIMITED, "%.100s has only %llu MiB left", d->paths.data_dir, free_mb);
        finding_remedy(f, "make room, or name another one: --data-dir or CLOISTER_DATA_DIR");
    } else {
        finding_ok(f, "%.120s on %s, %llu GiB free", d->paths.data_dir, name, free_mb >> 10);
    }
}

static bool in_path(const char *program)
{
    char path[PATH_MAX];
    const char *dirs = getenv("PATH");
    for (dirs = dirs ? dirs : "/usr/bin:/bin"; *dirs;) {
        size_t n = strcspn(dirs, ":");
        if (snprintf(path, sizeof path, "%.*s/%s", (int)n, dirs, program) < (int)sizeof path &&
            access(path, X_OK) == 0)
            return true;
        dirs += n;
        dirs += *dirs == ':';
    }
    return false;
}

static void check_program(struct finding *f, const char *program, const char *what)
{
    if (in_path(program)) {
        finding_ok(f, "installed");
        return;
    }
    finding_set(f, FINDING_LIMITED, "not in PATH: %s", what);
    finding_remedy(f, "apt-get install %s", program);
}

static void check_skopeo(const struct doctor *d, struct finding *f)
{
    check_program(f, "skopeo", "no images from registries");
}

static void check_mmdebstrap(const struct doctor *d, struct finding *f)
{
    check_program(f, "mmdebstrap", "no \"cloister image build-base\"");
}

static void check_helpers(const struct doctor *d, struct finding *f)
{
    static const char *const needed[] = {"cloister-init", "cloister-client", "cloister-image",
                                         "cloister-daemon"};
    struct error err = {0};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        cleanup_free char *path = NULL;
        if (paths_helper(needed[i], &path, &err) == 0)
            continue;
        finding_set(f, i == 0 ? FINDING_MISSING : FINDING_LIMITED, "%s is not found", needed[i]);
        finding_remedy(f, "install Cloister whole, or say where its helpers are in CLOISTER_LIBEXEC");
        return;
    }
    finding_ok(f, "all four programs of libexec are there");
}

const struct check doctor_host_checks[] = {
    {"helpers", "Cloister's helpers", true, false, check_helpers},
    {"data-dir", "data directory", true, false, check_data_dir},
    {"ksm", "page merging", false, false, check_ksm},
    {"swap", "swap", false, false, check_swap},
    {"skopeo", "skopeo", false, false, check_skopeo},
    {"mmdebstrap", "mmdebstrap", false, false, check_mmdebstrap},
    {NULL},
};
