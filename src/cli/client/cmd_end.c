/* stop, signal, destroy, rm. */
#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/client/client.h"
#include "cli/limit_options.h"

#include <ctype.h>
#include <signal.h>
#include <string.h>

static int post(struct http *h, char *url, json_t *body, struct error *err)
{
    int r = url && body ? http_json(h, "POST", url, body, NULL, err) : error_oom(err);
    free(url);
    json_decref(body);
    return r;
}

static int stop_one(struct http *h, const struct options *o, const char *name, struct error *err)
{
    uint64_t ms = 10000;
    if (timeout_read(o, &ms, err) < 0)
        return -1;
    return post(h, url_make("/v1/containers/%s/stop", name), json_pack("{s:I}", "timeoutMs", (json_int_t)ms),
                err);
}

static int destroy_one(struct http *h, const struct options *o, const char *name, struct error *err)
{
    const char *reason = options_value(o, "reason");
    json_t *body = reason ? json_pack("{s:s}", "reason", reason) : json_object();
    if (!body)
        return error_field(err, "--reason", "--reason: not UTF-8");
    return post(h, url_make("/v1/containers/%s/destroy", name), body, err);
}

static int rm_one(struct http *h, const struct options *o, const char *name, struct error *err)
{
    json_t *record = NULL;
    cleanup_free char *url = url_make("/v1/containers/%s", name);
    if (!options_given(o, "force")) {
        if (http_json(h, "GET", url, NULL, &record, err) < 0)
            return -1;
        bool running = strcmp(json_text_of(record, "state", ""), "stopped") != 0;
        json_decref(record);
        if (running)
            return error_set(err, ERROR_STATE, "%s is running: stop it first, or use --force", name);
    }
    return http_json(h, "DELETE", url, NULL, NULL, err);
}

int cmd_stop(const struct options *o)
{
    return client_for_each(o, stop_one);
}

int cmd_destroy(const struct options *o)
{
    return client_for_each(o, destroy_one);
}

int cmd_rm(const struct options *o)
{
    return client_for_each(o, rm_one);
}

/* "TERM", "SIGTERM", "term", "15". */
static int signal_read(const char *text, uint64_t *ret, struct error *err)
{
    if (isdigit((unsigned char)text[0]))
        return parse_u64(text, "--signal", 1, 64, ret, err);
    if (strncasecmp(text, "SIG", 3) == 0)
        text += 3;
    for (int n = 1; n < SIGRTMIN; n++) {
        const char *name = sigabbrev_np(n);
        if (name && strcasecmp(name, text) == 0) {
            *ret = (uint64_t)n;
            return 0;
        }
    }
    return error_field(err, "--signal",
                       "--signal: expected a name such as HUP or a number from 1 to 64, got \"%.32s\"", text);
}

static int signal_one(struct http *h, const struct options *o, const char *name, struct error *err)
{
    uint64_t n = SIGTERM;
    if (options_given(o, "signal") && signal_read(options_value(o, "signal"), &n, err) < 0)
        return -1;
    return post(h, url_make("/v1/containers/%s/signal", name), json_pack("{s:I}", "signal", (json_int_t)n),
                err);
}

int cmd_signal(const struct options *o)
{
    return client_for_each(o, signal_one);
}
