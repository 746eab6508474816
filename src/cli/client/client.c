#include "cli/client/client.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths.h"
#include "cli/client/trust.h"

#include <string.h>

int client_open(struct http **ret, const struct options *o, struct error *err)
{
    struct paths p = {0};
    if (paths_init(&p, NULL, NULL, options_value(o, "socket"), err) < 0)
        return -1;
    int r = socket_trust(p.socket, err);
    if (r == 0)
        r = http_open(ret, p.socket, err);
    paths_free(&p);
    return r;
}

int client_for_each(const struct options *o, client_each one)
{
    struct error err = {0};
    struct http *h = NULL;
    if (client_open(&h, o, &err) < 0)
        return message_fail(&err);
    int code = 0;
    for (size_t i = 0; i < options_operand_count(o); i++) {
        error_clear(&err);
        if (one(h, o, options_operand(o, i), &err) < 0)
            code = message_fail(&err);
    }
    http_close(h);
    return code || !stdout_complete() ? EXIT_OWN_FAILURE : 0;
}

const char *json_text_of(const json_t *object, const char *key, const char *fallback)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : fallback;
}

json_int_t json_int_of(const json_t *object, const char *key, json_int_t fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? (json_int_t)json_number_value(v) : fallback;
}

int json_set_pairs(json_t *to, const char *key, const char *const *pairs, size_t count)
{
    json_t *o = json_object();
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(pairs[i], "=");
        cleanup_free char *name = strndup(pairs[i], len);
        if (!name || json_object_set_new(o, name, json_string(pairs[i] + len + (pairs[i][len] == '='))) < 0) {
            json_decref(o);
            return -1;
        }
    }
    return json_object_set_new(to, key, o);
}

const char *age_text(json_int_t since_ms, char text[16])
{
    static const struct {
        const char *unit;
        json_int_t seconds;
    } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
    json_int_t s = (clock_wall_ms() - since_ms) / 1000;
    size_t u = 0;
    s = s < 0 ? 0 : s;
    while (u < 3 && s < 2 * units[u].seconds)
        u++;
    snprintf(text, 16, "%lld %s", (long long)(s / units[u].seconds) % 1000000, units[u].unit);
    return text;
}
