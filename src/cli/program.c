#include "cli/program.h"

#include "base/cleanup.h"
#include "base/paths.h"
#include "cli/help.h"
#include "cli/json_text.h"
#include "cli/message.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int usage_error(const struct command *of, const struct command *c, bool json, const struct error *err)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", of ? of->name : "", of ? " " : "", c->name);
    struct error e = *err;
    error_wrap(&e, "%s", name);
    if (json)
        json_text_error(&e);
    return message_usage(name, &e);
}

static int check_operands(const struct command *c, const struct options *o, struct error *err)
{
    if (options_operand_count(o) >= c->rule.min)
        return 0;
    return error_field(err, "operand", "too few arguments; usage: %s %s", c->name, c->usage);
}

int program_command(const struct command *of, const struct command *c, int argc, char *const *argv,
                    command_main run)
{
    struct error err = {0};
    struct options *o = NULL;
    if (options_parse(c->options, c->rule, argc, argv, &o, &err) < 0)
        return usage_error(of, c, options_ask_json(c->options, c->rule, argc, argv), &err);
    int code;
    if (options_help(o)) {
        help_command(stdout, of, c);
        code = stdout_complete() ? 0 : EXIT_OWN_FAILURE;
    } else if (check_operands(c, o, &err) < 0) {
        code = usage_error(of, c, options_ask_json(c->options, c->rule, argc, argv), &err);
    } else {
        code = run(o);
    }
    options_free(o);
    return code;
}

int program_exec_helper(const char *helper, int argc, char *const *argv)
{
    struct error err = {0};
    cleanup_free char *path = NULL;
    if (paths_helper(helper, &path, &err) < 0)
        return message_fail(&err);
    cleanup_free const char **args = calloc((size_t)argc + 2, sizeof *args);
    if (!args) {
        error_oom(&err);
        return message_fail(&err);
    }
    args[0] = path;
    for (int i = 0; i < argc; i++)
        args[i + 1] = argv[i];
    execv(path, (char *const *)args);
    error_system(&err, errno, "cannot run %s", path);
    return message_fail(&err);
}
