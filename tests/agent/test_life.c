/* Ends: of trees by both mechanisms, of the main process, of the link, of memory. */
#include "harness.h"

#include "base/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Daemonises twice over: double fork, new sessions, ignored signals, no parent left. */
#define DAEMONS                                                                                              \
    "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM HUP; (setsid sleep 4242 &) ; sleep 4242' &) ;"      \
    "(setsid sh -c 'while :; do (setsid sleep 4242 & ) ; sleep 0.01; done' &) ; "

static int count_sleepers(struct box *b)
{
    char *text = sh(b, "ps -eo args= | grep -c '^sleep 4242' || true");
    int n = atoi(text);
    free(text);
    return n;
}

static void kill_tree(struct box *b, struct run *r)
{
    struct answer a;
    box_call(b, r->proc.cap, "killTree", NULL, &a);
    if (a.failed)
        fail_msg("killTree: %s", a.err.message);
    answer_free(&a);
}

static void tree_is_killed(bool cgroup)
{
    struct box_options options = {.cgroup = cgroup};
    struct box *b = box_started(&options);
    struct run other = {.argv = {"sleep", "4242"}};
    assert_true(run_start(b, &other));
    struct run r = {.argv = {"sh", "-c", DAEMONS "sleep 100"}, .tree = true};
    assert_true(run_start(b, &r));
    box_run(b, 300);
    assert_true(count_sleepers(b) > 5);
    kill_tree(b, &r);
    box_run(b, 50);
    assert_int_equal(count_sleepers(b), 1); /* whoever is not of the tree lives on */
    assert_true(run_wait(b, &r, 2000));
    assert_int_equal(r.proc.signal, SIGKILL);
    kill_tree(b, &r); /* again: nothing to do */
    run_free(&r);
    /* the leader has ended, its daemons have not */
    struct run gone = {.argv = {"sh", "-c", DAEMONS "exit 7"}, .tree = true};
    assert_true(run_start(b, &gone));
    assert_true(run_wait_only(b, &gone, 2000));
    assert_int_equal(gone.proc.code, 7);
    box_run(b, 100);
    assert_true(count_sleepers(b) > 2);
    kill_tree(b, &gone);
    box_run(b, 50);
    assert_int_equal(count_sleepers(b), 1);
    run_free(&gone);
    box_free(b);
}

static void tree_by_cgroup(void **state)
{
    (void)state;
    tree_is_killed(true);
}

static void tree_by_supervisor(void **state)
{
    (void)state;
    tree_is_killed(false);
}

static void tree_ordinary_life(bool cgroup)
{
    struct box_options options = {.cgroup = cgroup};
    struct box *b = box_started(&options);
    for (int i = 0; i < 5; i++) {
        struct run r = {
            .argv = {"sh", "-c", "read x; echo $x; exit 5"}, .tree = true, .input = "in\n", .input_len = 3};
        assert_true(run_start(b, &r));
        assert_true(r.proc.pid > 1);
        assert_true(run_wait(b, &r, 3000));
        assert_int_equal(r.proc.code, 5);
        assert_string_equal(buf_str(&r.out.bytes), "in\n");
        run_free(&r);
    }
    struct run bad = {.argv = {"no-such-program"}, .tree = true, .input = "x", .input_len = 1};
    assert_false(run_start(b, &bad));
    assert_string_equal(error_code(&bad.start.err), "ENOENT");
    assert_string_equal(bad.start.err.field, "argv");
    assert_true(box_until(b, &bad.out.ended, 1000));
    run_free(&bad);
    struct run term = {.argv = {"sleep", "100"}, .tree = true};
    struct buf args;
    struct answer a;
    assert_true(run_start(b, &term));
    buf_init(&args, 0);
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "signal");
    cbor_put_uint(&args, SIGTERM);
    box_call(b, term.proc.cap, "kill", &args, &a);
    assert_true(run_wait(b, &term, 2000));
    assert_int_equal(term.proc.signal, SIGTERM);
    run_free(&term);
    box_run(b, 150);
    char *text = sh(b, "ps -eo comm= | grep -c cloister-init");
    assert_string_equal(text, "1\n"); /* no supervisor is left over */
    free(text);
    struct run plain = {.argv = {"sleep", "100"}};
    assert_true(run_start(b, &plain));
    box_call(b, plain.proc.cap, "killTree", NULL, &a);
    assert_true(a.failed);
    assert_string_equal(a.err.field, "tree");
    run_free(&plain);
    box_free(b);
}

static void tree_ordinary_by_cgroup(void **state)
{
    (void)state;
    tree_ordinary_life(true);
}

static void tree_ordinary_by_supervisor(void **state)
{
    (void)state;
    tree_ordinary_life(false);
}

static void tree_terminal(void **state)
{
    (void)state;
    struct box *b = box_started(NULL);
    struct run r = {
        .argv = {"sh", "-c", "stty size; sleep 0.1"}, .tree = true, .pty = true, .cols = 33, .rows = 44};
    assert_true(run_start(b, &r));
    assert_true(run_wait(b, &r, 3000));
    assert_string_equal(buf_str(&r.out.bytes), "44 33\r\n");
    run_free(&r);
    box_free(b);
}

/* The tree kills its own supervisor to get loose, and stops it to make us wait. */
static void supervisor_attacked(void **state)
{
    (void)state;
    static const char *const attacks[] = {"kill -9 $PPID; ", "kill -STOP $PPID; "};
    struct box *looked = box_started(NULL);
    struct run look = {
        .argv = {"sh", "-c",
                 "cat /proc/$PPID/environ /proc/$PPID/maps || ls -l /proc/$PPID/fd/ | grep -- '->'"},
        .tree = true};
    assert_true(run_start(looked, &look));
    assert_true(run_wait(looked, &look, 2000));
    assert_int_equal(look.out.total, 0); /* nothing of it can be read */
    run_free(&look);
    box_free(looked);
    for (size_t i = 0; i < 2; i++) {
        struct box *b = box_started(NULL);
        char script[512];
        snprintf(script, sizeof script, "%s%s sleep 4242", attacks[i], DAEMONS);
        struct run r = {.argv = {"sh", "-c", script}, .tree = true};
        if (run_start(b, &r)) {
            box_run(b, 200);
            kill_tree(b, &r);
            assert_true(run_wait_only(b, &r, 3000));
            assert_int_equal(r.proc.signal, SIGKILL);
        } else { /* it was killed before it could say that the program runs */
            assert_string_equal(error_code(&r.start.err), "GONE");
            box_run(b, 300);
        }
        box_run(b, 50);
        assert_int_equal(count_sleepers(b), 0);
        run_free(&r);
        box_free(b);
    }
}

/* Somebody inside stops whatever he finds, without end: programs that are being started, helpers of the
 * agent. */
static void stopped_all_the_time(void **state)
{
    (void)state;
    struct box *b = box_started(NULL);
    struct run r = {
        .argv = {"python3", "-c",
                 "import os, signal\nprint(1, flush=True)\nwhile True: os.kill(-1, signal.SIGSTOP)"}};
    assert_true(run_start(b, &r));
    for (int i = 0; i < 200 && !r.out.total; i++)
        box_run(b, 10);
    /* Each start is answered: started, or refused after 5 seconds because it was stopped all the time. On a
     * busy machine many take that long; then fewer are enough. */
    uint64_t begin = clock_monotonic_ns();
    for (int i = 0; i < 4 || (i < 20 && clock_monotonic_ns() - begin < 10000000000u); i++) {
        uint64_t round = clock_monotonic_ns();
        struct run t = {.argv = {"true"}, .tree = i % 2};
        run_start(b, &t);
        assert_true(clock_monotonic_ns() - round < 8000000000u);
        run_free(&t);
        struct answer a;
        box_call(b, 0, "ping", NULL, &a);
        assert_false(a.failed);
        answer_free(&a);
    }
    struct buf args;
    struct answer a;
    buf_init(&args, 0);
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "signal");
    cbor_put_uint(&args, SIGKILL);
    box_call(b, r.proc.cap, "kill", &args, &a);
    assert_false(a.failed);
    assert_true(run_wait_only(b, &r, 3000));
    run_free(&r);
    free(sh(b, "true"));
    box_free(b);
}

/* A lease makes the kernel hold whoever runs the program, for up to 45 seconds. */
static void leased_program(void **state)
{
    (void)state;
    struct box *b = box_started(NULL);
    free(sh(b, "cp /bin/true /leased; chmod 755 /leased"));
    struct run holder = {
        .argv = {"python3", "-c",
                 "import fcntl, os, signal, time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n"
                 "f = os.open('/leased', os.O_RDWR)\n"
                 "fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint(1, flush=True)\ntime.sleep(60)"},
        .combined = true};
    assert_true(run_start(b, &holder));
    for (int i = 0; i < 200 && !holder.out.total; i++)
        box_run(b, 10);
    uint64_t begin = clock_monotonic_ns();
    struct run t = {.argv = {"/leased"}};
    run_start(b, &t); /* whatever comes of it (file systems differ), the agent is not held */
    assert_true(clock_monotonic_ns() - begin < 8000000000u);
    run_free(&t);
    free(sh(b, "true"));
    run_free(&holder);
    box_free(b);
}

static void main_ends_everything(void **state)
{
    (void)state;
    struct box_options options = {.main_argv = {"sh", "-c", "(setsid sleep 4242 &); sleep 0.3; exit 9"}};
    struct box *b = box_started(&options);
    struct run r = {.argv = {"sh", "-c", "trap '' TERM; echo alive; sleep 4242"}};
    assert_true(run_start(b, &r));
    struct run main_run = {.argv = {"main"}, .proc = box_main(b)};
    main_run.proc.code = -1;
    assert_true(run_wait_only(b, &main_run, 3000));
    assert_int_equal(main_run.proc.code, 9);
    assert_true(box_until(b, &r.out.ended, 2000));
    assert_string_equal(buf_str(&r.out.bytes), "alive\n");
    for (int i = 0; i < 200 && !box_exited(b); i++)
        box_run(b, 10);
    assert_true(box_exited(b));
    sink_free(&r.out);
    answer_free(&r.start);
    box_free(b);
}

/* The host asks for the end after it happened: the agent waits with its own. */
static void late_wait(void **state)
{
    (void)state;
    struct box_options options = {.main_argv = {"sh", "-c", "exit 6"}};
    struct box *b = box_started(&options);
    box_run(b, 300);
    assert_false(box_exited(b));
    struct run late = {.argv = {"true"}};
    assert_false(run_start(b, &late)); /* nothing new is started */
    assert_string_equal(error_code(&late.start.err), "WRONG_STATE");
    run_free(&late);
    struct run main_run = {.argv = {"main"}, .proc = box_main(b)};
    assert_true(run_wait_only(b, &main_run, 3000));
    assert_int_equal(main_run.proc.code, 6);
    for (int i = 0; i < 200 && !box_exited(b); i++)
        box_run(b, 10);
    assert_true(box_exited(b));
    box_free(b);
}

/* "start" without a main process, files put in place, then "main". */
static void held_until_main(void **state)
{
    (void)state;
    struct box_options options = {.held = true};
    struct box *b = box_started(&options);
    free(sh(b, "echo ready > /tmp/ready"));
    static const char *const argv[] = {"sh", "-c", "test -f /tmp/ready && exit 3"};
    struct answer a;
    struct buf args;
    buf_init(&args, 0);
    cbor_put_map(&args, 1);
    cbor_put_text(&args, "argv");
    cbor_put_array(&args, 3);
    for (int i = 0; i < 3; i++)
        cbor_put_text(&args, argv[i]);
    box_call(b, 0, "main", &args, &a);
    assert_false(a.failed);
    struct cbor_reader m, v;
    struct run r = {.argv = {"main"}};
    cbor_reader_init(&m, a.value.data, a.value.len);
    assert_true(cbor_map_find(&m, "process", &v) && link_get_capability(&v, &r.proc.cap) == 0);
    answer_free(&a);
    box_call(b, 0, "main", NULL, &a); /* only one */
    assert_true(a.failed);
    assert_string_equal(error_code(&a.err), "WRONG_STATE");
    assert_true(run_wait_only(b, &r, 3000));
    assert_int_equal(r.proc.code, 3);
    for (int i = 0; i < 200 && !box_exited(b); i++)
        box_run(b, 10);
    assert_true(box_exited(b));
    box_free(b);
}

static void main_output_is_whole(void **state)
{
    (void)state;
    struct box_options options = {.main_argv = {"sh", "-c", "seq 1 300000"}};
    struct box *b = box_new(&options);
    struct sink out;
    struct answer a;
    box_set_main_stdout(b, sink_open(b, &out, true));
    assert_true(box_start(b, &a));
    answer_free(&a);
    struct run main_run = {.argv = {"main"}, .proc = box_main(b)};
    assert_true(run_wait_only(b, &main_run, 10000));
    assert_true(box_until(b, &out.ended, 3000));
    assert_false(out.reset);
    assert_int_equal(out.total, 1988895);
    assert_memory_equal(out.bytes.data + out.bytes.len - 7, "300000\n", 7);
    sink_free(&out);
    box_free(b);
}

static void memory_watch(void **state)
{
    (void)state;
    struct box_options options = {.memory_watch = 96u << 20};
    struct box *b = box_started(&options);
    struct run small = {.argv = {"python3", "-c", "x = b'x' * (16 << 20); print(len(x))"}};
    assert_true(run_start(b, &small));
    assert_true(run_wait(b, &small, 5000));
    assert_int_equal(small.proc.code, 0);
    run_free(&small);
    struct run r = {
        .argv = {"python3", "-c", "x = bytearray(b'x' * (256 << 20)); import time; time.sleep(30)"}};
    assert_true(run_start(b, &r));
    struct answer a;
    struct proc main_process = box_main(b);
    box_call(b, main_process.cap, "wait", NULL, &a);
    struct cbor_reader m, v;
    bool limit = false;
    cbor_reader_init(&m, a.value.data, a.value.len);
    assert_true(cbor_map_find(&m, "memoryLimit", &v) && cbor_get_bool(&v, &limit) == 0 && limit);
    answer_free(&a);
    sink_free(&r.out);
    answer_free(&r.start);
    box_free(b);
}

static void open_files_limit(void **state)
{
    (void)state;
    struct box_options options = {.open_files = 77};
    struct box *b = box_started(&options);
    char *text = sh(b, "ulimit -Sn; ulimit -Hn");
    assert_string_equal(text, "77\n77\n");
    free(text);
    box_free(b);
}

/* box_free() checks that the agent, and with it the container, ends when the link does. */
static void link_loss_ends_everything(void **state)
{
    (void)state;
    struct box *b = box_started(NULL);
    struct run r = {.argv = {"sh", "-c", DAEMONS "sleep 4242"}};
    assert_true(run_start(b, &r));
    box_run(b, 100);
    sink_free(&r.out);
    answer_free(&r.start);
    box_free(b);
    struct box *never_started = box_new(NULL);
    box_free(never_started);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_by_cgroup),
        cmocka_unit_test(tree_by_supervisor),
        cmocka_unit_test(tree_ordinary_by_cgroup),
        cmocka_unit_test(tree_ordinary_by_supervisor),
        cmocka_unit_test(tree_terminal),
        cmocka_unit_test(supervisor_attacked),
        cmocka_unit_test(stopped_all_the_time),
        cmocka_unit_test(leased_program),
        cmocka_unit_test(main_ends_everything),
        cmocka_unit_test(late_wait),
        cmocka_unit_test(held_until_main),
        cmocka_unit_test(main_output_is_whole),
        cmocka_unit_test(memory_watch),
        cmocka_unit_test(open_files_limit),
        cmocka_unit_test(link_loss_ends_everything),
    };
    return cmocka_run_group_tests_name("agent life", tests, NULL, NULL);
}
