/* What every test of src/cli/ includes. */
#ifndef CLOISTER_TESTS_CLI_UNIT_TESTING_H
#define CLOISTER_TESTS_CLI_UNIT_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
