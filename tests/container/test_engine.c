/* The engine against real containers of image `host`: needs root or user namespaces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "container/engine.h"
#include "image/image.h"
#include "link/agent_protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_MAX (4u << 20)

static uv_loop_t loop;
static struct engine *engine;
static struct image *image;
static char top[64];

struct run {
    struct container *c;
    struct exec *main;
    struct buf out, err;
    bool ready, exited, main_exited, out_ended, failed, main_failed;
    struct exit_status status, main_status;
    struct error error, main_error;
    struct stage_timings timings;
};

struct job {
    struct buf out, err;
    bool started, exited, out_ended, err_ended, failed;
    int pid;
    struct exit_status status;
    struct error error;
    const char *in; /* left to write */
    size_t in_len;
};

static const char *const default_env[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", NULL};

static void main_output(void *user, struct exec *x, int fd, const uint8_t *data, size_t len)
{
    struct run *r = user;
    buf_append(fd == 2 ? &r->err : &r->out, data, len);
    exec_consumed(x, fd, len);
}

static void main_output_end(void *user, struct exec *x, int fd)
{
    struct run *r = user;
    if (fd == 1)
        r->out_ended = true;
}

static void main_exit(void *user, struct exec *x, const struct exit_status *s, const struct error *err)
{
    struct run *r = user;
    assert_false(r->main_exited);
    r->main_exited = true;
    r->main_status = *s;
    r->main_failed = err != NULL;
    if (err)
        r->main_error = *err;
}

static void on_ready(void *user, struct container *c, const struct stage_timings *t)
{
    struct run *r = user;
    r->ready = true;
    r->timings = *t;
}

static void on_exit_(void *user, struct container *c, const struct exit_status *s, const struct error *err)
{
    struct run *r = user;
    assert_false(r->exited);
    r->exited = true;
    r->status = *s;
    r->failed = err != NULL;
    if (err)
        r->error = *err;
    r->c = NULL;
}

static const struct exec_events main_events = {
    .on_output = main_output, .on_output_end = main_output_end, .on_exit = main_exit};
static const struct container_events events = {.on_ready = on_ready, .on_exit = on_exit_};

static uv_timer_t tick;

/* Times of waiting and the shortest limits are for a machine; an emulated one (tests/kernel) sets this
 * higher. */
static unsigned patience(void)
{
    const char *text = getenv("TEST_PATIENCE");
    int n = text ? atoi(text) : 1;
    return n > 0 ? (unsigned)n : 1;
}

static void on_tick(uv_timer_t *t)
{
}

/* Runs the loop until the flag is set; the tick keeps it from sleeping past the deadline. */
static void spin(const bool *flag, unsigned seconds)
{
    uint64_t until = clock_monotonic_ns() + seconds * patience() * 1000000000ull;
    uv_timer_start(&tick, on_tick, 50, 50);
    while (!*flag && clock_monotonic_ns() < until)
        uv_run(&loop, UV_RUN_ONCE);
    uv_timer_stop(&tick);
    assert_true(*flag);
}

static void spec_init(struct start_spec *s, const char *const *argv)
{
    memset(s, 0, sizeof *s);
    s->layers = (const char *const *)image->layers;
    s->layer_count = image->layer_count;
    s->host_usr = image->host_usr;
    s->hostname = "box";
    s->main.argv = argv;
    s->main.env = default_env;
    s->main.out = s->main.err = true;
}

static void run_begin(struct run *r, const struct start_spec *s)
{
    struct error err = {0};
    memset(r, 0, sizeof *r);
    if (container_start(engine, s, &events, r, &main_events, r, &r->c, &err) < 0)
        fail_msg("start: %s", err.message);
}

static void run_free(struct run *r)
{
    buf_free(&r->out);
    buf_free(&r->err);
}

static void run_argv(struct run *r, const char *const *argv)
{
    struct start_spec s;
    spec_init(&s, argv);
    run_begin(r, &s);
    spin(&r->exited, 20);
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void job_output(void *user, struct exec *x, int fd, const uint8_t *data, size_t len)
{
    struct job *j = user;
    buf_append(fd == 2 ? &j->err : &j->out, data, len);
    exec_consumed(x, fd, len);
}

static void job_output_end(void *user, struct exec *x, int fd)
{
    struct job *j = user;
    *(fd == 2 ? &j->err_ended : &j->out_ended) = true;
}

static void job_feed(void *user, struct exec *x)
{
    struct job *j = user;
    ssize_t n;
    while (j->in_len > 0 && (n = exec_write(x, j->in, j->in_len)) > 0) {
        j->in += n;
        j->in_len -= (size_t)n;
    }
    if (j->in && j->in_len == 0) {
        exec_close_stdin(x);
        j->in = NULL;
    }
}

static void job_started(void *user, struct exec *x, int pid)
{
    struct job *j = user;
    j->started = true;
    j->pid = pid;
}

static void job_exit(void *user, struct exec *x, const struct exit_status *s, const struct error *err)
{
    struct job *j = user;
    assert_false(j->exited);
    j->exited = true;
    j->status = *s;
    j->failed = err != NULL;
    if (err)
        j->error = *err;
}

static const struct exec_events job_events = {.on_started = job_started,
                                              .on_output = job_output,
                                              .on_output_end = job_output_end,
                                              .on_writable = job_feed,
                                              .on_exit = job_exit};

static struct exec *job_begin(struct job *j, struct container *c, const struct exec_spec *given)
{
    struct exec_spec s = *given;
    struct exec *x = NULL;
    struct error err = {0};
    if (!s.env)
        s.env = default_env;
    if (container_exec(c, &s, &job_events, j, &x, &err) < 0)
        fail_msg("exec: %s", err.message);
    if (j->in)
        job_feed(j, x);
    return x;
}

static void job_free(struct job *j)
{
    buf_free(&j->out);
    buf_free(&j->err);
}

static void assert_text(struct buf *b, const char *want)
{
    assert_non_null(buf_str(b));
    assert_string_equal(buf_str(b), want);
}

/* ---- tests ---- */

static void test_true(void **state)
{
    struct run r;
    run_argv(&r, ARGV("true"));
    assert_true(r.ready);
    assert_false(r.failed);
    assert_int_equal(r.status.reason, STOP_EXIT);
    assert_int_equal(r.status.code, 0);
    run_free(&r);
}

static void test_output_and_code(void **state)
{
    struct run r;
    run_argv(&r, ARGV("sh", "-c", "printf hello; printf bad >&2; hostname; id -u; exit 7"));
    assert_text(&r.out, "hellobox\n0\n");
    assert_text(&r.err, "bad");
    assert_int_equal(r.status.code, 7);
    assert_int_equal(r.main_status.code, 7);
    run_free(&r);
}

static void test_missing_program(void **state)
{
    struct run r;
    run_argv(&r, ARGV("frobnicate-9", "--version"));
    assert_true(r.failed);
    assert_int_equal(r.status.reason, STOP_START);
    assert_int_equal(r.error.errnum, 2);
    assert_string_equal(r.error.field, "argv");
    assert_non_null(strstr(r.error.message, "frobnicate-9"));
    assert_true(r.main_failed);
    run_free(&r);
}

static void test_signal_death(void **state)
{
    struct run r;
    run_argv(&r, ARGV("sh", "-c", "kill -TERM $$"));
    assert_int_equal(r.status.reason, STOP_EXIT);
    assert_int_equal(r.status.signal, 15);
    assert_int_equal(r.status.code, 143);
    run_free(&r);
}

static void begin_sleeper(struct run *r)
{
    struct start_spec s;
    spec_init(&s, ARGV("sleep", "1000"));
    run_begin(r, &s);
    spin(&r->ready, 10);
}

static void end_sleeper(struct run *r)
{
    container_destroy(r->c, "test over");
    spin(&r->exited, 10);
    assert_int_equal(r->status.reason, STOP_DESTROY);
    assert_string_equal(r->status.detail, "test over");
    run_free(r);
}

static void test_exec(void **state)
{
    struct run r;
    begin_sleeper(&r);
    struct job j = {.in = "some text\n", .in_len = 10};
    struct exec_spec s = {.argv = ARGV("sh", "-c", "cat; echo done; pwd; exit 3"),
                          .cwd = "/tmp",
                          .in = true,
                          .out = true,
                          .err = true};
    job_begin(&j, r.c, &s);
    spin(&j.exited, 10);
    assert_text(&j.out, "some text\ndone\n/tmp\n");
    assert_int_equal(j.status.code, 3);
    assert_true(j.pid > 1);
    job_free(&j);

    struct job k = {0};
    struct exec_spec none = {.argv = ARGV("cat"), .out = true}; /* no stdin: end of file at once */
    job_begin(&k, r.c, &none);
    spin(&k.exited, 10);
    assert_int_equal(k.status.code, 0);
    job_free(&k);

    struct job m = {0};
    struct exec_spec bad_cwd = {.argv = ARGV("true"), .cwd = "/no/such"};
    job_begin(&m, r.c, &bad_cwd);
    spin(&m.exited, 10);
    assert_true(m.failed);
    assert_string_equal(m.error.field, "cwd");
    job_free(&m);
    end_sleeper(&r);
}

struct late {
    uv_prepare_t prepare;
    struct container *c;
    struct job job;
};

static void begin_late(uv_prepare_t *p)
{
    struct late *l = p->data;
    struct exec_spec s = {.argv = ARGV("true"), .out = true};
    uv_prepare_stop(p);
    job_begin(&l->job, l->c, &s);
}

/* The loop sleeps right after its prepare callbacks: what one of them asks for must be sent before. */
static void test_exec_begun_just_before_the_loop_sleeps(void **state)
{
    struct run r;
    struct late l = {.prepare.data = &l};
    begin_sleeper(&r);
    l.c = r.c;
    uint64_t quiet = clock_monotonic_ns() + 500000000ull;
    uv_timer_start(&tick, on_tick, 50, 50);
    while (clock_monotonic_ns() < quiet)
        uv_run(&loop, UV_RUN_ONCE);
    uv_prepare_init(&loop, &l.prepare);
    uv_prepare_start(&l.prepare, begin_late);
    uint64_t begin = clock_monotonic_ns();
    uv_timer_start(&tick, on_tick, 8000, 0); /* for the case that it does oversleep */
    while (!l.job.exited && clock_monotonic_ns() < begin + 8000000000ull)
        uv_run(&loop, UV_RUN_ONCE);
    uv_timer_stop(&tick);
    assert_true(l.job.exited);
    assert_true(clock_monotonic_ns() < begin + 7000000000ull);
    uv_close((uv_handle_t *)&l.prepare, NULL);
    job_free(&l.job);
    end_sleeper(&r);
}

static void test_many_execs(void **state)
{
    enum { N = 200 };
    static struct job jobs[N];
    struct run r;
    begin_sleeper(&r);
    memset(jobs, 0, sizeof jobs);
    struct exec_spec s = {.argv = ARGV("sh", "-c", "echo $$; sleep 0.2"), .out = true, .err = true};
    for (int i = 0; i < N; i++)
        job_begin(&jobs[i], r.c, &s);
    for (int i = 0; i < N; i++) {
        spin(&jobs[i].exited, 30);
        assert_int_equal(jobs[i].status.code, 0);
        assert_int_equal(atoi(buf_str(&jobs[i].out)), jobs[i].pid);
        job_free(&jobs[i]);
    }
    end_sleeper(&r);
}

static void test_big_pipe(void **state)
{
    enum { SIZE = 3000001 };
    struct run r;
    char *big = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        big[i] = (char)(i * 7 + i / 1000);
    begin_sleeper(&r);
    struct job j = {.in = big, .in_len = SIZE};
    struct exec_spec s = {.argv = ARGV("cat"), .in = true, .out = true};
    job_begin(&j, r.c, &s);
    spin(&j.out_ended, 20);
    assert_int_equal(j.out.len, SIZE);
    assert_memory_equal(j.out.data, big, SIZE);
    job_free(&j);
    free(big);
    end_sleeper(&r);
}

static void test_exec_deadline(void **state)
{
    struct run r;
    begin_sleeper(&r);
    struct job j = {0};
    uint64_t t = clock_monotonic_ns();
    struct exec_spec s = {.argv = ARGV("sh", "-c", "echo first; (setsid sleep 77 &) ; sleep 60; echo never"),
                          .out = true,
                          .err = true,
                          .timeout_ms = 500 * patience()};
    job_begin(&j, r.c, &s);
    spin(&j.exited, 10);
    assert_int_equal(j.status.reason, STOP_TIMEOUT);
    assert_text(&j.out, "first\n");
    spin(&j.out_ended, 5); /* nothing of the tree holds the pipe */
    assert_true(clock_monotonic_ns() - t < 4000000000ull * patience());
    job_free(&j);
    struct job k = {0};
    struct exec_spec ps = {.argv = ARGV("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), .out = true};
    job_begin(&k, r.c, &ps);
    spin(&k.exited, 10);
    assert_null(strstr(buf_str(&k.out), "sleep 77"));
    job_free(&k);
    end_sleeper(&r);
}

static void test_wall_limit(void **state)
{
    struct run r;
    struct start_spec s;
    spec_init(&s, ARGV("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"));
    s.limits.wall_ms = 400 * patience();
    run_begin(&r, &s);
    spin(&r.exited, 10);
    assert_int_equal(r.status.reason, STOP_TIMEOUT);
    assert_int_equal(r.main_status.reason, STOP_TIMEOUT);
    assert_text(&r.out, "up\n");
    run_free(&r);
}

static void test_memory_limit(void **state)
{
    struct run r;
    struct start_spec s;
    spec_init(&s, ARGV("python3", "-c", "import time; b=bytearray(300<<20); time.sleep(20)"));
    s.limits.memory_bytes = 64u << 20;
    run_begin(&r, &s);
    spin(&r.exited, 30);
    assert_int_equal(r.status.reason, STOP_MEMORY);
    assert_int_equal(r.status.code, 137);
    run_free(&r);
}

static void test_disk_limit(void **state)
{
    struct run r;
    struct start_spec s;
    spec_init(&s, ARGV("sh", "-c",
                       "dd if=/dev/zero of=/root/f bs=1M count=64 2>&1 | grep -o 'No space left on device'; "
                       "stat -c %s /root/f"));
    s.limits.disk_bytes = 16u << 20;
    run_begin(&r, &s);
    spin(&r.exited, 30);
    if (!engine_grade(engine)->disk_in_memory && !engine_grade(engine)->disk_in_image) {
        assert_true(r.failed); /* what cannot be kept is refused */
        assert_int_equal(r.error.kind, ERROR_UNSUPPORTED);
        run_free(&r);
        return;
    }
    assert_non_null(strstr(buf_str(&r.out), "No space left on device"));
    run_free(&r);
}

static void test_pids_limit(void **state)
{
    struct run r;
    struct start_spec s;
    spec_init(&s, ARGV("sh", "-c", "for i in $(seq 40); do sleep 5 & done 2>/dev/null; echo unreachable"));
    s.limits.pids = 20;
    run_begin(&r, &s);
    spin(&r.exited, 30);
    assert_int_not_equal(r.status.code, 0);
    assert_null(strstr(r.out.len ? buf_str(&r.out) : "", "unreachable"));
    run_free(&r);
}

static void test_freeze(void **state)
{
    struct run r;
    struct error err = {0};
    begin_sleeper(&r);
    if (engine_grade(engine)->freeze == ENFORCE_NONE) {
        assert_int_equal(container_freeze(r.c, true, &err), -1);
        assert_int_equal(err.kind, ERROR_UNSUPPORTED);
    } else {
        if (container_freeze(r.c, true, &err) < 0)
            fail_msg("%s", err.message);
        assert_int_equal(container_freeze(r.c, false, &err), 0);
    }
    end_sleeper(&r);
}

static void test_hold(void **state)
{
    struct run r;
    struct start_spec s;
    struct error err = {0};
    spec_init(&s, ARGV("cat", "/root/note"));
    s.hold = true;
    run_begin(&r, &s);
    spin(&r.ready, 10);
    struct job j = {0};
    struct exec_spec w = {.argv = ARGV("sh", "-c", "echo prepared > /root/note"), .out = true, .err = true};
    job_begin(&j, r.c, &w);
    spin(&j.exited, 10);
    assert_int_equal(j.status.code, 0);
    job_free(&j);
    assert_int_equal(container_release_main(r.c, &err), 0);
    spin(&r.exited, 10);
    assert_text(&r.out, "prepared\n");
    assert_int_equal(r.status.code, 0);
    run_free(&r);
}

static void test_destroy_while_starting(void **state)
{
    for (int i = 0; i < 5; i++) {
        struct run r;
        struct start_spec s;
        spec_init(&s, ARGV("sleep", "1000"));
        run_begin(&r, &s);
        for (int turn = 0; turn < i; turn++)
            uv_run(&loop, UV_RUN_NOWAIT);
        container_destroy(r.c, "at once");
        spin(&r.exited, 10);
        assert_int_equal(r.status.reason, STOP_DESTROY);
        assert_true(r.main_exited);
        run_free(&r);
    }
}

/* What is under way when a container dies must be told once and freed once. */
static void test_destroy_with_work(void **state)
{
    enum { EXECS = 6 };
    for (int round = 0; round < 12; round++) {
        static struct job jobs[EXECS];
        struct run r;
        begin_sleeper(&r);
        memset(jobs, 0, sizeof jobs);
        struct exec_spec s = {
            .argv = ARGV("sh", "-c", "echo x; exec cat"), .in = true, .out = true, .err = true};
        struct exec *x[EXECS];
        for (int i = 0; i < EXECS; i++) {
            x[i] = job_begin(&jobs[i], r.c, &s);
            if (i % 3 == 1)
                exec_close_stdin(x[i]);
        }
        for (int turn = 0; turn < round; turn++)
            uv_run(&loop, UV_RUN_NOWAIT);
        container_destroy(r.c, "under way");
        spin(&r.exited, 10);
        for (int i = 0; i < EXECS; i++) {
            assert_true(jobs[i].exited);
            job_free(&jobs[i]);
        }
        run_free(&r);
    }
}

static void test_large_memory(void **state)
{
    struct run r;
    struct start_spec s;
    spec_init(&s, ARGV("true"));
    s.limits.memory_bytes = (uint64_t)3 << 30; /* more than a blank begins with */
    run_begin(&r, &s);
    spin(&r.exited, 10);
    assert_int_equal(r.status.reason, STOP_EXIT);
    run_free(&r);
}

struct file_job {
    struct buf data;
    bool done, failed;
    struct error error;
    uint64_t size;
};

static void file_data(void *user, const uint8_t *data, size_t len)
{
    struct file_job *f = user;
    buf_append(&f->data, data, len);
}

static void file_done(void *user, const struct error *err, struct cbor_reader value)
{
    struct file_job *f = user;
    f->done = true;
    f->failed = err != NULL;
    if (err)
        f->error = *err;
    else
        cbor_map_uint(&value, "size", UINT64_MAX, 0, &f->size);
}

static struct fs_op *file_begin(struct file_job *f, struct container *c, const char *method, const char *path,
                                bool in, bool out)
{
    static const struct fs_events ev = {.on_data = file_data, .on_done = file_done};
    struct fs_op *op = NULL;
    struct error err = {0};
    struct buf args;
    buf_init(&args, 0);
    cbor_put_text(&args, "path");
    cbor_put_string(&args, path);
    if (container_fs(c, method, args.data, args.len, 1, in, out, &ev, f, &op, &err) < 0)
        fail_msg("%s: %s", method, err.message);
    buf_free(&args);
    return op;
}

static void test_files(void **state)
{
    struct run r;
    begin_sleeper(&r);
    struct file_job w = {0}, rd = {0}, missing = {0};
    struct fs_op *op = file_begin(&w, r.c, "fs.write", "/root/x.txt", true, false);
    assert_int_equal(fs_write(op, "content", 7), 7);
    fs_end(op);
    spin(&w.done, 10);
    assert_false(w.failed);
    assert_int_equal(w.size, 7);
    file_begin(&rd, r.c, "fs.read", "/root/x.txt", false, true);
    spin(&rd.done, 10);
    assert_false(rd.failed);
    assert_text(&rd.data, "content");
    file_begin(&missing, r.c, "fs.read", "/root/none", false, true);
    spin(&missing.done, 10);
    assert_true(missing.failed);
    assert_string_equal(error_code(&missing.error), "ENOENT");
    buf_free(&rd.data);
    end_sleeper(&r);
}

static int setup(void **state)
{
    struct error err = {0};
    static char data[80], run[80];
    /* Not /tmp by default: where that is a tmpfs, old kernels cannot map the owners of layers on it. */
    snprintf(top, sizeof top, "%s/cloister-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp");
    if (!mkdtemp(top))
        return -1;
    snprintf(data, sizeof data, "%s/data", top);
    snprintf(run, sizeof run, "%s/run", top);
    uv_loop_init(&loop);
    uv_timer_init(&loop, &tick);
    struct engine_config config = {.loop = &loop, .data_dir = data, .run_dir = run, .pool = 2};
    if (engine_open(&engine, &config, &err) < 0 || image_resolve(data, "host", &image, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return -1;
    }
    fprintf(stderr, "grade: %s\n", engine_grade(engine)->text);
    return 0;
}

static int teardown(void **state)
{
    char cmd[128];
    image_free(image);
    engine_close(engine);
    uv_close((uv_handle_t *)&tick, NULL);
    while (uv_run(&loop, UV_RUN_NOWAIT))
        ;
    int r = uv_loop_close(&loop);
    snprintf(cmd, sizeof cmd, "rm -rf %s", top);
    return system(cmd) == 0 && r == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_true),
        cmocka_unit_test(test_output_and_code),
        cmocka_unit_test(test_missing_program),
        cmocka_unit_test(test_signal_death),
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_exec_begun_just_before_the_loop_sleeps),
        cmocka_unit_test(test_many_execs),
        cmocka_unit_test(test_big_pipe),
        cmocka_unit_test(test_exec_deadline),
        cmocka_unit_test(test_wall_limit),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_disk_limit),
        cmocka_unit_test(test_pids_limit),
        cmocka_unit_test(test_freeze),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_destroy_while_starting),
        cmocka_unit_test(test_destroy_with_work),
        cmocka_unit_test(test_large_memory),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests_name("engine", tests, setup, teardown);
}
