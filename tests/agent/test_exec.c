/* Processes: output, input, codes, signals, errors, terminals, many at once. */
#include "harness.h"

#include "base/clock.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static struct box *box;

/* As a careless parent may leave them: an ordinary signal, and one that the C library keeps to itself. */
static void ignore_signals(void)
{
    const struct {
        uintptr_t handler;
        unsigned long flags, restorer;
        uint64_t mask;
    } ignore = {.handler = (uintptr_t)SIG_IGN};
    assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR2, &ignore, NULL, sizeof ignore.mask), 0);
    assert_int_equal(syscall(SYS_rt_sigaction, 32, &ignore, NULL, sizeof ignore.mask), 0);
}

static int setup(void **state)
{
    (void)state;
    ignore_signals();
    box = box_started(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    box_free(box);
    return 0;
}

static void echo(void **state)
{
    (void)state;
    struct run r = {.argv = {"sh", "-c", "printf 'out\\0put'; printf err >&2; exit 3"}, .want_stderr = true};
    assert_true(run_start(box, &r));
    assert_true(r.proc.pid > 1);
    assert_true(run_wait(box, &r, 10000));
    assert_int_equal(r.proc.code, 3);
    assert_int_equal(r.out.bytes.len, 7);
    assert_memory_equal(r.out.bytes.data, "out\0put", 7);
    assert_string_equal(buf_str(&r.err.bytes), "err");
    /* asked again, the answer is the same */
    r.proc.code = -1;
    assert_true(run_wait_only(box, &r, 1000));
    assert_int_equal(r.proc.code, 3);
    run_free(&r);
}

static void combined_keeps_order(void **state)
{
    (void)state;
    char *text = sh(box, "echo 1; echo 2 >&2; echo 3");
    assert_string_equal(text, "1\n2\n3\n");
    free(text);
}

static void signals(void **state)
{
    (void)state;
    for (int n = 1; n <= 64; n += 7) {
        struct run r = {.argv = {"sleep", "100"}};
        assert_true(run_start(box, &r));
        struct buf args;
        struct answer a;
        buf_init(&args, 0);
        cbor_put_map(&args, 1);
        cbor_put_text(&args, "signal");
        cbor_put_uint(&args, (uint64_t)(n == SIGTTOU ? SIGKILL : n)); /* that one would only stop it */
        box_call(box, r.proc.cap, "kill", &args, &a);
        assert_false(a.failed);
        assert_true(run_wait(box, &r, 5000));
        assert_int_equal(r.proc.code, -1);
        assert_int_equal(r.proc.signal, n == SIGTTOU ? SIGKILL : n);
        /* after the end: nothing to do, no error */
        buf_init(&args, 0);
        cbor_put_map(&args, 1);
        cbor_put_text(&args, "signal");
        cbor_put_uint(&args, 9);
        box_call(box, r.proc.cap, "kill", &args, &a);
        assert_false(a.failed);
        run_free(&r);
    }
}

static void bad_signal(void **state)
{
    (void)state;
    struct run r = {.argv = {"sleep", "100"}};
    static const uint64_t bad[] = {0, 65, UINT64_MAX};
    assert_true(run_start(box, &r));
    for (size_t i = 0; i < 3; i++) {
        struct buf args;
        struct answer a;
        buf_init(&args, 0);
        cbor_put_map(&args, 1);
        cbor_put_text(&args, "signal");
        cbor_put_uint(&args, bad[i]);
        box_call(box, r.proc.cap, "kill", &args, &a);
        assert_true(a.failed);
        assert_string_equal(a.err.field, "signal");
    }
    run_free(&r);
}

static void stdin_10_mb(void **state)
{
    (void)state;
    size_t len = 10u << 20;
    uint8_t *data = malloc(len);
    struct sha256 hash;
    uint8_t digest[32];
    char hex[72] = "";
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 31 + i / 4099);
    sha256_begin(&hash);
    sha256_add(&hash, data, len);
    sha256_end(&hash, digest);
    for (int i = 0; i < 32; i++)
        sprintf(hex + 2 * i, "%02x", digest[i]);
    struct run r = {.argv = {"sha256sum"}, .input = data, .input_len = len};
    assert_true(run_start(box, &r));
    assert_true(run_wait(box, &r, 20000));
    assert_int_equal(r.proc.code, 0);
    assert_memory_equal(r.out.bytes.data, hex, 64);
    run_free(&r);
    /* and all of it back */
    struct run c = {.argv = {"cat"}, .input = data, .input_len = len};
    assert_true(run_start(box, &c));
    assert_true(run_wait(box, &c, 20000));
    assert_int_equal(c.out.bytes.len, len);
    assert_memory_equal(c.out.bytes.data, data, len);
    run_free(&c);
    free(data);
}

static void no_stdin_is_eof(void **state)
{
    (void)state;
    struct run r = {.argv = {"cat"}};
    assert_true(run_start(box, &r));
    assert_true(run_wait(box, &r, 2000));
    assert_int_equal(r.proc.code, 0);
    run_free(&r);
}

static void stdin_nobody_reads(void **state)
{
    (void)state;
    size_t len = 4u << 20;
    uint8_t *data = calloc(1, len);
    struct run r = {.argv = {"true"}, .input = data, .input_len = len};
    assert_true(run_start(box, &r));
    assert_true(run_wait(box, &r, 5000));
    assert_int_equal(r.proc.code, 0);
    assert_true(box_until(box, &r.in.reset, 5000));
    assert_string_equal(error_code(&r.in.why), "EPIPE");
    run_free(&r);
    free(data);
}

static void backpressure(void **state)
{
    (void)state;
    struct run r = {.argv = {"sh", "-c", "yes | head -c 3000000; echo done > /tmp/backpressure"}};
    assert_true(run_start(box, &r));
    r.out.pause = true;
    box_run(box, 300);
    long ticks = box_cpu_ticks(box);
    box_run(box, 500);
    assert_true(box_cpu_ticks(box) - ticks < 10); /* it sleeps while it waits for credit */
    assert_true(r.out.total <= LINK_STREAM_WINDOW);
    char *text = sh(box, "ls /tmp/backpressure 2>/dev/null || echo blocked");
    assert_string_equal(text, "blocked\n"); /* the producer is slowed down, nothing is kept in memory */
    free(text);
    r.out.pause = false;
    link_stream_consumed(box_link(box), r.out.stream, (size_t)r.out.total);
    assert_true(run_wait(box, &r, 10000));
    assert_int_equal(r.out.total, 3000000);
    run_free(&r);
}

static void reader_wants_no_more(void **state)
{
    (void)state;
    struct run r = {.argv = {"yes"}};
    assert_true(run_start(box, &r));
    box_run(box, 50);
    link_stream_reset(box_link(box), r.out.stream, NULL);
    r.no_stdout = true;
    assert_true(run_wait(box, &r, 5000));
    assert_int_equal(r.proc.signal, SIGPIPE);
    run_free(&r);
}

/* Hung-up pipes and terminals must not keep the agent awake. */
static void idle_is_idle(void **state)
{
    (void)state;
    struct run a = {.argv = {"sleep", "5"}, .open_stdin = true, .want_stderr = true};
    struct run b = {
        .argv = {"sh", "-c", "exec >&- 2>&- <&-; sleep 5"}, .open_stdin = true, .want_stderr = true};
    struct run c = {.argv = {"sh", "-c", "exec >/dev/null 2>&1 </dev/null; sleep 5"},
                    .pty = true,
                    .cols = 80,
                    .rows = 24,
                    .open_stdin = true};
    struct run d = {.argv = {"sh", "-c", "yes & exec sleep 5"}, .pty = true, .cols = 80, .rows = 24};
    assert_true(run_start(box, &a) && run_start(box, &b) && run_start(box, &c) && run_start(box, &d));
    d.out.pause = true;
    box_run(box, 500);
    long ticks = box_cpu_ticks(box);
    box_run(box, 500);
    assert_true(box_cpu_ticks(box) - ticks < 5);
    free(sh(box, "pkill yes; pkill -f '^sleep 5$'; true"));
    run_free(&a);
    run_free(&b);
    run_free(&c);
    run_free(&d);
}

static void background_child_holds_pipe(void **state)
{
    (void)state;
    struct run r = {.argv = {"sh", "-c", "sleep 1 & echo launched"}};
    uint64_t begin = clock_monotonic_ns();
    assert_true(run_start(box, &r));
    assert_true(run_wait_only(box, &r, 900));
    assert_true(clock_monotonic_ns() - begin < 900000000u);
    assert_int_equal(r.proc.code, 0);
    assert_string_equal(buf_str(&r.out.bytes), "launched\n");
    assert_false(r.out.ended);
    assert_true(box_until(box, &r.out.ended, 3000));
    run_free(&r);
}

static void closes_stdio_and_stays(void **state)
{
    (void)state;
    struct run r = {.argv = {"sh", "-c", "exec >&- 2>&- <&-; sleep 0.3; exit 4"}};
    assert_true(run_start(box, &r));
    assert_true(box_until(box, &r.out.ended, 2000));
    assert_true(run_wait_only(box, &r, 2000));
    assert_int_equal(r.proc.code, 4);
    run_free(&r);
}

static void many_at_once(void **state)
{
    (void)state;
    enum { N = 200 };
    static struct run runs[N];
    for (int i = 0; i < N; i++) {
        runs[i] = (struct run){.argv = {"cat"}, .open_stdin = true, .want_stderr = true};
        assert_true(run_start(box, &runs[i]));
    }
    char text[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "number %d", i);
        feed_more(&runs[i].in, text[i], strlen(text[i]));
        feed_end(&runs[i].in);
    }
    for (int i = 0; i < N; i++) {
        assert_true(run_wait(box, &runs[i], 20000));
        assert_int_equal(runs[i].proc.code, 0);
        assert_string_equal(buf_str(&runs[i].out.bytes), text[i]);
        run_free(&runs[i]);
    }
}

/* More output than the socket takes while the host reads nothing: it comes when the host reads again, without
 * a nudge. */
static void host_pauses(void **state)
{
    (void)state;
    enum { N = 16 };
    static struct run runs[N];
    for (int i = 0; i < N; i++) {
        runs[i] = (struct run){.argv = {"sh", "-c", "sleep 0.3; head -c 250000 /dev/zero"}};
        assert_true(run_start(box, &runs[i]));
    }
    usleep(400000);
    long ticks = box_cpu_ticks(box);
    usleep(500000);
    assert_true(box_cpu_ticks(box) - ticks < 15); /* it sleeps while the socket is full */
    for (int i = 0; i < N; i++)
        assert_true(box_until(box, &runs[i].out.ended, 5000));
    for (int i = 0; i < N; i++) {
        assert_int_equal(runs[i].out.total, 250000);
        assert_true(run_wait(box, &runs[i], 1000));
        run_free(&runs[i]);
    }
}

static void expect_error(struct run *r, const char *code, const char *field)
{
    assert_false(run_start(box, r));
    if (strcmp(error_code(&r->start.err), code) != 0 || strcmp(r->start.err.field, field) != 0)
        fail_msg("%s: got %s, field \"%s\": %s", r->argv[0] ? r->argv[0] : "", error_code(&r->start.err),
                 r->start.err.field, r->start.err.message);
    if (!r->no_stdout)
        assert_true(box_until(box, &r->out.ended, 2000)); /* its streams are refused too */
    run_free(r);
}

static void start_errors(void **state)
{
    (void)state;
    free(sh(box,
            "printf '#!/no/such/interpreter\\n' > /tmp/lost; printf junk > /tmp/junk; printf x > /tmp/noexec;"
            "chmod 755 /tmp/lost /tmp/junk; chmod 644 /tmp/noexec; mkdir -p -m 700 /tmp/private"));
    struct run missing = {.argv = {"frobnicate-9", "--version"}, .input = "x", .input_len = 1};
    expect_error(&missing, "ENOENT", "argv");
    struct run missing_path = {.argv = {"/no/such/program"}};
    expect_error(&missing_path, "ENOENT", "argv");
    struct run no_interpreter = {.argv = {"/tmp/lost"}};
    expect_error(&no_interpreter, "ENOENT", "argv");
    struct run junk = {.argv = {"/tmp/junk"}};
    expect_error(&junk, "ENOEXEC", "argv");
    struct run not_executable = {.argv = {"/tmp/noexec"}};
    expect_error(&not_executable, "EACCES", "argv");
    struct run directory = {.argv = {"/tmp"}};
    expect_error(&directory, "EACCES", "argv");
    struct run through_agent = {.argv = {"/proc/self/exe"}};
    expect_error(&through_agent, "ELOOP", "argv");
    struct run empty = {.argv = {NULL}};
    expect_error(&empty, "INVALID_ARGUMENT", "argv");
    struct run cwd = {.argv = {"true"}, .cwd = "/no/such"};
    expect_error(&cwd, "ENOENT", "cwd");
    struct run cwd_file = {.argv = {"true"}, .cwd = "/tmp/junk"};
    expect_error(&cwd_file, "ENOTDIR", "cwd");
    struct run cwd_relative = {.argv = {"true"}, .cwd = "tmp"};
    expect_error(&cwd_relative, "INVALID_ARGUMENT", "cwd");
    struct run cwd_private = {.argv = {"true"}, .cwd = "/tmp/private", .user = "1234:1234"};
    expect_error(&cwd_private, "EACCES", "cwd");
    struct run cwd_fd = {.argv = {"true"}, .cwd = "/proc/self/fd/5"};
    expect_error(&cwd_fd, "ENOENT", "cwd");
    struct run cwd_magic = {.argv = {"true"}, .cwd = "/proc/self/cwd"};
    expect_error(&cwd_magic, "ELOOP", "cwd");
    struct run user = {.argv = {"true"}, .user = "nobody-here"};
    expect_error(&user, "INVALID_ARGUMENT", "user");
    struct run group = {.argv = {"true"}, .user = "root:nobody-here"};
    expect_error(&group, "INVALID_ARGUMENT", "user");
    struct run user_empty = {.argv = {"true"}, .user = ":"};
    expect_error(&user_empty, "INVALID_ARGUMENT", "user");
    struct run unmapped = {.argv = {"true"}, .user = "70000:70000"};
    expect_error(&unmapped, "EINVAL", "user");
    struct run env = {.argv = {"true"}, .env = {"=x"}};
    expect_error(&env, "INVALID_ARGUMENT", "env");
    struct run both = {.argv = {"true"}, .combined = true, .want_stderr = true};
    expect_error(&both, "INVALID_ARGUMENT", "stderr");
}

static void too_large(void **state)
{
    (void)state;
    char *big = malloc((1u << 20) + 1);
    memset(big, 'x', 1u << 20);
    big[1u << 20] = '\0';
    struct run r = {.argv = {"true", big}};
    /* with the frame around it the call itself would be too large for the link: the host notices */
    assert_false(run_start(box, &r));
    run_free(&r);
    big[200000] = '\0'; /* one string beyond the kernel's 128 KiB */
    struct run one = {.argv = {"true", big}};
    expect_error(&one, "E2BIG", "argv");
    free(big);
}

static void environment(void **state)
{
    (void)state;
    struct run r = {.argv = {"env"}, .env = {"A=1", "PATH=/usr/bin:/bin", "EMPTY="}};
    assert_true(run_start(box, &r));
    assert_true(run_wait(box, &r, 5000));
    assert_string_equal(buf_str(&r.out.bytes), "A=1\nPATH=/usr/bin:/bin\nEMPTY=\nHOME=/root\n");
    run_free(&r);
    struct run home = {.argv = {"/usr/bin/env"}, .env = {"HOME=/x"}};
    assert_true(run_start(box, &home));
    assert_true(run_wait(box, &home, 5000));
    assert_string_equal(buf_str(&home.out.bytes), "HOME=/x\n");
    run_free(&home);
}

static void users(void **state)
{
    (void)state;
    free(sh(box, "echo 'tester:x:1500:1600:Test:/home/tester:/bin/sh' >> /etc/passwd;"
                 "printf 'tgroup:x:1600:\\nextra:x:1700:a,tester\\nother:x:1800:tester2\\n' >> /etc/group"));
    static const struct {
        const char *user, *expected;
    } cases[] = {
        {"tester", "1500 1600 1600 1700 /home/tester 0000000000000000"},
        {"1500", "1500 1600 1600 1700 /home/tester 0000000000000000"},
        {"tester:extra", "1500 1700 1700 /home/tester 0000000000000000"},
        {"1500:7", "1500 7 7 /home/tester 0000000000000000"},
        {"4321:4322", "4321 4322 4322 / 0000000000000000"},
        {"0", "0 0 0 /root 00000000800405fb"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run r = {
            .argv = {"sh", "-c",
                     "echo $(id -u) $(id -g) $(id -G) $HOME $(sed -n 's/CapEff:.//p' /proc/self/status)"},
            .user = cases[i].user};
        assert_true(run_start(box, &r));
        assert_true(run_wait(box, &r, 5000));
        char expected[128];
        snprintf(expected, sizeof expected, "%s\n", cases[i].expected);
        assert_string_equal(buf_str(&r.out.bytes), expected);
        run_free(&r);
    }
}

static void working_directory(void **state)
{
    (void)state;
    free(sh(box, "mkdir -p /tmp/wd; printf '#!/bin/sh\\npwd\\n' > /tmp/wd/here; chmod 755 /tmp/wd/here"));
    struct run r = {.argv = {"./here"}, .cwd = "/tmp/wd"};
    assert_true(run_start(box, &r));
    assert_true(run_wait(box, &r, 5000));
    assert_string_equal(buf_str(&r.out.bytes), "/tmp/wd\n");
    run_free(&r);
}

static void exactly_three_descriptors(void **state)
{
    (void)state;
    struct run r = {
        .argv = {"sh", "-c", "cd /proc/self/fd; echo *"}, .want_stderr = true, .open_stdin = true};
    assert_true(run_start(box, &r));
    assert_true(run_wait(box, &r, 5000));
    /* the shell's own directory stream for "*" is the 3 */
    assert_string_equal(buf_str(&r.out.bytes), "0 1 2 3\n");
    run_free(&r);
}

static void clean_signal_state(void **state)
{
    (void)state;
    char *text = sh(
        box, "grep -E 'Sig(Blk|Ign)|ShdPnd' /proc/self/status; ps -o sid=,pid= -p $$ | awk '{print $1==$2}'");
    assert_string_equal(
        text, "ShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n1\n");
    free(text);
}

static void terminal(void **state)
{
    (void)state;
    struct run r = {.argv = {"sh", "-c", "tty; stty size; read x; stty size; echo got $x"},
                    .pty = true,
                    .cols = 91,
                    .rows = 17,
                    .open_stdin = true};
    assert_true(run_start(box, &r));
    for (int i = 0; i < 100 && !(r.out.bytes.len && strstr(buf_str(&r.out.bytes), "17 91")); i++)
        box_run(box, 20);
    struct buf args;
    struct answer a;
    buf_init(&args, 0);
    cbor_put_map(&args, 2);
    cbor_put_text(&args, "cols");
    cbor_put_uint(&args, 100);
    cbor_put_text(&args, "rows");
    cbor_put_uint(&args, 40);
    box_call(box, r.proc.cap, "resize", &args, &a);
    assert_false(a.failed);
    feed_more(&r.in, "hello\n", 6);
    assert_true(run_wait(box, &r, 5000));
    assert_int_equal(r.proc.code, 0);
    assert_string_equal(buf_str(&r.out.bytes), "/dev/pts/0\r\n17 91\r\nhello\r\n40 100\r\ngot hello\r\n");
    run_free(&r);
}

static void terminal_end_of_input(void **state)
{
    (void)state;
    struct run r = {.argv = {"cat"}, .pty = true, .cols = 80, .rows = 24, .input = "line\n", .input_len = 5};
    assert_true(run_start(box, &r));
    assert_true(run_wait(box, &r, 5000));
    assert_int_equal(r.proc.code, 0);
    run_free(&r);
}

static void terminal_interrupt(void **state)
{
    (void)state;
    struct run r = {.argv = {"sh", "-c", "echo ready; sleep 100"},
                    .pty = true,
                    .cols = 80,
                    .rows = 24,
                    .open_stdin = true};
    assert_true(run_start(box, &r));
    for (int i = 0; i < 100 && !r.out.bytes.len; i++)
        box_run(box, 20);
    feed_more(&r.in, "\003", 1);
    assert_true(run_wait(box, &r, 5000));
    assert_int_equal(r.proc.signal, SIGINT);
    run_free(&r);
}

static void resize_without_terminal(void **state)
{
    (void)state;
    struct run r = {.argv = {"sleep", "9"}};
    assert_true(run_start(box, &r));
    struct buf args;
    struct answer a;
    buf_init(&args, 0);
    cbor_put_map(&args, 2);
    cbor_put_text(&args, "cols");
    cbor_put_uint(&args, 1);
    cbor_put_text(&args, "rows");
    cbor_put_uint(&args, 1);
    box_call(box, r.proc.cap, "resize", &args, &a);
    assert_true(a.failed);
    assert_string_equal(a.err.field, "pty");
    run_free(&r);
}

static void detached_process_goes_on(void **state)
{
    (void)state;
    struct run r = {
        .argv = {"sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.05; done; echo yes > /tmp/detached"}};
    assert_true(run_start(box, &r));
    run_free(&r); /* drops the capability; the sink is closed by the agent's reset */
    for (int i = 0; i < 100; i++) {
        char *text = sh(box, "cat /tmp/detached 2>/dev/null || true");
        bool done = strcmp(text, "yes\n") == 0;
        free(text);
        if (done)
            return;
        box_run(box, 20);
    }
    fail_msg("the detached process did not finish");
}

static void unknown_argument(void **state)
{
    (void)state;
    struct buf args;
    struct answer a;
    buf_init(&args, 0);
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "frob");
    cbor_put_uint(&args, 1);
    box_call(box, 0, "exec", &args, &a);
    assert_true(a.failed);
    assert_string_equal(error_code(&a.err), "INVALID_ARGUMENT");
    assert_string_equal(a.err.field, "frob");
    box_call(box, 0, "nonsense", NULL, &a);
    assert_true(a.failed);
    assert_string_equal(error_code(&a.err), "NOT_FOUND");
    box_call(box, 0, "setup", NULL, &a);
    assert_true(a.failed);
    assert_string_equal(error_code(&a.err), "WRONG_STATE");
}

static void stats_and_signal_all(void **state)
{
    (void)state;
    struct box *b = box_started(NULL);
    struct run r = {.argv = {"sleep", "100"}}, s = {.argv = {"sleep", "100"}};
    assert_true(run_start(b, &r) && run_start(b, &s));
    struct answer a;
    uint64_t n;
    box_call(b, 0, "stats", NULL, &a);
    assert_true(answer_uint(&a, "processes", &n) && n == 3);
    assert_true(answer_uint(&a, "memoryBytes", &n) && n > 0 && n < (64u << 20));
    answer_free(&a);
    struct buf args;
    buf_init(&args, 0);
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "signal");
    cbor_put_uint(&args, SIGTERM);
    box_call(b, 0, "signalAll", &args, &a);
    assert_true(answer_uint(&a, "count", &n) && n == 3);
    answer_free(&a);
    assert_true(run_wait_only(b, &r, 2000) && run_wait_only(b, &s, 2000));
    assert_int_equal(r.proc.signal, SIGTERM);
    run_free(&r);
    run_free(&s);
    box_free(b);
}

static void orphans_are_reaped(void **state)
{
    (void)state;
    free(sh(box, "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sh -c 'sleep 0.05' &) ; done; sleep 0.3"));
    box_run(box, 50);
    char *text = sh(box, "ps -eo stat= | grep -c '^Z' || true");
    assert_string_equal(text, "0\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(echo),
        cmocka_unit_test(combined_keeps_order),
        cmocka_unit_test(signals),
        cmocka_unit_test(bad_signal),
        cmocka_unit_test(stdin_10_mb),
        cmocka_unit_test(no_stdin_is_eof),
        cmocka_unit_test(stdin_nobody_reads),
        cmocka_unit_test(backpressure),
        cmocka_unit_test(reader_wants_no_more),
        cmocka_unit_test(background_child_holds_pipe),
        cmocka_unit_test(idle_is_idle),
        cmocka_unit_test(closes_stdio_and_stays),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(host_pauses),
        cmocka_unit_test(start_errors),
        cmocka_unit_test(too_large),
        cmocka_unit_test(environment),
        cmocka_unit_test(users),
        cmocka_unit_test(working_directory),
        cmocka_unit_test(exactly_three_descriptors),
        cmocka_unit_test(clean_signal_state),
        cmocka_unit_test(terminal),
        cmocka_unit_test(terminal_end_of_input),
        cmocka_unit_test(terminal_interrupt),
        cmocka_unit_test(resize_without_terminal),
        cmocka_unit_test(detached_process_goes_on),
        cmocka_unit_test(unknown_argument),
        cmocka_unit_test(stats_and_signal_all),
        cmocka_unit_test(orphans_are_reaped),
    };
    return cmocka_run_group_tests_name("agent exec", tests, setup, teardown);
}
