/* "start", second half: what the agent, and with it every process of the container, gives up for good. */
#include "agent/agent.h"
#include "seccomp_filter.h" /* generated from seccomp_policy.h */

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What root of a container can do inside: the usual set of container engines, without NET_RAW (raw sockets),
 * MKNOD (device nodes) and AUDIT_WRITE (the host's audit log). */
static const int kept[] = {CAP_CHOWN,  CAP_DAC_OVERRIDE,     CAP_FSETID,    CAP_FOWNER,
                           CAP_SETGID, CAP_SETUID,           CAP_SETPCAP,   CAP_SETFCAP,
                           CAP_KILL,   CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT};

static bool is_kept(int cap)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i] == cap)
            return true;
    return false;
}

static int drop_capabilities(struct error *err)
{
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!is_kept(cap) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return error_system(err, errno, "cannot drop capability %d from the bounding set", cap);
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return error_system(err, errno, "cannot clear ambient capabilities");
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        data[CAP_TO_INDEX(kept[i])].effective |= CAP_TO_MASK(kept[i]);
        data[CAP_TO_INDEX(kept[i])].permitted |= CAP_TO_MASK(kept[i]);
    }
    if (syscall(SYS_capset, &header, data) < 0)
        return error_system(err, errno, "cannot drop capabilities");
    return 0;
}

/* A memory file that nobody has mapped shows nowhere in /proc to us: where memory is only measured there are
 * none (programs fall back to files in /dev/shm or /tmp, which count). Comes before the policy's filter,
 * which has judged the architecture; of several filters the strictest answer holds. */
static const struct sock_filter no_memory_files[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static int install_filter(const struct sock_filter *filter, size_t len, struct error *err)
{
    struct sock_fprog program = {.len = (unsigned short)len, .filter = (struct sock_filter *)filter};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return error_system(err, errno, "cannot install the seccomp filter");
    return 0;
}

int jail_enter(bool watched, struct error *err)
{
    if (drop_capabilities(err) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_system(err, errno, "cannot set no_new_privs");
    if (watched && install_filter(no_memory_files, sizeof no_memory_files / sizeof *no_memory_files, err) < 0)
        return -1;
    if (install_filter(seccomp_filter, sizeof seccomp_filter / sizeof *seccomp_filter, err) < 0)
        return -1;
    /* Changes of credentials reset it: nobody inside may trace us or read our /proc entries. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return error_system(err, errno, "cannot protect the agent's memory");
    return 0;
}
