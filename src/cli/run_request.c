#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int copy_read(struct copy_spec *ret, const char *field, const char *text, bool to_container,
                     struct error *err)
{
    /* The container's side is an absolute path, so a colon in the host's name does no harm. */
    const char *colon = to_container ? strstr(text, ":/") : strchr(text, ':');
    for (const char *later; to_container && colon && (later = strstr(colon + 1, ":/"));)
        colon = later;
    if (!colon || colon == text || !colon[1])
        return error_field(err, field,
                           "%s: expected SRC:DST with an absolute path in the container, got \"%.200s\"",
                           field, text);
    if (!to_container && text[0] != '/')
        return error_field(err, field, "%s: the path in the container must be absolute, got \"%.200s\"",
                           field, text);
    ret->from = strndup(text, (size_t)(colon - text));
    ret->to = strdup(colon + 1);
    if (to_container && ret->from && access(ret->from, R_OK) < 0)
        return error_system(err, errno, "%s: cannot read %s", field, ret->from);
    return ret->from && ret->to ? 0 : error_oom(err);
}

static int copies_read(struct copy_spec **ret, size_t *ret_count, const struct options *o, const char *name,
                       const char *field, bool to_container, struct error *err)
{
    const char *const *values;
    size_t n = options_values(o, name, &values);
    if (n == 0)
        return 0;
    *ret = calloc(n, sizeof **ret);
    if (!*ret)
        return error_oom(err);
    *ret_count = n;
    for (size_t i = 0; i < n; i++)
        if (copy_read(&(*ret)[i], field, values[i], to_container, err) < 0)
            return -1;
    return 0;
}

static int labels_check(const struct options *o, struct error *err)
{
    const char *const *values;
    size_t n = options_values(o, "label", &values);
    for (size_t i = 0; i < n; i++)
        if (parse_env(values[i], "--label", err) < 0)
            return -1;
    return 0;
}

static int paths_read(struct run_request *q, struct error *err)
{
    return paths_init(&q->paths, options_value(q->options, "data-dir"), options_value(q->options, "run-dir"),
                      NULL, err);
}

static int cwd_check(const char *cwd, struct error *err)
{
    if (cwd && cwd[0] != '/')
        return error_field(err, "--cwd", "--cwd: expected an absolute path in the container, got \"%.200s\"",
                           cwd);
    return 0;
}

int run_request_read(struct run_request *ret, const struct options *o, struct error *err)
{
    struct run_request *q = ret;
    *q = (struct run_request){.options = o};
    q->image = options_given(o, "image") ? options_value(o, "image") : "host";
    q->snapshot = options_value(o, "snapshot");
    q->name = options_value(o, "name");
    q->hostname = options_value(o, "hostname");
    q->cwd = options_value(o, "cwd");
    q->user = options_value(o, "user");
    q->tty = options_given(o, "tty");
    q->no_stdin = options_given(o, "no-stdin");
    q->json = options_given(o, "json");
    q->timings = options_given(o, "timings");
    q->quiet = options_given(o, "quiet");
    if (q->tty && q->json)
        return error_field(err, "--tty", "--tty: not together with --json, which captures the output");
    if ((q->name && parse_name(q->name, "--name", err) < 0) ||
        (q->hostname && parse_name(q->hostname, "--hostname", err) < 0) || cwd_check(q->cwd, err) < 0 ||
        labels_check(o, err) < 0 || limit_options_read(o, &q->limits, err) < 0 ||
        copies_read(&q->in, &q->in_count, o, "copy-in", "--copy-in", true, err) < 0 ||
        copies_read(&q->out, &q->out_count, o, "copy-out", "--copy-out", false, err) < 0)
        return -1;
    return paths_read(q, err);
}

static void copies_free(struct copy_spec *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(c[i].from);
        free(c[i].to);
    }
    free(c);
}

void run_request_free(struct run_request *q)
{
    copies_free(q->in, q->in_count);
    copies_free(q->out, q->out_count);
    paths_free(&q->paths);
}
