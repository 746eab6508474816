/* What a worker asks of a container: the arguments of `start` and `exec`, from CBOR by way of JSON to the
 * readers that API clients have. The first byte chooses the reader. */
#include "daemon/json_cbor.h"
#include "daemon/spec.h"

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
        if (!err.message[0])
            abort(); /* every refusal says why */
        return;
    }
    use_strv((char *const *)r.cmd);
    use_strv(r.env);
    spec_exec_free(&r);
}

static void read_start(json_t *body)
{
    static const struct limits defaults;
    struct start_request r;
    struct error err = {0};
    if (spec_start(&r, body, &defaults, &err) < 0) {
        if (!err.message[0])
            abort();
        return;
    }
    use_strv((char *const *)r.entrypoint);
    use_strv(r.env);
    spec_start_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct cbor_reader r;
    struct error err = {0};
    if (len == 0 || !cbor_well_formed(data + 1, len - 1))
        return 0; /* the link lets nothing else through */
    cbor_reader_init(&r, data + 1, len - 1);
    json_t *body = json_from_cbor(&r, &err);
    if (!body) {
        if (!err.message[0])
            abort();
        return 0;
    }
    if (!json_is_object(body))
        json_decref(body);
    else if (data[0] & 1)
        read_exec(body);
    else
        read_start(body);
    return 0;
}
