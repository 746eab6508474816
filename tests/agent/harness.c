#include "harness.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CGROUP2 "/sys/fs/cgroup/unified"

/* The bytes of an answer, freed with the box. */
struct kept {
    struct kept *next;
    void *data;
};

struct box {
    struct kept *kept;
    struct box_options options;
    pid_t pid;
    bool exited, eof;
    int fd;
    struct link *link;
    char scratch[64]; /* directory on tmpfs: upper and work of the overlay */
    char cgroup[96];
    struct proc main;
    bool has_main_stdout;
};

static void die(const char *what)
{
    fprintf(stderr, "harness: %s: %s\n", what, strerror(errno));
    abort();
}

/* --- the process --- */

static int copy_some(int to, int from, off_t *at, off_t size)
{
    ssize_t n = sendfile(to, from, at, (size_t)(size - *at));
    return n <= 0 ? -1 : 0;
}

static int agent_memfd(void)
{
    const char *path = getenv("CLOISTER_INIT");
    int from = open(path ? path : "cloister-init", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("cloister-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (from < 0 || fd < 0)
        die("CLOISTER_INIT");
    struct stat st;
    fstat(from, &st);
    for (off_t at = 0; at < st.st_size;)
        if (copy_some(fd, from, &at, st.st_size) < 0)
            die("copy of the agent");
    close(from);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        die("seal");
    return fd;
}

static void raise_ambient(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        _exit(99);
    data[0].inheritable = data[0].permitted;
    data[1].inheritable = data[1].permitted;
    if (syscall(SYS_capset, &header, data) < 0)
        _exit(98);
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
}

static pid_t launch(int memfd, int link_fd)
{
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                       CLONE_NEWIPC | CLONE_NEWUTS,
                              .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0)
        die("clone3");
    if (pid > 0)
        return pid;
    raise_ambient();
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    if (!getenv("AGENT_STDERR"))
        dup2(null, 2);
    if (link_fd == memfd || memfd == AGENT_LINK_FD)
        memfd = fcntl(memfd, F_DUPFD_CLOEXEC, 10);
    if (link_fd == AGENT_LINK_FD)
        fcntl(link_fd, F_SETFD, 0);
    else
        dup2(link_fd, AGENT_LINK_FD);
    char *argv[] = {(char *)"cloister-init", NULL};
    char *env[] = {NULL};
    syscall(SYS_close_range, AGENT_LINK_FD + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    syscall(SYS_execveat, memfd, "", argv, env, AT_EMPTY_PATH);
    _exit(97);
}

static void write_map(pid_t pid, const char *file, const char *map)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    if (file_put(AT_FDCWD, path, map) < 0)
        die(path);
}

/* --- the link --- */

static void flush(struct box *b)
{
    struct iovec iov[16];
    int n;
    while (!b->eof && (n = link_output(b->link, iov, 16)) > 0) {
        /* The agent may have ended: that is an error here, not a signal. */
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
        ssize_t done = sendmsg(b->fd, &msg, MSG_NOSIGNAL);
        if (done < 0 && errno == EAGAIN)
            return;
        if (done < 0) {
            b->eof = true;
            link_shutdown(b->link, NULL);
            return;
        }
        link_sent(b->link, (size_t)done);
    }
}

static void turn(struct box *b, int timeout_ms)
{
    static uint8_t data[256 << 10];
    flush(b);
    struct iovec iov;
    struct pollfd p = {b->fd, (short)(POLLIN | (link_output(b->link, &iov, 1) > 0 ? POLLOUT : 0)), 0};
    if (b->eof) {
        usleep(1000);
        return;
    }
    if (poll(&p, 1, timeout_ms) <= 0)
        return;
    if (p.revents & (POLLIN | POLLHUP)) {
        ssize_t n = read(b->fd, data, sizeof data);
        struct error err = {0};
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            b->eof = true;
            link_shutdown(b->link, NULL);
        } else if (n > 0 && link_receive(b->link, data, (size_t)n, &err) < 0) {
            fprintf(stderr, "harness: the agent broke the protocol: %s\n", err.message);
            abort();
        }
    }
    flush(b);
}

bool box_until(struct box *b, bool *flag, int timeout_ms)
{
    uint64_t until = clock_monotonic_ns() + (uint64_t)timeout_ms * 1000000u;
    while (!*flag) {
        uint64_t now = clock_monotonic_ns();
        if (now >= until)
            return false;
        turn(b, (int)((until - now) / 1000000u) + 1);
    }
    flush(b);
    return true;
}

void box_run(struct box *b, int ms)
{
    bool never = false;
    box_until(b, &never, ms);
}

static void answered(void *user, const struct error *err, struct cbor_reader value)
{
    struct answer *a = user;
    a->done = true;
    if (err) {
        a->failed = true;
        a->err = *err;
    } else {
        buf_append(&a->value, value.p, (size_t)(value.end - value.p));
        struct kept *k = malloc(sizeof *k);
        if (!k)
            die("malloc");
        *k = (struct kept){a->box->kept, a->value.data};
        a->box->kept = k;
    }
}

uint32_t box_call_start(struct box *b, uint32_t cap, const char *method, struct buf *args, struct answer *ret)
{
    *ret = (struct answer){.box = b};
    buf_init(&ret->value, 0);
    static const uint8_t empty[] = {0xa0};
    uint32_t id =
        link_call(b->link, cap, method, args ? args->data : empty, args ? args->len : 1, answered, ret);
    if (args)
        buf_free(args);
    if (!id) {
        ret->done = ret->failed = true;
        error_set(&ret->err, ERROR_GONE, "the link is dead");
    }
    flush(b);
    return id;
}

void box_call(struct box *b, uint32_t cap, const char *method, struct buf *args, struct answer *ret)
{
    box_call_start(b, cap, method, args, ret);
    if (!box_until(b, &ret->done, 60000)) {
        fprintf(stderr, "harness: no answer to %s\n", method);
        abort();
    }
}

void answer_free(struct answer *a)
{
    a->value = (struct buf){0};
}

bool answer_uint(const struct answer *a, const char *key, uint64_t *ret)
{
    struct cbor_reader r, v;
    cbor_reader_init(&r, a->value.data, a->value.len);
    return cbor_map_find(&r, key, &v) && cbor_get_uint(&v, UINT64_MAX, ret) == 0;
}

/* --- streams --- */

static void sink_data(void *user, uint32_t stream, const uint8_t *data, size_t len)
{
    struct sink *s = user;
    s->total += len;
    if (s->keep)
        buf_append(&s->bytes, data, len);
    if (!s->pause)
        link_stream_consumed(s->box->link, stream, len);
}

static void sink_end(void *user, uint32_t stream)
{
    (void)stream;
    ((struct sink *)user)->ended = true;
}

static void sink_reset(void *user, uint32_t stream, const struct error *why)
{
    struct sink *s = user;
    (void)stream;
    s->ended = s->reset = true;
    if (why)
        s->why = *why;
}

static const struct link_stream_ops sink_ops = {.data = sink_data, .end = sink_end, .reset = sink_reset};

uint32_t sink_open(struct box *b, struct sink *s, bool keep)
{
    struct error err = {0};
    *s = (struct sink){.box = b, .keep = keep, .stream = link_stream_new(b->link)};
    buf_init(&s->bytes, 0);
    if (link_stream_open_receive(b->link, s->stream, &sink_ops, s, &err) < 0)
        die("open_receive");
    return s->stream;
}

static void sink_close(struct sink *s)
{
    if (s->box && !s->ended)
        link_stream_reset(s->box->link, s->stream, NULL);
}

void sink_free(struct sink *s)
{
    buf_free(&s->bytes);
}

static void feed_go(struct feed *f)
{
    while (!f->ended && f->sent < f->len) {
        size_t n = link_stream_writable(f->box->link, f->stream);
        if (n == 0)
            return;
        if (n > f->len - f->sent)
            n = f->len - f->sent;
        if (n > LINK_DATA_MAX)
            n = LINK_DATA_MAX;
        link_stream_write(f->box->link, f->stream, f->data + f->sent, n);
        f->sent += n;
    }
    if (!f->ended && !f->keep_open) {
        f->ended = true;
        link_stream_end(f->box->link, f->stream);
    }
}

static void feed_writable(void *user, uint32_t stream)
{
    (void)stream;
    feed_go(user);
}

static void feed_reset(void *user, uint32_t stream, const struct error *why)
{
    struct feed *f = user;
    (void)stream;
    f->ended = f->reset = true;
    if (why)
        f->why = *why;
}

static const struct link_stream_ops feed_ops = {.writable = feed_writable, .reset = feed_reset};

uint32_t feed_open(struct box *b, struct feed *f, const void *data, size_t len)
{
    struct error err = {0};
    bool keep_open = f->keep_open;
    *f = (struct feed){
        .box = b, .data = data, .len = len, .keep_open = keep_open, .stream = link_stream_new(b->link)};
    if (link_stream_open_send(b->link, f->stream, &feed_ops, f, &err) < 0)
        die("open_send");
    return f->stream;
}

void feed_more(struct feed *f, const void *data, size_t len)
{
    f->data = data;
    f->len = len;
    f->sent = 0;
    feed_go(f);
}

void feed_end(struct feed *f)
{
    f->keep_open = false;
    feed_go(f);
}

/* --- the container --- */

static void make_scratch(struct box *b)
{
    snprintf(b->scratch, sizeof b->scratch, "/dev/shm/cloister-test-XXXXXX");
    if (!mkdtemp(b->scratch))
        die("mkdtemp");
    char path[96];
    snprintf(path, sizeof path, "%s/upper", b->scratch);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/work", b->scratch);
    mkdir(path, 0755);
    chmod(b->scratch, 0755);
}

static int overlay_mount(struct box *b)
{
    char upper[96], work[96];
    snprintf(upper, sizeof upper, "%s/upper", b->scratch);
    snprintf(work, sizeof work, "%s/work", b->scratch);
    int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", b->options.lower ? b->options.lower : "/", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        die("overlay");
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        die("fsmount");
    close(fs);
    return fd;
}

static int tmpfs_mount(void)
{
    int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        die("tmpfs");
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    close(fs);
    return fd;
}

static int make_cgroup(struct box *b)
{
    static int number;
    snprintf(b->cgroup, sizeof b->cgroup, CGROUP2 "/cloister-test-%d-%d", (int)getpid(), number++);
    if (mkdir(b->cgroup, 0755) < 0)
        die(b->cgroup);
    char path[128], text[16];
    snprintf(path, sizeof path, "%s/cgroup.procs", b->cgroup);
    snprintf(text, sizeof text, "%d", (int)b->pid);
    if (file_put(AT_FDCWD, path, text) < 0)
        die(path);
    return open(b->cgroup, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

struct box *box_new(const struct box_options *options)
{
    struct box *b = calloc(1, sizeof *b);
    int pair[2];
    if (!b || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    if (options)
        b->options = *options;
    int memfd = agent_memfd();
    b->pid = launch(memfd, pair[1]);
    close(memfd);
    close(pair[1]);
    b->fd = pair[0];
    fd_set_nonblock(b->fd, true);
    const char *map = b->options.single_id ? "0 65534 1" : "0 0 65536";
    if (b->options.single_id)
        write_map(b->pid, "setgroups", "deny");
    write_map(b->pid, "uid_map", map);
    write_map(b->pid, "gid_map", map);
    struct link_config config = {.side = LINK_HOST, .user = b};
    b->link = link_new(&config);
    make_scratch(b);
    struct answer a;
    box_call(b, 0, "setup", NULL, &a);
    if (a.failed) {
        fprintf(stderr, "harness: setup: %s (%s)\n", a.err.message, error_code(&a.err));
        abort();
    }
    answer_free(&a);
    return b;
}

static void put_argv(struct buf *b, const char *const *argv)
{
    size_t n = 0;
    while (argv[n])
        n++;
    cbor_put_array(b, n);
    for (size_t i = 0; i < n; i++)
        cbor_put_string(b, argv[i]);
}

static void send_with_fds(struct box *b, const int *fds, int count)
{
    struct iovec iov[16];
    int n = link_output(b->link, iov, 16);
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 4)];
        struct cmsghdr align;
    } control = {0};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n, .msg_control = control.bytes};
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
    ssize_t done = sendmsg(b->fd, &msg, MSG_NOSIGNAL);
    if (done < 0)
        die("sendmsg");
    link_sent(b->link, (size_t)done);
}

static void put_limits(struct buf *args, const struct box_options *o)
{
    cbor_put_text(args, "limits");
    cbor_put_map(args, (o->open_files ? 1 : 0) + (o->memory_watch ? 1 : 0));
    if (o->open_files) {
        cbor_put_text(args, "openFiles");
        cbor_put_uint(args, o->open_files);
    }
    if (o->memory_watch) {
        cbor_put_text(args, "memoryWatch");
        cbor_put_uint(args, o->memory_watch);
    }
}

bool box_start(struct box *b, struct answer *ret)
{
    static const char *const idle[] = {"sleep", "infinity", NULL};
    const struct box_options *o = &b->options;
    int fds[3] = {overlay_mount(b)}, count = 1;
    struct buf args;
    buf_init(&args, 0);
    cbor_put_map(&args, 3u + !o->held + o->cgroup + (o->mount_target != NULL));
    cbor_put_text(&args, "root");
    cbor_put_uint(&args, 0);
    if (o->cgroup) {
        cbor_put_text(&args, "cgroup");
        cbor_put_uint(&args, (uint64_t)count);
        fds[count++] = make_cgroup(b);
    }
    if (o->mount_target) {
        cbor_put_text(&args, "mounts");
        cbor_put_array(&args, 1);
        cbor_put_map(&args, 2);
        cbor_put_text(&args, "fd");
        cbor_put_uint(&args, (uint64_t)count);
        cbor_put_text(&args, "target");
        cbor_put_text(&args, o->mount_target);
        fds[count++] = tmpfs_mount();
    }
    cbor_put_text(&args, "hostname");
    cbor_put_text(&args, "box");
    put_limits(&args, o);
    if (!o->held) {
        cbor_put_text(&args, "main");
        cbor_put_map(&args, b->has_main_stdout ? 2 : 1);
        if (b->has_main_stdout) {
            cbor_put_text(&args, "stdout");
            cbor_put_uint(&args, o->main_stdout);
        }
        cbor_put_text(&args, "argv");
        put_argv(&args, o->main_argv[0] ? o->main_argv : idle);
    }
    flush(b);
    *ret = (struct answer){.box = b};
    buf_init(&ret->value, 0);
    if (!link_call(b->link, 0, "start", args.data, args.len, answered, ret))
        die("start");
    buf_free(&args);
    send_with_fds(b, fds, count);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    if (!box_until(b, &ret->done, 20000))
        die("no answer to start");
    if (ret->failed || o->held)
        return !ret->failed;
    struct cbor_reader r, v;
    cbor_reader_init(&r, ret->value.data, ret->value.len);
    if (!cbor_map_find(&r, "process", &v) || link_get_capability(&v, &b->main.cap) < 0)
        die("start's answer");
    answer_uint(ret, "pid", &b->main.pid);
    return true;
}

int box_fd_count(const struct box *b)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)b->pid);
    DIR *dir = opendir(path);
    int n = 0;
    if (!dir)
        die(path);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

long box_cpu_ticks(const struct box *b)
{
    char path[64], *text;
    long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)b->pid);
    if (file_slurp(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0)
        die(path);
    const char *p = strrchr(text, ')');
    if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) != 2)
        die(path);
    free(text);
    return user + system;
}

void box_ping_with_fd(struct box *b, int fd)
{
    static const uint8_t empty[] = {0xa0};
    struct answer a = {.box = b};
    flush(b);
    if (!link_call(b->link, 0, "ping", empty, 1, answered, &a))
        die("ping");
    send_with_fds(b, &fd, 1);
    if (!box_until(b, &a.done, 5000) || a.failed)
        die("no answer to ping");
}

struct box *box_started(const struct box_options *options)
{
    struct box *b = box_new(options);
    struct answer a;
    if (!box_start(b, &a)) {
        fprintf(stderr, "harness: start: %s (%s, %s)\n", a.err.message, error_code(&a.err), a.err.field);
        abort();
    }
    answer_free(&a);
    return b;
}

bool box_exited(struct box *b)
{
    if (!b->exited && waitpid(b->pid, NULL, WNOHANG) == b->pid)
        b->exited = true;
    return b->exited;
}

void box_free(struct box *b)
{
    link_free(b->link);
    while (b->kept) {
        struct kept *k = b->kept;
        b->kept = k->next;
        free(k->data);
        free(k);
    }
    close(b->fd);
    if (!b->exited) {
        /* closing the link must be enough */
        for (int i = 0; i < 3000 && !box_exited(b); i++)
            usleep(1000);
        if (!b->exited) {
            fprintf(stderr, "harness: the agent outlived its link\n");
            kill(b->pid, SIGKILL);
            abort();
        }
    }
    struct error err = {0};
    dir_remove(AT_FDCWD, b->scratch, &err);
    for (int i = 0; b->cgroup[0] && rmdir(b->cgroup) < 0 && i < 1000; i++) {
        char path[160];
        for (int tree = 1; tree < 100; tree++) { /* what an agent that was killed could not remove */
            snprintf(path, sizeof path, "%s/tree-%d", b->cgroup, tree);
            rmdir(path);
        }
        usleep(1000);
    }
    free(b);
}

void box_set_main_stdout(struct box *b, uint32_t stream)
{
    b->options.main_stdout = stream;
    b->has_main_stdout = true;
}

pid_t box_pid(const struct box *b)
{
    return b->pid;
}

struct link *box_link(struct box *b)
{
    return b->link;
}

struct proc box_main(const struct box *b)
{
    return b->main;
}

/* --- exec --- */

static void put_bool(struct buf *a, const char *key)
{
    cbor_put_text(a, key);
    cbor_put_bool(a, true);
}

static void put_uint(struct buf *a, const char *key, uint64_t v)
{
    cbor_put_text(a, key);
    cbor_put_uint(a, v);
}

static void put_text(struct buf *a, const char *key, const char *v)
{
    cbor_put_text(a, key);
    cbor_put_string(a, v);
}

bool run_start(struct box *b, struct run *r)
{
    struct buf a;
    bool in = r->input || r->open_stdin;
    buf_init(&a, 0);
    cbor_put_map(&a, 2u + !!r->cwd + !!r->user + in + !r->no_stdout + r->want_stderr + r->combined + r->pty +
                         r->tree);
    cbor_put_text(&a, "argv");
    put_argv(&a, r->argv);
    cbor_put_text(&a, "env");
    put_argv(&a, r->env);
    if (r->cwd)
        put_text(&a, "cwd", r->cwd);
    if (r->user)
        put_text(&a, "user", r->user);
    r->in.keep_open = r->open_stdin;
    if (in)
        put_uint(&a, "stdin", feed_open(b, &r->in, r->input, r->input_len));
    if (!r->no_stdout)
        put_uint(&a, "stdout", sink_open(b, &r->out, true));
    if (r->want_stderr)
        put_uint(&a, "stderr", sink_open(b, &r->err, true));
    if (r->combined)
        put_bool(&a, "combined");
    if (r->tree)
        put_bool(&a, "tree");
    if (r->pty) {
        cbor_put_text(&a, "pty");
        cbor_put_map(&a, 2);
        put_uint(&a, "cols", r->cols);
        put_uint(&a, "rows", r->rows);
    }
    box_call_start(b, 0, "exec", &a, &r->start);
    if (in && !r->open_stdin)
        feed_go(&r->in);
    if (!box_until(b, &r->start.done, 30000))
        die("no answer to exec");
    r->proc.code = r->proc.signal = -1;
    if (r->start.failed)
        return false;
    struct cbor_reader m, v;
    cbor_reader_init(&m, r->start.value.data, r->start.value.len);
    if (!cbor_map_find(&m, "process", &v) || link_get_capability(&v, &r->proc.cap) < 0)
        die("exec's answer");
    answer_uint(&r->start, "pid", &r->proc.pid);
    return true;
}

bool run_wait_only(struct box *b, struct run *r, int timeout_ms)
{
    struct answer a;
    box_call_start(b, r->proc.cap, "wait", NULL, &a);
    if (!box_until(b, &a.done, timeout_ms)) {
        fprintf(stderr, "harness: %s did not end\n", r->argv[0]);
        abort();
    }
    uint64_t v;
    if (!a.failed && answer_uint(&a, "code", &v))
        r->proc.code = (int)v;
    if (!a.failed && answer_uint(&a, "signal", &v))
        r->proc.signal = (int)v;
    bool ok = !a.failed;
    answer_free(&a);
    return ok;
}

bool run_wait(struct box *b, struct run *r, int timeout_ms)
{
    if (!run_wait_only(b, r, timeout_ms))
        return false;
    if (!r->no_stdout && !box_until(b, &r->out.ended, timeout_ms))
        return false;
    return !r->want_stderr || box_until(b, &r->err.ended, timeout_ms);
}

void run_free(struct run *r)
{
    struct box *b = r->out.box ? r->out.box : r->in.box;
    if (b && r->proc.cap)
        link_drop(b->link, r->proc.cap);
    if (b && !r->no_stdout)
        sink_close(&r->out);
    if (b && r->want_stderr)
        sink_close(&r->err);
    if (b && r->in.box && !r->in.ended)
        link_stream_reset(b->link, r->in.stream, NULL);
    if (b)
        flush(b);
    sink_free(&r->out);
    sink_free(&r->err);
    answer_free(&r->start);
    *r = (struct run){0};
}

char *sh(struct box *b, const char *script)
{
    struct run r = {.argv = {"sh", "-c", script}, .combined = true};
    if (!run_start(b, &r) || !run_wait(b, &r, 30000)) {
        fprintf(stderr, "harness: sh: %s\n", r.start.err.message);
        abort();
    }
    const char *text = buf_str(&r.out.bytes);
    if (r.proc.code != 0) {
        fprintf(stderr, "harness: %s: code %d signal %d: %s\n", script, r.proc.code, r.proc.signal,
                text ? text : "");
        abort();
    }
    char *copy = strdup(text ? text : "");
    run_free(&r);
    return copy;
}
