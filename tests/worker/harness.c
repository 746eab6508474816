#include "harness.h"

#include "base/clock.h"
#include "link/cbor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000u

static const char *need_env(const char *name)
{
    const char *v = getenv(name);
    if (!v)
        fail_msg("%s is not set", name);
    return v;
}

void zygote_open(struct zygote_process *z)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    z->control = ends[0];
    z->is_ready = false;
    fcntl(z->control, F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], ends[1]);
    char number[16], name[] = "cloister-worker", option[] = "--zygote", bundle[4096];
    snprintf(number, sizeof number, "%d", ends[1]);
    snprintf(bundle, sizeof bundle, "%s", need_env("CLOISTER_TEST_BUNDLE"));
    /* CLOISTER_TEST_USER: as an ordinary user (root runs the test). */
    char setpriv[] = "setpriv", uid[] = "--reuid=65534", gid[] = "--regid=65534", groups[] = "--clear-groups",
         program[4096];
    snprintf(program, sizeof program, "%s", need_env("CLOISTER_WORKER"));
    char *argv[] = {name, option, number, bundle, NULL}, *envp[] = {NULL};
    char *user_argv[] = {setpriv, uid, gid, groups, program, option, number, bundle, NULL};
    bool as_user = getenv("CLOISTER_TEST_USER");
    assert_int_equal(posix_spawn(&z->pid, as_user ? "/usr/bin/setpriv" : program, &actions, NULL,
                                 as_user ? user_argv : argv, envp),
                     0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
}

void zygote_close(struct zygote_process *z)
{
    int status;
    close(z->control);
    assert_int_equal(waitpid(z->pid, &status, 0), z->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void take_control(struct peer *p)
{
    struct zygote_message m;
    struct error err = {0};
    int pidfd, r;
    while ((r = zygote_receive(p->zygote->control, &m, &pidfd, &err)) > 0) {
        if (m.type == ZYGOTE_READY)
            p->zygote->is_ready = true;
        else if (m.type == ZYGOTE_FAILED)
            fail_msg("the zygote made no worker: %s", strerror(m.error));
        else if (m.id != p->id && pidfd >= 0)
            close(pidfd);
        else if (m.id == p->id && m.type == ZYGOTE_FORKED)
            p->pidfd = pidfd, p->pid = zygote_host_pid(pidfd);
        else if (m.id == p->id && m.type == ZYGOTE_ENDED)
            p->ended = true, p->status = m.status;
    }
    if (r < 0)
        fail_msg("%s", err.message);
}

static void take_input(struct peer *p)
{
    static uint8_t input[256 << 10];
    struct error err = {0};
    ssize_t n = recv(p->fd, input, sizeof input, MSG_DONTWAIT);
    if (n > 0) {
        if (link_receive(p->link, input, (size_t)n, &err) < 0)
            p->closed = true;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        link_shutdown(p->link, NULL);
        p->closed = true;
    }
}

static void give_output(struct peer *p)
{
    struct iovec iov[16];
    int count;
    while (!p->closed && (count = link_output(p->link, iov, 16)) > 0) {
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};
        ssize_t n = sendmsg(p->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return;
        link_sent(p->link, (size_t)n);
    }
}

static void pump_once(struct peer *p, int timeout)
{
    struct iovec iov;
    give_output(p);
    short out = !p->closed && link_output(p->link, &iov, 1) > 0 ? POLLOUT : 0;
    struct pollfd polled[] = {{.fd = p->zygote->control, .events = POLLIN},
                              {.fd = p->closed ? -1 : p->fd, .events = (short)(POLLIN | out)}};
    poll(polled, 2, timeout);
    if (polled[0].revents)
        take_control(p);
    if (polled[1].revents & (POLLIN | POLLHUP))
        take_input(p);
}

void peer_pump_until(struct peer *p, const bool *flag)
{
    uint64_t end = clock_monotonic_ns() + PATIENCE_MS * 1000000ull;
    while (!*flag) {
        if (clock_monotonic_ns() > end)
            fail_msg("nothing happened within %u ms; the worker's log: %s", PATIENCE_MS, buf_str(&p->log));
        pump_once(p, 100);
    }
}

void peer_pump_for(struct peer *p, unsigned ms)
{
    uint64_t end = clock_monotonic_ns() + ms * 1000000ull;
    for (uint64_t now; (now = clock_monotonic_ns()) < end;)
        pump_once(p, (int)((end - now) / 1000000) + 1);
}

static void on_log(void *user, int level, int64_t ms, const char *text)
{
    struct peer *p = user;
    (void)ms;
    p->log_lines++;
    buf_printf(&p->log, "%d %s\n", level, text);
}

void peer_open(struct peer *p, struct zygote_process *z, const struct link_object_ops *ops, void *object)
{
    static uint32_t last_id;
    int ends[2];
    struct error err = {0};
    *p = (struct peer){.zygote = z, .pidfd = -1, .id = ++last_id};
    buf_init(&p->log, 0);
    struct link_config config = {
        .side = LINK_HOST, .bootstrap = ops, .bootstrap_object = object, .log = on_log, .user = p};
    p->link = link_new(&config);
    assert_non_null(p->link);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    p->fd = ends[0];
    peer_pump_until(p, &z->is_ready);
    assert_int_equal(zygote_fork(z->control, p->id, ZYGOTE_WORKER, ends[1], NULL, 0, &err), 0);
    close(ends[1]);
    uint64_t end = clock_monotonic_ns() + PATIENCE_MS * 1000000ull;
    while (p->pidfd < 0 && clock_monotonic_ns() < end)
        pump_once(p, 100);
    assert_true(p->pidfd >= 0);
}

int peer_wait_end(struct peer *p)
{
    peer_pump_until(p, &p->ended);
    return p->status;
}

void peer_close(struct peer *p)
{
    link_free(p->link);
    close(p->fd);
    p->closed = true;
    p->link = NULL;
    if (!p->ended) {
        uint64_t end = clock_monotonic_ns() + PATIENCE_MS * 1000000ull;
        struct pollfd control = {.fd = p->zygote->control, .events = POLLIN};
        while (!p->ended && clock_monotonic_ns() < end) {
            poll(&control, 1, 100);
            take_control(p);
        }
    }
    assert_true(p->ended);
    close(p->pidfd);
    buf_free(&p->log);
}

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct answer *a = user;
    a->done = true;
    if (err)
        a->err = *err;
    else
        buf_append(&a->value, value.p, (size_t)(value.end - value.p));
}

void peer_call_start(struct peer *p, const char *method, const struct buf *args, struct answer *ret)
{
    memset(ret, 0, sizeof *ret);
    buf_init(&ret->value, 0);
    assert_true(
        link_call(p->link, 0, method, args ? args->data : NULL, args ? args->len : 0, on_answer, ret) != 0);
}

void peer_call(struct peer *p, const char *method, const struct buf *args, struct answer *ret)
{
    peer_call_start(p, method, args, ret);
    peer_pump_until(p, &ret->done);
}

void answer_free(struct answer *a)
{
    buf_free(&a->value);
}

void peer_eval_start(struct peer *p, unsigned cpu_ms, const char *source, struct answer *ret)
{
    char method[32];
    struct buf args;
    buf_init(&args, 0);
    cbor_put_text(&args, source);
    if (cpu_ms)
        snprintf(method, sizeof method, "eval:%u", cpu_ms);
    else
        snprintf(method, sizeof method, "eval");
    peer_call_start(p, method, &args, ret);
    buf_free(&args);
}

const char *peer_eval(struct peer *p, unsigned cpu_ms, const char *source)
{
    static char text[64 << 10];
    struct answer a;
    peer_eval_start(p, cpu_ms, source, &a);
    peer_pump_until(p, &a.done);
    if (a.err.kind) {
        snprintf(text, sizeof text, "!%s: %s", error_code(&a.err), a.err.message);
    } else {
        struct cbor_reader r;
        cbor_reader_init(&r, a.value.data, a.value.len);
        assert_int_equal(cbor_get_string(&r, text, sizeof text), 0);
    }
    answer_free(&a);
    return text;
}
