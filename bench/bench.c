/* Measures Cloister against its peers in the same run and prints ratios. Usage:
 *   bench SOCKET CLOISTER start|oneshot|exec|throughput|idle|churn [COUNT]
 * Peers: bubblewrap for start and oneshot, fork+exec for exec, a plain pipe for throughput. Rounds alternate
 * between the two, so that both see the same machine. */
#include "http.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const char *socket_path, *cloister;

static double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static void report(const char *what, double ours, double peer, const char *peer_name, const char *unit,
                   double limit, int lower)
{
    double ratio = ours / peer;
    printf("%-34s %9.2f %s  %-12s %9.2f %s  ratio %5.2f  (%s %.2f: %s)\n", what, ours, unit, peer_name, peer,
           unit, ratio, lower ? "at most" : "at least", limit,
           (lower ? ratio <= limit : ratio >= limit) ? "ok" : "MISSED");
    fflush(stdout);
}

/* Starts a program; what it says on stdout comes from the descriptor. */
static int spawn(const char *const *argv, pid_t *ret)
{
    int p[2];
    posix_spawn_file_actions_t fa;
    if (pipe2(p, O_CLOEXEC) < 0)
        die("pipe");
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, p[1], 1);
    if (posix_spawnp(ret, argv[0], &fa, NULL, (char *const *)argv, environ))
        die(argv[0]);
    posix_spawn_file_actions_destroy(&fa);
    close(p[1]);
    return p[0];
}

/* Starts a program with its output in a pipe; milliseconds to its first byte, or to its end when it prints
 * nothing. */
static double spawn_time(const char *const *argv, int first_byte)
{
    char c[256];
    pid_t pid;
    double t = now_ms();
    int out = spawn(argv, &pid);
    ssize_t n = read(out, c, sizeof c);
    double first = now_ms() - t;
    int status;
    waitpid(pid, &status, 0);
    double all = now_ms() - t;
    close(out);
    if (status)
        die("the measured program failed");
    return first_byte && n > 0 ? first : all;
}

#define BWRAP                                                                                                \
    "bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink",      \
        "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",           \
        "--tmpfs", "/tmp", "--"

static double start_once(struct http *api, struct http *out, int n)
{
    char json[256], path[128], body[8192], piece[4096];
    snprintf(json, sizeof json, "{\"name\":\"bench-%d\",\"entrypoint\":[\"echo\",\"hi\"]}", n);
    snprintf(path, sizeof path, "/v1/containers/bench-%d/exec/main/output", n);
    double t = now_ms();
    if (http_request(api, "POST", "/v1/containers", json, body, sizeof body) != 201)
        die(body);
    if (http_begin(out, "GET", path, "application/vnd.cloister.frames") != 200 ||
        http_read_chunk(out, piece, sizeof piece) <= 0)
        die("no output stream");
    t = now_ms() - t;
    while (http_read_chunk(out, piece, sizeof piece) > 0)
        ;
    snprintf(path, sizeof path, "/v1/containers/bench-%d", n);
    if (http_request(api, "DELETE", path, NULL, body, sizeof body) != 204)
        die(body);
    return t;
}

static void bench_start(int count)
{
    const char *peer[] = {BWRAP, "echo", "hi", NULL};
    struct http *api = malloc(sizeof *api), *out = malloc(sizeof *out);
    double *ours = calloc((size_t)count, sizeof *ours), *theirs = calloc((size_t)count, sizeof *theirs);
    if (!api || !out || !ours || !theirs || http_open(api, socket_path) < 0 ||
        http_open(out, socket_path) < 0)
        die("cannot reach the daemon");
    for (int i = 0; i < count; i++) {
        ours[i] = start_once(api, out, i);
        theirs[i] = spawn_time(peer, 1);
    }
    report("start to first output (daemon)", median(ours, count), median(theirs, count), "bubblewrap", "ms",
           0.5, 1);
    http_close(api);
    http_close(out);
    free(api);
    free(out);
    free(ours);
    free(theirs);
}

static void bench_oneshot(int count)
{
    const char *peer[] = {BWRAP, "true", NULL};
    const char *own[] = {cloister, "run", "--", "true", NULL};
    double *ours = calloc((size_t)count, sizeof *ours), *theirs = calloc((size_t)count, sizeof *theirs);
    for (int i = 0; i < count; i++) {
        ours[i] = spawn_time(own, 0);
        theirs[i] = spawn_time(peer, 0);
    }
    report("one-shot cloister run -- true", median(ours, count), median(theirs, count), "bubblewrap", "ms",
           1.5, 1);
    free(ours);
    free(theirs);
}

static void begin_container(struct http *api, const char *name)
{
    char json[256], body[8192];
    snprintf(json, sizeof json, "{\"name\":\"%s\",\"entrypoint\":[\"sleep\",\"100000\"]}", name);
    if (http_request(api, "POST", "/v1/containers", json, body, sizeof body) != 201)
        die(body);
}

static void end_container(struct http *api, const char *name)
{
    char path[128], body[8192];
    snprintf(path, sizeof path, "/v1/containers/%s", name);
    if (http_request(api, "DELETE", path, NULL, body, sizeof body) != 204)
        die(body);
}

static double fork_exec_time(void)
{
    const char *argv[] = {"/usr/bin/true", NULL};
    double t = now_ms();
    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
    return now_ms() - t;
}

static void bench_exec(int count)
{
    char body[8192];
    struct http *api = malloc(sizeof *api);
    double *ours = calloc((size_t)count, sizeof *ours), *theirs = calloc((size_t)count, sizeof *theirs);
    if (!api || !ours || !theirs || http_open(api, socket_path) < 0)
        die("cannot reach the daemon");
    begin_container(api, "bench-exec");
    for (int i = 0; i < count; i++) {
        double t = now_ms();
        if (http_request(api, "POST", "/v1/containers/bench-exec/exec",
                         "{\"cmd\":[\"/usr/bin/true\"],\"wait\":true}", body, sizeof body) != 200)
            die(body);
        ours[i] = now_ms() - t;
        theirs[i] = fork_exec_time();
    }
    report("exec of true (daemon)", median(ours, count), median(theirs, count), "fork+exec", "ms", 1.5, 1);
    end_container(api, "bench-exec");
    http_close(api);
    free(api);
    free(ours);
    free(theirs);
}

/* Megabytes per second from a program's stdout through a pipe. */
static double pipe_rate(const char *const *argv)
{
    static char buf[1 << 17];
    pid_t pid;
    uint64_t total = 0;
    double t = now_ms();
    int out = spawn(argv, &pid);
    for (ssize_t n; (n = read(out, buf, sizeof buf)) > 0;)
        total += (uint64_t)n;
    int status;
    waitpid(pid, &status, 0);
    close(out);
    if (status)
        die("the measured program failed");
    return (double)total / 1e3 / (now_ms() - t);
}

static double http_rate(struct http *api, struct http *out, int mb)
{
    static char piece[1 << 17];
    char json[256], path[128], body[8192];
    snprintf(
        json, sizeof json,
        "{\"cmd\":[\"dd\",\"if=/dev/zero\",\"bs=128k\",\"count=%d\",\"status=none\"],\"overflow\":\"block\"}",
        mb * 8);
    double t = now_ms();
    if (http_request(api, "POST", "/v1/containers/bench-rate/exec", json, body, sizeof body) != 201)
        die(body);
    char *id = strstr(body, "\"id\"");
    char *start = id ? strchr(id + 4, '"') : NULL;
    if (!start)
        die(body);
    start[1 + strcspn(start + 1, "\"")] = '\0';
    snprintf(path, sizeof path, "/v1/containers/bench-rate/exec/%s/output", start + 1);
    if (http_begin(out, "GET", path, "application/vnd.cloister.frames") != 200)
        die("no output stream");
    uint64_t total = 0;
    for (long n; (n = http_read_chunk(out, piece, sizeof piece)) > 0;)
        total += (uint64_t)n;
    if (total < (uint64_t)mb << 20)
        die("output was lost");
    return (double)total / 1e3 / (now_ms() - t);
}

static void bench_throughput(int mb)
{
    char count[32];
    snprintf(count, sizeof count, "count=%d", mb * 8);
    const char *dd[] = {"dd", "if=/dev/zero", "bs=128k", count, "status=none", NULL};
    const char *own[] = {cloister, "run", "--", "dd", "if=/dev/zero", "bs=128k", count, "status=none", NULL};
    const char *exec[] = {cloister,       "exec",    "bench-rate", "--",          "dd",
                          "if=/dev/zero", "bs=128k", count,        "status=none", NULL};
    double run[5], client[5], api_rate[5], peer[5];
    struct http *api = malloc(sizeof *api), *out = malloc(sizeof *out);
    if (!api || !out || http_open(api, socket_path) < 0 || http_open(out, socket_path) < 0)
        die("cannot reach the daemon");
    setenv("CLOISTER_SOCKET", socket_path, 1);
    begin_container(api, "bench-rate");
    for (int i = 0; i < 5; i++) {
        run[i] = pipe_rate(own);
        client[i] = pipe_rate(exec);
        api_rate[i] = http_rate(api, out, mb);
        peer[i] = pipe_rate(dd);
    }
    double p = median(peer, 5);
    report("stdout of cloister run", median(run, 5), p, "pipe", "MB/s", 0.5, 0);
    report("stdout of cloister exec", median(client, 5), p, "pipe", "MB/s", 0.5, 0);
    report("stdout of exec (HTTP)", median(api_rate, 5), p, "pipe", "MB/s", 0.5, 0);
    end_container(api, "bench-rate");
    http_close(api);
    http_close(out);
    free(api);
    free(out);
}

/* KiB of private memory of a process. */
static long private_kib(const char *pid)
{
    char path[64], text[128];
    long total = 0;
    snprintf(path, sizeof path, "/proc/%s/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(text, sizeof text, f)) {
        long kib;
        if (sscanf(text, "Private_Clean: %ld", &kib) == 1 || sscanf(text, "Private_Dirty: %ld", &kib) == 1)
            total += kib;
    }
    if (f)
        fclose(f);
    return total;
}

/* Adds up the agents and what runs in the containers: every process called so. */
static long sum_private(const char *const *names, int *count)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    long total = 0;
    *count = 0;
    while (d && (e = readdir(d))) {
        char path[300], comm[32] = "";
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, comm, sizeof comm - 1);
        if (fd >= 0)
            close(fd);
        if (n <= 0)
            continue;
        comm[strcspn(comm, "\n")] = '\0';
        for (int i = 0; names[i]; i++)
            if (!strcmp(comm, names[i])) {
                total += private_kib(e->d_name);
                *count += i == 0;
            }
    }
    if (d)
        closedir(d);
    return total;
}

static void bench_idle(int count)
{
    static const char *const names[] = {"cloister-init", "sleep", NULL};
    char name[64];
    struct http *api = malloc(sizeof *api);
    double *t = calloc((size_t)count, sizeof *t), first[20], last[20];
    int before, after;
    if (!api || !t || http_open(api, socket_path) < 0)
        die("cannot reach the daemon");
    long memory = sum_private(names, &before);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "idle-%d", i);
        double began = now_ms();
        begin_container(api, name);
        t[i] = now_ms() - began;
        usleep(8000); /* time to fill the pool again, as a caller's own work gives it */
    }
    memory = sum_private(names, &after) - memory;
    memcpy(first, t, sizeof first);
    memcpy(last, t + count - 20, sizeof last);
    printf("%-34s %9.0f KiB each (%d containers)  (at most 1536: %s)\n",
           "private memory of an idle container", (double)memory / (after - before), after - before,
           memory / (after - before) <= 1536 ? "ok" : "MISSED");
    report("start of the last 20 of them", median(last, 20), median(first, 20), "first 20", "ms", 2.0, 1);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "idle-%d", i);
        end_container(api, name);
    }
    http_close(api);
    free(api);
    free(t);
}

static void bench_churn(int count)
{
    struct http *api = malloc(sizeof *api), *out = malloc(sizeof *out);
    if (!api || !out || http_open(api, socket_path) < 0 || http_open(out, socket_path) < 0)
        die("cannot reach the daemon");
    double t = now_ms();
    for (int i = 0; i < count; i++)
        start_once(api, out, i);
    t = now_ms() - t;
    printf("%-34s %9.2f ms each (%d cycles)\n", "start and destroy", t / count, count);
    http_close(api);
    http_close(out);
    free(api);
    free(out);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int);
        int count;
    } table[] = {{"start", bench_start, 60}, {"oneshot", bench_oneshot, 40},
                 {"exec", bench_exec, 200},  {"throughput", bench_throughput, 512},
                 {"idle", bench_idle, 500},  {"churn", bench_churn, 1000}};
    if (argc < 4)
        die("usage: bench SOCKET CLOISTER start|oneshot|exec|throughput|idle|churn [COUNT]");
    socket_path = argv[1];
    cloister = argv[2];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(argv[3], table[i].name)) {
            table[i].run(argc > 4 ? atoi(argv[4]) : table[i].count);
            return 0;
        }
    die("no such benchmark");
}
