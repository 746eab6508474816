/* Memory of the whole container, measured from /proc: where no cgroup limits it, a watcher ends the container
 * when it has grown too large. Counted: anonymous memory of every process, of shared memory the largest
 * mapping or all of System V's (attached or not, whichever is more), and the files in the memory file
 * systems. It is a watch, not a wall: between two looks a guest can take more. */
#include "agent/agent.h"
#include "agent/procfs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/vfs.h>
#include <unistd.h>

#define WATCH_INTERVAL_MS 100

struct sum {
    struct agent *agent;
    uint64_t processes, anonymous_kib, shared_kib;
};

static uint64_t status_kib(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    unsigned long long v = 0;
    return p && sscanf(p + strlen(key), " %llu", &v) == 1 ? v : 0;
}

static bool add_process(void *user, pid_t pid)
{
    struct sum *s = user;
    char text[4096];
    if (procfs_read(s->agent->proc_fd, pid, "status", text, sizeof text) < 0)
        return true;
    s->processes++;
    s->anonymous_kib += status_kib(text, "\nRssAnon:");
    uint64_t shared = status_kib(text, "\nRssShmem:");
    if (shared > s->shared_kib)
        s->shared_kib = shared;
    return true;
}

static uint64_t tmpfs_bytes(const char *path)
{
    struct statfs st;
    if (statfs(path, &st) < 0 || st.f_type != 0x01021994)
        return 0;
    return (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
}

/* Segments outlive their processes, so no process's own figures show all of them. */
static uint64_t segments_kib(void)
{
    struct shm_info info;
    if (shmctl(0, SHM_INFO, (struct shmid_ds *)&info) < 0)
        return 0;
    return (uint64_t)info.shm_rss * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

void usage_measure(struct agent *a, struct usage *ret)
{
    struct sum s = {.agent = a};
    procfs_each(a->proc_fd, add_process, &s);
    uint64_t segments = segments_kib();
    if (segments > s.shared_kib)
        s.shared_kib = segments;
    ret->processes = s.processes;
    ret->bytes = (s.anonymous_kib + s.shared_kib) * 1024u + tmpfs_bytes("/dev/shm") + tmpfs_bytes("/run");
}

static void look(struct timer *t)
{
    struct agent *a = (struct agent *)((char *)t - offsetof(struct agent, memory_timer));
    struct usage u;
    usage_measure(a, &u);
    if (u.bytes < a->limits.memory_watch) {
        timer_arm(&a->loop, t, WATCH_INTERVAL_MS, look);
        return;
    }
    a->memory_exceeded = true;
    agent_log(a, 0, "memory limit: the container uses %llu bytes of %llu", (unsigned long long)u.bytes,
              (unsigned long long)a->limits.memory_watch);
    kill(-1, SIGKILL);
}

void memory_watch_start(struct agent *a)
{
    if (a->limits.memory_watch)
        timer_arm(&a->loop, &a->memory_timer, WATCH_INTERVAL_MS, look);
}
