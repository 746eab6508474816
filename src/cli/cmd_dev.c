/* `cloister dev`: a daemon for one project, with its state in the project's own folder, until Ctrl-C. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/paths.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_ARGS 256

struct arguments {
    char *all[MAX_ARGS + 1];
    int count;
    bool failed;
};

static void add(struct arguments *a, const char *text)
{
    char *copy = a->count < MAX_ARGS ? strdup(text) : NULL;
    if (copy)
        a->all[a->count++] = copy;
    else
        a->failed = true;
}

static void add_pair(struct arguments *a, const char *option, const char *value)
{
    add(a, option);
    add(a, value);
}

/* <project>/.cloister, which version control is told to leave alone. */
static int make_state(const char *project, char *to, size_t cap, struct error *err)
{
    char real[PATH_MAX], path[PATH_MAX + 32];
    struct stat st;
    if (!realpath(project, real))
        return error_field(err, "DIR", "cannot open %s: %s", project, strerror(errno));
    if (stat(real, &st) == 0 && !S_ISDIR(st.st_mode)) { /* the configuration file itself */
        char *slash = strrchr(real, '/');
        *(slash == real ? slash + 1 : slash) = '\0';
    }
    if (snprintf(to, cap, "%s/.cloister", real) >= (int)cap)
        return error_field(err, "DIR", "%s is too long", project);
    if (paths_private_dir(to, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/.gitignore", to);
    if (access(path, F_OK) < 0)
        return file_replace(AT_FDCWD, path, "*\n", 2, 0600, err);
    return 0;
}

static int add_address(struct arguments *a, const struct options *o, struct error *err)
{
    const char *host = options_value(o, "host"), *port = options_value(o, "port");
    char text[256];
    uint64_t n;
    if (port && parse_u64(port, "--port", 0, 65535, &n, err) < 0)
        return -1;
    if (!host)
        host = "127.0.0.1";
    bool bare = strchr(host, ':') && host[0] != '[';
    snprintf(text, sizeof text, bare ? "[%.200s]:%s" : "%.200s:%s", host, port ? port : "8787");
    add_pair(a, "--app-listen", text);
    return 0;
}

static int fill(struct arguments *a, const struct options *o, struct error *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 16];
    const char *first = options_operand_count(o) ? options_operand(o, 0) : ".";
    const char *const *hosts;
    struct paths paths;
    if (make_state(first, dir, sizeof dir, err) < 0 ||
        paths_init(&paths, options_value(o, "data-dir"), NULL, NULL, err) < 0)
        return -1;
    add(a, "--dev");
    add_pair(a, "--app", first);
    for (size_t i = 1; i < options_operand_count(o); i++)
        add_pair(a, "--app", options_operand(o, i));
    if (options_value(o, "env"))
        add_pair(a, "--app-env", options_value(o, "env"));
    for (size_t i = 0, n = options_values(o, "allow-host", &hosts); i < n; i++)
        add_pair(a, "--allow-host", hosts[i]);
    snprintf(path, sizeof path, "%s/state", dir);
    add_pair(a, "--data-dir", path);
    snprintf(path, sizeof path, "%s/run", dir);
    add_pair(a, "--run-dir", path);
    add_pair(a, "--image-dir", paths.data_dir);
    add_pair(a, "--pool", "0");
    add_pair(a, "--log-level", options_given(o, "verbose") ? "debug" : "warn");
    paths_free(&paths);
    return add_address(a, o, err);
}

int cmd_dev(const struct options *o)
{
    struct arguments a = {0};
    struct error err = {0};
    int code;
    if (fill(&a, o, &err) == 0 && a.failed)
        error_set(&err, ERROR_LIMIT, "too many arguments");
    if (err.kind)
        code = message_fail(&err);
    else
        code = program_exec_helper("cloister-daemon", a.count, a.all);
    for (int i = 0; i < a.count; i++)
        free(a.all[i]);
    return code;
}
