/* What every unit test file includes, in the order that cmocka demands. */
#ifndef CLOISTER_TESTS_UNIT_TESTING_H
#define CLOISTER_TESTS_UNIT_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

#define assert_error(err, want_kind, want_message)                                                           \
    do {                                                                                                     \
        assert_string_equal((err)->message, want_message);                                                   \
        assert_int_equal((err)->kind, want_kind);                                                            \
    } while (0)

#endif
