/* The commands that `cloister` runs itself, one file each. Results are exit codes. */
#ifndef CLOISTER_CLI_CLI_H
#define CLOISTER_CLI_CLI_H

#include "cli/options.h"

int cmd_run(const struct options *o);
int cmd_doctor(const struct options *o);
int cmd_version(const struct options *o);
int cmd_help(const struct options *o);
int cmd_completion(const struct options *o);
int cmd_dev(const struct options *o);

#endif
