#include "link/frame.h"
#include "testing.h"

#include <string.h>

static void header_has_the_documented_bytes(void **state)
{
    uint8_t out[FRAME_HEADER_SIZE];
    frame_header_write(out, FRAME_DATA, 0x01020304, 0x000a0b0c);
    assert_memory_equal(out, "\x0c\x0b\x0a\x00\x06\x00\x00\x00\x04\x03\x02\x01", sizeof out);
}

static void headers_survive_the_round_trip(void **state)
{
    static const struct {
        enum frame_kind kind;
        uint32_t id, length;
    } good[] = {{FRAME_CALL, 1, 5},   {FRAME_RETURN, UINT32_MAX, FRAME_MAX_BODY},
                {FRAME_THROW, 2, 1},  {FRAME_CANCEL, 3, 0},
                {FRAME_DROP, 4, 4},   {FRAME_DATA, 5, FRAME_MAX_BODY},
                {FRAME_WINDOW, 6, 4}, {FRAME_END, 7, 0},
                {FRAME_RESET, 8, 20}, {FRAME_LOG, 0, 9}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct frame f;
        struct error err = {0};
        frame_header_write(bytes, good[i].kind, good[i].id, good[i].length);
        assert_int_equal(frame_header_read(bytes, &f, &err), 0);
        assert_int_equal(f.kind, good[i].kind);
        assert_int_equal(f.id, good[i].id);
        assert_int_equal(f.length, good[i].length);
        assert_int_equal(err.kind, ERROR_NONE);
    }
}

static void violations_have_exact_errors(void **state)
{
    static const struct {
        const char *bytes, *message;
    } bad[] = {
        {"\0\0\0\0\x00\0\0\0\1\0\0\0", "frame of unknown kind 0"},
        {"\0\0\0\0\x0b\0\0\0\1\0\0\0", "frame of unknown kind 11"},
        {"\0\0\0\0\xff\0\0\0\1\0\0\0", "frame of unknown kind 255"},
        {"\0\0\0\0\x08\x01\0\0\1\0\0\0", "END frame with unknown flags 0x01"},
        {"\0\0\0\0\x08\x80\0\0\1\0\0\0", "END frame with unknown flags 0x80"},
        {"\0\0\0\0\x08\0\1\0\1\0\0\0", "END frame with reserved bits set"},
        {"\0\0\0\0\x08\0\0\x80\1\0\0\0", "END frame with reserved bits set"},
        {"\1\0\x10\0\x01\0\0\0\1\0\0\0", "CALL frame with a body of 1048577 bytes, expected 1 to 1048576"},
        {"\xff\xff\xff\xff\x06\0\0\0\1\0\0\0",
         "DATA frame with a body of 4294967295 bytes, expected 1 to 1048576"},
        {"\0\0\0\0\x01\0\0\0\1\0\0\0", "CALL frame with a body of 0 bytes, expected 1 to 1048576"},
        {"\0\0\0\0\x02\0\0\0\1\0\0\0", "RETURN frame with a body of 0 bytes, expected 1 to 1048576"},
        {"\0\0\0\0\x06\0\0\0\1\0\0\0", "DATA frame with a body of 0 bytes, expected 1 to 1048576"},
        {"\1\0\0\0\x04\0\0\0\1\0\0\0", "CANCEL frame with a body of 1 bytes, expected 0 to 0"},
        {"\1\0\0\0\x08\0\0\0\1\0\0\0", "END frame with a body of 1 bytes, expected 0 to 0"},
        {"\3\0\0\0\x05\0\0\0\1\0\0\0", "DROP frame with a body of 3 bytes, expected 4 to 4"},
        {"\5\0\0\0\x07\0\0\0\1\0\0\0", "WINDOW frame with a body of 5 bytes, expected 4 to 4"},
        {"\4\0\0\0\x05\0\0\0\0\0\0\0", "DROP frame with id 0"},
        {"\1\0\0\0\x01\0\0\0\0\0\0\0", "CALL frame with id 0"},
        {"\5\0\0\0\x0a\0\0\0\1\0\0\0", "LOG frame with id 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct frame f = {.id = 99};
        struct error err = {0};
        assert_int_equal(frame_header_read((const uint8_t *)bad[i].bytes, &f, &err), -1);
        assert_error(&err, ERROR_PROTOCOL, bad[i].message);
        assert_int_equal(f.id, 99);
    }
}

static void kinds_have_names(void **state)
{
    assert_string_equal(frame_kind_name(FRAME_CALL), "CALL");
    assert_string_equal(frame_kind_name(FRAME_LOG), "LOG");
    assert_string_equal(frame_kind_name(0), "unknown");
    assert_string_equal(frame_kind_name(11), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_has_the_documented_bytes),
        cmocka_unit_test(headers_survive_the_round_trip),
        cmocka_unit_test(violations_have_exact_errors),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
