/* The second program of the command line: what needs the daemon, and so an HTTP client. `cloister` runs it
 * with the command's name and arguments as they were given. */
#include "cli/client/client.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/program.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *of, *name;
    command_main run;
} table[] = {
    {NULL, "ps", cmd_ps},
    {NULL, "stats", cmd_stats},
    {NULL, "inspect", cmd_inspect},
    {NULL, "start", cmd_start},
    {NULL, "stop", cmd_stop},
    {NULL, "signal", cmd_signal},
    {NULL, "destroy", cmd_destroy},
    {NULL, "rm", cmd_rm},
    {NULL, "logs", cmd_logs},
    {NULL, "exec", cmd_exec},
    {NULL, "cp", cmd_cp},
    {"files", "ls", cmd_files_ls},
    {"files", "cat", cmd_files_cat},
    {"files", "write", cmd_files_write},
    {"files", "stat", cmd_files_stat},
    {"files", "mkdir", cmd_files_mkdir},
    {"files", "rm", cmd_files_rm},
    {"files", "mv", cmd_files_mv},
    {"files", "watch", cmd_files_watch},
    {"snapshot", "create", cmd_snapshot_create},
    {"snapshot", "list", cmd_snapshot_list},
    {"snapshot", "rm", cmd_snapshot_rm},
};

static command_main function_of(const struct command *of, const struct command *c)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        bool same = of ? table[i].of && strcmp(table[i].of, of->name) == 0 : !table[i].of;
        if (same && strcmp(table[i].name, c->name) == 0)
            return table[i].run;
    }
    abort(); /* a row of the command table without a function */
}

/* "files", "snapshot": the next word is the command. */
static int run_group(const struct command *of, int argc, char **argv)
{
    struct error err = {0};
    if (argc < 1) {
        help_command(stderr, NULL, of);
        return EXIT_OWN_FAILURE;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        help_command(stdout, NULL, of);
        return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
    }
    const struct command *c = command_find(of->subcommands, argv[0]);
    if (!c) {
        command_unknown(of->subcommands, of->name, argv[0], &err);
        return message_usage(of->name, &err);
    }
    return program_command(of, c, argc - 1, argv + 1, function_of(of, c));
}

int main(int argc, char **argv)
{
    struct error err = {0};
    const struct command *c = argc > 1 ? command_find(commands, argv[1]) : NULL;
    if (!c || c->home != HOME_CLIENT) {
        error_field(&err, "command",
                    "this program is run by \"cloister\", with one of the commands that need the daemon");
        return message_fail(&err);
    }
    if (c->subcommands)
        return run_group(c, argc - 2, argv + 2);
    return program_command(NULL, c, argc - 2, argv + 2, function_of(NULL, c));
}
