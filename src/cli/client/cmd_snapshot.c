#include "base/cleanup.h"
#include "cli/client/client.h"
#include "cli/limit_options.h"

#include <string.h>
#include <time.h>

static json_t *create_body(const struct options *o)
{
    json_t *body = json_object(), *exclude = json_array();
    const char *const *patterns;
    size_t n = options_values(o, "exclude", &patterns);
    if (options_given(o, "name"))
        json_object_set_new(body, "name", json_string(options_value(o, "name")));
    if (options_given(o, "dir"))
        json_object_set_new(body, "dir", json_string(options_value(o, "dir")));
    for (size_t i = 0; i < n; i++)
        json_array_append_new(exclude, json_string(patterns[i]));
    if (n > 0)
        json_object_set(body, "exclude", exclude);
    json_decref(exclude);
    return body;
}

int cmd_snapshot_create(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    json_t *answer = NULL, *body = create_body(o);
    cleanup_free char *url = url_make("/v1/containers/%s/snapshots", options_operand(o, 0));
    int r = client_open(&h, o, &err) < 0 || http_json(h, "POST", url, body, &answer, &err) < 0 ? -1 : 0;
    http_close(h);
    json_decref(body);
    if (r < 0)
        return message_fail(&err);
    if (options_given(o, "json"))
        json_text_print(json_incref(answer));
    else
        puts(json_text_of(answer, "id", ""));
    json_decref(answer);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}

static void print_table(const json_t *list)
{
    static const char *const heading[] = {"ID", "NAME", "KIND", "SIZE", "AGE", "KEPT UNTIL"};
    struct table *t = table_new(6);
    size_t i;
    json_t *s;
    for (i = 0; i < 6; i++)
        table_cell(t, heading[i]);
    json_array_foreach(list, i, s)
    {
        char age[16], size[16], day[32];
        time_t expires = (time_t)(json_int_of(s, "expiresAt", 0) / 1000);
        struct tm tm;
        strftime(day, sizeof day, "%Y-%m-%d", localtime_r(&expires, &tm));
        table_cell(t, json_text_of(s, "id", ""));
        table_cell(t, json_text_of(s, "name", ""));
        table_cell(t, json_text_of(s, "kind", ""));
        table_cell(t, size_text((uint64_t)json_int_of(s, "size", 0), size));
        table_cell(t, age_text(json_int_of(s, "createdAt", 0), age));
        table_cell(t, day);
    }
    table_print(t);
    table_free(t);
}

int cmd_snapshot_list(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    json_t *answer = NULL, *s;
    int r = client_open(&h, o, &err) < 0 || http_json(h, "GET", "/v1/snapshots", NULL, &answer, &err) < 0 ? -1
                                                                                                          : 0;
    http_close(h);
    if (r < 0)
        return message_fail(&err);
    const json_t *list = json_object_get(answer, "snapshots");
    size_t i;
    if (options_given(o, "json")) {
        json_text_print(json_incref(answer));
    } else if (options_given(o, "quiet")) {
        json_array_foreach(list, i, s) puts(json_text_of(s, "id", ""));
    } else {
        print_table(list);
    }
    json_decref(answer);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}

static int rm_one(struct http *h, const struct options *o, const char *id, struct error *err)
{
    cleanup_free char *url = url_make("/v1/snapshots/%s", id);
    return url ? http_json(h, "DELETE", url, NULL, NULL, err) : error_oom(err);
}

int cmd_snapshot_rm(const struct options *o)
{
    return client_for_each(o, rm_one);
}
