/* What the tar readers and writers have in common. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/ustar.h"

#include <string.h>

static void padding_fills_the_block(void **state)
{
    assert_int_equal(ustar_padding(0), 0);
    assert_int_equal(ustar_padding(1), 511);
    assert_int_equal(ustar_padding(512), 0);
    assert_int_equal(ustar_padding(513), 511);
    assert_int_equal(ustar_padding(UINT64_C(1) << 40), 0);
}

static void a_header_is_sealed(void **state)
{
    struct ustar h;
    ustar_init(&h, "name", '0', 1234);
    assert_false(ustar_is_sealed(&h));
    ustar_seal(&h);
    assert_true(ustar_is_sealed(&h));
    assert_memory_equal(h.size, "00000002322", 12);
    assert_memory_equal(h.magic, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof h; i++) {
        uint8_t *byte = (uint8_t *)&h + i;
        if (i >= offsetof(struct ustar, checksum) && i < offsetof(struct ustar, type))
            continue;
        (*byte)++;
        assert_false(ustar_is_sealed(&h));
        (*byte)--;
    }
    assert_true(ustar_is_sealed(&h));
}

/* Old writers summed signed bytes. */
static void a_signed_sum_is_right_too(void **state)
{
    struct ustar h;
    ustar_init(&h, "\xe9t\xe9", '0', 0);
    ustar_seal(&h);
    uint64_t sum;
    assert_true(ustar_number(h.checksum, sizeof h.checksum, &sum));
    ustar_put_number(h.checksum, 7, sum - 2 * 256);
    assert_true(ustar_is_sealed(&h));
    ustar_put_number(h.checksum, 7, sum - 256);
    assert_false(ustar_is_sealed(&h));
}

static void numbers_are_read(void **state)
{
    static const struct {
        const char *field;
        bool valid;
        uint64_t value;
    } cases[] = {
        {"0000644\0", true, 0644},
        {"   644 \0", true, 0644},
        {"\0\0\0\0\0\0\0\0", true, 0},
        {"77777777", true, 077777777},
        {"00006x4\0", false, 0},
        {"0000649\0", false, 0},
        {"-000644\0", false, 0},
        {"\x80\0\0\0\0\0\1\0", true, 256},
        {"\xff\xff\xff\xff\xff\xff\xff\xff", false, 0}, /* -1 */
        {"\x81\0\0\0\0\0\0\0", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t v = 99;
        assert_int_equal(ustar_number(cases[i].field, 8, &v), cases[i].valid);
        assert_int_equal(v, cases[i].valid ? cases[i].value : 99);
    }
    uint64_t v;
    assert_true(ustar_number("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12, &v));
    assert_int_equal(v, INT64_MAX);
    assert_false(ustar_number("\x80\0\0\1\0\0\0\0\0\0\0\0", 12, &v));
}

static void what_does_not_fit_becomes_zero(void **state)
{
    char field[12];
    ustar_put_number(field, sizeof field, USTAR_MAX_LONG);
    assert_memory_equal(field, "77777777777", 12);
    ustar_put_number(field, sizeof field, USTAR_MAX_LONG + 1);
    assert_memory_equal(field, "00000000000", 12);
    ustar_put_number(field, 8, USTAR_MAX_ID + 1);
    assert_memory_equal(field, "0000000", 8);
}

static void names_fill_their_fields(void **state)
{
    struct ustar h;
    char name[USTAR_NAME_MAX], long_name[120];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    ustar_init(&h, long_name, '0', 0);
    assert_int_equal(ustar_name(&h, name), 100);
    memset(h.prefix, 'p', sizeof h.prefix);
    assert_int_equal(ustar_name(&h, name), 256);
    assert_int_equal(name[154], 'p');
    assert_int_equal(name[155], '/');
    assert_int_equal(name[156], 'n');
    assert_int_equal(name[256], '\0');
    memcpy(h.magic, "ustar ", 6); /* GNU's own form keeps other things there */
    assert_int_equal(ustar_name(&h, name), 100);
}

static void records_come_back(void **state)
{
    struct buf b;
    struct pax_record r;
    char value[1024];
    buf_init(&b, 0);
    /* Every length around those where the number of digits changes. */
    for (size_t len = 0; len < sizeof value; len++) {
        memset(value, 'v', len);
        buf_clear(&b);
        pax_put(&b, "key", value, len);
        const char *p = (const char *)b.data;
        size_t left = b.len;
        assert_int_equal(pax_next(&p, &left, &r), 1);
        assert_true(pax_key_is(&r, "key"));
        assert_int_equal(r.len, len);
        assert_memory_equal(r.value, value, len);
        assert_int_equal(pax_next(&p, &left, &r), 0);
    }
    buf_free(&b);
}

static void malformed_records_are_refused(void **state)
{
    static const char *const bad[] = {
        "x",
        "8 a=b\n",
        "5 a=b\n",
        "0 a=b\n",
        "6 a=b ",
        "6 abcd",
        "6 abc\n",
        "-6 a=b\n",
        "+6 a=b\n",
        "3 \n",
        "999999999999999999999999 a=b\n",
        "6a a=b\n",
        " 6 a=b\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pax_record r;
        const char *p = bad[i];
        size_t left = strlen(p);
        assert_int_equal(pax_next(&p, &left, &r), -1);
    }
}

static void times_come_back(void **state)
{
    static const struct timespec times[] = {
        {0, 0}, {0, 1}, {1700000000, 123456789}, {-1, 750000000}, {-1, 0}, {-5, 1}, {8589934592, 0},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct buf b;
        struct pax_record r;
        struct timespec t;
        buf_init(&b, 0);
        pax_put_time(&b, "mtime", &times[i]);
        const char *p = (const char *)b.data;
        size_t left = b.len;
        assert_int_equal(pax_next(&p, &left, &r), 1);
        assert_true(pax_time(&r, &t));
        assert_int_equal(t.tv_sec, times[i].tv_sec);
        assert_int_equal(t.tv_nsec, times[i].tv_nsec);
        buf_free(&b);
    }
    static const char *const bad[] = {"", "-", ".5", "1.x", "1e3", " 1", "99999999999999999", "1.0.0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct timespec t;
        struct pax_record r = {.value = bad[i], .len = strlen(bad[i])};
        assert_false(pax_time(&r, &t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_fills_the_block),
        cmocka_unit_test(a_header_is_sealed),
        cmocka_unit_test(a_signed_sum_is_right_too),
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(what_does_not_fit_becomes_zero),
        cmocka_unit_test(names_fill_their_fields),
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(malformed_records_are_refused),
        cmocka_unit_test(times_come_back),
    };
    return cmocka_run_group_tests_name("ustar", tests, NULL, NULL);
}
