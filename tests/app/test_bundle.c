/* Bundling with the real esbuild, and watching. */
#include "app/bundle.h"
#include "base/fd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/cloister-bundle-test-XXXXXX";
static uv_loop_t loop;

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void make(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    mkdir(path, 0700);
}

static int setup(void **state)
{
    if (!mkdtemp(directory) || uv_loop_init(&loop) < 0)
        return -1;
    make("src");
    make("node_modules");
    make("node_modules/left");
    put("node_modules/left/package.json",
        "{\"name\":\"left\",\"exports\":{\"workerd\":\"./w.js\",\"default\":\"./d.js\"}}");
    put("node_modules/left/w.js", "export const where = 'workerd-build'");
    put("node_modules/left/d.js", "export const where = 'default-build'");
    put("wrangler.jsonc",
        "{\"name\": \"w\", \"main\": \"src/index.ts\", \"compatibility_date\": \"2026-11-01\","
        "\"compatibility_flags\": [\"nodejs_compat\"], \"define\": {\"DEFINED\": \"42\"},"
        "\"rules\": [{\"type\": \"Text\", \"globs\": [\"**/*.md\"]}]}");
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    struct error err = {0};
    return dir_remove(AT_FDCWD, directory, &err);
}

struct outcome {
    struct bundle_result *result;
    struct error err;
    char details[4096];
    unsigned calls;
    unsigned changes;
};

static void on_done(void *user, struct bundle_result *result, const struct error *err, const char *details)
{
    struct outcome *o = user;
    o->calls++;
    o->result = result;
    if (err)
        o->err = *err;
    snprintf(o->details, sizeof o->details, "%s", details ? details : "");
}

static void on_changed(void *user)
{
    struct outcome *o = user;
    o->changes++;
    uv_stop(&loop);
}

static struct bundle *run(struct outcome *o)
{
    struct error err = {0};
    struct app_config *c = app_config_read(directory, NULL, &err);
    if (!c)
        fail_msg("%s", err.message);
    struct bundle *b = bundle_start(&loop, c, on_done, o, &err);
    app_config_free(c);
    if (!b)
        fail_msg("%s", err.message);
    while (o->calls == 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(o->calls, 1);
    return b;
}

static const struct bundle_module *find(const struct bundle_result *r, const char *prefix)
{
    for (size_t i = 0; i < r->module_count; i++)
        if (strncmp(r->modules[i].name, prefix, strlen(prefix)) == 0)
            return &r->modules[i];
    fail_msg("no module %s", prefix);
    return NULL;
}

static void test_modules(void **state)
{
    put("src/index.ts",
        "import { where } from 'left'; import text from './t.txt'; import md from './n.md'; import wasm from "
        "'./m.wasm';\n"
        "import { DurableObject } from 'cloudflare:workers'; import { Buffer } from 'buffer';\n"
        "declare const DEFINED: number; enum Colour { Red }\n"
        "export class Thing extends DurableObject {}\n"
        "export default { fetch(): Response { using x = where as any; return new Response(text + md + wasm + "
        "DEFINED + Buffer + Colour.Red) } }\n");
    put("src/t.txt", "a text");
    put("src/n.md", "a note");
    put("src/m.wasm", "\x01\x02");
    struct outcome o = {0};
    struct bundle *b = run(&o);
    if (!o.result)
        fail_msg("%s\n%s", o.err.message, o.details);
    assert_string_equal(o.result->modules[0].name, "index.js");
    assert_int_equal(o.result->modules[0].kind, BUNDLE_JS);
    const char *code = (const char *)o.result->modules[0].data;
    assert_non_null(strstr(code, "workerd-build"));
    assert_null(strstr(code, "default-build"));
    assert_non_null(strstr(code, "\"cloudflare:workers\""));
    assert_non_null(strstr(code, "\"node:buffer\""));
    assert_non_null(strstr(code, "42"));
    assert_null(strstr(code, "using x"));
    const struct bundle_module *text = find(o.result, "t-"), *md = find(o.result, "n-"),
                               *wasm = find(o.result, "m-");
    assert_int_equal(text->kind, BUNDLE_TEXT);
    assert_int_equal(md->kind, BUNDLE_TEXT);
    assert_int_equal(wasm->kind, BUNDLE_WASM);
    assert_memory_equal(wasm->data, "\x01\x02", 2);
    assert_int_equal(o.result->module_count, 4);
    assert_non_null(strstr(code, text->name));
    unsigned found = 0;
    for (char **p = o.result->inputs; *p; p++) {
        assert_int_equal((*p)[0], '/');
        found += strstr(*p, "/src/index.ts") != NULL || strstr(*p, "/left/w.js") != NULL;
    }
    assert_int_equal(found, 2);
    bundle_result_free(o.result);
    bundle_close(b);
}

static void test_errors(void **state)
{
    struct outcome o = {0};
    put("src/index.ts", "export default {}\nimport './gone'\n");
    struct bundle *b = run(&o);
    assert_null(o.result);
    if (!strstr(o.err.message, "src/index.ts:2:7: Could not resolve \"./gone\""))
        fail_msg("%s", o.err.message);
    assert_non_null(strstr(o.details, "Could not resolve"));
    /* Any file counts after a failure. */
    struct error err = {0};
    assert_int_equal(bundle_watch(b, on_changed, &o, &err), 0);
    uv_run(&loop, UV_RUN_NOWAIT);
    put("src/gone.js", "");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(o.changes, 1);
    bundle_close(b);
}

static void test_watch(void **state)
{
    struct outcome o = {0};
    put("src/index.ts", "import './gone'\nexport default {}\n");
    struct bundle *b = run(&o);
    assert_non_null(o.result);
    bundle_result_free(o.result);
    struct error err = {0};
    assert_int_equal(bundle_watch(b, on_changed, &o, &err), 0);
    assert_int_equal(bundle_watch(b, on_changed, &o, &err), -1);
    uv_run(&loop, UV_RUN_NOWAIT);
    /* What did not go in says nothing; of a burst only one change is told. */
    put("src/other.ts", "x");
    put("src/index.ts", "export default 1\n");
    put("src/index.ts", "export default 2\n");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(o.changes, 1);
    put(".dev.vars", "A=1\n");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(o.changes, 2);
    bundle_close(b);
}

static void test_close_early(void **state)
{
    struct outcome o = {0};
    struct error err = {0};
    struct app_config *c = app_config_read(directory, NULL, &err);
    struct bundle *b = bundle_start(&loop, c, on_done, &o, &err);
    assert_non_null(b);
    app_config_free(c);
    bundle_close(b);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(o.calls, 0);
}

static void test_no_esbuild(void **state)
{
    setenv("CLOISTER_ESBUILD", "/nonexistent/esbuild", 1);
    struct outcome o = {0};
    struct error err = {0};
    struct app_config *c = app_config_read(directory, NULL, &err);
    assert_null(bundle_start(&loop, c, on_done, &o, &err));
    assert_non_null(strstr(err.message, "cannot run /nonexistent/esbuild"));
    unsetenv("CLOISTER_ESBUILD");
    char *libexec = strdup(getenv("CLOISTER_LIBEXEC"));
    setenv("CLOISTER_LIBEXEC", "/nonexistent", 1);
    error_clear(&err);
    assert_null(bundle_start(&loop, c, on_done, &o, &err));
    assert_int_equal(err.kind, ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "CLOISTER_ESBUILD"));
    setenv("CLOISTER_LIBEXEC", libexec, 1);
    free(libexec);
    app_config_free(c);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(o.calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules),     cmocka_unit_test(test_errors),     cmocka_unit_test(test_watch),
        cmocka_unit_test(test_close_early), cmocka_unit_test(test_no_esbuild),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
