#include "agent/args.h"

#include "link/agent_protocol.h"

#include <stdlib.h>
#include <string.h>

int args_check(const struct cbor_reader *args, const char *const *allowed, struct error *err)
{
    struct cbor_reader r = *args;
    uint64_t pairs;
    if (cbor_get_map(&r, 64, &pairs) < 0)
        return error_field(err, "arguments", "the arguments must be a map");
    for (uint64_t i = 0; i < pairs; i++) {
        char key[48];
        if (cbor_get_string(&r, key, sizeof key) < 0 || cbor_skip(&r) < 0)
            return error_field(err, "arguments", "the arguments hold a key that is no short text");
        const char *const *k = allowed;
        while (*k && strcmp(*k, key) != 0)
            k++;
        if (!*k)
            return error_field(err, key, "unknown argument \"%s\"", key);
    }
    return 0;
}

int args_uint(const struct cbor_reader *args, const char *key, uint64_t min, uint64_t max, uint64_t *ret,
              struct error *err)
{
    struct cbor_reader r;
    if (!cbor_map_find(args, key, &r))
        return 0;
    uint64_t v;
    if (cbor_get_uint(&r, max, &v) < 0 || v < min)
        return error_field(err, key, "\"%s\" must be a whole number from %llu to %llu", key,
                           (unsigned long long)min, (unsigned long long)max);
    *ret = v;
    return 1;
}

int args_bool(const struct cbor_reader *args, const char *key, bool *ret, struct error *err)
{
    struct cbor_reader r;
    if (!cbor_map_find(args, key, &r))
        return 0;
    if (cbor_get_bool(&r, ret) < 0)
        return error_field(err, key, "\"%s\" must be true or false", key);
    return 1;
}

int args_text(const struct cbor_reader *args, const char *key, size_t max, char **ret, struct error *err)
{
    struct cbor_reader r;
    if (!cbor_map_find(args, key, &r))
        return 0;
    char *text = cbor_dup_string(&r, max);
    if (!text)
        return error_field(err, key, "\"%s\" must be text of at most %zu bytes without NUL", key, max);
    *ret = text;
    return 1;
}

int args_missing(const char *key, struct error *err)
{
    return error_field(err, key, "\"%s\" is missing", key);
}

int args_path(const struct cbor_reader *args, const char *key, char **ret, struct error *err)
{
    char *path = NULL;
    int r = args_text(args, key, AGENT_MAX_PATH - 1, &path, err);
    if (r < 0)
        return -1;
    if (r == 0)
        return args_missing(key, err);
    if (*path != '/') {
        free(path);
        return error_field(err, key, "\"%s\" must be an absolute path", key);
    }
    *ret = path;
    return 1;
}
