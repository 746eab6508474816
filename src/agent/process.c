#include "agent/process_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Both ends of the three standard descriptors while a process is being started. -1: none. */
struct stdio {
    int in, out, err;             /* the child's ends */
    int our_in, our_out, our_err; /* ours */
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void stdio_close(struct stdio *io, int null_fd)
{
    int ends[] = {io->in, io->out, io->err};
    for (int i = 0; i < 3; i++) {
        bool twice = false;
        for (int j = 0; j < i; j++)
            twice |= ends[j] == ends[i];
        if (ends[i] >= 0 && ends[i] != null_fd && !twice)
            close(ends[i]);
    }
    io->in = io->out = io->err = -1;
    close_fd(&io->our_in);
    close_fd(&io->our_out);
    close_fd(&io->our_err);
}

static int make_pipe(int *child_end, int *our_end, bool child_reads, struct error *err)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return error_system(err, errno, "cannot make a pipe");
    *child_end = p[child_reads ? 0 : 1];
    *our_end = p[child_reads ? 1 : 0];
    return 0;
}

static int stdio_pipes(struct agent *a, const struct spec *spec, struct stdio *io, struct error *err)
{
    io->in = io->out = io->err = a->null_fd;
    if (spec->has_stdin && make_pipe(&io->in, &io->our_in, true, err) < 0)
        return -1;
    if (spec->has_stdout && make_pipe(&io->out, &io->our_out, false, err) < 0)
        return -1;
    if (spec->has_stderr && make_pipe(&io->err, &io->our_err, false, err) < 0)
        return -1;
    if (spec->combined)
        io->err = io->out;
    return 0;
}

/* The master comes from our own descriptor of the devpts instance, not from a name the guest could replace.
 */
static int stdio_terminal(struct agent *a, const struct spec *spec, struct process *p, struct stdio *io,
                          struct error *err)
{
    cleanup_close int master = openat(a->pts_fd, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        return error_system(err, errno, "cannot make a terminal");
    int unlock = 0;
    struct winsize size = {.ws_col = spec->cols, .ws_row = spec->rows};
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCSWINSZ, &size) < 0)
        return error_system(err, errno, "cannot set up a terminal");
    io->in = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (io->in < 0)
        return error_system(err, errno, "cannot open the terminal");
    io->out = io->err = io->in;
    if (spec->who.uid != 0 && fchown(io->in, spec->who.uid, (gid_t)-1) < 0)
        return error_system(err, errno, "cannot give the terminal to user %u", spec->who.uid);
    if (spec->has_stdin)
        io->our_in = fcntl(master, F_DUPFD_CLOEXEC, 3);
    /* without a stdout stream somebody must still read it, or the program would block */
    io->our_out = fcntl(master, F_DUPFD_CLOEXEC, 3);
    if ((spec->has_stdin && io->our_in < 0) || io->our_out < 0)
        return error_system(err, errno, "cannot copy the terminal's descriptor");
    p->tty_fd = steal_fd(&master);
    return 0;
}

static void out_drained(void *owner)
{
    struct process *p = owner;
    if (p->out && p->out->to_drain < 0)
        p->out_wait = false;
    if (p->err && p->err->to_drain < 0)
        p->err_wait = false;
    process_tell(p);
}

static void in_gone(void *owner)
{
    struct process *p = owner;
    p->in = NULL;
}

static int pumps_make(struct process *p, const struct spec *spec, struct stdio *io, struct error *err)
{
    struct agent *a = p->agent;
    if (io->our_in >= 0) {
        p->in = in_pump_new(a, steal_fd(&io->our_in), spec->pty, -1, spec->stdin_stream, err);
        if (!p->in)
            return -1;
        in_pump_on_gone(p->in, in_gone, p);
    }
    if (io->our_out >= 0) {
        p->out =
            out_pump_new(a, steal_fd(&io->our_out), spec->pty, spec->has_stdout, spec->stdout_stream, err);
        if (!p->out)
            return -1;
        p->out->drained = out_drained;
        p->out->owner = p;
    }
    if (io->our_err >= 0) {
        p->err = out_pump_new(a, steal_fd(&io->our_err), false, true, spec->stderr_stream, err);
        if (!p->err)
            return -1;
        p->err->drained = out_drained;
        p->err->owner = p;
    }
    return 0;
}

static void give_up_pump(struct out_pump **at, const struct error *why)
{
    struct out_pump *p = *at;
    *at = NULL;
    if (!p)
        return;
    out_pump_fail(p, why);
    out_pump_release(p);
}

static void process_destroy(struct process *p, const struct error *why)
{
    if (p->in && why)
        in_pump_abort(p->in, why);
    if (p->in)
        in_pump_on_gone(p->in, NULL, NULL);
    if (why) {
        give_up_pump(&p->out, why);
        give_up_pump(&p->err, why);
    }
    out_pump_release(p->out);
    out_pump_release(p->err);
    close_fd(&p->tty_fd);
    tree_free(p);
    if (p->link) {
        *p->link = p->next;
        if (p->next)
            p->next->link = p->link;
    }
    if (p->agent->main == p)
        p->agent->main = NULL;
    free(p);
}

static void process_reaped(struct child *c, int status, const struct rusage *usage)
{
    process_ended((struct process *)((char *)c - offsetof(struct process, child)), status, usage);
}

static void insert(struct agent *a, struct process *p)
{
    p->next = a->processes;
    p->link = &a->processes;
    if (p->next)
        p->next->link = &p->next;
    a->processes = p;
}

static int launch(struct process *p, const struct spec *spec, struct stdio *io, struct error *err)
{
    struct agent *a = p->agent;
    struct spawn s = {.argv = spec->argv.items,
                      .env = spec->env.items,
                      .cwd = spec->cwd,
                      .who = &spec->who,
                      .in = io->in,
                      .out = io->out,
                      .err = io->err,
                      .terminal = spec->pty,
                      .no_setgroups = a->no_setgroups,
                      .cgroup_dir = -1,
                      .files = a->files,
                      .pids = a->limits.pids};
    pid_t pid = spec->tree ? tree_start(p, &s, err) : spawn_program(&s, err);
    if (pid < 0)
        return -1;
    if (pid == 0)
        return 0; /* supervised: reported later */
    p->pid = pid;
    p->child.pid = pid;
    p->child.reaped = process_reaped;
    child_add(&a->children, &p->child);
    return 0;
}

void process_fail_start(struct process *p, const struct error *why)
{
    process_destroy(p, why);
}

int process_start(struct agent *a, const struct spec *spec, struct link_call *call,
                  struct stage_times *stages, struct process **ret, struct error *err)
{
    uint64_t begin = clock_monotonic_ns();
    struct process *p = calloc(1, sizeof *p);
    if (!p)
        return error_oom(err);
    p->agent = a;
    p->tty_fd = -1;
    p->pty = spec->pty;
    struct stdio io = {-1, -1, -1, -1, -1, -1};
    struct error why = {0};
    if ((spec->pty ? stdio_terminal(a, spec, p, &io, &why) : stdio_pipes(a, spec, &io, &why)) < 0 ||
        pumps_make(p, spec, &io, &why) < 0 || launch(p, spec, &io, &why) < 0) {
        stdio_close(&io, a->null_fd);
        process_destroy(p, &why);
        if (err)
            *err = why;
        return -1;
    }
    stdio_close(&io, a->null_fd);
    insert(a, p);
    if (ret)
        *ret = p;
    if (stages) {
        p->stages = *stages;
        p->has_stages = true;
        p->stages.spawn = clock_monotonic_ns() - begin;
    }
    if (p->pid)
        process_answer_start(p, call);
    else
        p->start_call = call;
    return 0;
}

static bool start_draining(struct out_pump *pump)
{
    return pump && pump->streaming && !out_pump_drain(pump);
}

void process_ended(struct process *p, int status, const struct rusage *usage)
{
    struct agent *a = p->agent;
    p->ended = true;
    p->status = status;
    p->cpu_us = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000u +
                (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
    p->max_rss_kib = (uint64_t)usage->ru_maxrss;
    close_fd(&p->tty_fd);
    p->out_wait = start_draining(p->out);
    p->err_wait = start_draining(p->err);
    if (p == a->main)
        ending_begin(a);
    process_tell(p);
}

void process_tell(struct process *p)
{
    if (!p->ended || p->out_wait || p->err_wait)
        return;
    process_answer_waiters(p);
    process_maybe_free(p);
}

void process_maybe_free(struct process *p)
{
    if (p->ended && p->dropped && !p->waiters && !p->start_call)
        process_destroy(p, NULL);
}

bool process_reported(const struct process *p)
{
    return p->reported || p->dropped;
}

void process_signal(struct process *p, int number)
{
    if (p->ended)
        return;
    if (p->tree)
        tree_signal_leader(p, number);
    else
        kill(p->pid, number);
}

void process_detach(struct process *p)
{
    p->dropped = true;
    if (!p->ended) {
        if (p->out)
            out_pump_discard(p->out);
        if (p->err)
            out_pump_discard(p->err);
    }
    process_maybe_free(p);
}
