/* One run of esbuild: its command line, its process, and what it left behind. Watching is bundle_watch.c. */
#include "app/bundle.h"

#include "app/bundle_internal.h"
#include "app/config_read.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORT_MAX ((size_t)256 << 10)
#define OUTPUT_MAX ((size_t)256 << 20)
#define MAIN_NAME "index.js"
#define META_NAME ".cloister-meta.json"

/* What wrangler's default rules make modules of. */
static const struct app_rule default_rules[] = {
    {APP_MODULE_WASM, (char *)".wasm"}, {APP_MODULE_TEXT, (char *)".txt"}, {APP_MODULE_TEXT, (char *)".html"},
    {APP_MODULE_TEXT, (char *)".sql"},  {APP_MODULE_DATA, (char *)".bin"},
};

/* Node's modules under their old names, when nodejs_compat is on; sub-paths go with them. */
static const char *const node_names[] = {
    "assert",         "async_hooks", "buffer", "console", "crypto",   "diagnostics_channel", "events",
    "module",         "os",          "path",   "process", "punycode", "querystring",         "stream",
    "string_decoder", "timers",      "url",    "util",    "zlib"};

char *bundle_find_esbuild(struct error *err)
{
    const char *given = getenv("CLOISTER_ESBUILD");
    if (given && *given) {
        char *copy = strdup(given);
        if (!copy)
            error_oom(err);
        return copy;
    }
    char *path;
    struct error e = {0};
    if (paths_helper("esbuild", &path, &e) == 0)
        return path;
    error_set(err, ERROR_UNSUPPORTED,
              "esbuild, which bundles applications, is not there: reinstall Cloister, or let "
              "CLOISTER_ESBUILD name the "
              "program of the npm package esbuild");
    return NULL;
}

/* ---- the command line ---- */

static int add(char ***args, char *text, struct error *err)
{
    return strv_add(args, text, err);
}

static bool has_flag(const struct app_config *c, const char *flag)
{
    for (char **f = c->compatibility_flags; *f; f++)
        if (strcmp(*f, flag) == 0)
            return true;
    return false;
}

static int add_rules(char ***args, const struct app_rule *rules, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (add(args, text_format("--loader:%s=copy", rules[i].suffix), err) < 0)
            return -1;
    return 0;
}

static char **make_arguments(const struct bundle *b, const struct app_config *c, const char *esbuild,
                             struct error *err)
{
    static const char *const fixed[] = {"--bundle",
                                        "--format=esm",
                                        "--target=es2022",
                                        "--platform=browser",
                                        "--conditions=workerd,worker,browser",
                                        "--external:cloudflare:*",
                                        "--external:node:*",
                                        "--external:workerd:*",
                                        "--entry-names=index",
                                        "--asset-names=[name]-[hash]",
                                        "--keep-names",
                                        "--log-level=warning",
                                        "--log-limit=20",
                                        "--color=false",
                                        "--charset=utf8",
                                        "--legal-comments=none",
                                        "--define:process.env.NODE_ENV=\"production\""};
    char **args = NULL;
    if (add(&args, strdup(esbuild), err) < 0 || add(&args, strdup(c->main), err) < 0)
        goto fail;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (add(&args, strdup(fixed[i]), err) < 0)
            goto fail;
    if (add(&args, text_format("--outdir=%s", b->scratch), err) < 0 ||
        add(&args, text_format("--metafile=%s/" META_NAME, b->scratch), err) < 0 ||
        add_rules(&args, default_rules, sizeof default_rules / sizeof *default_rules, err) < 0 ||
        add_rules(&args, c->rules, c->rule_count, err) < 0)
        goto fail;
    if (has_flag(c, "nodejs_compat") || has_flag(c, "nodejs_compat_v2"))
        for (size_t i = 0; i < sizeof node_names / sizeof *node_names; i++)
            if (add(&args, text_format("--alias:%s=node:%s", node_names[i], node_names[i]), err) < 0)
                goto fail;
    for (char **d = c->defines; *d; d++)
        if (add(&args, text_format("--define:%s", *d), err) < 0)
            goto fail;
    for (char **a = c->aliases; *a; a++)
        if (add(&args, text_format("--alias:%s", *a), err) < 0)
            goto fail;
    if (c->tsconfig && add(&args, text_format("--tsconfig=%s", c->tsconfig), err) < 0)
        goto fail;
    return args;
fail:
    strv_free(args);
    return NULL;
}

/* ---- what it left behind ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static enum bundle_kind kind_of(const struct bundle *b, const char *name)
{
    for (size_t i = 0; i < b->rule_count; i++)
        if (ends_with(name, b->rules[i].suffix))
            switch (b->rules[i].kind) {
            case APP_MODULE_TEXT:
                return BUNDLE_TEXT;
            case APP_MODULE_DATA:
                return BUNDLE_DATA;
            case APP_MODULE_WASM:
                return BUNDLE_WASM;
            }
    return BUNDLE_JS;
}

static int add_module(struct bundle *b, struct bundle_result *r, int dirfd, const char *name,
                      struct error *err)
{
    struct bundle_module *m = array_add(&r->modules, &r->module_count, sizeof *m, err);
    char *text;
    if (!m || file_slurp(dirfd, name, OUTPUT_MAX, &text, &m->size, err) < 0)
        return -1;
    m->data = (uint8_t *)text;
    m->kind = kind_of(b, name);
    m->name = strdup(name);
    return m->name ? 0 : error_oom(err);
}

static int read_outputs(struct bundle *b, struct bundle_result *r, struct error *err)
{
    cleanup_dir DIR *dir = opendir(b->scratch);
    if (!dir)
        return error_system(err, errno, "cannot read %s", b->scratch);
    if (add_module(b, r, dirfd(dir), MAIN_NAME, err) < 0)
        return error_wrap(err, "esbuild wrote no " MAIN_NAME);
    struct dirent *e;
    while ((e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, MAIN_NAME) == 0 || kind_of(b, e->d_name) == BUNDLE_JS)
            continue;
        if (add_module(b, r, dirfd(dir), e->d_name, err) < 0)
            return -1;
    }
    return 0;
}

/* The metafile's inputs are relative to where esbuild ran; names with a colon are of its own making. */
static int read_inputs(const struct bundle *b, struct bundle_result *r, struct error *err)
{
    cleanup_free char *path = text_format("%s/" META_NAME, b->scratch);
    json_error_t e;
    json_t *meta = path ? json_load_file(path, 0, &e) : NULL;
    if (!meta)
        return error_set(err, ERROR_INTERNAL, "esbuild's metafile cannot be read");
    const char *key;
    json_t *v;
    int ret = 0;
    json_object_foreach(json_object_get(meta, "inputs"), key, v)
    {
        const char *colon = strchr(key, ':');
        if (colon && colon < key + strcspn(key, "/"))
            continue;
        if (ret == 0)
            ret = strv_add(&r->inputs, path_below(b->directory, key), err);
    }
    json_decref(meta);
    return ret;
}

static struct bundle_result *read_result(struct bundle *b, struct error *err)
{
    struct bundle_result *r = calloc(1, sizeof *r);
    if (!r || !(r->inputs = calloc(1, sizeof *r->inputs))) {
        free(r);
        error_oom(err);
        return NULL;
    }
    if (read_outputs(b, r, err) == 0 && read_inputs(b, r, err) == 0)
        return r;
    bundle_result_free(r);
    return NULL;
}

void bundle_result_free(struct bundle_result *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->module_count; i++) {
        free(r->modules[i].name);
        free(r->modules[i].data);
    }
    free(r->modules);
    strv_free(r->inputs);
    free(r);
}

/* ---- the process ---- */

void bundle_release(struct bundle *b)
{
    if (--b->handles > 0)
        return;
    if (b->scratch)
        dir_remove(AT_FDCWD, b->scratch, NULL);
    free(b->scratch);
    free(b->directory);
    free(b->main);
    for (size_t i = 0; i < b->rule_count; i++)
        free(b->rules[i].suffix);
    free(b->rules);
    strv_free(b->inputs);
    strv_free(b->extra);
    buf_free(&b->report);
    free(b);
}

void bundle_closed(uv_handle_t *handle)
{
    bundle_release(handle->data);
}

/* The first line of the report that says what is wrong: "file:line:column: message" out of esbuild's layout.
 */
static void set_report_error(const struct bundle *b, struct error *err)
{
    const char *text = b->report.data ? (const char *)b->report.data : "";
    const char *mark = strstr(text, "[ERROR] ");
    const char *message = mark ? mark + strlen("[ERROR] ") : text;
    const char *place = strstr(message, "\n\n    ");
    int message_len = (int)strcspn(message, "\n");
    if (place) {
        place += strlen("\n\n    ");
        int place_len = (int)strcspn(place, "\n");
        error_set(err, ERROR_INVALID, "%.*s %.*s", place_len, place, message_len, message);
    } else {
        error_set(err, ERROR_INVALID, "%.*s", message_len,
                  *message ? message : "esbuild failed and did not say why");
    }
}

/* Once the process has ended and its report is complete. */
static void finish(struct bundle *b)
{
    if (b->running || b->reading || b->closing)
        return;
    struct error err = {0};
    struct bundle_result *r = NULL;
    buf_str(&b->report);
    if (b->status == 0 && b->signal == 0)
        r = read_result(b, &err);
    else
        set_report_error(b, &err);
    dir_remove(AT_FDCWD, b->scratch, NULL);
    free(b->scratch);
    b->scratch = NULL;
    for (char **i = r ? r->inputs : NULL; i && *i; i++)
        if (strv_add(&b->inputs, strdup(*i), NULL) < 0)
            break;
    const char *details = b->report.len ? (const char *)b->report.data : NULL;
    b->handles++; /* `done` may close the bundle */
    b->done(b->user, r, r ? NULL : &err, details);
    bundle_release(b);
}

static void on_ended(uv_process_t *process, int64_t status, int signal)
{
    struct bundle *b = process->data;
    b->running = false;
    b->status = status;
    b->signal = signal;
    uv_close((uv_handle_t *)process, bundle_closed);
    finish(b);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret)
{
    struct bundle *b = handle->data;
    *ret = uv_buf_init(b->chunk, sizeof b->chunk);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk)
{
    struct bundle *b = stream->data;
    if (n > 0 && b->report.len < REPORT_MAX)
        buf_append(&b->report, chunk->base, (size_t)n);
    if (n >= 0)
        return;
    b->reading = false;
    uv_close((uv_handle_t *)stream, bundle_closed);
    finish(b);
}

static int copy_rules(struct bundle *b, const struct app_rule *rules, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct app_rule *rule = array_add(&b->rules, &b->rule_count, sizeof *rule, err);
        if (!rule)
            return -1;
        rule->kind = rules[i].kind;
        rule->suffix = strdup(rules[i].suffix);
        if (!rule->suffix)
            return error_oom(err);
    }
    return 0;
}

static int prepare(struct bundle *b, const struct app_config *c, struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    b->directory = strdup(c->directory);
    b->main = strdup(c->main);
    b->scratch = text_format("%s/cloister-bundle-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (!b->directory || !b->main || !b->scratch || strv_add(&b->extra, strdup(c->file), err) < 0 ||
        strv_add(&b->extra, strdup(c->dev_vars), err) < 0)
        return error_oom(err);
    if (!mkdtemp(b->scratch)) {
        int e = errno;
        error_system(err, e, "cannot make %s", b->scratch);
        free(b->scratch);
        b->scratch = NULL;
        return -1;
    }
    /* The project's own rules come first. */
    if (copy_rules(b, c->rules, c->rule_count, err) < 0)
        return -1;
    return copy_rules(b, default_rules, sizeof default_rules / sizeof *default_rules, err);
}

static int spawn(struct bundle *b, uv_loop_t *loop, char **args, struct error *err)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&b->pipe},
    };
    uv_process_options_t options = {.file = args[0],
                                    .args = args,
                                    .cwd = b->directory,
                                    .exit_cb = on_ended,
                                    .stdio = stdio,
                                    .stdio_count = 3};
    b->process.data = b;
    b->pipe.data = b;
    uv_pipe_init(loop, &b->pipe, 0);
    b->handles += 2;
    int r = uv_spawn(loop, &b->process, &options);
    if (r < 0) {
        uv_close((uv_handle_t *)&b->pipe, bundle_closed);
        uv_close((uv_handle_t *)&b->process, bundle_closed);
        return error_system(err, -r, "cannot run %s", args[0]);
    }
    b->running = true;
    b->reading = true;
    uv_read_start((uv_stream_t *)&b->pipe, on_alloc, on_read);
    return 0;
}

struct bundle *bundle_start(uv_loop_t *loop, const struct app_config *config, bundle_done_fn done, void *user,
                            struct error *err)
{
    if (!config->main) {
        error_field(err, "main", "%s: main: missing: give the entry module", config->file);
        return NULL;
    }
    struct bundle *b = calloc(1, sizeof *b);
    if (!b) {
        error_oom(err);
        return NULL;
    }
    b->handles = 1; /* the caller's */
    b->loop = loop;
    b->done = done;
    b->user = user;
    buf_init(&b->report, REPORT_MAX + sizeof b->chunk + 1);
    cleanup_free char *esbuild = bundle_find_esbuild(err);
    char **args = NULL;
    int ret = -1;
    if (esbuild && prepare(b, config, err) == 0 && (args = make_arguments(b, config, esbuild, err)) != NULL)
        ret = spawn(b, loop, args, err);
    strv_free(args);
    if (ret < 0) {
        b->closing = true;
        bundle_release(b);
        return NULL;
    }
    return b;
}

void bundle_close(struct bundle *b)
{
    if (!b || b->closing)
        return;
    b->closing = true;
    if (b->running)
        uv_process_kill(&b->process, SIGKILL); /* on_ended() closes the handle */
    bundle_watch_stop(b);
    bundle_release(b);
}
