/* Trying something in a child process, so that neither its namespaces nor its failures become ours. */
#include "base/fd.h"
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_SECONDS 10
#define NOBODY 65534

void finding_ok(struct finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    *f = (struct finding){.state = FINDING_OK};
    vsnprintf(f->detail, sizeof f->detail, fmt, ap);
    va_end(ap);
}

void finding_set(struct finding *f, enum finding_state s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    *f = (struct finding){.state = s};
    vsnprintf(f->detail, sizeof f->detail, fmt, ap);
    va_end(ap);
}

void finding_remedy(struct finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->remedy, sizeof f->remedy, fmt, ap);
    va_end(ap);
}

static void run_in_child(const struct check *c, const struct doctor *d, struct finding *f)
{
    int p[2];
    finding_set(f, FINDING_MISSING, "the trial did not answer within %d seconds or died", CHILD_SECONDS);
    if (pipe2(p, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(CHILD_SECONDS);
        struct finding mine = {0};
        c->run(d, &mine);
        fd_write_all(p[1], &mine, sizeof mine);
        _exit(0);
    }
    close(p[1]);
    struct finding theirs;
    if (pid > 0 && fd_read_full(p[0], &theirs, sizeof theirs) == (ssize_t)sizeof theirs)
        *f = theirs;
    close(p[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

void check_run(const struct check *c, const struct doctor *d, struct finding *f)
{
    if (c->in_child)
        run_in_child(c, d, f);
    else
        c->run(d, f);
}

static bool setting_is(const char *path, const char *value)
{
    char *text = NULL;
    bool same =
        file_slurp(AT_FDCWD, path, 64, &text, NULL, NULL) == 0 && strncmp(text, value, strlen(value)) == 0;
    free(text);
    return same;
}

/* Which switch forbids user namespaces here. */
static void explain_userns(struct finding *f, int errnum)
{
    if (setting_is("/proc/sys/user/max_user_namespaces", "0\n")) {
        finding_set(f, FINDING_MISSING, "user.max_user_namespaces is 0");
        finding_remedy(f, "sysctl -w user.max_user_namespaces=15000");
    } else if (setting_is("/proc/sys/kernel/unprivileged_userns_clone", "0")) {
        finding_set(f, FINDING_MISSING,
                    "kernel.unprivileged_userns_clone is 0: only root may make user namespaces");
        finding_remedy(f, "sysctl -w kernel.unprivileged_userns_clone=1, or run Cloister as root");
    } else if (setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")) {
        finding_set(f, FINDING_MISSING, "AppArmor restricts user namespaces (%s)", strerror(errnum));
        finding_remedy(
            f,
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with userns");
    } else {
        finding_set(f, FINDING_MISSING, "unshare(CLONE_NEWUSER): %s", strerror(errnum));
        finding_remedy(f,
                       "a kernel with CONFIG_USER_NS; inside another container, let it make user namespaces");
    }
}

static int map_self(unsigned uid, unsigned gid)
{
    char line[64];
    snprintf(line, sizeof line, "0 %u 1\n", uid);
    if (file_put(AT_FDCWD, "/proc/self/uid_map", line) < 0)
        return -1;
    if (file_put(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
        return -1;
    snprintf(line, sizeof line, "0 %u 1\n", gid);
    return file_put(AT_FDCWD, "/proc/self/gid_map", line);
}

int doctor_enter_userns(struct finding *f, int further_flags)
{
    /* As an ordinary user would, also when root asks. */
    if (geteuid() == 0) {
        if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) < 0) {
            finding_set(f, FINDING_MISSING, "cannot give up root's rights for the trial: %s",
                        strerror(errno));
            return -1;
        }
        prctl(PR_SET_DUMPABLE, 1); /* lost with the old identity; without it /proc/self is not ours */
    }
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWUSER | further_flags) < 0) {
        explain_userns(f, errno);
        return -1;
    }
    if (map_self(uid, gid) < 0) {
        finding_set(f, FINDING_MISSING, "user namespaces can be made, but not mapped: %s", strerror(errno));
        finding_remedy(f, "a security module may forbid it: look for denials in the kernel log");
        return -1;
    }
    return 0;
}
