/* Help texts, made from the command tables. */
#ifndef CLOISTER_CLI_HELP_H
#define CLOISTER_CLI_HELP_H

#include "cli/commands.h"

#include <stdio.h>

void help_overview(FILE *to);
/* `of` is the command `c` is a subcommand of, or NULL. */
void help_command(FILE *to, const struct command *of, const struct command *c);

#endif
