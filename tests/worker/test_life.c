/* A worker's life: forked, asked, answering, ending. */
#include "harness.h"

#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct zygote_process zygote;

static int open_zygote(void **state)
{
    (void)state;
    zygote_open(&zygote);
    return 0;
}

static int close_zygote(void **state)
{
    (void)state;
    zygote_close(&zygote);
    return 0;
}

static void answers_http_requests(void **state)
{
    (void)state;
    struct peer p;
    struct answer a;
    struct buf args;
    peer_open(&p, &zygote, NULL, NULL);
    buf_init(&args, 0);
    cbor_put_map(&args, 3);
    cbor_put_text(&args, "method");
    cbor_put_text(&args, "GET");
    cbor_put_text(&args, "url");
    cbor_put_text(&args, "http://localhost/");
    cbor_put_text(&args, "headers");
    cbor_put_text(&args, "host\nlocalhost");
    peer_call(&p, "fetch", &args, &a);
    assert_int_equal(a.err.kind, ERROR_NONE);
    struct cbor_reader r;
    uint64_t status;
    cbor_reader_init(&r, a.value.data, a.value.len);
    assert_int_equal(cbor_map_uint(&r, "status", 999, 0, &status), 0);
    assert_int_equal(status, 200);
    answer_free(&a);
    buf_free(&args);
    peer_close(&p);
    assert_true(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 0);
}

static void evaluates_and_runs_microtasks(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(peer_eval(&p, 100, "1 + 1"), "2");
    assert_string_equal(peer_eval(&p, 100, "(async () => { await null; return 'later'; })()"), "later");
    assert_string_equal(peer_eval(&p, 100, "throw new RangeError('x')"), "!INTERNAL: RangeError: x");
    assert_string_equal(peer_eval(&p, 100, "typeof SharedArrayBuffer + typeof Atomics"),
                        "undefinedundefined");
    peer_close(&p);
}

static void leaves_nothing_to_the_next(void **state)
{
    (void)state;
    struct peer a, b;
    peer_open(&a, &zygote, NULL, NULL);
    peer_eval(&a, 100, "globalThis.secret = 1; Array.prototype.extra = 1; T.events.push(1)");
    peer_open(&b, &zygote, NULL, NULL);
    assert_string_equal(peer_eval(&b, 100, "typeof secret + typeof [].extra + T.events.length + T.started"),
                        "undefinedundefined01");
    peer_close(&a);
    peer_close(&b);
}

static void is_killed_through_its_pidfd(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, &zygote, NULL, NULL);
    assert_string_equal(peer_eval(&p, 0, "1"), "1");
    assert_int_equal(syscall(SYS_pidfd_send_signal, p.pidfd, SIGKILL, NULL, 0), 0);
    int status = peer_wait_end(&p);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    peer_close(&p);
}

static void ends_when_the_daemon_breaks_the_link(void **state)
{
    (void)state;
    struct peer p;
    static const char nonsense[64] = "this is no frame";
    peer_open(&p, &zygote, NULL, NULL);
    assert_int_equal(write(p.fd, nonsense, sizeof nonsense), sizeof nonsense);
    int status = peer_wait_end(&p);
    assert_int_equal(status, 73 << 8);
    peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_http_requests),
        cmocka_unit_test(evaluates_and_runs_microtasks),
        cmocka_unit_test(leaves_nothing_to_the_next),
        cmocka_unit_test(is_killed_through_its_pidfd),
        cmocka_unit_test(ends_when_the_daemon_breaks_the_link),
    };
    return cmocka_run_group_tests(tests, open_zygote, close_zygote);
}
