/* The calls on the agent's bootstrap object. */
#include "agent/args.h"
#include "agent/fs.h"
#include "agent/process.h"
#include "agent/setup.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const no_keys[] = {NULL};

void return_empty(struct link_call *call)
{
    static const uint8_t empty_map[] = {0xa0};
    link_return(call, empty_map, sizeof empty_map);
}

void agent_refuse_streams(struct agent *a, const struct cbor_reader *args, const char *const *keys,
                          bool sends, const struct error *why)
{
    static const struct link_stream_ops none = {0};
    for (; *keys; keys++) {
        struct cbor_reader r;
        uint64_t id;
        if (!cbor_map_find(args, *keys, &r) || cbor_get_uint(&r, UINT32_MAX, &id) < 0)
            continue;
        int opened = sends ? link_stream_open_send(a->link, (uint32_t)id, &none, NULL, NULL)
                           : link_stream_open_receive(a->link, (uint32_t)id, &none, NULL, NULL);
        if (opened == 0)
            link_stream_reset(a->link, (uint32_t)id, why);
    }
}

/* A process specification that led to nothing. */
static void refuse_process(struct agent *a, const struct cbor_reader *spec, const struct error *why)
{
    static const char *const in[] = {"stdin", NULL}, *const out[] = {"stdout", "stderr", NULL};
    agent_refuse_streams(a, spec, in, false, why);
    agent_refuse_streams(a, spec, out, true, why);
}

static int wrong_phase(struct agent *a, const char *method, struct error *err)
{
    static const char *const names[] = {"not set up", "not started", "running", "ending",
                                        "broken by an earlier failure"};
    return error_set(err, ERROR_STATE, "\"%s\" is not possible: the container is %s", method,
                     names[a->phase]);
}

static int call_ping(struct agent *a, struct link_call *call, const struct cbor_reader *args,
                     struct error *err)
{
    if (args_check(args, no_keys, err) < 0)
        return -1;
    return_empty(call);
    return 0;
}

static int call_setup(struct agent *a, struct link_call *call, const struct cbor_reader *args,
                      struct error *err)
{
    if (args_check(args, no_keys, err) < 0)
        return -1;
    a->phase = PHASE_BROKEN;
    if (setup_identity(a, err) < 0 || stage_build(a, err) < 0)
        return -1;
    a->phase = PHASE_BLANK;
    return_empty(call);
    return 0;
}

/* The mounts of "start"; descriptors belong to the caller then. */
struct start_args {
    int root;
    struct enter_mount mounts[AGENT_MAX_START_FDS];
    int count;
    char *hostname;
    struct cbor_reader main;
    bool held; /* without "main": that comes later */
};

static int take_fd(struct agent *a, uint64_t index, const char *field, int *ret, struct error *err)
{
    *ret = conn_take_fd(a, index);
    if (*ret < 0)
        return error_field(err, field, "no descriptor with index %llu came with \"start\"",
                           (unsigned long long)index);
    return 0;
}

static int read_mount(struct agent *a, struct cbor_reader *r, struct start_args *s, struct error *err)
{
    static const char *const keys[] = {"fd", "target", NULL};
    struct cbor_reader map = *r;
    uint64_t index = UINT64_MAX;
    char *target = NULL;
    if (args_check(&map, keys, err) < 0 || args_uint(&map, "fd", 0, AGENT_MAX_START_FDS, &index, err) < 0 ||
        args_path(&map, "target", &target, err) < 0)
        return -1;
    struct enter_mount *m = &s->mounts[s->count];
    m->target = target;
    if (take_fd(a, index, "mounts", &m->fd, err) < 0) {
        free(target);
        return -1;
    }
    s->count++;
    return cbor_skip(r) < 0 ? error_field(err, "mounts", "malformed") : 0;
}

static int read_limits(struct agent *a, const struct cbor_reader *args, struct error *err)
{
    static const char *const keys[] = {"openFiles", "pids", "memoryWatch", NULL};
    struct cbor_reader r;
    if (!cbor_map_find(args, "limits", &r))
        return 0;
    if (args_check(&r, keys, err) < 0 ||
        args_uint(&r, "openFiles", 4, 1u << 30, &a->limits.open_files, err) < 0 ||
        args_uint(&r, "pids", 1, 1u << 22, &a->limits.pids, err) < 0 ||
        args_uint(&r, "memoryWatch", 1, INT64_MAX, &a->limits.memory_watch, err) < 0)
        return -1;
    if (a->limits.open_files > a->files.rlim_max)
        return error_field(err, "openFiles", "this machine allows at most %llu open files",
                           (unsigned long long)a->files.rlim_max);
    if (a->limits.open_files)
        a->files.rlim_cur = a->files.rlim_max = a->limits.open_files;
    return 0;
}

static int read_start(struct agent *a, const struct cbor_reader *args, struct start_args *s,
                      struct error *err)
{
    static const char *const keys[] = {"root", "mounts", "cgroup", "hostname", "limits", "main", NULL};
    struct cbor_reader r;
    uint64_t index, count = 0;
    if (args_check(args, keys, err) < 0)
        return -1;
    int has_root = args_uint(args, "root", 0, AGENT_MAX_START_FDS, &index, err);
    if (has_root == 0)
        args_missing("root", err);
    if (has_root <= 0)
        return -1;
    if (take_fd(a, index, "root", &s->root, err) < 0)
        return -1;
    int has_cgroup = args_uint(args, "cgroup", 0, AGENT_MAX_START_FDS, &index, err);
    if (has_cgroup < 0 || (has_cgroup && take_fd(a, index, "cgroup", &a->cgroup_fd, err) < 0))
        return -1;
    if (cbor_map_find(args, "mounts", &r) && cbor_get_array(&r, AGENT_MAX_START_FDS, &count) < 0)
        return error_field(err, "mounts", "\"mounts\" must be an array of at most %d", AGENT_MAX_START_FDS);
    for (uint64_t i = 0; i < count; i++)
        if (read_mount(a, &r, s, err) < 0)
            return -1;
    if (args_text(args, "hostname", 64, &s->hostname, err) < 0 || read_limits(a, args, err) < 0)
        return -1;
    if (!s->hostname) {
        args_missing("hostname", err);
        return -1;
    }
    s->held = !cbor_map_find(args, "main", &s->main);
    return 0;
}

static void start_args_free(struct start_args *s)
{
    if (s->root >= 0)
        close(s->root);
    for (int i = 0; i < s->count; i++) {
        close(s->mounts[i].fd);
        free((char *)s->mounts[i].target);
    }
    free(s->hostname);
}

static int start_main(struct agent *a, struct link_call *call, struct cbor_reader args,
                      struct stage_times *stages, struct error *err)
{
    struct spec spec;
    if (spec_read(&spec, args, err) < 0)
        return -1;
    int r = process_start(a, &spec, call, stages, &a->main, err);
    spec_free(&spec);
    return r;
}

static int enter(struct agent *a, const struct start_args *s, struct stage_times *stages, struct error *err)
{
    uint64_t begin = clock_monotonic_ns();
    if (enter_root(a, s->root, s->mounts, s->count, err) < 0)
        return -1;
    uint64_t entered = clock_monotonic_ns();
    if (sethostname(s->hostname, strlen(s->hostname)) < 0)
        return error_system(err, errno, "cannot set the host name");
    if (jail_enter(a->limits.memory_watch > 0, err) < 0)
        return -1;
    stages->mounts = entered - begin;
    stages->jail = clock_monotonic_ns() - entered;
    return 0;
}

static int call_start(struct agent *a, struct link_call *call, const struct cbor_reader *args,
                      struct error *err)
{
    struct start_args s = {.root = -1};
    struct stage_times stages = {0};
    a->phase = PHASE_BROKEN; /* until everything has worked */
    int r = read_start(a, args, &s, err);
    conn_close_fds(a);
    if (r == 0)
        r = enter(a, &s, &stages, err);
    if (r == 0) {
        a->phase = PHASE_RUNNING;
        if (s.held)
            return_empty(call);
        else
            r = start_main(a, call, s.main, &stages, err);
        if (r < 0)
            a->phase = PHASE_BROKEN;
    }
    if (r == 0)
        memory_watch_start(a);
    else if (cbor_map_find(args, "main", &s.main))
        refuse_process(a, &s.main, err);
    start_args_free(&s);
    return r;
}

/* The main process of a held container. */
static int call_main(struct agent *a, struct link_call *call, const struct cbor_reader *args,
                     struct error *err)
{
    int r = a->main ? error_set(err, ERROR_STATE, "the main process was started already")
                    : start_main(a, call, *args, NULL, err);
    if (r < 0)
        refuse_process(a, args, err);
    return r;
}

static int call_exec(struct agent *a, struct link_call *call, const struct cbor_reader *args,
                     struct error *err)
{
    struct spec spec;
    int r = spec_read(&spec, *args, err);
    if (r == 0) {
        r = process_start(a, &spec, call, NULL, NULL, err);
        spec_free(&spec);
    }
    if (r < 0)
        refuse_process(a, args, err);
    return r;
}

static int call_signal_all(struct agent *a, struct link_call *call, const struct cbor_reader *args,
                           struct error *err)
{
    static const char *const keys[] = {"signal", NULL};
    uint64_t number = 0;
    if (args_check(args, keys, err) < 0 || args_uint(args, "signal", 1, 64, &number, err) < 0)
        return -1;
    if (!number)
        return args_missing("signal", err);
    struct usage u;
    usage_measure(a, &u);
    kill(-1, (int)number);
    struct buf b;
    buf_init(&b, 0);
    cbor_put_map(&b, 1);
    cbor_put_text(&b, "count");
    cbor_put_uint(&b, u.processes);
    link_return(call, b.data, b.len);
    buf_free(&b);
    return 0;
}

static int call_stats(struct agent *a, struct link_call *call, const struct cbor_reader *args,
                      struct error *err)
{
    if (args_check(args, no_keys, err) < 0)
        return -1;
    struct usage u;
    usage_measure(a, &u);
    struct buf b;
    buf_init(&b, 0);
    cbor_put_map(&b, 2);
    cbor_put_text(&b, "processes");
    cbor_put_uint(&b, u.processes);
    cbor_put_text(&b, "memoryBytes");
    cbor_put_uint(&b, u.bytes);
    link_return(call, b.data, b.len);
    buf_free(&b);
    return 0;
}

/* Each answers the call and returns 0, or returns -1 with the error to throw. */
static const struct {
    const char *name;
    enum phase phase; /* the only phase it is possible in; PHASE_BROKEN: any */
    int (*fn)(struct agent *a, struct link_call *call, const struct cbor_reader *args, struct error *err);
} methods[] = {
    {"ping", PHASE_BROKEN, call_ping},
    {"setup", PHASE_NEW, call_setup},
    {"start", PHASE_BLANK, call_start},
    {"main", PHASE_RUNNING, call_main},
    {"exec", PHASE_RUNNING, call_exec},
    {"stats", PHASE_RUNNING, call_stats},
    {"signalAll", PHASE_RUNNING, call_signal_all},
};

static void refuse_any(struct agent *a, const char *method, const struct cbor_reader *args,
                       const struct error *err)
{
    if (strcmp(method, "exec") == 0 || strcmp(method, "main") == 0)
        refuse_process(a, args, err);
    else
        fs_refuse(a, method, args, err);
}

static void bootstrap_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct agent *a = object;
    struct error err = {0};
    if (strncmp(method, "fs.", 3) == 0 && a->phase == PHASE_RUNNING) {
        if (fs_call(a, call, method + 3, &args, &err) < 0) {
            fs_refuse(a, method, &args, &err);
            link_throw(call, &err);
        }
        return;
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, method) != 0)
            continue;
        if (methods[i].phase != PHASE_BROKEN && methods[i].phase != a->phase) {
            wrong_phase(a, method, &err);
            refuse_any(a, method, &args, &err);
            link_throw(call, &err);
        } else if (methods[i].fn(a, call, &args, &err) < 0) {
            link_throw(call, &err);
        }
        return;
    }
    if (strncmp(method, "fs.", 3) == 0)
        wrong_phase(a, method, &err);
    else
        error_set(&err, ERROR_NOT_FOUND, "the agent has no method \"%.32s\"", method);
    refuse_any(a, method, &args, &err);
    link_throw(call, &err);
}

const struct link_object_ops bootstrap_ops = {.call = bootstrap_call};
