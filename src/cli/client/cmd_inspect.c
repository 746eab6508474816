/* inspect and stats: what the daemon knows about containers, and what they use. */
#include "base/cleanup.h"
#include "cli/client/client.h"
#include "cli/limit_options.h"

#include <string.h>

int cmd_inspect(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    json_t *record = NULL;
    cleanup_free char *url = url_make("/v1/containers/%s", options_operand(o, 0));
    int r = client_open(&h, o, &err) < 0 || http_json(h, "GET", url, NULL, &record, &err) < 0 ? -1 : 0;
    http_close(h);
    if (r < 0)
        return message_fail(&err);
    json_dumpf(record, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(record);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}

/* The names given, or those of every running container. */
static json_t *names_of(struct http *h, const struct options *o, struct error *err)
{
    json_t *names = json_array(), *answer = NULL, *r;
    size_t i;
    for (i = 0; i < options_operand_count(o); i++)
        json_array_append_new(names, json_string(options_operand(o, i)));
    if (i > 0)
        return names;
    if (http_json(h, "GET", "/v1/containers?state=running", NULL, &answer, err) < 0) {
        json_decref(names);
        return NULL;
    }
    json_array_foreach(json_object_get(answer, "containers"), i, r)
    {
        json_array_append(names, json_object_get(r, "name"));
    }
    json_decref(answer);
    return names;
}

static void add_row(struct table *t, const char *name, const json_t *usage)
{
    char text[32], size[16];
    table_cell(t, name);
    if (!json_is_object(usage)) {
        for (int i = 0; i < 5; i++)
            table_cell(t, "-");
        return;
    }
    table_cell(t, size_text((uint64_t)json_int_of(usage, "memoryBytes", 0), size));
    table_cell(t, size_text((uint64_t)json_int_of(usage, "memoryPeakBytes", 0), size));
    snprintf(text, sizeof text, "%.2f s", (double)json_int_of(usage, "cpuUs", 0) / 1e6);
    table_cell(t, text);
    snprintf(text, sizeof text, "%lld", (long long)json_int_of(usage, "pids", 0));
    table_cell(t, text);
    table_cell(t, size_text((uint64_t)json_int_of(usage, "diskBytes", 0), size));
}

/* One container gone in between is said and passed over. */
static int collect(struct http *h, const json_t *names, json_t *all, struct table *t)
{
    int code = 0;
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name)
    {
        struct error err = {0};
        json_t *record = NULL;
        cleanup_free char *url = url_make("/v1/containers/%s", json_string_value(name));
        if (http_json(h, "GET", url, NULL, &record, &err) < 0) {
            code = message_fail(&err);
            continue;
        }
        json_t *usage = json_object_get(record, "usage");
        add_row(t, json_string_value(name), usage);
        json_object_set(all, json_string_value(name), usage ? usage : json_null());
        json_decref(record);
    }
    return code;
}

int cmd_stats(const struct options *o)
{
    static const char *const heading[] = {"NAME", "MEMORY", "PEAK", "CPU TIME", "PIDS", "DISK"};
    struct error err = {0};
    struct http *h = NULL;
    json_t *names = client_open(&h, o, &err) < 0 ? NULL : names_of(h, o, &err);
    if (!names) {
        http_close(h);
        return message_fail(&err);
    }
    struct table *t = table_new(6);
    json_t *all = json_object();
    for (size_t i = 0; i < 6; i++)
        table_cell(t, heading[i]);
    int code = collect(h, names, all, t);
    if (options_given(o, "json"))
        json_text_print(json_incref(all));
    else
        table_print(t);
    table_free(t);
    json_decref(all);
    json_decref(names);
    http_close(h);
    return stdout_complete() ? code : EXIT_OWN_FAILURE;
}
