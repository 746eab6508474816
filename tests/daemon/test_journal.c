/* The output journal: head, tail, cursors, what is dropped, and the acknowledgements that make backpressure.
 */
#include "daemon/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Byte number `at` of the test stream. */
static uint8_t byte_at(uint64_t at)
{
    return (uint8_t)(at * 31 + at / 251);
}

static size_t append(struct journal *j, size_t len, bool block)
{
    uint8_t *data = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        data[i] = byte_at(j->total + i);
    size_t acked = journal_append(j, data, len, block);
    free(data);
    return acked;
}

/* Reads everything kept from `cursor` on; returns the bytes read and adds up what was lost. */
static uint64_t read_all(const struct journal *j, uint64_t cursor, uint64_t *lost)
{
    uint64_t got = 0, gap;
    const uint8_t *p = NULL;
    size_t n;
    *lost = 0;
    for (;;) {
        n = journal_peek(j, &cursor, &p, &gap);
        *lost += gap;
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], byte_at(cursor + i));
        cursor += n;
        got += n;
    }
    assert_int_equal(cursor, j->total);
    return got;
}

static void test_small(void **state)
{
    struct journal j;
    uint64_t lost;
    journal_init(&j, 100, 100);
    assert_int_equal(append(&j, 60, false), 60);
    assert_int_equal(read_all(&j, 0, &lost), 60);
    assert_int_equal(lost, 0);
    assert_int_equal(append(&j, 140, false), 140);
    assert_int_equal(read_all(&j, 0, &lost), 200);
    assert_int_equal(read_all(&j, 150, &lost), 50);
    assert_int_equal(read_all(&j, 200, &lost), 0);
    assert_int_equal(j.dropped, 0);
    journal_free(&j);
}

static void test_drop_keeps_head_and_tail(void **state)
{
    struct journal j;
    uint64_t lost;
    journal_init(&j, 100, 50);
    for (int i = 0; i < 100; i++)
        assert_int_equal(append(&j, 37, false), 37);
    assert_int_equal(j.total, 3700);
    assert_int_equal(read_all(&j, 0, &lost), 150);
    assert_int_equal(lost, 3550);
    assert_int_equal(j.dropped, 3550);
    assert_int_equal(read_all(&j, 1000, &lost), 50);
    assert_int_equal(lost, 2650);
    journal_free(&j);
}

static void test_one_huge_append(void **state)
{
    struct journal j;
    uint64_t lost;
    journal_init(&j, 100, 50);
    assert_int_equal(append(&j, 1000000, false), 1000000);
    assert_int_equal(read_all(&j, 0, &lost), 150);
    assert_int_equal(lost, 999850);
    assert_true(journal_memory(&j) < 10000);
    journal_free(&j);
}

static void test_no_tail(void **state)
{
    struct journal j;
    uint64_t lost;
    journal_init(&j, 10, 0);
    append(&j, 25, false);
    assert_int_equal(read_all(&j, 0, &lost), 10);
    assert_int_equal(lost, 15);
    assert_int_equal(j.dropped, 15);
    journal_free(&j);
}

static void test_block_withholds(void **state)
{
    struct journal j;
    uint64_t lost;
    journal_init(&j, 100, 50);
    assert_int_equal(append(&j, 150, true), 150);
    assert_int_equal(append(&j, 30, true), 0); /* full: kept, not acknowledged */
    assert_int_equal(append(&j, 20, true), 0);
    assert_int_equal(read_all(&j, 0, &lost), 200);
    assert_int_equal(journal_read_to(&j, 120, true), 20);
    assert_int_equal(journal_read_to(&j, 200, true), 30);
    assert_int_equal(append(&j, 40, true), 40);
    assert_int_equal(j.dropped, 0);
    /* what was read before is kept as far as there is room */
    assert_int_equal(read_all(&j, 190, &lost), 50);
    assert_int_equal(lost, 0);
    journal_free(&j);
}

static void test_letting_go(void **state)
{
    struct journal j;
    uint64_t lost;
    journal_init(&j, 10, 20);
    append(&j, 30, true);
    assert_int_equal(append(&j, 500, true), 0);
    assert_int_equal(journal_read_to(&j, 0, false), 500);
    assert_int_equal(read_all(&j, 0, &lost), 30);
    assert_int_equal(lost, 500);
    assert_int_equal(j.dropped, 500);
    journal_free(&j);
}

static void test_slack_is_bounded(void **state)
{
    struct journal j;
    uint64_t lost;
    journal_init(&j, 10, 20);
    for (int i = 0; i < 40; i++)
        append(&j, 100000, true); /* a producer that ignores its credit */
    assert_true(journal_memory(&j) <= 4 * JOURNAL_SLACK);
    assert_int_equal(read_all(&j, 0, &lost), 10 + 20 + JOURNAL_SLACK);
    journal_free(&j);
}

static void test_copy(void **state)
{
    struct journal j;
    uint8_t to[64];
    journal_init(&j, 10, 16);
    append(&j, 10 + 16, false);
    assert_int_equal(journal_copy(&j, 5, to, 12), 12); /* over the seam of head and tail */
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(to[i], byte_at(5 + i));
    append(&j, 7, false);
    assert_int_equal(journal_copy(&j, 17, to, 64), 16); /* over the seam of the ring */
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(to[i], byte_at(17 + i));
    assert_int_equal(journal_copy(&j, 5, to, 64), 5); /* never over what was lost */
    journal_free(&j);
}

/* Random appends, reads and changes of mode against what must always hold. */
static void check_random(unsigned seed)
{
    struct journal j;
    uint64_t produced = 0, acked = 0, cursor = 0, seen = 0, skipped = 0;
    bool block = true, ever_dropping = false;
    size_t head = (size_t)(rand_r(&seed) % 300), tail = 1 + (size_t)(rand_r(&seed) % 300), window = 500;
    journal_init(&j, head, tail);
    for (int step = 0; step < 400; step++) {
        size_t credit = (size_t)(window - (produced - acked)), want = (size_t)(rand_r(&seed) % 400);
        if (want > credit)
            want = credit; /* an honest producer */
        if (want) {
            acked += append(&j, want, block);
            produced += want;
        }
        if (rand_r(&seed) % 3 == 0) {
            const uint8_t *p = NULL;
            uint64_t gap;
            size_t n = journal_peek(&j, &cursor, &p, &gap);
            skipped += gap;
            n = n ? 1 + (size_t)rand_r(&seed) % n : 0;
            for (size_t i = 0; i < n; i++)
                assert_int_equal(p[i], byte_at(cursor + i));
            cursor += n;
            seen += n;
            acked += journal_read_to(&j, cursor, block);
        }
        if (rand_r(&seed) % 50 == 0) {
            block = !block;
            ever_dropping |= !block;
            acked += journal_read_to(&j, cursor, block);
        }
        assert_true(acked <= produced);
        assert_int_equal(cursor, seen + skipped);
        assert_true(block || acked == produced);
        assert_true(j.ring_len <= tail + window);
        if (!ever_dropping)
            assert_int_equal(skipped + j.dropped, 0);
    }
    /* a reader that reads all gets the producer going again */
    acked += journal_read_to(&j, j.total, block);
    assert_int_equal(acked, produced);
    journal_free(&j);
}

static void test_random(void **state)
{
    for (unsigned seed = 1; seed <= 200; seed++)
        check_random(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_drop_keeps_head_and_tail),
        cmocka_unit_test(test_one_huge_append),
        cmocka_unit_test(test_no_tail),
        cmocka_unit_test(test_block_withholds),
        cmocka_unit_test(test_letting_go),
        cmocka_unit_test(test_slack_is_bounded),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
