/* What both programs of src/cli/ (cloister, cloister-client) do with their arguments. */
#ifndef CLOISTER_CLI_PROGRAM_H
#define CLOISTER_CLI_PROGRAM_H

#include "cli/commands.h"

/* Runs one command; its result is the exit code. */
typedef int (*command_main)(const struct options *o);

/* Parses argv (the words after the command's name), shows help when asked, or runs it. `of` as in
 * help_command(). */
int program_command(const struct command *of, const struct command *c, int argc, char *const *argv,
                    command_main run);

/* Replaces this process by a helper of libexec with these arguments; returns only when that fails. */
int program_exec_helper(const char *helper, int argc, char *const *argv);

#endif
