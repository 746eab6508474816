/* How a run went, for people (stderr) or programs (--json), and its exit code. */
#include "cli/json_text.h"
#include "cli/message.h"
#include "cli/outcome.h"
#include "cli/run.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

static const char *reason_of(const struct run *r)
{
    if (r->output_refused)
        return "output closed";
    return stop_reason_name(r->status.reason);
}

static int code_of_status(const struct run *r)
{
    if (r->stopped_by)
        return 128 + r->stopped_by;
    if (r->output_refused)
        return 128 + SIGPIPE;
    if (r->status.reason == STOP_TIMEOUT)
        return EXIT_TIMEOUT;
    if (r->status.reason == STOP_MEMORY)
        return 128 + SIGKILL;
    return r->status.reason == STOP_EXIT ? r->status.code : EXIT_OWN_FAILURE;
}

/* An error that belongs to the run as a whole, made from a reason that is not the command's doing. */
static void error_from_status(struct run *r)
{
    if (r->error.kind != ERROR_NONE || r->stopped_by || r->output_refused)
        return;
    if (!r->have_status)
        error_set(&r->error, ERROR_INTERNAL, "the container ended without a word");
    else if (r->status.reason != STOP_EXIT && r->status.reason != STOP_TIMEOUT &&
             r->status.reason != STOP_MEMORY)
        error_set(&r->error, ERROR_GONE, "the container ended: %s%s%s", stop_reason_name(r->status.reason),
                  r->status.detail[0] ? ": " : "", r->status.detail);
}

static void say_limits(const struct run *r)
{
    const struct limit_options *l = &r->request.limits;
    char text[16];
    if (r->status.reason == STOP_TIMEOUT)
        message("the time limit (%s) ended the command", options_value(r->request.options, "timeout"));
    if (r->status.reason == STOP_MEMORY)
        message("memory limit (%s) reached",
                size_text(l->memory_bytes ? l->memory_bytes : LIMIT_DEFAULT_MEMORY, text));
}

static json_t *timings_json(const struct stage_timings *t)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:b}", "rootUs", (int)t->root, "namespacesUs",
                     (int)t->namespaces, "agentUs", (int)t->agent, "readyUs", (int)t->ready, "totalUs",
                     (int)t->total, "fromPool", t->from_pool);
}

static json_t *labels_json(const struct run *r)
{
    const char *const *values;
    size_t n = options_values(r->request.options, "label", &values);
    json_t *labels = json_object();
    for (size_t i = 0; i < n; i++) {
        size_t key = strcspn(values[i], "=");
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)key, values[i]);
        json_object_set_new(labels, name, json_string(values[i] + key + 1));
    }
    return labels;
}

static json_t *result_json(const struct run *r, int code)
{
    json_t *j = json_pack("{s:i, s:s}", "exitCode", code, "reason", reason_of(r));
    int signal = r->stopped_by ? r->stopped_by : r->status.signal;
    if (signal)
        json_object_set_new(j, "signal", json_integer(signal));
    json_text_output(j, &r->out.captured, r->out.bytes, &r->err.captured, r->err.bytes);
    json_object_set_new(j, "durationMs", json_integer((json_int_t)((r->ended_ns - r->started_ns) / 1000000)));
    if (r->have_timings)
        json_object_set_new(j, "timings", timings_json(&r->timings));
    json_object_set_new(j, "image", json_string(r->request.image));
    if (r->engine)
        json_object_set_new(j, "grade", json_string(engine_grade(r->engine)->text));
    if (r->request.name)
        json_object_set_new(j, "name", json_string(r->request.name));
    if (options_given(r->request.options, "label"))
        json_object_set_new(j, "labels", labels_json(r));
    return j;
}

static void say_timings(const struct run *r)
{
    const struct stage_timings *t = &r->timings;
    if (r->request.timings && r->have_timings)
        message("started in %.2f ms: root %.2f, namespaces %.2f, agent %.2f, ready %.2f", t->total / 1e3,
                t->root / 1e3, t->namespaces / 1e3, t->agent / 1e3, t->ready / 1e3);
}

int run_report(struct run *r)
{
    error_from_status(r);
    if (r->error.kind != ERROR_NONE) {
        int code = outcome_of_error(&r->error, r->plan.argv ? r->plan.argv[0] : NULL, r->request.image);
        message_fail(&r->error);
        if (r->request.json)
            json_text_error(&r->error);
        return code;
    }
    int code = code_of_status(r);
    say_timings(r);
    if (!r->stopped_by)
        say_limits(r);
    if (r->request.json && json_text_print(result_json(r, code)) < 0)
        return EXIT_OWN_FAILURE;
    return code;
}
