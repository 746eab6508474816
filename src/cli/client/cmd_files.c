/* files ls, stat, mkdir, rm, mv, cat, write, watch. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/client/client.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One call and nothing to print. Takes the reference of `body`. */
static int call(const struct options *o, const char *method, const char *url, json_t *body)
{
    struct error err = {0};
    struct http *h = NULL;
    int r = url ? client_open(&h, o, &err) : error_oom(&err);
    if (r == 0)
        r = http_json(h, method, url, body, NULL, &err);
    http_close(h);
    json_decref(body);
    return r < 0 ? message_fail(&err) : 0;
}

static json_t *fetch(const struct options *o, const char *url, struct error *err)
{
    struct http *h = NULL;
    json_t *answer = NULL;
    if (url && client_open(&h, o, err) == 0)
        http_json(h, "GET", url, NULL, &answer, err);
    http_close(h);
    if (!answer && err->kind == ERROR_NONE)
        error_set(err, ERROR_PROTOCOL, "the daemon answered nothing");
    return answer;
}

/* "drwxr-xr-x" */
static void mode_text(const json_t *entry, char text[11])
{
    static const struct {
        const char *type;
        char letter;
    } types[] = {{"directory", 'd'}, {"symlink", 'l'}, {"fifo", 'p'},
                 {"socket", 's'},    {"char", 'c'},    {"block", 'b'}};
    const char *type = json_text_of(entry, "type", "file");
    json_int_t mode = json_int_of(entry, "mode", 0);
    const json_t *m = json_object_get(entry, "mode");
    if (json_is_string(m)) /* "0755" */
        mode = strtol(json_string_value(m), NULL, 8);
    text[0] = '-';
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].type) == 0)
            text[0] = types[i].letter;
    for (int i = 0; i < 9; i++)
        text[1 + i] = mode & (0400 >> i) ? "rwx"[i % 3] : '-';
    if (mode & 04000)
        text[3] = mode & 0100 ? 's' : 'S';
    if (mode & 02000)
        text[6] = mode & 010 ? 's' : 'S';
    if (mode & 01000)
        text[9] = mode & 1 ? 't' : 'T';
    text[10] = '\0';
}

static void long_row(struct table *t, const json_t *entry, const char *name)
{
    char mode[11], text[64], line[4200];
    time_t mtime = (time_t)(json_int_of(entry, "mtimeMs", 0) / 1000);
    if (json_object_get(entry, "mtimeNs"))
        mtime = (time_t)(json_int_of(entry, "mtimeNs", 0) / 1000000000);
    struct tm tm;
    mode_text(entry, mode);
    table_cell(t, mode);
    snprintf(text, sizeof text, "%lld:%lld", (long long)json_int_of(entry, "uid", 0),
             (long long)json_int_of(entry, "gid", 0));
    table_cell(t, text);
    snprintf(text, sizeof text, "%lld", (long long)json_int_of(entry, "size", 0));
    table_cell(t, text);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", localtime_r(&mtime, &tm));
    table_cell(t, text);
    const char *target = json_text_of(entry, "target", NULL);
    snprintf(line, sizeof line, "%.2000s%s%.2000s", name, target ? " -> " : "", target ? target : "");
    table_cell(t, line);
}

static struct table *long_table(void)
{
    static const char *const heading[] = {"MODE", "OWNER", "SIZE", "CHANGED", "NAME"};
    struct table *t = table_new(5);
    for (size_t i = 0; i < 5; i++)
        table_cell(t, heading[i]);
    return t;
}

static void print_entries(const json_t *list, bool in_full)
{
    struct table *t = in_full ? long_table() : NULL;
    size_t i;
    json_t *e;
    json_array_foreach(list, i, e)
    {
        const char *name = json_text_of(e, "path", json_text_of(e, "name", ""));
        if (in_full) {
            long_row(t, e, name);
        } else {
            print_escaped(stdout, name);
            putchar('\n');
        }
    }
    table_print(t);
    table_free(t);
}

int cmd_files_ls(const struct options *o)
{
    struct error err = {0};
    cleanup_free char *url =
        url_make("/v1/containers/%s/files/list?path=%s&recursive=%s&hidden=%s", options_operand(o, 0),
                 options_operand(o, 1), options_given(o, "recursive") ? "true" : "false",
                 options_given(o, "all") ? "true" : "false");
    json_t *answer = fetch(o, url, &err);
    if (!answer)
        return message_fail(&err);
    if (options_given(o, "json"))
        json_text_print(json_incref(answer));
    else
        print_entries(json_object_get(answer, "entries"), options_given(o, "long"));
    json_decref(answer);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}

int cmd_files_stat(const struct options *o)
{
    struct error err = {0};
    cleanup_free char *url =
        url_make("/v1/containers/%s/files/stat?path=%s&follow=%s", options_operand(o, 0),
                 options_operand(o, 1), options_given(o, "no-follow") ? "false" : "true");
    json_t *answer = fetch(o, url, &err);
    if (!answer)
        return message_fail(&err);
    if (options_given(o, "json")) {
        json_text_print(json_incref(answer));
    } else {
        struct table *t = long_table();
        long_row(t, answer, options_operand(o, 1));
        table_print(t);
        table_free(t);
    }
    json_decref(answer);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}

int cmd_files_mkdir(const struct options *o)
{
    cleanup_free char *url = url_make("/v1/containers/%s/files/mkdir", options_operand(o, 0));
    json_t *body =
        json_pack("{s:s, s:b}", "path", options_operand(o, 1), "parents", options_given(o, "parents"));
    if (options_given(o, "mode"))
        json_object_set_new(body, "mode", json_string(options_value(o, "mode")));
    return call(o, "POST", url, body);
}

int cmd_files_rm(const struct options *o)
{
    cleanup_free char *url = url_make(
        "/v1/containers/%s/files?path=%s&recursive=%s&force=%s", options_operand(o, 0), options_operand(o, 1),
        options_given(o, "recursive") ? "true" : "false", options_given(o, "force") ? "true" : "false");
    return call(o, "DELETE", url, NULL);
}

int cmd_files_mv(const struct options *o)
{
    cleanup_free char *url = url_make("/v1/containers/%s/files/rename", options_operand(o, 0));
    return call(o, "POST", url,
                json_pack("{s:s, s:s}", "from", options_operand(o, 1), "to", options_operand(o, 2)));
}

static int to_stdout(void *user, const void *data, size_t len, struct error *err)
{
    return fd_write_all(STDOUT_FILENO, data, len) < 0 ? error_system(err, errno, "cannot write") : 0;
}

static int download(const struct options *o, const char *url, struct error *err)
{
    struct http *h = NULL;
    int r = url ? client_open(&h, o, err) : error_oom(err);
    if (r == 0)
        r = http_download(h, url, NULL, to_stdout, NULL, err);
    http_close(h);
    return r;
}

int cmd_files_cat(const struct options *o)
{
    struct error err = {0};
    const char *offset = options_value(o, "offset"), *length = options_value(o, "length");
    cleanup_free char *url =
        length ? url_make("/v1/containers/%s/files?path=%s&offset=%s&length=%s", options_operand(o, 0),
                          options_operand(o, 1), offset ? offset : "0", length)
               : url_make("/v1/containers/%s/files?path=%s&offset=%s", options_operand(o, 0),
                          options_operand(o, 1), offset ? offset : "0");
    if (download(o, url, &err) == 0)
        return 0;
    if (err.errnum == EISDIR)
        error_set(&err, ERROR_STATE, "%.200s is a directory; copy it with: cloister cp %.64s:%.200s .",
                  options_operand(o, 1), options_operand(o, 0), options_operand(o, 1));
    return message_fail(&err);
}

int cmd_files_watch(const struct options *o)
{
    struct error err = {0};
    cleanup_free char *url =
        url_make("/v1/containers/%s/files/watch?path=%s&recursive=%s", options_operand(o, 0),
                 options_operand(o, 1), options_given(o, "recursive") ? "true" : "false");
    return download(o, url, &err) < 0 ? message_fail(&err) : 0;
}

static ssize_t from_stdin(void *user, void *to, size_t cap, struct error *err)
{
    ssize_t n;
    do
        n = read(STDIN_FILENO, to, cap);
    while (n < 0 && errno == EINTR);
    return n < 0 ? error_system(err, errno, "cannot read stdin") : n;
}

int cmd_files_write(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    const char *mode = options_value(o, "mode");
    cleanup_free char *base = url_make(
        "/v1/containers/%s/files?path=%s&parents=%s&append=%s&exclusive=%s", options_operand(o, 0),
        options_operand(o, 1), options_given(o, "parents") ? "true" : "false",
        options_given(o, "append") ? "true" : "false", options_given(o, "exclusive") ? "true" : "false");
    cleanup_free char *with_mode = mode ? url_make("&mode=%s", mode) : strdup("");
    cleanup_free char *url = NULL;
    if (!base || !with_mode || asprintf(&url, "%s%s", base, with_mode) < 0)
        url = NULL;
    int r = url ? client_open(&h, o, &err) : error_oom(&err);
    if (r == 0)
        r = http_upload(h, url, from_stdin, NULL, NULL, &err);
    http_close(h);
    return r < 0 ? message_fail(&err) : 0;
}
