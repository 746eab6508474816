/* Every command of `cloister` as data: what it is called, what it takes, what its help says. The program and
 * its client helper share these tables. */
#ifndef CLOISTER_CLI_COMMANDS_H
#define CLOISTER_CLI_COMMANDS_H

#include "cli/options.h"

enum command_home {
    HOME_HERE,   /* in `cloister` itself */
    HOME_CLIENT, /* libexec: cloister-client, which talks to the daemon */
    HOME_IMAGE,  /* libexec: cloister-image */
    HOME_DAEMON, /* libexec: cloister-daemon */
};

struct example {
    const char *line, *does;
};

/* Which text on exit codes the help shows. */
enum exit_codes {
    EXITS_TOOL,    /* 0, 125 */
    EXITS_COMMAND, /* those of a command run, and 124 to 127 */
    EXITS_DOCTOR,
};

struct command {
    const char *name;
    const char *summary;              /* one line, no full stop */
    const char *usage;                /* what follows the name */
    const char *about;                /* paragraphs, wrapped by hand; may be NULL */
    const struct option_def *options; /* NULL: none */
    struct operand_rule rule;
    enum complete operand;          /* of the first operand */
    const char *words;              /* COMPLETE_WORDS */
    const struct example *examples; /* ended by a NULL line */
    enum exit_codes exits;
    const struct command *const *subcommands; /* NULL-terminated; then only name, summary and home count */
    enum command_home home;
    const char *group; /* heading in the overview, on the first command of a group */
};

/* All of them, in the order of the overview; NULL-terminated. */
extern const struct command *const commands[];

extern const struct command command_run, command_exec, command_start;
extern const struct command command_ps, command_inspect, command_logs, command_stop, command_signal,
    command_destroy, command_rm, command_stats;
extern const struct command command_dev;
extern const struct command command_cp, command_files, command_snapshot;

/* In a NULL-terminated list; NULL when there is none. */
const struct command *command_find(const struct command *const *list, const char *name);
/* The error names the word and the nearest command. `of` is NULL, or the command whose subcommand it should
 * be. */
int command_unknown(const struct command *const *list, const char *of, const char *word, struct error *err);

#endif
