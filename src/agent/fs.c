/* The agent's side of a file operation: the child that does it, its pumps, its answer. */
#include "agent/fs.h"

#include "agent/fs_request.h"
#include "agent/pump.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_JOBS 256
#define MAX_RESULT (32u << 10) /* below a pipe's size: the child never waits for us */
#define CANCEL_GRACE_MS 250

struct fs_job {
    struct agent *agent;
    struct child child;
    bool running, cancelled;
    struct link_call *call;
    struct out_pump *out;
    struct in_pump *in;
    int result_fd;
    struct timer kill_timer;
};

/* --- in the child --- */

/* How the child answers: this, then a CBOR value if `failed` is false. */
struct outcome {
    bool failed;
    struct error error;
};

static int keep_fd(int fd, int *next)
{
    if (fd < 0)
        return -1;
    if (dup2(fd, *next) < 0)
        _exit(1);
    return (*next)++;
}

static _Noreturn void work(struct agent *a, const struct fs_operation *op, const struct fs_request *q,
                           struct fs_io io, int result_fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all,
                NULL); /* signals sent to everybody are not meant for us, and EPIPE is an error */
    /* moved together above all that is in use; everything else is closed */
    int fds[] = {io.out, io.in, io.commit, a->proc_fd, result_fd}, first = 3;
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= first)
            first = fds[i] + 1;
    int next = first;
    struct fs_io kept = {.out = keep_fd(io.out, &next),
                         .in = keep_fd(io.in, &next),
                         .commit = keep_fd(io.commit, &next),
                         .proc = keep_fd(a->proc_fd, &next)};
    int result = keep_fd(result_fd, &next);
    close_range(3, (unsigned)first - 1, 0);
    close_range((unsigned)next, ~0u, 0);
    struct buf value;
    struct outcome outcome = {0};
    buf_init(&value, MAX_RESULT);
    if (op->run(q, &kept, &value, &outcome.error) < 0)
        outcome.failed = true;
    else if (value.failed)
        outcome.failed = true, error_oom(&outcome.error);
    if (fd_write_all(result, &outcome, sizeof outcome) < 0 ||
        (!outcome.failed && fd_write_all(result, value.data, value.len) < 0))
        _exit(1);
    _exit(0);
}

/* --- in the agent --- */

static void job_finish(struct fs_job *j)
{
    struct outcome outcome = {.failed = true};
    uint8_t *value = agent_scratch(j->agent);
    ssize_t len = 0;
    fd_set_nonblock(j->result_fd, true);
    if (j->cancelled)
        error_system(&outcome.error, ECANCELED, "the file operation was cancelled");
    else if (!value)
        error_oom(&outcome.error);
    else if (fd_read_full(j->result_fd, &outcome, sizeof outcome) != sizeof outcome ||
             (len = fd_read_full(j->result_fd, value, MAX_RESULT)) < 0) {
        outcome.failed = true;
        error_set(&outcome.error, ERROR_GONE, "the file operation was killed");
    }
    close(j->result_fd);
    if (j->in) {
        in_pump_on_gone(j->in, NULL, NULL);
        in_pump_abort(j->in, outcome.failed ? &outcome.error : NULL);
    }
    if (j->out && outcome.failed)
        out_pump_fail(j->out, &outcome.error); /* it is done already: only the stream is reset */
    out_pump_release(j->out);
    timer_cancel(&j->agent->loop, &j->kill_timer);
    if (outcome.failed)
        link_throw(j->call, &outcome.error);
    else
        link_return(j->call, value, (size_t)len);
    j->agent->fs_jobs--;
    free(j);
}

static void job_maybe_finish(struct fs_job *j)
{
    if (!j->running && (!j->out || j->out->done))
        job_finish(j);
}

static void job_reaped(struct child *c, int status, const struct rusage *usage)
{
    struct fs_job *j = (struct fs_job *)((char *)c - offsetof(struct fs_job, child));
    (void)status;
    (void)usage;
    j->running = false;
    job_maybe_finish(j);
}

static void out_done(void *owner)
{
    job_maybe_finish(owner);
}

static void in_gone(void *owner)
{
    ((struct fs_job *)owner)->in = NULL;
}

static void kill_child(struct timer *t)
{
    struct fs_job *j = (struct fs_job *)((char *)t - offsetof(struct fs_job, kill_timer));
    if (j->running)
        kill(j->child.pid, SIGKILL);
}

/* A writer sees its input end without the commit byte and cleans up; all others are killed at once. */
static void job_cancelled(void *user)
{
    struct fs_job *j = user;
    struct error why = {0};
    error_system(&why, ECANCELED, "the file operation was cancelled");
    j->cancelled = true;
    bool may_clean_up = j->in != NULL;
    if (j->in)
        in_pump_abort(j->in, &why);
    if (may_clean_up)
        timer_arm(&j->agent->loop, &j->kill_timer, CANCEL_GRACE_MS, kill_child);
    else
        kill_child(&j->kill_timer);
    if (j->out && !j->out->done)
        out_pump_fail(j->out, &why); /* may finish the job */
}

struct ends {
    int child_out, child_in, child_commit, child_result;
    int out, in, commit, result;
};

static void close_ends(int *fds, int count)
{
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int make_pipe(int *read_end, int *write_end)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return -1;
    *read_end = p[0];
    *write_end = p[1];
    return 0;
}

static int make_ends(enum fs_stream stream, struct ends *e)
{
    if (make_pipe(&e->result, &e->child_result) < 0)
        return -1;
    if (stream == FS_SENDS && make_pipe(&e->out, &e->child_out) < 0)
        return -1;
    if (stream == FS_RECEIVES &&
        (make_pipe(&e->child_in, &e->in) < 0 || make_pipe(&e->child_commit, &e->commit) < 0))
        return -1;
    return 0;
}

static int make_pumps(struct fs_job *j, const struct fs_request *q, struct ends *e, struct error *err)
{
    if (e->out >= 0) {
        fcntl(e->out, F_SETPIPE_SZ, 256 << 10);
        j->out = out_pump_new(j->agent, steal_fd(&e->out), false, true, q->stream, err);
        if (!j->out)
            return -1;
        j->out->hold_end = true;
        j->out->drained = out_done;
        j->out->owner = j;
    }
    if (e->in >= 0) {
        fcntl(e->in, F_SETPIPE_SZ, 256 << 10);
        j->in = in_pump_new(j->agent, steal_fd(&e->in), false, steal_fd(&e->commit), q->stream, err);
        if (!j->in)
            return -1;
        in_pump_on_gone(j->in, in_gone, j);
    }
    return 0;
}

static int job_start(struct fs_job *j, const struct fs_operation *op, const struct fs_request *q,
                     struct error *err)
{
    struct ends e = {-1, -1, -1, -1, -1, -1, -1, -1};
    int r = -1;
    if (make_ends(op->stream, &e) < 0) {
        error_system(err, errno, "cannot make a pipe");
        goto out;
    }
    pid_t pid = fork();
    if (pid == 0)
        work(j->agent, op, q, (struct fs_io){e.child_out, e.child_in, e.child_commit, -1}, e.child_result);
    if (pid < 0) {
        error_system(err, errno, "cannot start the file operation");
        goto out;
    }
    j->child.pid = pid;
    if (make_pumps(j, q, &e, err) < 0) {
        kill(pid, SIGKILL); /* reaped as a stranger */
        goto out;
    }
    j->child.helper = true;
    j->child.reaped = job_reaped;
    j->running = true;
    j->result_fd = steal_fd(&e.result);
    child_add(&j->agent->children, &j->child);
    r = 0;
out:
    close_ends(&e.child_out, 8);
    return r;
}

int fs_call(struct agent *a, struct link_call *call, const char *method, const struct cbor_reader *args,
            struct error *err)
{
    const struct fs_operation *op = fs_operation_find(method);
    struct fs_request q;
    if (!op)
        return error_set(err, ERROR_NOT_FOUND, "the agent has no method \"fs.%.32s\"", method);
    if (a->fs_jobs >= MAX_JOBS)
        return error_set(err, ERROR_LIMIT, "%d file operations are in progress, which is the most at a time",
                         MAX_JOBS);
    if (fs_request_read(&q, op, args, err) < 0)
        return -1;
    struct fs_job *j = calloc(1, sizeof *j);
    int r = -1;
    if (!j) {
        error_oom(err);
    } else {
        j->agent = a;
        j->call = call;
        r = job_start(j, op, &q, err);
    }
    fs_request_free(&q);
    if (r < 0) {
        free(j);
        return -1;
    }
    a->fs_jobs++;
    link_call_on_cancel(call, job_cancelled, j);
    return 0;
}

void fs_refuse(struct agent *a, const char *method, const struct cbor_reader *args, const struct error *err)
{
    static const char *const keys[] = {"stream", NULL};
    const struct fs_operation *op = strncmp(method, "fs.", 3) == 0 ? fs_operation_find(method + 3) : NULL;
    if (op && op->stream != FS_NO_STREAM)
        agent_refuse_streams(a, args, keys, op->stream == FS_SENDS, err);
}
