/* What is left of memory, from files as Linux writes them (proc_meminfo(5), the kernel's cgroup-v1/memory and
 * cgroup-v2 documents). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/shortage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"meminfo",     "memory.current",        "memory.max",
                                    "memory.stat", "memory.usage_in_bytes", "memory.limit_in_bytes"};
static char dir[64];

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make(void **state)
{
    strcpy(dir, "/tmp/cloister-shortage-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int clear(void **state)
{
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static void test_machine(void **state)
{
    char path[128];
    uint64_t left = 0, total = 0;
    snprintf(path, sizeof path, "%s/meminfo", dir);
    assert_false(shortage_of_machine(path, &left, &total)); /* not there */
    put("meminfo",
        "MemTotal:       24683548 kB\nMemFree:         1 kB\nMemAvailable:   1234 kB\nBuffers: 5 kB\n");
    assert_true(shortage_of_machine(path, &left, &total));
    assert_int_equal(left, 1234 << 10);
    assert_int_equal(total, (uint64_t)24683548 << 10);
    put("meminfo", "MemTotal:       24683548 kB\nMemFree:         1 kB\n"); /* before Linux 3.14 */
    assert_false(shortage_of_machine(path, &left, &total));
    assert_true(shortage_of_machine("/proc/meminfo", &left, &total));
    assert_true(left > 0 && left <= total);
}

static void test_version_2(void **state)
{
    uint64_t left = 0, total = 0;
    put("memory.current", "300000000\n");
    assert_false(shortage_of_cgroup(dir, &left, &total)); /* the root has no limit at all */
    put("memory.max", "max\n");
    assert_false(shortage_of_cgroup(dir, &left, &total));
    put("memory.max", "400000000\n");
    assert_true(shortage_of_cgroup(dir, &left, &total));
    assert_int_equal(left, 100000000);
    assert_int_equal(total, 400000000);
    put("memory.stat", "anon 1\nfile 2\ninactive_anon 7\ninactive_file 50000000\n");
    assert_true(shortage_of_cgroup(dir, &left, &total));
    assert_int_equal(left, 150000000);
    put("memory.current", "500000000\n"); /* the limit was lowered */
    put("memory.stat", "");
    assert_true(shortage_of_cgroup(dir, &left, &total));
    assert_int_equal(left, 0);
}

static void test_version_1(void **state)
{
    uint64_t left = 0, total = 0;
    assert_false(shortage_of_cgroup(dir, &left, &total));
    put("memory.usage_in_bytes", "300000000\n");
    put("memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    assert_false(shortage_of_cgroup(dir, &left, &total));
    put("memory.limit_in_bytes", "400000000\n");
    put("memory.stat", "inactive_file 1000\ntotal_cache 5\ntotal_inactive_file 20000000\n");
    assert_true(shortage_of_cgroup(dir, &left, &total));
    assert_int_equal(left, 120000000);
    assert_int_equal(total, 400000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_machine, make, clear),
        cmocka_unit_test_setup_teardown(test_version_2, make, clear),
        cmocka_unit_test_setup_teardown(test_version_1, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
