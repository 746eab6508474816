#include "base/cleanup.h"
#include "cli/client/client.h"

#include <string.h>

/* "exit 3", "memory limit", "destroy: misbehaved". */
static void stop_text(const json_t *record, char *to, size_t cap)
{
    const json_t *stop = json_object_get(record, "stop");
    const char *reason = json_text_of(stop, "reason", ""), *detail = json_text_of(stop, "detail", "");
    to[0] = '\0';
    if (!json_is_object(stop))
        return;
    if (strcmp(reason, "exit") == 0)
        snprintf(to, cap, "exit %lld", (long long)json_int_of(stop, "exitCode", 0));
    else
        snprintf(to, cap, "%.60s%s%.120s", reason, detail[0] ? ": " : "", detail);
}

static void print_table(const json_t *list)
{
    static const char *const heading[] = {"NAME", "STATE", "IMAGE", "AGE", "STOPPED BY", "ISOLATION"};
    struct table *t = table_new(6);
    for (size_t i = 0; i < 6; i++)
        table_cell(t, heading[i]);
    size_t i;
    json_t *r;
    json_array_foreach(list, i, r)
    {
        char age[16], stop[256];
        stop_text(r, stop, sizeof stop);
        table_cell(t, json_text_of(r, "name", ""));
        table_cell(t, json_text_of(r, "state", ""));
        table_cell(t, json_text_of(r, "image", ""));
        table_cell(t, age_text(json_int_of(r, "startedAt", json_int_of(r, "createdAt", 0)), age));
        table_cell(t, stop);
        table_cell(t, json_text_of(r, "grade", ""));
    }
    table_print(t);
    table_free(t);
}

static void print_names(const json_t *list)
{
    size_t i;
    json_t *r;
    json_array_foreach(list, i, r) puts(json_text_of(r, "name", ""));
}

int cmd_ps(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    json_t *answer = NULL;
    const char *label = options_value(o, "label");
    bool all = options_given(o, "all");
    cleanup_free char *url =
        label ? url_make(all ? "/v1/containers?label=%s" : "/v1/containers?state=running&label=%s", label)
              : url_make(all ? "/v1/containers" : "/v1/containers?state=running");
    if (client_open(&h, o, &err) < 0 || http_json(h, "GET", url, NULL, &answer, &err) < 0) {
        http_close(h);
        return message_fail(&err);
    }
    http_close(h);
    const json_t *list = json_object_get(answer, "containers");
    int code = 0;
    if (options_given(o, "json"))
        code = json_text_print(json_incref(answer)) < 0 ? EXIT_OWN_FAILURE : 0;
    else if (options_given(o, "quiet"))
        print_names(list);
    else
        print_table(list);
    json_decref(answer);
    return stdout_complete() ? code : EXIT_OWN_FAILURE;
}
