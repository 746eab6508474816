#include "daemon/spec.h"

#include "base/parse.h"
#include "daemon/json_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t memory_mib, cpu_milli, disk_gb;
} instance_types[] = {
    {"lite", 256, 63, 2},           {"basic", 1024, 250, 4},        {"standard-1", 4096, 500, 8},
    {"standard-2", 6144, 1000, 12}, {"standard-3", 8192, 2000, 16}, {"standard-4", 12288, 4000, 20},
};

int spec_instance(const char *name, struct limits *ret, struct error *err)
{
    for (size_t i = 0; i < sizeof instance_types / sizeof *instance_types; i++) {
        if (strcmp(instance_types[i].name, name) != 0)
            continue;
        ret->memory_bytes = (uint64_t)instance_types[i].memory_mib << 20;
        ret->cpu_milli = instance_types[i].cpu_milli;
        ret->disk_bytes = (uint64_t)instance_types[i].disk_gb * 1000000000u;
        return 0;
    }
    return error_field(err, "instance",
                       "instance: expected lite, basic, standard-1, standard-2, standard-3, standard-4, or "
                       "an object of limits");
}

static int read_vcpu(const json_t *o, const char *at, uint32_t *ret, struct error *err)
{
    const json_t *v = json_object_get(o, "vcpu");
    if (!v)
        return 0;
    double n = json_number_value(v);
    if (!json_is_number(v) || !(n >= 0.01 && n <= 1024)) {
        char field[48];
        snprintf(field, sizeof field, "%svcpu", at);
        return error_field(err, field, "%s: expected a number from 0.01 to 1024", field);
    }
    *ret = (uint32_t)(n * 1000 + 0.5);
    return 0;
}

int spec_limits(const json_t *o, const char *at, struct limits *ret, struct error *err)
{
    static const char *const known[] = {"vcpu", "memoryMib", "diskMb", "pids", "openFiles", NULL};
    int64_t memory = -1, disk = -1, pids = -1, files = -1;
    if (json_in_known(o, at, known, err) < 0 || read_vcpu(o, at, &ret->cpu_milli, err) < 0 ||
        json_in_int(o, at, "memoryMib", 8, 1 << 24, &memory, err) < 0 ||
        json_in_int(o, at, "diskMb", 1, 1 << 27, &disk, err) < 0 ||
        json_in_int(o, at, "pids", 1, 1 << 22, &pids, err) < 0 ||
        json_in_int(o, at, "openFiles", 16, 1 << 20, &files, err) < 0)
        return -1;
    if (memory >= 0)
        ret->memory_bytes = (uint64_t)memory << 20;
    if (disk >= 0)
        ret->disk_bytes = (uint64_t)disk * 1000000u;
    if (pids >= 0)
        ret->pids = (uint32_t)pids;
    if (files >= 0)
        ret->open_files = (uint32_t)files;
    return 0;
}

static int read_instance(const json_t *body, struct limits *ret, struct error *err)
{
    const json_t *v = json_object_get(body, "instance");
    if (!v)
        return 0;
    if (json_is_object(v))
        return spec_limits(v, "instance.", ret, err);
    return spec_instance(json_is_string(v) ? json_string_value(v) : "", ret, err);
}

int spec_path(const char *path, const char *field, struct error *err)
{
    if (path[0] != '/')
        return error_field(err, field, "%s: expected an absolute path", field);
    if (strlen(path) > SPEC_MAX_PATH)
        return error_field(err, field, "%s: expected at most %u bytes", field, SPEC_MAX_PATH);
    return 0;
}

int spec_id(const char *id, const char *field, struct error *err)
{
    if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32)
        return error_field(err, field, "%s: expected 32 lower-case hex digits", field);
    return 0;
}

static int read_path(const json_t *o, const char *at, const char *key, const char **ret, struct error *err)
{
    const char *path = NULL;
    char field[48];
    snprintf(field, sizeof field, "%s%s", at, key);
    if (json_in_string(o, at, key, SPEC_MAX_PATH, &path, err) < 0 ||
        (path && spec_path(path, field, err) < 0))
        return -1;
    *ret = path;
    return 0;
}

static int read_user(const json_t *o, const char **ret, struct error *err)
{
    const char *user = NULL;
    if (json_in_string(o, "", "user", 128, &user, err) < 0)
        return -1;
    if (!user)
        return 0;
    size_t len = strlen(user);
    /* a uid of 2^32-1 means "unchanged" to the kernel and is nobody's */
    for (const char *p = user; *p; p++) {
        size_t digits = strspn(p, "0123456789");
        bool starts = p == user || p[-1] == ':';
        if (starts && digits && (p[digits] == '\0' || p[digits] == ':') &&
            (digits > 10 || strtoull(p, NULL, 10) >= 4294967295u))
            return error_field(err, "user", "user: a uid or gid is 0 to 4294967294");
    }
    if (len == 0 || user[0] == ':' || user[len - 1] == ':' || strpbrk(user, "\n/ \t"))
        return error_field(err, "user", "user: expected \"name\", \"uid\", \"name:group\" or \"uid:gid\"");
    *ret = user;
    return 0;
}

static int read_argv(const json_t *o, const char *key, const char ***ret, struct error *err)
{
    if (json_in_strv(o, "", key, SPEC_MAX_ARGV, SPEC_MAX_ARGV_BYTES, ret, err) < 0)
        return -1;
    if (*ret && (!(*ret)[0] || !(*ret)[0][0]))
        return error_field(err, key, "%s: expected the program and its arguments, at least one", key);
    return 0;
}

static int check_env_entry(const char *key, const json_t *value, struct error *err)
{
    char field[48];
    snprintf(field, sizeof field, "env.%s", key);
    if (!key[0] || strchr(key, '='))
        return error_field(err, field, "%.64s: a name must not be empty or hold '='", field);
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return error_field(err, field, "%.64s: expected a string without NUL", field);
    return 0;
}

/* An object of strings as a vector of "K=V", all in one allocation. */
static int read_env(const json_t *o, char ***ret, struct error *err)
{
    const json_t *env = NULL;
    if (json_in_object(o, "", "env", &env, err) < 0)
        return -1;
    if (!env || json_object_size(env) == 0)
        return 0;
    size_t n = json_object_size(env), bytes = 0;
    const char *key;
    json_t *value;
    if (n > SPEC_MAX_ENV)
        return error_field(err, "env", "env: expected at most %u entries", SPEC_MAX_ENV);
    json_object_foreach((json_t *)env, key, value)
    {
        if (check_env_entry(key, value, err) < 0)
            return -1;
        bytes += strlen(key) + json_string_length(value) + 2;
    }
    if (bytes > SPEC_MAX_ENV_BYTES)
        return error_field(err, "env", "env: expected at most %zu bytes together", SPEC_MAX_ENV_BYTES);
    char **v = malloc((n + 1) * sizeof *v + bytes);
    if (!v)
        return error_oom(err);
    char *to = (char *)(v + n + 1);
    size_t i = 0;
    json_object_foreach((json_t *)env, key, value)
    {
        v[i++] = to;
        to = stpcpy(stpcpy(stpcpy(to, key), "="), json_string_value(value)) + 1;
    }
    v[i] = NULL;
    *ret = v;
    return 0;
}

int spec_labels(const json_t *o, const json_t **ret, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";
    const json_t *labels = NULL;
    if (json_in_object(o, "", "labels", &labels, err) < 0)
        return -1;
    if (labels && json_object_size(labels) > SPEC_MAX_LABELS)
        return error_field(err, "labels", "labels: expected at most %u", SPEC_MAX_LABELS);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)labels, key, value)
    {
        char field[48];
        const char *text = json_string_value(value);
        size_t len = strlen(key);
        snprintf(field, sizeof field, "labels.%s", key);
        if (len < 1 || len > 63 || strspn(key, letters) != len)
            return error_field(
                err, field, "%s: a label's name is 1 to 63 of a-z, A-Z, 0-9, '.', '_', '/' and '-'", field);
        bool bad = !text || json_string_length(value) > 255 || strlen(text) != json_string_length(value);
        for (const char *p = text; !bad && *p; p++)
            bad = (unsigned char)*p < 0x20 || *p == 0x7f;
        if (bad)
            return error_field(
                err, field, "%s: expected a string of at most 255 bytes without control characters", field);
    }
    *ret = labels;
    return 0;
}

static int read_snapshot(const json_t *o, const char *at, const char **ret, struct error *err)
{
    const char *id = NULL;
    char field[48];
    snprintf(field, sizeof field, "%ssnapshot", at);
    if (json_in_string(o, at, "snapshot", 64, &id, err) < 0 || (id && spec_id(id, field, err) < 0))
        return -1;
    *ret = id;
    return 0;
}

static int read_mounts(struct start_request *r, struct error *err)
{
    static const char *const known[] = {"snapshot", "target", NULL};
    const json_t *mounts = NULL;
    if (json_in_array(r->body, "", "mounts", SPEC_MAX_MOUNTS, &mounts, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *m = json_array_get(mounts, i);
        char at[32];
        snprintf(at, sizeof at, "mounts[%zu].", i);
        struct mount_request *to = &r->mounts[i];
        if (!json_is_object(m))
            return error_field(err, "mounts", "mounts[%zu]: expected an object", i);
        if (json_in_known(m, at, known, err) < 0 || read_snapshot(m, at, &to->snapshot, err) < 0 ||
            read_path(m, at, "target", &to->target, err) < 0)
            return -1;
        if (!to->snapshot || !to->target || strcmp(to->target, "/") == 0)
            return error_field(err, "mounts",
                               "mounts[%zu]: expected a snapshot and a target other than \"/\"", i);
        r->mount_count = i + 1;
    }
    return 0;
}

static int read_start(struct start_request *r, struct error *err)
{
    static const char *const known[] = {"name",   "image",    "entrypoint",  "env",      "enableInternet",
                                        "labels", "instance", "hardTimeout", "snapshot", "mounts",
                                        "cwd",    "user",     "stdin",       NULL};
    static const char *const stdin_words[] = {"none", "pipe", NULL};
    int64_t timeout = 0;
    int in = 0;
    const json_t *o = r->body;
    if (json_in_known(o, "", known, err) < 0 || json_in_string(o, "", "name", 64, &r->name, err) < 0 ||
        (r->name && parse_name(r->name, "name", err) < 0) ||
        json_in_string(o, "", "image", 255, &r->image, err) < 0 ||
        read_argv(o, "entrypoint", &r->entrypoint, err) < 0 || read_env(o, &r->env, err) < 0 ||
        json_in_bool(o, "", "enableInternet", &r->enable_internet, err) < 0 ||
        read_instance(o, &r->limits, err) < 0 || spec_labels(o, &r->labels, err) < 0 ||
        json_in_int(o, "", "hardTimeout", 1, JSON_IN_MAX_INT, &timeout, err) < 0 ||
        read_snapshot(o, "", &r->snapshot, err) < 0 || read_mounts(r, err) < 0 ||
        read_path(o, "", "cwd", &r->cwd, err) < 0 || read_user(o, &r->user, err) < 0 ||
        json_in_word(o, "", "stdin", stdin_words, &in, err) < 0)
        return -1;
    r->limits.wall_ms = (uint64_t)timeout;
    r->stdin_pipe = in == 1;
    return 0;
}

int spec_start(struct start_request *ret, json_t *body, const struct limits *defaults, struct error *err)
{
    memset(ret, 0, sizeof *ret);
    ret->body = body;
    ret->image = "host";
    ret->limits = *defaults;
    if (read_start(ret, err) == 0)
        return 0;
    spec_start_free(ret);
    return -1;
}

void spec_start_free(struct start_request *r)
{
    free(r->entrypoint);
    free(r->env);
    json_decref(r->body);
    memset(r, 0, sizeof *r);
}

int spec_size(const json_t *o, const char *at, uint16_t *ret_cols, uint16_t *ret_rows, struct error *err)
{
    static const char *const known[] = {"cols", "rows", NULL};
    int64_t cols = 0, rows = 0;
    if (json_in_known(o, at, known, err) < 0 || json_in_int(o, at, "cols", 1, 65535, &cols, err) < 0 ||
        json_in_int(o, at, "rows", 1, 65535, &rows, err) < 0)
        return -1;
    if (!cols || !rows) {
        char field[48];
        snprintf(field, sizeof field, "%s%s", at, cols ? "rows" : "cols");
        return error_field(err, field, "%s: expected a whole number from 1 to 65535", field);
    }
    *ret_cols = (uint16_t)cols;
    *ret_rows = (uint16_t)rows;
    return 0;
}

static int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = c ? strchr(digits, c) : NULL;
    return p ? (int)(p - digits) : -1;
}

/* Padded base64 without line breaks. */
static int read_base64(struct exec_request *r, const char *text, size_t len, struct error *err)
{
    size_t pad = len >= 1 && text[len - 1] == '=' ? 1 + (len >= 2 && text[len - 2] == '=') : 0, n = 0;
    uint8_t *to = malloc(len / 4 * 3 + 1);
    if (!to)
        return error_oom(err);
    r->stdin_owned = to;
    bool bad = len % 4 != 0;
    uint32_t bits = 0;
    for (size_t i = 0; !bad && i < len - pad; i++) {
        int v = base64_value(text[i]);
        bad = v < 0;
        bits = bits << 6 | (uint32_t)v;
        if (i % 4 == 0)
            continue;
        to[n++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    if (bad)
        return error_field(err, "stdinBase64", "stdinBase64: expected padded base64");
    r->stdin_data = (const char *)to;
    r->stdin_len = n;
    return 0;
}

static int read_stdin(struct exec_request *r, struct error *err)
{
    static const char *const words[] = {"none", "pipe", NULL};
    const char *text = NULL, *base64 = NULL;
    size_t text_len = 0, base64_len = 0;
    int in = -1;
    if (json_in_word(r->body, "", "stdin", words, &in, err) < 0 ||
        json_in_text(r->body, "", "stdinText", &text, &text_len, err) < 0 ||
        json_in_text(r->body, "", "stdinBase64", &base64, &base64_len, err) < 0)
        return -1;
    if ((text != NULL) + (base64 != NULL) + (in >= 0) > 1)
        return error_field(err, "stdin", "stdin: give one of stdin, stdinText and stdinBase64");
    r->stdin_data = text;
    r->stdin_len = text_len;
    r->stdin_pipe = in == 1;
    return base64 ? read_base64(r, base64, base64_len, err) : 0;
}

static int read_outputs(struct exec_request *r, struct error *err)
{
    static const char *const out_words[] = {"pipe", "ignore", NULL};
    static const char *const err_words[] = {"pipe", "ignore", "combined", NULL};
    static const char *const overflow_words[] = {"auto", "block", "drop", NULL};
    int out = 0, error_to = 0, overflow = OVERFLOW_AUTO;
    int64_t limit = (int64_t)SPEC_OUTPUT_DEFAULT;
    if (json_in_word(r->body, "", "stdout", out_words, &out, err) < 0 ||
        json_in_word(r->body, "", "stderr", err_words, &error_to, err) < 0 ||
        json_in_word(r->body, "", "overflow", overflow_words, &overflow, err) < 0 ||
        json_in_int(r->body, "", "outputLimit", 1, (int64_t)SPEC_OUTPUT_MAX, &limit, err) < 0)
        return -1;
    r->out = out == 0;
    r->err = error_to == 0;
    r->combined = error_to == 2;
    r->output_limit = (size_t)limit;
    r->overflow = (enum overflow)overflow;
    return 0;
}

static int read_pty(struct exec_request *r, struct error *err)
{
    const json_t *pty = NULL;
    if (json_in_object(r->body, "", "pty", &pty, err) < 0)
        return -1;
    if (!pty)
        return 0;
    if (spec_size(pty, "pty.", &r->cols, &r->rows, err) < 0)
        return -1;
    if (json_object_get(r->body, "stderr") && !r->combined)
        return error_field(err, "stderr", "stderr: a terminal has one output; leave stderr out");
    if (!r->out)
        return error_field(err, "stdout", "stdout: a terminal's output cannot be ignored");
    r->pty = true;
    r->err = r->combined = false;
    r->stdin_pipe = r->stdin_pipe || !r->stdin_data;
    return 0;
}

static int read_exec(struct exec_request *r, struct error *err)
{
    static const char *const known[] = {"cmd",       "cwd",         "env",         "user",     "stdin",
                                        "stdinText", "stdinBase64", "stdout",      "stderr",   "pty",
                                        "timeoutMs", "wait",        "outputLimit", "overflow", NULL};
    int64_t timeout = 0;
    const json_t *o = r->body;
    if (json_in_known(o, "", known, err) < 0 || read_argv(o, "cmd", &r->cmd, err) < 0)
        return -1;
    if (!r->cmd)
        return error_field(err, "cmd", "cmd: expected an array of strings, the program and its arguments");
    if (read_path(o, "", "cwd", &r->cwd, err) < 0 || read_user(o, &r->user, err) < 0 ||
        read_env(o, &r->env, err) < 0 || read_stdin(r, err) < 0 || read_outputs(r, err) < 0 ||
        read_pty(r, err) < 0 || json_in_int(o, "", "timeoutMs", 1, JSON_IN_MAX_INT, &timeout, err) < 0 ||
        json_in_bool(o, "", "wait", &r->wait, err) < 0)
        return -1;
    r->timeout_ms = (uint64_t)timeout;
    if (r->wait && !r->pty && r->stdin_pipe)
        return error_field(err, "stdin",
                           "stdin: \"pipe\" needs an exec without wait; use stdinText or stdinBase64");
    if (r->wait && r->overflow == OVERFLOW_BLOCK)
        return error_field(err, "overflow",
                           "overflow: \"block\" needs an exec without wait, as nobody reads meanwhile");
    return 0;
}

int spec_exec(struct exec_request *ret, json_t *body, struct error *err)
{
    memset(ret, 0, sizeof *ret);
    ret->body = body;
    if (read_exec(ret, err) == 0)
        return 0;
    spec_exec_free(ret);
    return -1;
}

void spec_exec_free(struct exec_request *r)
{
    free(r->cmd);
    free(r->env);
    free(r->stdin_owned);
    json_decref(r->body);
    memset(r, 0, sizeof *r);
}

static bool same_key(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

char **env_merge(char *const *base, char *const *over)
{
    size_t n = 0, m = 0;
    while (base && base[n])
        n++;
    while (over && over[m])
        m++;
    char **v = malloc((n + m + 1) * sizeof *v);
    if (!v)
        return NULL;
    for (size_t i = 0; i < n; i++)
        v[i] = base[i];
    size_t len = n;
    for (size_t i = 0; i < m; i++) {
        size_t at = 0;
        while (at < n && !same_key(over[i], v[at]))
            at++;
        if (at == n)
            at = len++;
        v[at] = over[i];
    }
    v[len] = NULL;
    return v;
}

char **strv_copy(const char *const *v)
{
    size_t n = 0, bytes = 0;
    for (; v && v[n]; n++)
        bytes += strlen(v[n]) + 1;
    char **copy = malloc((n + 1) * sizeof *copy + bytes);
    if (!copy)
        return NULL;
    char *to = (char *)(copy + n + 1);
    for (size_t i = 0; i < n; i++) {
        copy[i] = to;
        to = stpcpy(to, v[i]) + 1;
    }
    copy[n] = NULL;
    return copy;
}
