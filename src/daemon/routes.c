#include "daemon/routes.h"

#include "daemon/api.h"

#include <stdio.h>
#include <string.h>

#define C "/v1/containers/{name}"

static const struct route routes[] = {
    {"GET", "/v1/version", BODY_NONE, 0, "", api_version},

    {"GET", "/v1/containers", BODY_NONE, 0, "state label*", api_containers_list},
    {"POST", "/v1/containers", BODY_JSON, 0, "", api_container_create},
    {"POST", C "/start", BODY_JSON_OPTIONAL, 0, "", api_container_start},
    {"GET", C, BODY_NONE, ROUTE_PASSIVE, "", api_container_get},
    {"PATCH", C, BODY_JSON, ROUTE_PASSIVE, "", api_container_patch},
    {"DELETE", C, BODY_NONE, ROUTE_PASSIVE, "", api_container_delete},
    {"POST", C "/signal", BODY_JSON, 0, "", api_container_signal},
    {"POST", C "/destroy", BODY_JSON_OPTIONAL, ROUTE_PASSIVE, "", api_container_destroy},
    {"POST", C "/stop", BODY_JSON_OPTIONAL, ROUTE_PASSIVE, "", api_container_stop},
    {"GET", C "/monitor", BODY_NONE, ROUTE_PASSIVE, "", api_container_monitor},
    {"PUT", C "/inactivity-timeout", BODY_JSON, 0, "", api_container_inactivity},

    {"POST", C "/exec", BODY_JSON, 0, "encoding", api_exec_create},
    {"GET", C "/exec", BODY_NONE, ROUTE_PASSIVE, "", api_exec_list},
    {"GET", C "/exec/{id}", BODY_NONE, ROUTE_PASSIVE, "", api_exec_get},
    {"DELETE", C "/exec/{id}", BODY_NONE, 0, "", api_exec_delete},
    {"GET", C "/exec/{id}/output", BODY_NONE, 0, "stdout stderr follow", api_exec_output},
    {"PUT", C "/exec/{id}/stdin", BODY_STREAM, 0, "eof", api_exec_stdin},
    {"POST", C "/exec/{id}/kill", BODY_JSON_OPTIONAL, 0, "", api_exec_kill},
    {"POST", C "/exec/{id}/resize", BODY_JSON, 0, "", api_exec_resize},

    {"GET", C "/files", BODY_NONE, 0, "path offset length", api_file_read},
    {"PUT", C "/files", BODY_STREAM, 0, "path mode parents exclusive append sha256", api_file_write},
    {"DELETE", C "/files", BODY_NONE, 0, "path recursive force", api_file_remove},
    {"GET", C "/files/stat", BODY_NONE, 0, "path follow", api_file_stat},
    {"GET", C "/files/list", BODY_NONE, 0, "path recursive hidden", api_file_list},
    {"POST", C "/files/mkdir", BODY_JSON, 0, "", api_file_mkdir},
    {"POST", C "/files/rename", BODY_JSON, 0, "", api_file_rename},
    {"GET", C "/files/archive", BODY_NONE, 0, "path exclude*", api_file_export},
    {"PUT", C "/files/archive", BODY_STREAM, 0, "path parents sha256", api_file_import},
    {"GET", C "/files/watch", BODY_NONE, 0, "path recursive", api_file_watch},

    {"POST", C "/snapshots", BODY_JSON_OPTIONAL, 0, "", api_snapshot_create},
    {"GET", "/v1/snapshots", BODY_NONE, 0, "", api_snapshots_list},
    {"GET", "/v1/snapshots/{id}", BODY_NONE, 0, "", api_snapshot_get},
    {"DELETE", "/v1/snapshots/{id}", BODY_NONE, 0, "", api_snapshot_delete},

    {"GET", "/v1/images", BODY_NONE, 0, "", api_images_list},
    {"POST", "/v1/images/pull", BODY_JSON, 0, "", api_image_pull},
    {"POST", "/v1/images/import", BODY_STREAM, 0, "name", api_image_import},
    {"GET", "/v1/images/{name}", BODY_NONE, 0, "", api_image_get},
    {"DELETE", "/v1/images/{name}", BODY_NONE, 0, "", api_image_delete},
};

#define ROUTES (sizeof routes / sizeof *routes)

/* One segment of a pattern against one of the target. */
static bool match_segment(struct request *r, const char *pattern, size_t len, const char *segment)
{
    if (pattern[0] != '{')
        return strlen(segment) == len && memcmp(pattern, segment, len) == 0;
    if (strncmp(pattern, "{name}", len) == 0)
        r->name = segment;
    else
        r->id = segment;
    return true;
}

static bool match(struct request *r, const char *pattern)
{
    r->name = r->id = NULL;
    for (size_t i = 0; i < r->uri.segment_count; i++) {
        if (*pattern++ != '/')
            return false;
        size_t len = strcspn(pattern, "/");
        if (!match_segment(r, pattern, len, r->uri.segments[i]))
            return false;
        pattern += len;
    }
    return *pattern == '\0';
}

int routes_match(struct request *r, const char *method, char *allow, size_t allow_size, struct error *err)
{
    allow[0] = '\0';
    for (size_t i = 0; i < ROUTES; i++) {
        if (!match(r, routes[i].pattern))
            continue;
        if (strcmp(routes[i].method, method) == 0) {
            r->route = &routes[i];
            return 0;
        }
        size_t used = strlen(allow);
        snprintf(allow + used, allow_size - used, "%s%s", used ? ", " : "", routes[i].method);
    }
    r->name = r->id = NULL;
    if (allow[0])
        return error_set(err, ERROR_DENIED, "method %.16s is not allowed here, only %s", method, allow);
    return error_set(err, ERROR_NOT_FOUND, "there is no such path in the API");
}

/* Is `key` among the words of `list`? *ret_repeats when its word ends with '*'. */
static bool takes(const char *list, const char *key, bool *ret_repeats)
{
    size_t key_len = strlen(key);
    for (size_t len; *list; list += len + (list[len] == ' ')) {
        len = strcspn(list, " ");
        *ret_repeats = len > 0 && list[len - 1] == '*';
        if (len - *ret_repeats == key_len && memcmp(list, key, key_len) == 0)
            return true;
    }
    return false;
}

int routes_check_query(const struct request *r, struct error *err)
{
    for (size_t i = 0; i < r->uri.query_count; i++) {
        const char *key = r->uri.query[i].key;
        bool repeats;
        if (!takes(r->route->query, key, &repeats))
            return error_field(err, key, "%.64s: unknown query parameter; %s %s takes: %s", key,
                               r->route->method, r->route->pattern,
                               r->route->query[0] ? r->route->query : "none");
        for (size_t k = 0; k < i && !repeats; k++)
            if (strcmp(r->uri.query[k].key, key) == 0)
                return error_field(err, key, "%s: given twice", key);
    }
    return 0;
}

void routes_print(void)
{
    static const char *const bodies[] = {"none", "json", "json?", "stream"};
    for (size_t i = 0; i < ROUTES; i++)
        printf("%s %s %s %s\n", routes[i].method, routes[i].pattern, bodies[routes[i].body], routes[i].query);
}
