/* What a client sends: the bodies of exec and start, and request targets. The first byte chooses the reader.
 */
#include "daemon/json_in.h"
#include "daemon/spec.h"
#include "daemon/uri.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static volatile size_t sink;

static void use_strv(char *const *v)
{
    for (; v && *v; v++)
        sink += strlen(*v);
}

static void read_exec(json_t *body)
{
    struct exec_request r;
    struct error err = {0};
    if (spec_exec(&r, body, &err) < 0) {
        if (err.kind == ERROR_INVALID && !err.message[0])
            abort(); /* every refusal says why */
        return;
    }
    use_strv((char *const *)r.cmd);
    use_strv(r.env);
    for (size_t i = 0; i < r.stdin_len; i++)
        sink += (unsigned char)r.stdin_data[i];
    char **merged = env_merge(r.env, r.env);
    use_strv(merged);
    free(merged);
    spec_exec_free(&r);
}

static void read_start(json_t *body)
{
    static const struct limits defaults;
    struct start_request r;
    struct error err = {0};
    if (spec_start(&r, body, &defaults, &err) < 0) {
        if (err.kind == ERROR_INVALID && !err.message[0])
            abort();
        return;
    }
    use_strv((char *const *)r.entrypoint);
    use_strv(r.env);
    for (size_t i = 0; i < r.mount_count; i++)
        sink += strlen(r.mounts[i].snapshot) + strlen(r.mounts[i].target);
    spec_start_free(&r);
}

static void read_target(const uint8_t *data, size_t len)
{
    struct uri u;
    struct error err = {0};
    char *text = malloc(len + 1);
    if (!text)
        return;
    memcpy(text, data, len);
    text[len] = '\0';
    if (uri_parse(&u, text, &err) == 0) {
        for (size_t i = 0; i < u.segment_count; i++)
            sink += strlen(u.segments[i]);
        for (size_t i = 0; i < u.query_count; i++)
            sink += strlen(u.query[i].key) + strlen(u.query[i].value);
        uri_free(&u);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = {0};
    if (len == 0)
        return 0;
    if (data[0] == '/') {
        read_target(data, len);
        return 0;
    }
    json_t *body = json_in_parse(data + 1, len - 1, &err);
    if (!body)
        return 0;
    if (data[0] & 1)
        read_exec(body);
    else
        read_start(body);
    return 0;
}
