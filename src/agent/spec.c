#include "agent/spec.h"

#include "agent/args.h"
#include "base/parse.h"
#include "link/agent_protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const spec_keys[] = {"argv",   "env",      "cwd", "user", "stdin", "stdout",
                                        "stderr", "combined", "pty", "tree", NULL};

static int list_error(const char *key, const char *why, struct error *err)
{
    return error_field(err, key, "\"%s\" %s", key, why);
}

/* First pass: how much memory. */
static int list_measure(struct cbor_reader r, const char *key, uint64_t count, size_t max, size_t *ret_bytes,
                        struct error *err)
{
    size_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *text;
        size_t len;
        if (cbor_get_bytes(&r, &text, &len) < 0)
            return list_error(key, "must hold only strings", err);
        if (memchr(text, '\0', len))
            return list_error(key, "holds a string with a NUL byte", err);
        bytes += len + 1;
        if (bytes > max) {
            error_system(err, E2BIG, "\"%s\" is longer than %zu bytes", key, max);
            if (err)
                memcpy(err->field, key, strlen(key) + 1);
            return -1;
        }
    }
    *ret_bytes = bytes;
    return 0;
}

/* Room for `extra` more pointers is left before the terminating NULL. */
static int list_read(const struct cbor_reader *args, const char *key, size_t max, size_t extra,
                     struct string_list *ret, struct error *err)
{
    struct cbor_reader r;
    uint64_t count = 0;
    size_t bytes = 0;
    bool present = cbor_map_find(args, key, &r);
    if (present && cbor_get_array(&r, max, &count) < 0)
        return list_error(key, "must be an array of strings", err);
    if (present && list_measure(r, key, count, max, &bytes, err) < 0)
        return -1;
    ret->items = malloc((count + extra + 1) * sizeof(char *) + bytes);
    if (!ret->items)
        return error_oom(err);
    char *text = (char *)(ret->items + count + extra + 1);
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *from;
        size_t len;
        if (cbor_get_bytes(&r, &from, &len) < 0)
            return list_error(key, "must hold only strings", err);
        memcpy(text, from, len);
        text[len] = '\0';
        ret->items[i] = text;
        text += len + 1;
    }
    ret->count = count;
    ret->items[count] = NULL;
    return 0;
}

const char *env_get(char *const *env, const char *name)
{
    size_t len = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static int check_env(const struct string_list *env, struct error *err)
{
    for (size_t i = 0; i < env->count; i++)
        if (parse_env(env->items[i], "env", err) < 0)
            return -1;
    return 0;
}

static int read_streams(struct spec *s, const struct cbor_reader *args, struct error *err)
{
    static const char *const keys[] = {"stdin", "stdout", "stderr"};
    bool *has[] = {&s->has_stdin, &s->has_stdout, &s->has_stderr};
    uint32_t *ids[] = {&s->stdin_stream, &s->stdout_stream, &s->stderr_stream};
    for (int i = 0; i < 3; i++) {
        uint64_t v = 0;
        int r = args_uint(args, keys[i], 0, UINT32_MAX, &v, err);
        if (r < 0)
            return -1;
        *has[i] = r == 1;
        *ids[i] = (uint32_t)v;
    }
    if (args_bool(args, "combined", &s->combined, err) < 0 || args_bool(args, "tree", &s->tree, err) < 0)
        return -1;
    if (s->has_stderr && (s->combined || s->pty))
        return error_field(err, "stderr", "\"stderr\" must be absent when it is combined or a terminal");
    return 0;
}

int spec_read_size(const struct cbor_reader *args, uint16_t *ret_cols, uint16_t *ret_rows, struct error *err)
{
    static const char *const keys[] = {"cols", "rows", NULL};
    uint64_t cols = 0, rows = 0;
    if (args_check(args, keys, err) < 0 || args_uint(args, "cols", 1, 65535, &cols, err) < 0 ||
        args_uint(args, "rows", 1, 65535, &rows, err) < 0)
        return -1;
    if (!cols || !rows)
        return args_missing(cols ? "rows" : "cols", err);
    *ret_cols = (uint16_t)cols;
    *ret_rows = (uint16_t)rows;
    return 0;
}

static int read_user(struct spec *s, const struct cbor_reader *args, struct error *err)
{
    char *user = NULL;
    if (args_text(args, "user", 2 * USERDB_MAX_NAME, &user, err) < 0)
        return -1;
    bool want_home = !env_get(s->env.items, "HOME");
    int r = identity_resolve(user ? user : "0:0", want_home, &s->who, err);
    free(user);
    if (r < 0 || !want_home)
        return r;
    size_t len = strlen(s->who.home) + sizeof "HOME=";
    char *home = malloc(len);
    if (!home)
        return error_oom(err);
    memcpy(home, "HOME=", 5);
    memcpy(home + 5, s->who.home, len - 5);
    s->home = home;
    s->env.items[s->env.count++] = home;
    s->env.items[s->env.count] = NULL;
    return 0;
}

int spec_read(struct spec *s, struct cbor_reader args, struct error *err)
{
    struct cbor_reader r;
    *s = (struct spec){0};
    if (args_check(&args, spec_keys, err) < 0)
        return -1;
    if (cbor_map_find(&args, "pty", &r)) {
        s->pty = true;
        if (spec_read_size(&r, &s->cols, &s->rows, err) < 0)
            goto fail;
    }
    if (list_read(&args, "argv", AGENT_MAX_ARGV_BYTES, 0, &s->argv, err) < 0 ||
        list_read(&args, "env", AGENT_MAX_ENV_BYTES, 1, &s->env, err) < 0 || check_env(&s->env, err) < 0)
        goto fail;
    if (s->argv.count == 0 || s->argv.items[0][0] == '\0') {
        error_field(err, "argv", "\"argv\" must name a program");
        goto fail;
    }
    if (cbor_map_find(&args, "cwd", &r) && args_path(&args, "cwd", &s->cwd, err) < 0)
        goto fail;
    if (read_streams(s, &args, err) < 0 || read_user(s, &args, err) < 0)
        goto fail;
    return 0;
fail:
    spec_free(s);
    return -1;
}

void spec_free(struct spec *s)
{
    free(s->home);
    free(s->argv.items);
    free(s->env.items);
    free(s->cwd);
    *s = (struct spec){0};
}
