/* Every allocation of an exchange between two ends fails once, and from then on all of them. Whatever fails:
 * nothing crashes or leaks (a sanitizer watches), every call that was taken gets exactly one answer, every
 * stream one end, every export one drop. */
#include "link_testing.h"

#include <stdio.h>
#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);

static unsigned long allocations, fail_at; /* 0: never */
static bool fail_for_ever, armed;

static bool fails(void)
{
    if (!armed || !fail_at)
        return false;
    allocations++;
    return allocations == fail_at || (fail_for_ever && allocations > fail_at);
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
    return fails() ? NULL : __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

struct count {
    unsigned opened, ended, asked, answered, exported, dropped;
    struct link *guest;
};

static void on_data(void *user, uint32_t id, const uint8_t *data, size_t len)
{
}

static void on_end(void *user, uint32_t id)
{
    ((struct count *)user)->ended++;
}

static void on_reset(void *user, uint32_t id, const struct error *why)
{
    assert_int_not_equal(why->kind, ERROR_NONE);
    ((struct count *)user)->ended++;
}

static const struct link_stream_ops stream_ops = {on_data, on_end, on_reset, NULL};

static void on_drop(void *user)
{
    ((struct count *)user)->dropped++;
}

static void on_call(void *user, struct link_call *call, const char *method, struct cbor_reader args);
static const struct link_object_ops ops = {on_call, on_drop};

static void on_call(void *user, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct count *n = user;
    struct error err = {0};
    struct buf b;
    uint64_t id;
    buf_init(&b, 0);
    if (cbor_get_uint(&args, UINT32_MAX, &id) == 0) {
        if (link_stream_open_receive(n->guest, (uint32_t)id, &stream_ops, n, &err) == 0)
            n->opened++;
    } else {
        error_set(&err, ERROR_INVALID, "no stream");
    }
    if (err.kind)
        link_throw(call, &err);
    else if (link_put_capability(n->guest, &b, &ops, n)) {
        n->exported++;
        link_return(call, b.data, b.len);
    } else {
        link_throw(call, NULL);
    }
    buf_free(&b);
}

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    ((struct count *)user)->answered++;
}

/* As pump(), but lets a link die, and carries in small pieces, so that frames come apart. */
static void carry(struct link *from, struct link *to)
{
    struct iovec iov;
    while (link_output(from, &iov, 1) > 0) {
        size_t len = iov.iov_len < 700 ? iov.iov_len : 700;
        link_receive(to, iov.iov_base, len, NULL);
        link_sent(from, len);
    }
}

static void exchange(struct link *host, struct link *guest, struct count *n)
{
    static const uint8_t bytes[5000];
    for (int i = 0; i < 12; i++) {
        uint32_t id = link_stream_new(host);
        bool opened = id && link_stream_open_send(host, id, &stream_ops, n, NULL) == 0;
        n->opened += opened;
        uint8_t args[2] = {0x18, (uint8_t)id};
        n->asked += link_call(host, 0, "m", id < 24 ? args + 1 : args, id < 24 ? 1 : 2, on_answer, n) != 0;
        n->asked += link_call(host, 0, "n", NULL, 0, on_answer, n) != 0;
        carry(host, guest);
        if (opened && link_stream_writable(host, id) >= sizeof bytes) {
            link_stream_write(host, id, bytes, sizeof bytes);
            if (i % 2 && link_alive(host)) {
                n->ended++;
                link_stream_end(host, id);
            }
        }
        link_log(guest, 1, 2, "text");
        carry(host, guest);
        carry(guest, host);
    }
}

/* False once `fail_at` lies beyond the last allocation. */
static bool run(void)
{
    struct count n = {0};
    allocations = 0;
    armed = true;
    struct link *host = link_new(&(struct link_config){.side = LINK_HOST});
    struct link *guest =
        link_new(&(struct link_config){.side = LINK_GUEST, .bootstrap = &ops, .bootstrap_object = &n});
    n.guest = guest;
    if (host && guest)
        exchange(host, guest, &n);
    armed = false;
    link_free(host);
    link_free(guest);
    assert_int_equal(n.answered, n.asked);
    assert_int_equal(n.dropped, n.exported);
    assert_int_equal(n.ended, n.opened);
    return allocations >= fail_at;
}

static void one_allocation_fails(void **state)
{
    fail_for_ever = false;
    for (fail_at = 1; run(); fail_at++)
        ;
    assert_true(fail_at > 100);
}

static void all_later_allocations_fail(void **state)
{
    fail_for_ever = true;
    for (fail_at = 1; run(); fail_at++)
        ;
    assert_true(fail_at > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_allocation_fails),
        cmocka_unit_test(all_later_allocations_fail),
    };
    return cmocka_run_group_tests_name("link_oom", tests, NULL, NULL);
}
