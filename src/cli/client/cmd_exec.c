#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/client/attach.h"
#include "cli/client/client.h"
#include "cli/environment.h"
#include "cli/limit_options.h"
#include "cli/outcome.h"
#include "cli/tty.h"

#include <signal.h>
#include <string.h>

static int add_env(json_t *body, const struct options *o, bool tty, struct error *err)
{
    struct environment env = {0};
    int r = tty ? environment_set_term(&env, err) : 0;
    if (r == 0)
        r = environment_from_options(&env, o, err);
    if (r == 0 && env.count && json_set_pairs(body, "env", (const char *const *)env.items, env.count) < 0)
        r = error_field(err, "--env", "--env: not UTF-8");
    environment_free(&env);
    return r;
}

static int add_command(json_t *body, const struct options *o, struct error *err)
{
    json_t *argv = json_array();
    for (char *const *a = options_command(o); a && *a; a++) {
        if (json_array_append_new(argv, json_string(*a)) < 0) {
            json_decref(argv);
            return error_field(err, "argv", "the command is not UTF-8, which the API cannot carry");
        }
    }
    if (json_array_size(argv) == 0) {
        json_decref(argv);
        return error_field(err, "command", "exec: no command; usage: cloister exec NAME -- COMMAND");
    }
    json_object_set_new(body, "cmd", argv);
    return 0;
}

static json_t *exec_body(const struct options *o, struct error *err)
{
    bool tty = options_given(o, "tty");
    uint64_t timeout_ms = 0;
    json_t *body = json_object();
    if (add_command(body, o, err) < 0 || add_env(body, o, tty, err) < 0 ||
        timeout_read(o, &timeout_ms, err) < 0) {
        json_decref(body);
        return NULL;
    }
    if (options_given(o, "cwd"))
        json_object_set_new(body, "cwd", json_string(options_value(o, "cwd")));
    if (options_given(o, "user"))
        json_object_set_new(body, "user", json_string(options_value(o, "user")));
    if (timeout_ms)
        json_object_set_new(body, "timeoutMs", json_integer((json_int_t)timeout_ms));
    if (options_given(o, "interactive"))
        json_object_set_new(body, "stdin", json_string("pipe"));
    if (tty) {
        uint16_t cols, rows;
        tty_size(&cols, &rows);
        json_object_set_new(body, "pty", json_pack("{s:i, s:i}", "cols", cols, "rows", rows));
    }
    return body;
}

/* The command's code, or why it has none. */
static int code_of(const struct options *o, const struct attach_result *r, struct error *err)
{
    const char *reason = json_text_of(r->exit, "reason", ""), *detail = json_text_of(r->exit, "detail", "");
    if (r->output_refused)
        return 128 + SIGPIPE;
    if (strcmp(reason, "exit") == 0)
        return (int)json_int_of(r->exit, "exitCode", EXIT_OWN_FAILURE);
    if (strcmp(reason, "timeout") == 0) {
        if (options_given(o, "timeout"))
            message("the time limit (%s) ended the command", options_value(o, "timeout"));
        else
            message("the container's time limit ended the command");
        return EXIT_TIMEOUT;
    }
    if (strcmp(reason, "memory limit") == 0) {
        message("memory limit reached");
        return 128 + SIGKILL;
    }
    error_set(err, ERROR_GONE, "%s ended: %.100s%s%.300s", options_operand(o, 0), reason,
              detail[0] ? ": " : "", detail);
    return EXIT_OWN_FAILURE;
}

/* Output that is not whole is no success. Returns the code to end with. */
static int judge_loss(const struct attach_result *r, int code, struct error *err)
{
    static const char *const names[] = {"stdout", "stderr"};
    for (int i = 0; i < 2; i++) {
        if (r->dropped[i] == 0 || r->output_refused)
            continue;
        unsigned long long n = (unsigned long long)r->dropped[i];
        if (code == 0 && err->kind == ERROR_NONE)
            error_set(err, ERROR_LIMIT,
                      "%llu bytes of the command's %s were lost: they were not read in time", n, names[i]);
        else
            message("%llu bytes of the command's %s were lost: they were not read in time", n, names[i]);
    }
    return err->kind != ERROR_NONE ? EXIT_OWN_FAILURE : code;
}

static int print_result(const struct attach_result *r, int code, uint64_t started_ns)
{
    json_t *j = json_pack("{s:i, s:s}", "exitCode", code, "reason", json_text_of(r->exit, "reason", "exit"));
    json_t *signal = json_object_get(r->exit, "signal");
    if (signal)
        json_object_set(j, "signal", signal);
    json_text_output(j, &r->captured[0], r->bytes[0], &r->captured[1], r->bytes[1]);
    json_object_set_new(j, "durationMs",
                        json_integer((json_int_t)((clock_monotonic_ns() - started_ns) / 1000000)));
    return json_text_print(j);
}

static int attached(struct http *h, const struct options *o, const char *id, struct error *err)
{
    struct attach_config config = {
        .http = h,
        .container = options_operand(o, 0),
        .exec = id,
        .in = options_given(o, "interactive"),
        .tty = options_given(o, "tty"),
        .capture = options_given(o, "json"),
    };
    struct attach_result result;
    uint64_t started = clock_monotonic_ns();
    int code = EXIT_OWN_FAILURE;
    if (attach_run(&config, &result, err) == 0)
        code = judge_loss(&result, code_of(o, &result, err), err);
    if (err->kind == ERROR_NONE && config.capture && print_result(&result, code, started) < 0)
        code = EXIT_OWN_FAILURE;
    attach_result_free(&result);
    return code;
}

/* Starts it and, unless detached, stays with it. Fills the error when there is one. */
static int run(struct http *h, const struct options *o, json_t *body, struct error *err)
{
    json_t *record = NULL;
    cleanup_free char *url = url_make("/v1/containers/%s/exec", options_operand(o, 0));
    if (!url)
        error_oom(err);
    if (!url || http_json(h, "POST", url, body, &record, err) < 0)
        return outcome_of_error(err, options_command(o)[0], options_operand(o, 0));
    char id[64];
    snprintf(id, sizeof id, "%s", json_text_of(record, "id", ""));
    json_decref(record);
    if (!options_given(o, "detach"))
        return attached(h, o, id, err);
    puts(id);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}

static int check(const struct options *o, struct error *err)
{
    if (options_given(o, "detach") &&
        (options_given(o, "interactive") || options_given(o, "tty") || options_given(o, "json")))
        return error_field(err, "--detach", "--detach: not together with -i, -t or --json");
    if (options_given(o, "tty") && options_given(o, "json"))
        return error_field(err, "--tty", "--tty: not together with --json, which captures the output");
    return 0;
}

int cmd_exec(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    json_t *body = check(o, &err) < 0 ? NULL : exec_body(o, &err);
    if (!body) {
        if (options_given(o, "json"))
            json_text_error(&err);
        return message_usage("exec", &err);
    }
    int code = client_open(&h, o, &err) < 0 ? EXIT_OWN_FAILURE : run(h, o, body, &err);
    http_close(h);
    json_decref(body);
    if (err.kind != ERROR_NONE) {
        if (options_given(o, "json"))
            json_text_error(&err);
        message_fail(&err);
    }
    return code;
}
