#include "cli/cli.h"
#include "cli/message.h"

int cmd_version(const struct options *o)
{
    if (options_given(o, "json"))
        printf("{\"version\": \"%s\", \"api\": \"v1\"}\n", CLOISTER_VERSION);
    else
        printf("cloister %s\n", CLOISTER_VERSION);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}
