#include "link/cbor.h"
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A string literal may hold NULs: its size is taken from the array. */
#define WELL_FORMED(s) cbor_well_formed((s), sizeof(s) - 1)

static void check_written(struct buf *b, const char *hex)
{
    char got[128] = "";
    assert_false(b->failed);
    assert_true(b->len * 2 < sizeof got);
    for (size_t i = 0; i < b->len; i++)
        snprintf(got + 2 * i, 3, "%02x", b->data[i]);
    assert_string_equal(got, hex);
    assert_true(cbor_well_formed(b->data, b->len));
    buf_clear(b);
}

static void writer_uses_shortest_forms(void **state)
{
    static const struct {
        uint64_t v;
        const char *hex;
    } uints[] = {{0, "00"},
                 {23, "17"},
                 {24, "1818"},
                 {255, "18ff"},
                 {256, "190100"},
                 {65535, "19ffff"},
                 {65536, "1a00010000"},
                 {4294967295u, "1affffffff"},
                 {4294967296u, "1b0000000100000000"},
                 {UINT64_MAX, "1bffffffffffffffff"}};
    static const struct {
        int64_t v;
        const char *hex;
    } ints[] = {{5, "05"},
                {-1, "20"},
                {-24, "37"},
                {-25, "3818"},
                {-256, "38ff"},
                {-257, "390100"},
                {INT64_MAX, "1b7fffffffffffffff"},
                {INT64_MIN, "3b7fffffffffffffff"}};
    struct buf b;
    buf_init(&b, 0);
    for (size_t i = 0; i < sizeof uints / sizeof *uints; i++) {
        cbor_put_uint(&b, uints[i].v);
        check_written(&b, uints[i].hex);
    }
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        cbor_put_int(&b, ints[i].v);
        check_written(&b, ints[i].hex);
    }
    buf_free(&b);
}

static void writer_writes_each_type(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    cbor_put_bytes(&b, "\x01\x02", 2);
    check_written(&b, "420102");
    cbor_put_bytes(&b, NULL, 0);
    check_written(&b, "40");
    cbor_put_text(&b, "IETF");
    check_written(&b, "6449455446");
    cbor_put_string(&b, "\xc3\xbc");
    check_written(&b, "62c3bc");
    cbor_put_string(&b, "\xc3(");
    check_written(&b, "42c328");
    cbor_put_array(&b, 2);
    cbor_put_map(&b, 1);
    cbor_put_text(&b, "a");
    cbor_put_bool(&b, true);
    cbor_put_null(&b);
    check_written(&b, "82a16161f5f6");
    cbor_put_tag(&b, CBOR_TAG_CAPABILITY);
    cbor_put_uint(&b, 7);
    check_written(&b, "da436c6f6907");
    cbor_put_bool(&b, false);
    check_written(&b, "f4");
    cbor_put_undefined(&b);
    check_written(&b, "f7");
    cbor_put_double(&b, 1.1);
    check_written(&b, "fb3ff199999999999a");
    buf_free(&b);
}

static void malformed_input_is_refused(void **state)
{
    assert_false(cbor_well_formed(NULL, 0));
    assert_false(WELL_FORMED(""));
    /* cut short */
    assert_false(WELL_FORMED("\x18"));
    assert_false(WELL_FORMED("\x19\x01"));
    assert_false(WELL_FORMED("\x1b\x01\x02\x03\x04\x05\x06\x07"));
    assert_false(WELL_FORMED("\x42\x01"));
    assert_false(WELL_FORMED("\x82\x01"));
    assert_false(WELL_FORMED("\xa1\x01"));
    assert_false(WELL_FORMED("\xc1"));
    /* trailing bytes */
    assert_false(WELL_FORMED("\x01\x01"));
    /* not the shortest form */
    assert_false(WELL_FORMED("\x18\x17"));
    assert_false(WELL_FORMED("\x19\x00\xff"));
    assert_false(WELL_FORMED("\x1a\x00\x00\xff\xff"));
    assert_false(WELL_FORMED("\x1b\x00\x00\x00\x00\xff\xff\xff\xff"));
    assert_false(WELL_FORMED("\x38\x01"));
    assert_false(WELL_FORMED("\x58\x01x"));
    assert_false(WELL_FORMED("\x78\x01x"));
    assert_false(WELL_FORMED("\x98\x01\x01"));
    assert_false(WELL_FORMED("\xb8\x01\x01\x01"));
    assert_false(WELL_FORMED("\xd8\x01\x01"));
    /* reserved additional information, indefinite lengths, a lone break */
    for (unsigned major = 0; major < 8; major++)
        for (unsigned info = 28; info < 32; info++) {
            uint8_t in[3] = {(uint8_t)(major << 5 | info), 0x00, 0xff};
            assert_false(cbor_well_formed(in, 1));
            assert_false(cbor_well_formed(in, 3));
        }
    /* simple values that mean nothing here, half and single floats */
    for (unsigned info = 0; info < 20; info++) {
        uint8_t in = (uint8_t)(7u << 5 | info);
        assert_false(cbor_well_formed(&in, 1));
    }
    assert_false(WELL_FORMED("\xf8\x20"));
    assert_false(WELL_FORMED("\xf8\x15"));
    assert_false(WELL_FORMED("\xf9\x3c\x00"));
    assert_false(WELL_FORMED("\xfa\x3f\x80\x00\x00"));
}

static void text_must_be_utf8(void **state)
{
    assert_true(WELL_FORMED("\x64\xf0\x9f\xa6\x8a"));
    assert_false(WELL_FORMED("\x61\xff"));
    assert_false(WELL_FORMED("\x62\xc0\x80"));         /* overlong NUL */
    assert_false(WELL_FORMED("\x63\xed\xa0\x80"));     /* surrogate */
    assert_false(WELL_FORMED("\x64\xf4\x90\x80\x80")); /* beyond U+10FFFF */
    assert_false(WELL_FORMED("\x62\xe2\x82"));         /* cut inside a sequence */
    assert_true(WELL_FORMED("\x42\xc0\x80"));          /* bytes may be anything */
}

static void counts_that_cannot_be_true_are_refused(void **state)
{
    struct cbor_reader r;
    struct cbor_item it;
    static const char array[] = "\x9b\x00\x00\x00\xff\xff\xff\xff\xff",
                      map[] = "\xbb\xff\xff\xff\xff\xff\xff\xff\xff";
    static const char bytes[] = "\x5b\xff\xff\xff\xff\xff\xff\xff\xff";
    cbor_reader_init(&r, array, sizeof array - 1);
    assert_int_equal(cbor_next(&r, &it), -1);
    cbor_reader_init(&r, map, sizeof map - 1);
    assert_int_equal(cbor_next(&r, &it), -1);
    cbor_reader_init(&r, bytes, sizeof bytes - 1);
    assert_int_equal(cbor_next(&r, &it), -1);
    cbor_reader_init(&r, "\x82\x01", 2);
    assert_int_equal(cbor_next(&r, &it), -1);
    cbor_reader_init(&r, "\xa2\x01\x02\x03", 4);
    assert_int_equal(cbor_next(&r, &it), -1);
}

static bool nested(uint8_t opener, unsigned depth)
{
    uint8_t in[2 * CBOR_MAX_DEPTH + 4];
    size_t n = 0;
    for (unsigned i = 0; i < depth; i++) {
        in[n++] = opener;
        if (opener == 0xa1)
            in[n++] = 0x00; /* the key */
    }
    in[n++] = 0x00;
    return cbor_well_formed(in, n);
}

static void depth_is_bounded(void **state)
{
    static const uint8_t openers[] = {0x81, 0xa1, 0xc1};
    for (size_t i = 0; i < sizeof openers; i++) {
        assert_true(nested(openers[i], CBOR_MAX_DEPTH));
        assert_false(nested(openers[i], CBOR_MAX_DEPTH + 1));
    }
    uint8_t empty_inside[CBOR_MAX_DEPTH + 1];
    memset(empty_inside, 0x81, sizeof empty_inside);
    empty_inside[CBOR_MAX_DEPTH] = 0x80; /* an empty array at depth 65 */
    assert_false(cbor_well_formed(empty_inside, sizeof empty_inside));
}

static void number_of_items_is_bounded(void **state)
{
    size_t len = CBOR_MAX_ITEMS + 5;
    uint8_t *in = calloc(1, len);
    assert_non_null(in);
    for (unsigned over = 0; over < 2; over++) {
        uint32_t count = CBOR_MAX_ITEMS - 1 + over;
        const uint8_t head[5] = {0x9a, (uint8_t)(count >> 24), (uint8_t)(count >> 16), (uint8_t)(count >> 8),
                                 (uint8_t)count};
        memcpy(in, head, 5);
        assert_int_equal(cbor_well_formed(in, 5 + count), !over);
    }
    free(in);
}

static void getters_check_type_and_range(void **state)
{
    struct cbor_reader r;
    uint64_t u = 77;
    int64_t i = 77;
    bool v;
    cbor_reader_init(
        &r, "\x19\x03\xe8\x20\xf5\x1b\x80\x00\x00\x00\x00\x00\x00\x00\x3b\x80\x00\x00\x00\x00\x00\x00\x00",
        23);
    struct cbor_reader at = r;
    assert_int_equal(cbor_get_uint(&at, 999, &u), -1);
    assert_int_equal(u, 77);
    at = r;
    assert_int_equal(cbor_get_bool(&at, &v), -1);
    assert_int_equal(cbor_get_uint(&r, 1000, &u), 0);
    assert_int_equal(u, 1000);
    at = r;
    assert_int_equal(cbor_get_uint(&at, UINT64_MAX, &u), -1);
    assert_int_equal(cbor_get_int(&r, &i), 0);
    assert_int_equal(i, -1);
    assert_int_equal(cbor_get_bool(&r, &v), 0);
    assert_true(v);
    assert_int_equal(cbor_get_int(&r, &i), -1); /* 2^63 does not fit */
    assert_int_equal(cbor_get_int(&r, &i), -1); /* nor -2^63 - 1 */
    assert_true(cbor_at_end(&r));
    assert_int_equal(cbor_get_int(&r, &i), -1);
    assert_int_equal(i, -1);
}

static void strings_without_nul_become_c_strings(void **state)
{
    struct cbor_reader r;
    char text[4];
    cbor_reader_init(&r,
                     "\x63"
                     "abc\x43"
                     "xyz\x63"
                     "a\0b\x64"
                     "long\x60",
                     18);
    assert_int_equal(cbor_get_string(&r, text, sizeof text), 0);
    assert_string_equal(text, "abc");
    assert_int_equal(cbor_get_string(&r, text, sizeof text), 0);
    assert_string_equal(text, "xyz");
    assert_int_equal(cbor_get_string(&r, text, sizeof text), -1); /* NUL inside */
    struct cbor_reader at = r;
    assert_int_equal(cbor_get_string(&at, text, sizeof text), -1); /* too long by one */
    at = r;
    assert_null(cbor_dup_string(&at, 3));
    char *dup = cbor_dup_string(&r, 4);
    assert_non_null(dup);
    assert_string_equal(dup, "long");
    free(dup);
    assert_int_equal(cbor_get_string(&r, text, 1), 0);
    assert_string_equal(text, "");
}

static void map_lookup(void **state)
{
    struct cbor_reader map, value;
    uint64_t u;
    bool v;
    /* {"a": 1, "b": [{"a": 9}], "c": true, "d": "x"} */
    static const char in[] = "\xa4\x61"
                             "a\x01\x61"
                             "b\x81\xa1\x61"
                             "a\x09\x61"
                             "c\xf5\x61"
                             "d\x61x";
    cbor_reader_init(&map, in, sizeof in - 1);
    assert_true(WELL_FORMED(in));
    assert_int_equal(cbor_map_uint(&map, "a", 10, 5, &u), 0);
    assert_int_equal(u, 1);
    assert_int_equal(cbor_map_uint(&map, "z", 10, 5, &u), 0);
    assert_int_equal(u, 5);
    assert_int_equal(cbor_map_uint(&map, "a", 0, 5, &u), -1);
    assert_int_equal(cbor_map_uint(&map, "c", 10, 5, &u), -1);
    assert_int_equal(cbor_map_bool(&map, "c", false, &v), 0);
    assert_true(v);
    assert_int_equal(cbor_map_bool(&map, "zz", true, &v), 0);
    assert_true(v);
    assert_int_equal(cbor_map_bool(&map, "a", false, &v), -1);
    assert_true(cbor_map_find(&map, "b", &value));
    assert_int_equal(*value.p, 0x81);
    assert_false(cbor_map_find(&map, "", &value));
    assert_null(cbor_map_dup(&map, "a", 10));
    assert_null(cbor_map_dup(&map, "z", 10));
    char *dup = cbor_map_dup(&map, "d", 1);
    assert_non_null(dup);
    assert_string_equal(dup, "x");
    free(dup);
}

static void malformed_maps_yield_nothing(void **state)
{
    struct cbor_reader map, value;
    uint64_t u;
    static const char twice[] = "\xa2\x61"
                                "a\x01\x61"
                                "a\x02",
                      number_key[] = "\xa2\x61"
                                     "a\x01\x05\x02";
    cbor_reader_init(&map, twice, sizeof twice - 1);
    assert_true(WELL_FORMED(twice));
    assert_false(cbor_map_find(&map, "a", &value));
    assert_int_equal(cbor_map_uint(&map, "a", 10, 5, &u), -1);
    cbor_reader_init(&map, number_key, sizeof number_key - 1);
    assert_false(cbor_map_find(&map, "a", &value));
    assert_int_equal(cbor_map_uint(&map, "b", 10, 5, &u), -1);
    cbor_reader_init(&map, "\x81\x01", 2);
    assert_false(cbor_map_find(&map, "a", &value));
    assert_int_equal(cbor_map_uint(&map, "a", 10, 5, &u), -1);
}

static void writer_failure_is_sticky(void **state)
{
    struct buf b;
    buf_init(&b, 4);
    cbor_put_text(&b, "too long");
    assert_true(b.failed);
    cbor_put_null(&b);
    assert_true(b.failed);
    buf_free(&b);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Writes a random value of at most `depth` levels. */
static void put_random(struct buf *b, uint64_t *seed, unsigned depth)
{
    uint64_t pick = next_random(seed), v = next_random(seed) >> (next_random(seed) % 64);
    uint8_t bytes[40];
    memset(bytes, 'a' + (int)(pick % 26), sizeof bytes);
    switch (pick % (depth ? 11 : 8)) {
    case 0:
        cbor_put_uint(b, v);
        break;
    case 1:
        cbor_put_int(b, -1 - (int64_t)(v >> 1));
        break;
    case 2:
        cbor_put_bytes(b, bytes, v % sizeof bytes);
        break;
    case 3:
        cbor_put_text_n(b, (char *)bytes, v % sizeof bytes);
        break;
    case 4:
        cbor_put_bool(b, v & 1);
        break;
    case 5:
        cbor_put_null(b);
        break;
    case 6:
        cbor_put_undefined(b);
        break;
    case 7:
        cbor_put_double(b, v & 1 ? NAN : (double)v / 3);
        break;
    case 8:
        cbor_put_array(b, v % 5);
        for (uint64_t i = 0; i < v % 5; i++)
            put_random(b, seed, depth - 1);
        break;
    case 9:
        cbor_put_map(b, v % 4);
        for (uint64_t i = 0; i < 2 * (v % 4); i++)
            put_random(b, seed, depth - 1);
        break;
    default:
        cbor_put_tag(b, v);
        put_random(b, seed, depth - 1);
    }
}

static void every_prefix_of_a_value_is_malformed(void **state)
{
    uint64_t seed = 42;
    for (int round = 0; round < 300; round++) {
        struct buf b;
        buf_init(&b, 0);
        put_random(&b, &seed, 6);
        assert_false(b.failed);
        assert_true(cbor_well_formed(b.data, b.len));
        size_t step = b.len / 200 + 1;
        for (size_t cut = 0; cut < b.len; cut += step) {
            /* An exact allocation, so that a sanitizer sees a read beyond the cut. */
            uint8_t *copy = malloc(cut + !cut);
            assert_non_null(copy);
            memcpy(copy, b.data, cut);
            assert_false(cbor_well_formed(copy, cut));
            free(copy);
        }
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer_uses_shortest_forms),
        cmocka_unit_test(writer_writes_each_type),
        cmocka_unit_test(malformed_input_is_refused),
        cmocka_unit_test(text_must_be_utf8),
        cmocka_unit_test(counts_that_cannot_be_true_are_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(number_of_items_is_bounded),
        cmocka_unit_test(getters_check_type_and_range),
        cmocka_unit_test(strings_without_nul_become_c_strings),
        cmocka_unit_test(map_lookup),
        cmocka_unit_test(malformed_maps_yield_nothing),
        cmocka_unit_test(writer_failure_is_sticky),
        cmocka_unit_test(every_prefix_of_a_value_is_malformed),
    };
    return cmocka_run_group_tests_name("cbor", tests, NULL, NULL);
}
