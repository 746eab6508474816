/* What the host can ask of a process. */
#include "agent/args.h"
#include "agent/process_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

void process_answer_start(struct process *p, struct link_call *call)
{
    struct buf b;
    buf_init(&b, 0);
    cbor_put_map(&b, p->has_stages ? 3 : 2);
    cbor_put_text(&b, "process");
    uint32_t cap = link_put_capability(link_call_link(call), &b, &process_ops, p);
    cbor_put_text(&b, "pid");
    cbor_put_uint(&b, (uint64_t)p->pid);
    if (p->has_stages) {
        cbor_put_text(&b, "stages");
        cbor_put_map(&b, 3);
        cbor_put_text(&b, "mounts");
        cbor_put_uint(&b, p->stages.mounts);
        cbor_put_text(&b, "jail");
        cbor_put_uint(&b, p->stages.jail);
        cbor_put_text(&b, "spawn");
        cbor_put_uint(&b, p->stages.spawn);
    }
    if (b.failed || cap == 0) {
        struct error err = {0};
        error_oom(&err);
        link_throw(call, &err);
        process_signal(p, 9);
        process_detach(p);
    } else {
        link_return(call, b.data, b.len);
    }
    buf_free(&b);
}

static void answer_wait(struct process *p, struct link_call *call)
{
    struct buf b;
    buf_init(&b, 0);
    bool memory = p->agent->memory_exceeded;
    cbor_put_map(&b, memory ? 4 : 3);
    if (WIFSIGNALED(p->status)) {
        cbor_put_text(&b, "signal");
        cbor_put_uint(&b, (uint64_t)WTERMSIG(p->status));
    } else {
        cbor_put_text(&b, "code");
        cbor_put_uint(&b, (uint64_t)WEXITSTATUS(p->status));
    }
    cbor_put_text(&b, "cpuUs");
    cbor_put_uint(&b, p->cpu_us);
    cbor_put_text(&b, "maxRssKib");
    cbor_put_uint(&b, p->max_rss_kib);
    if (memory) {
        cbor_put_text(&b, "memoryLimit");
        cbor_put_bool(&b, true);
    }
    link_return(call, b.data, b.len);
    buf_free(&b);
    p->reported = true;
}

void process_answer_waiters(struct process *p)
{
    while (p->waiters) {
        struct waiter *w = p->waiters;
        p->waiters = w->next;
        answer_wait(p, w->call);
        free(w);
    }
}

static void wait_cancelled(void *user)
{
    struct waiter *w = user;
    struct process *p = w->process;
    for (struct waiter **at = &p->waiters; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    struct error err = {0};
    error_system(&err, ECANCELED, "the wait was cancelled");
    link_throw(w->call, &err);
    free(w);
    process_maybe_free(p);
}

static void call_wait(struct process *p, struct link_call *call, const struct cbor_reader *args,
                      struct error *err)
{
    static const char *const none[] = {NULL};
    if (args_check(args, none, err) < 0)
        return;
    if (p->ended && !p->out_wait && !p->err_wait) {
        answer_wait(p, call);
        return;
    }
    struct waiter *w = malloc(sizeof *w);
    if (!w) {
        error_oom(err);
        return;
    }
    *w = (struct waiter){p->waiters, p, call};
    p->waiters = w;
    link_call_on_cancel(call, wait_cancelled, w);
}

static void call_kill(struct process *p, struct link_call *call, const struct cbor_reader *args,
                      struct error *err)
{
    static const char *const keys[] = {"signal", NULL};
    uint64_t number = 0;
    if (args_check(args, keys, err) < 0 || args_uint(args, "signal", 1, 64, &number, err) < 0)
        return;
    if (number == 0) {
        args_missing("signal", err);
        return;
    }
    process_signal(p, (int)number);
    return_empty(call);
}

static void call_kill_tree(struct process *p, struct link_call *call, const struct cbor_reader *args,
                           struct error *err)
{
    static const char *const none[] = {NULL};
    if (args_check(args, none, err) < 0)
        return;
    if (!p->tree)
        error_field(err, "tree", "the process was not started with tree: true");
    else
        tree_kill(p, call);
}

static void call_resize(struct process *p, struct link_call *call, const struct cbor_reader *args,
                        struct error *err)
{
    struct winsize size = {0};
    if (spec_read_size(args, &size.ws_col, &size.ws_row, err) < 0)
        return;
    if (!p->pty) {
        error_field(err, "pty", "the process has no terminal");
        return;
    }
    if (p->tty_fd >= 0 && ioctl(p->tty_fd, TIOCSWINSZ, &size) < 0)
        error_system(err, errno, "cannot resize the terminal");
    else
        return_empty(call);
}

static void process_call(void *object, struct link_call *call, const char *method, struct cbor_reader args)
{
    static const struct {
        const char *name;
        void (*fn)(struct process *p, struct link_call *call, const struct cbor_reader *args,
                   struct error *err);
    } methods[] = {
        {"wait", call_wait}, {"kill", call_kill}, {"killTree", call_kill_tree}, {"resize", call_resize}};
    struct error err = {0};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, method) == 0) {
            methods[i].fn(object, call, &args, &err);
            if (err.kind != ERROR_NONE) /* then, and only then, the call is still unanswered */
                link_throw(call, &err);
            return;
        }
    error_set(&err, ERROR_NOT_FOUND, "a process has no method \"%.32s\"", method);
    link_throw(call, &err);
}

static void process_drop(void *object)
{
    process_detach(object);
}

const struct link_object_ops process_ops = {.call = process_call, .drop = process_drop};
