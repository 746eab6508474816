#include "cli/cli.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/program.h"

/* The details of these commands are with the program they live in. */
static int help_of_helper(const struct command *c, const char *sub)
{
    char *argv[] = {(char *)sub, (char *)"--help", NULL};
    const char *helper = c->home == HOME_IMAGE ? "cloister-image" : "cloister-daemon";
    return program_exec_helper(helper, sub ? 2 : 1, sub ? argv : argv + 1);
}

int cmd_help(const struct options *o)
{
    struct error err = {0};
    const char *name = options_operand(o, 0), *sub_name = options_operand(o, 1);
    const struct command *c = NULL, *sub = NULL;
    if (name && !(c = command_find(commands, name))) {
        command_unknown(commands, NULL, name, &err);
        return message_usage(NULL, &err);
    }
    if (c && sub_name) {
        static const struct command *const none[] = {NULL};
        const struct command *const *list = c->subcommands ? c->subcommands : none;
        if (!(sub = command_find(list, sub_name))) {
            command_unknown(list, name, sub_name, &err);
            return message_usage(name, &err);
        }
    }
    if (c && (c->home == HOME_IMAGE || c->home == HOME_DAEMON))
        return help_of_helper(c, sub_name);
    if (!c)
        help_overview(stdout);
    else
        help_command(stdout, sub ? c : NULL, sub ? sub : c);
    return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
}
