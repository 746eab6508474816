#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/client/client.h"
#include "cli/environment.h"
#include "cli/limit_options.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

static uint64_t mib_up(uint64_t bytes)
{
    return bytes / MIB + (bytes % MIB != 0);
}

static void add_count(json_t *to, const char *key, uint64_t value)
{
    if (value)
        json_object_set_new(to, key, json_integer((json_int_t)value));
}

static int add_limits(json_t *body, const struct options *o, struct error *err)
{
    struct limit_options l;
    if (limit_options_read(o, &l, err) < 0)
        return -1;
    json_t *instance = json_object();
    add_count(instance, "memoryMib", mib_up(l.memory_bytes));
    add_count(instance, "diskMb", mib_up(l.disk_bytes));
    add_count(instance, "pids", l.pids);
    add_count(instance, "openFiles", l.open_files);
    if (l.cpu_milli)
        json_object_set_new(instance, "vcpu", json_real(l.cpu_milli / 1000.0));
    if (json_object_size(instance) > 0)
        json_object_set(body, "instance", instance);
    json_decref(instance);
    add_count(body, "hardTimeout", l.timeout_ms);
    return 0;
}

static int add_pairs(json_t *body, const struct options *o, struct error *err)
{
    struct environment env = {0};
    const char *const *labels;
    size_t n = options_values(o, "label", &labels);
    int r = environment_from_options(&env, o, err);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = parse_env(labels[i], "--label", err);
    if (r == 0 && env.count > 0 && json_set_pairs(body, "env", (const char *const *)env.items, env.count) < 0)
        r = error_field(err, "--env", "--env: not UTF-8");
    if (r == 0 && n > 0 && json_set_pairs(body, "labels", labels, n) < 0)
        r = error_field(err, "--label", "--label: not UTF-8");
    environment_free(&env);
    return r;
}

/* SNAPSHOT:DIR */
static int add_mounts(json_t *body, const struct options *o, struct error *err)
{
    const char *const *values;
    size_t n = options_values(o, "mount", &values);
    json_t *mounts = n > 0 ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        const char *colon = strchr(values[i], ':');
        if (!colon || colon == values[i] || colon[1] != '/') {
            json_decref(mounts);
            return error_field(err, "--mount",
                               "--mount: expected SNAPSHOT:DIR with an absolute DIR, got \"%.200s\"",
                               values[i]);
        }
        json_t *m =
            json_pack("{s:s%, s:s}", "snapshot", values[i], (size_t)(colon - values[i]), "target", colon + 1);
        if (!m || json_array_append_new(mounts, m) < 0) {
            json_decref(mounts);
            return error_field(err, "--mount", "--mount: not UTF-8");
        }
    }
    if (mounts)
        json_object_set_new(body, "mounts", mounts);
    return 0;
}

static void add_text(json_t *body, const char *key, const char *value)
{
    if (value)
        json_object_set_new(body, key, json_string(value));
}

static json_t *start_body(const struct options *o, struct error *err)
{
    json_t *body = json_pack("{s:s}", "name", options_operand(o, 0));
    if (!body) {
        error_field(err, "name", "the name is not UTF-8");
        return NULL;
    }
    add_text(body, "image", options_value(o, "image"));
    add_text(body, "snapshot", options_value(o, "snapshot"));
    add_text(body, "cwd", options_value(o, "cwd"));
    add_text(body, "user", options_value(o, "user"));
    json_t *argv = json_array();
    for (char *const *a = options_command(o); a && *a; a++)
        json_array_append_new(argv, json_string(*a));
    if (json_array_size(argv) > 0)
        json_object_set(body, "entrypoint", argv);
    json_decref(argv);
    if (add_limits(body, o, err) == 0 && add_pairs(body, o, err) == 0 && add_mounts(body, o, err) == 0)
        return body;
    json_decref(body);
    return NULL;
}

static void say_timings(const json_t *record)
{
    const json_t *t = json_object_get(record, "timings");
    message("started in %.2f ms: root %.2f, namespaces %.2f, agent %.2f, ready %.2f%s",
            (double)json_int_of(t, "totalUs", 0) / 1e3, (double)json_int_of(t, "rootUs", 0) / 1e3,
            (double)json_int_of(t, "namespacesUs", 0) / 1e3, (double)json_int_of(t, "agentUs", 0) / 1e3,
            (double)json_int_of(t, "readyUs", 0) / 1e3,
            json_is_true(json_object_get(t, "fromPool")) ? " (from the pool)" : "");
}

/* A name that exists starts again, as what is asked for now. */
static int start(struct http *h, const struct options *o, json_t *body, json_t **ret, struct error *err)
{
    if (http_json(h, "POST", "/v1/containers", body, ret, err) == 0)
        return 0;
    if (err->kind != ERROR_EXISTS)
        return -1;
    cleanup_free char *url = url_make("/v1/containers/%s/start", options_operand(o, 0));
    json_object_del(body, "name");
    error_clear(err);
    return http_json(h, "POST", url, body, ret, err);
}

int cmd_start(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    json_t *record = NULL;
    if (parse_name(options_operand(o, 0), "name", &err) < 0)
        return message_usage("start", &err);
    json_t *body = start_body(o, &err);
    if (!body)
        return message_usage("start", &err);
    int r = client_open(&h, o, &err) < 0 || start(h, o, body, &record, &err) < 0 ? -1 : 0;
    http_close(h);
    json_decref(body);
    if (r < 0)
        return message_fail(&err);
    if (options_given(o, "timings"))
        say_timings(record);
    if (options_given(o, "json"))
        json_text_print(json_incref(record));
    else
        puts(json_text_of(record, "name", options_operand(o, 0)));
    json_decref(record);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}
