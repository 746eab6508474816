/* The kernel: system calls that are needed, and versions with holes that matter to people who run foreign
 * code. */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

struct version {
    unsigned major, minor, patch;
};

/* A hole and the releases that closed it. Below `since` it was not there yet. */
static const struct {
    const char *name;
    struct version since;
    struct version fixed[6]; /* newest series first: anything later than the first is fixed */
} holes[] = {
    {"CVE-2022-0847 (dirty pipe: guests could change files they share)",
     {5, 8, 0},
     {{5, 16, 11}, {5, 15, 25}, {5, 10, 102}}},
    {"CVE-2022-0185 (fsconfig overflow, reachable from a user namespace)",
     {5, 1, 0},
     {{5, 16, 2}, {5, 15, 16}, {5, 10, 93}, {5, 4, 173}}},
    {"CVE-2023-3269 (StackRot)", {6, 1, 0}, {{6, 4, 1}, {6, 3, 11}, {6, 1, 37}}},
    {"CVE-2024-1086 (nf_tables, reachable from a user namespace)",
     {3, 15, 0},
     {{6, 7, 3}, {6, 6, 15}, {6, 1, 76}, {5, 15, 149}}},
};

static int compare(struct version a, struct version b)
{
    if (a.major != b.major)
        return a.major < b.major ? -1 : 1;
    if (a.minor != b.minor)
        return a.minor < b.minor ? -1 : 1;
    return a.patch < b.patch ? -1 : a.patch > b.patch;
}

static bool has_hole(size_t i, struct version v)
{
    if (compare(v, holes[i].since) < 0 || compare(v, holes[i].fixed[0]) >= 0)
        return false;
    for (size_t k = 0; k < 6 && holes[i].fixed[k].major; k++) {
        struct version x = holes[i].fixed[k];
        if (x.major == v.major && x.minor == v.minor)
            return v.patch < x.patch;
    }
    return true;
}

/* Debian names the upstream release it is built from in the second field only. */
static bool version_read(struct version *v, struct utsname *u)
{
    const char *debian = strstr(u->version, "Debian ");
    *v = (struct version){0};
    if (debian && sscanf(debian, "Debian %u.%u.%u", &v->major, &v->minor, &v->patch) >= 2)
        return true;
    return sscanf(u->release, "%u.%u.%u", &v->major, &v->minor, &v->patch) >= 2;
}

static void check_version(const struct doctor *d, struct finding *f)
{
    struct utsname u;
    struct version v;
    if (uname(&u) < 0 || !version_read(&v, &u)) {
        finding_set(f, FINDING_LIMITED, "its version cannot be read");
        finding_remedy(f, "see what \"uname -a\" says");
        return;
    }
    for (size_t i = 0; i < sizeof holes / sizeof *holes; i++) {
        if (!has_hole(i, v))
            continue;
        finding_set(f, FINDING_LIMITED, "%s is in the range of %s", u.release, holes[i].name);
        finding_remedy(f, "update the kernel; a distributor's kernel may have the fix under an older number: "
                          "see its advisory");
        return;
    }
    finding_ok(f, "%s, in the range of none of the %zu holes that are looked for", u.release,
               sizeof holes / sizeof *holes);
}

static void check_syscalls(const struct doctor *d, struct finding *f)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int failed_pidfd = pidfd < 0 ? errno : 0;
    int dir = open("/", O_PATH | O_CLOEXEC);
    int file = (int)syscall(SYS_openat2, dir, ".", &how, sizeof how);
    int failed_openat2 = file < 0 ? errno : 0;
    int failed_range = syscall(SYS_close_range, ~0u - 1, ~0u - 1, 0) < 0 ? errno : 0;
    static const char remedy[] = "Linux 5.9 or later; a seccomp filter around this process may forbid it";
    if (failed_pidfd)
        finding_set(f, FINDING_MISSING, "pidfd_open: %s", strerror(failed_pidfd));
    else if (failed_openat2)
        finding_set(f, FINDING_MISSING, "openat2: %s", strerror(failed_openat2));
    else if (failed_range)
        finding_set(f, FINDING_MISSING, "close_range: %s", strerror(failed_range));
    else
        finding_ok(f, "pidfd_open, openat2 and close_range");
    if (f->state != FINDING_OK)
        finding_remedy(f, "%s", remedy);
}

static void check_seccomp(const struct doctor *d, struct finding *f)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
        finding_set(f, FINDING_MISSING, "a filter cannot be installed: %s", strerror(errno));
        finding_remedy(f, "a kernel with CONFIG_SECCOMP_FILTER");
        return;
    }
    if (syscall(SYS_getppid) != -1 || errno != EXDEV) {
        finding_set(f, FINDING_MISSING, "an installed filter does not filter");
        finding_remedy(f, "a kernel with CONFIG_SECCOMP_FILTER");
        return;
    }
    finding_ok(f, "a filter was installed and refused what it should");
}

const struct check doctor_kernel_checks[] = {
    {"kernel", "kernel", false, false, check_version},
    {"system-calls", "system calls", true, true, check_syscalls},
    {"seccomp", "seccomp", true, true, check_seccomp},
    {NULL},
};
