#include "agent/fs.h"

int fs_call(struct agent *a, struct link_call *call, const char *method, const struct cbor_reader *args,
            struct error *err)
{
    return error_set(err, ERROR_NOT_FOUND, "the agent has no method \"fs.%.32s\"", method);
}

void fs_refuse(struct agent *a, const char *method, const struct cbor_reader *args, const struct error *err)
{
    static const char *const keys[] = {"stream", NULL};
    agent_refuse_streams(a, args, keys, false, err);
    agent_refuse_streams(a, args, keys, true, err);
}
