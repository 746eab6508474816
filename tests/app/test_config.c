/* The configuration of Workers projects. Each test writes a project into a directory of its own. */
#include "app/config.h"
#include "base/fd.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/cloister-config-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void drop(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    unlink(path);
}

static int setup(void **state)
{
    if (!mkdtemp(directory))
        return -1;
    char path[256];
    snprintf(path, sizeof path, "%s/src", directory);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/public", directory);
    mkdir(path, 0700);
    put("src/index.ts", "export default {}");
    return 0;
}

static int teardown(void **state)
{
    struct error err = {0};
    return dir_remove(AT_FDCWD, directory, &err);
}

static struct app_config *read_ok(const char *text, const struct app_config_options *options)
{
    struct error err = {0};
    put("wrangler.jsonc", text);
    struct app_config *c = app_config_read(directory, options, &err);
    drop("wrangler.jsonc");
    if (!c)
        fail_msg("%s", err.message);
    return c;
}

/* The whole message but the file's name and its colon. */
static void refuse(const char *text, const char *field, const char *message)
{
    struct error err = {0};
    put("wrangler.jsonc", text);
    struct app_config *c = app_config_read(directory, NULL, &err);
    drop("wrangler.jsonc");
    if (c)
        fail_msg("accepted: %s", text);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.field, field);
    if (!strstr(err.message, message))
        fail_msg("\"%s\" is not in \"%s\"", message, err.message);
    assert_non_null(strstr(err.message, "wrangler.jsonc"));
}

static bool has_warning(const struct app_config *c, const char *line)
{
    for (char **w = c->warnings; *w; w++)
        if (strcmp(*w, line) == 0)
            return true;
    return false;
}

#define BASE "\"name\": \"w\", \"main\": \"src/index.ts\", \"compatibility_date\": \"2026-11-01\""

static void test_whole(void **state)
{
    struct app_config *c = read_ok(
        "// a project\n{\n  \"$schema\": \"x\", \"name\": \"shop\", /* entry */ \"main\": "
        "\"./src/index.ts\",\n"
        "  \"compatibility_date\": \"2026-11-01\", \"compatibility_flags\": [\"nodejs_compat\",],\n"
        "  \"vars\": {\"A\": \"x // no comment\", \"B\": {\"n\": [1, 2]}, \"C\": 3,},\n"
        "  \"worker_loaders\": [{\"binding\": \"LOADER\"}, {\"binding\": \"MORE\", \"id\": \"one\"}],\n"
        "  \"durable_objects\": {\"bindings\": [{\"name\": \"BOX\", \"class_name\": \"Box\"}, "
        "{\"name\": \"OLD\", \"class_name\": \"Old\", \"script_name\": \"shop\"}]},\n"
        "  \"migrations\": [{\"tag\": \"v1\", \"new_sqlite_classes\": [\"Crate\"], \"new_classes\": "
        "[\"Old\", \"Gone\"]},\n"
        "    {\"tag\": \"v2\", \"renamed_classes\": [{\"from\": \"Crate\", \"to\": \"Box\"}], "
        "\"deleted_classes\": [\"Gone\"]}],\n"
        "  \"containers\": [{\"class_name\": \"Box\", \"images\": {\"a\": \"debian\", \"b\": "
        "{\"image\": \"alpine:3\"}},"
        " \"scheduling_policy\": \"durable_object\", \"instance_type\": {\"vcpu\": 0.5, "
        "\"memory_mib\": 512, \"disk_mb\": 2000},"
        " \"max_instances\": 3}],\n"
        "  \"services\": [{\"binding\": \"SELF\", \"service\": \"shop\", \"entrypoint\": \"Api\", "
        "\"props\": {\"k\": 1}},"
        " {\"binding\": \"AUTH\", \"service\": \"auth\"}],\n"
        "  \"assets\": {\"directory\": \"public\", \"binding\": \"ASSETS\", \"html_handling\": "
        "\"drop-trailing-slash\","
        " \"not_found_handling\": \"single-page-application\", \"run_worker_first\": [\"/api/*\", "
        "\"!/api/docs\"]},\n"
        "  \"triggers\": {\"crons\": [\"* * * * *\"]}, \"limits\": {\"cpu_ms\": 100},\n"
        "  \"rules\": [{\"type\": \"Text\", \"globs\": [\"**/*.md\"]}], \"define\": {\"X\": \"1\"}, "
        "\"alias\": {\"a\": \"b\"},\n"
        "  \"routes\": [\"example.com/*\"], \"kv_namespaces\": [], \"frobnicate\": true\n}\n",
        NULL);
    assert_string_equal(c->name, "shop");
    assert_string_equal(c->main + strlen(c->directory), "/src/index.ts");
    assert_string_equal(c->compatibility_flags[0], "nodejs_compat");
    assert_null(c->compatibility_flags[1]);
    assert_int_equal(c->var_count, 3);
    assert_string_equal(c->vars[0].json, "\"x // no comment\"");
    assert_string_equal(c->vars[1].json, "{\"n\":[1,2]}");
    assert_string_equal(c->loaders[0].name, "LOADER");
    assert_null(c->loaders[0].id);
    assert_string_equal(c->loaders[1].id, "one");
    assert_int_equal(c->class_count, 2);
    const struct app_class *box = app_config_class(c, "Box"), *old = app_config_class(c, "Old");
    assert_string_equal(box->storage, "Crate");
    assert_true(box->sql && box->container && !old->sql && !old->container);
    assert_int_equal(box->scheduling, APP_SCHEDULING_DURABLE_OBJECT);
    assert_int_equal(box->image_count, 2);
    assert_string_equal(box->images[1].name, "b");
    assert_string_equal(box->images[1].image, "alpine:3");
    assert_int_equal(box->vcpu_milli, 500);
    assert_int_equal(box->memory_mib, 512);
    assert_int_equal(box->max_instances, 3);
    assert_null(c->services[0].service);
    assert_string_equal(c->services[0].props, "{\"k\":1}");
    assert_string_equal(c->services[1].service, "auth");
    assert_int_equal(c->assets.html_handling, APP_HTML_DROP_SLASH);
    assert_int_equal(c->assets.not_found, APP_NOT_FOUND_SPA);
    assert_string_equal(c->assets.run_worker_first_routes[1], "!/api/docs");
    assert_string_equal(c->crons[0], "* * * * *");
    assert_int_equal(c->cpu_ms, 100);
    assert_string_equal(c->rules[0].suffix, ".md");
    assert_string_equal(c->defines[0], "X=1");
    assert_string_equal(c->aliases[0], "a=b");
    assert_true(
        has_warning(c, "wrangler.jsonc: routes: ignored: every request of the port reaches the Worker"));
    assert_true(has_warning(c, "wrangler.jsonc: kv_namespaces: not supported: env has no such binding"));
    assert_true(has_warning(c, "wrangler.jsonc: frobnicate: not supported; it has no effect"));
    assert_true(has_warning(
        c, "wrangler.jsonc: migrations[1].deleted_classes[0]: what objects of \"Gone\" stored stays "
           "on disk until it is removed by hand"));
    assert_null(c->warnings[4]);
    app_config_free(c);
}

static void test_exports(void **state)
{
    struct app_config *c = read_ok(
        "{" BASE ", \"exports\": {\"Box\": {\"type\": \"durable-object\", \"storage\": \"sqlite\"}},"
        "\"containers\": [{\"class_name\": \"Box\", \"image\": \"host\", \"instance_type\": \"lite\"}]}",
        NULL);
    const struct app_class *box = app_config_class(c, "Box");
    assert_true(box->sql && box->container);
    assert_string_equal(box->images[0].name, "");
    assert_string_equal(box->images[0].image, "host");
    assert_string_equal(box->instance_type, "lite");
    assert_null(c->warnings[0]);
    app_config_free(c);
}

static void test_dates(void **state)
{
    struct app_config *c =
        read_ok("{\"name\": \"w\", \"main\": \"src/index.ts\", \"compatibility_date\": \"$today\"}", NULL);
    assert_int_equal(strlen(c->compatibility_date), 10);
    assert_null(c->warnings[0]);
    app_config_free(c);
    c = read_ok("{\"name\": \"w\", \"main\": \"src/index.ts\"}", NULL);
    assert_true(has_warning(c, "wrangler.jsonc: compatibility_date: missing: today's is taken"));
    app_config_free(c);
    refuse("{\"name\": \"w\", \"main\": \"src/index.ts\", \"compatibility_date\": \"soon\"}",
           "compatibility_date", "compatibility_date: a date such as \"2026-11-01\" is wanted");
}

static void test_refused(void **state)
{
    refuse("{", "wrangler.jsonc", "line 1");
    refuse("{\n  \"name\" \"w\"\n}", "wrangler.jsonc", "line 2, column");
    refuse("{} /* ", "wrangler.jsonc", "line 1, column 4: a comment that does not end");
    refuse("{\"a\": 1, \"a\": 2}", "wrangler.jsonc", "duplicate");
    refuse("[]", "wrangler.jsonc", "an object is wanted");
    refuse("{}", "name", "name: missing: give the Worker's name");
    refuse("{\"name\": 3}", "name", "name: a text is wanted, not a number");
    refuse("{\"name\": \"a b\"}", "name", "name: \"a b\" is no name");
    refuse("{\"name\": \"w\"}", "main", "main: missing: give the entry module");
    refuse("{\"name\": \"w\", \"main\": \"no.ts\"}", "main", "main: there is no file");
    refuse("{" BASE ", \"vars\": []}", "vars", "vars: an object is wanted, not a list");
    refuse("{" BASE ", \"worker_loaders\": [{\"binding\": \"A\", \"id\": 1}]}", "worker_loaders[0].id",
           "a text is wanted");
    refuse("{" BASE ", \"worker_loaders\": [{}]}", "worker_loaders[0].binding",
           "missing: give the name in env");
    refuse("{" BASE ", \"vars\": {\"A\": 1}, \"worker_loaders\": [{\"binding\": \"A\"}]}", "worker_loaders",
           "the binding \"A\" exists already, in vars");
    refuse("{" BASE ", \"durable_objects\": {\"bindings\": [{\"name\": \"A\", \"class_name\": \"B\", "
           "\"script_name\": \"x\"}]}}",
           "durable_objects.bindings[0].script_name", "objects of another Worker cannot be bound");
    refuse("{" BASE ", \"containers\": [{\"class_name\": \"A\"}]}", "containers[0].image",
           "missing: give the name of an image");
    refuse("{" BASE ", \"containers\": [{\"class_name\": \"A\", \"image\": \"./Dockerfile\"}]}",
           "containers[0].image", "there is no file");
    refuse("{" BASE ", \"containers\": [{\"class_name\": \"A\", \"image\": \"x\", \"max_instances\": 0}]}",
           "containers[0].max_instances", "a number from 1 to");
    refuse("{" BASE ", \"assets\": {\"directory\": \"nowhere\"}}", "assets.directory", "is not a directory");
    refuse("{" BASE ", \"assets\": {\"directory\": \"public\", \"html_handling\": \"x\"}}",
           "assets.html_handling",
           "one of auto-trailing-slash, force-trailing-slash, drop-trailing-slash, none is wanted");
    refuse("{" BASE ", \"rules\": [{\"type\": \"Text\", \"globs\": [\"a/**/b\"]}]}", "rules[0].globs[0]",
           "only patterns such as");
    refuse("{" BASE ", \"migrations\": [{\"transferred_classes\": []}]}", "migrations[0].transferred_classes",
           "cannot be taken over");
    char deep[400] = "{\"a\": ";
    memset(deep + 6, '[', 100);
    refuse(deep, "wrangler.jsonc", "nested too deeply");
}

static void test_no_file(void **state)
{
    struct error err = {0};
    assert_null(app_config_read(directory, NULL, &err));
    assert_non_null(strstr(err.message, "holds no wrangler.jsonc, wrangler.json or wrangler.toml"));
}

static void test_dockerfile(void **state)
{
    put("Dockerfile", "FROM scratch\n");
    struct app_config *c =
        read_ok("{" BASE ", \"containers\": [{\"class_name\": \"A\", \"image\": \"./Dockerfile\"}]}", NULL);
    assert_null(c->classes[0].images[0].image);
    assert_non_null(strstr(c->classes[0].images[0].dockerfile, "/Dockerfile"));
    assert_non_null(strstr(c->warnings[0], "Dockerfiles are not built here"));
    app_config_free(c);
    drop("Dockerfile");
}

static void test_secrets(void **state)
{
    char *environment[] = {(char *)"OTHER=1", (char *)"FROM_ENV=e=1", NULL};
    struct app_config_options options = {.environ = environment};
    put(".dev.vars",
        "# comment\nKEY=plain # not this\nexport QUOTED=\"a\\nb # c\"\n\nSINGLE='x\ny'\nA = over\nEMPTY=\n");
    const char *text =
        "{" BASE
        ", \"vars\": {\"A\": \"under\"}, \"secrets\": {\"required\": [\"KEY\", \"FROM_ENV\", \"MISSING\"]}}";
    struct app_config *c = read_ok(text, &options);
    static const char *const expected[][2] = {{"A", "\"over\""},           {"KEY", "\"plain\""},
                                              {"QUOTED", "\"a\\nb # c\""}, {"SINGLE", "\"x\\ny\""},
                                              {"EMPTY", "\"\""},           {"FROM_ENV", "\"e=1\""}};
    assert_int_equal(c->var_count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(c->vars[i].name, expected[i][0]);
        assert_string_equal(c->vars[i].json, expected[i][1]);
        assert_true(c->vars[i].secret);
    }
    assert_true(has_warning(
        c, "wrangler.jsonc: secrets.required[2]: the secret \"MISSING\" has no value: put MISSING=... "
           "into .dev.vars, or into the environment"));
    app_config_free(c);

    options.secrets_required = true;
    struct error err = {0};
    put("wrangler.jsonc", text);
    assert_null(app_config_read(directory, &options, &err));
    assert_string_equal(err.field, "secrets.required[2]");
    put(".dev.vars", "A\n");
    assert_null(app_config_read(directory, NULL, &err));
    assert_non_null(strstr(err.message, "line 1: NAME=VALUE is wanted"));
    put(".dev.vars", "A=1\nB=\"x\n");
    assert_null(app_config_read(directory, NULL, &err));
    assert_non_null(strstr(err.message, "line 2: a quote that does not end"));
    drop(".dev.vars");
    drop("wrangler.jsonc");
}

static void test_environments(void **state)
{
    const char *text = "{" BASE ", \"vars\": {\"A\": 1, \"B\": 2}, \"limits\": {\"cpu_ms\": 5},"
                       " \"env\": {\"staging\": {\"vars\": {\"A\": 9}}, \"bare\": {\"name\": \"other\"}}}";
    struct app_config_options options = {.environment = "staging"};
    struct app_config *c = read_ok(text, &options);
    assert_string_equal(c->name, "w-staging");
    assert_int_equal(c->var_count, 1);
    assert_string_equal(c->vars[0].json, "9");
    assert_int_equal(c->cpu_ms, 5);
    app_config_free(c);
    options.environment = "bare";
    c = read_ok(text, &options);
    assert_string_equal(c->name, "other");
    assert_int_equal(c->var_count, 0);
    assert_true(
        has_warning(c, "wrangler.jsonc: vars: not inherited by the environment \"bare\": repeat it there"));
    app_config_free(c);
    options.environment = "none";
    struct error err = {0};
    put("wrangler.jsonc", text);
    assert_null(app_config_read(directory, &options, &err));
    assert_string_equal(err.field, "env.none");
    drop("wrangler.jsonc");
}

static void test_toml_file(void **state)
{
    put("wrangler.toml", "name = \"w\" # c\nmain = 'src/index.ts'\ncompatibility_date = 2026-11-01\nvars = { "
                         "A = 1, B.c = \"x\" }\n"
                         "[[durable_objects.bindings]]\nname = \"BOX\"\nclass_name = \"Box\"\n"
                         "[[migrations]]\ntag = \"v1\"\nnew_sqlite_classes = [\n  \"Box\", # one\n]\n"
                         "[[containers]]\nclass_name = \"Box\"\nimage = "
                         "\"host\"\n[containers.instance_type]\nmemory_mib = 1_024\n");
    struct error err = {0};
    struct app_config *c = app_config_read(directory, NULL, &err);
    if (!c)
        fail_msg("%s", err.message);
    assert_string_equal(c->compatibility_date, "2026-11-01");
    assert_string_equal(c->vars[1].json, "{\"c\":\"x\"}");
    assert_string_equal(c->objects[0].class_name, "Box");
    assert_int_equal(c->classes[0].memory_mib, 1024);
    app_config_free(c);
    put("wrangler.toml", "name = \"w\"\nname = \"x\"\n");
    assert_null(app_config_read(directory, NULL, &err));
    assert_non_null(strstr(err.message, "line 2, column 6: a key that exists already"));
    drop("wrangler.toml");
}

static void toml_is(const char *text, const char *json)
{
    struct error err = {0};
    json_t *v = app_toml_parse(text, strlen(text), &err);
    if (!v)
        fail_msg("%s: %s", text, err.message);
    char *got = json_dumps(v, JSON_COMPACT);
    assert_string_equal(got, json);
    free(got);
    json_decref(v);
}

static void toml_refused(const char *text, const char *message)
{
    struct error err = {0};
    if (app_toml_parse(text, strlen(text), &err))
        fail_msg("accepted: %s", text);
    if (!strstr(err.message, message))
        fail_msg("%s: \"%s\" is not in \"%s\"", text, message, err.message);
}

static void test_toml(void **state)
{
    toml_is("", "{}");
    toml_is("a.b.c = 1\na.b.d = true\n\"x y\" = 'z'", "{\"a\":{\"b\":{\"c\":1,\"d\":true}},\"x y\":\"z\"}");
    toml_is("a = 0xFF\nb = -1_000\nc = 0b11\nd = 1.5e3\ne = 0o17",
            "{\"a\":255,\"b\":-1000,\"c\":3,\"d\":1500.0,\"e\":15}");
    toml_is("a = \"\\u00e9\\t\\\"\"\nb = \"\"\"\nx\\\n   y\"\"\"\nc = '''q''''",
            "{\"a\":\"\xc3\xa9\\t\\\"\",\"b\":\"xy\",\"c\":\"q'\"}");
    toml_is("a = 1979-05-27T07:32:00Z\nb = 07:32:00\nc = 1979-05-27 07:32:00.5",
            "{\"a\":\"1979-05-27T07:32:00Z\",\"b\":\"07:32:00\","
            "\"c\":\"1979-05-27 07:32:00.5\"}");
    toml_is("[a.b]\nx=1\n[a]\ny=2\n[[l]]\nz=1\n[l.m]\nn=1\n[[l]]\n",
            "{\"a\":{\"b\":{\"x\":1},\"y\":2},\"l\":[{\"z\":1,\"m\":{\"n\":1}},{}]}");
    toml_is("a = [[1, 2], [\n3,\n]]\r\nb = {c = {d = 1}}", "{\"a\":[[1,2],[3]],\"b\":{\"c\":{\"d\":1}}}");
    toml_refused("a = 1\n[a]", "exists already");
    toml_refused("[a]\n[a]", "exists already");
    toml_refused("a = {b = 1}\na.c = 2", "exists already");
    toml_refused("a = {b = 1}\n[a.c]", "exists already");
    toml_refused("a = [1]\n[[a]]", "exists already");
    toml_refused("a.b = 1\n[a]", "exists already");
    toml_refused("a = 1 b = 2", "the end of the line is wanted");
    toml_refused("a = \"x", "a text that does not end");
    toml_refused("a = \"x\ny\"", "a text that does not end");
    toml_refused("a = inf", "no value");
    toml_refused("a = 01", "starts with 0");
    toml_refused("a = 1__0", "a value is wanted");
    toml_refused("a = ", "a value is wanted");
    toml_refused("= 1", "a key is wanted");
    toml_refused("a = \"\\x\"", "an unknown escape");
    toml_refused("a = \"\\ud800\"", "no character");
    toml_refused("[a", "] is wanted");
    toml_refused("a = \xff", "not UTF-8");
    char deep[300] = "a = ";
    memset(deep + 4, '[', 200);
    toml_refused(deep, "nested too deeply");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),     cmocka_unit_test(test_exports),
        cmocka_unit_test(test_dates),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_file),   cmocka_unit_test(test_dockerfile),
        cmocka_unit_test(test_secrets),   cmocka_unit_test(test_environments),
        cmocka_unit_test(test_toml_file), cmocka_unit_test(test_toml),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
