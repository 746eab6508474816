/* Command line options from tables. One table per command describes its options; parsing, help and shell
 * completion all read that table, so they cannot disagree. For every file of src/cli/. */
#ifndef CLOISTER_CLI_OPTIONS_H
#define CLOISTER_CLI_OPTIONS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* What a shell should offer for a value or an operand. */
enum complete {
    COMPLETE_NONE,
    COMPLETE_FILE,
    COMPLETE_DIR,
    COMPLETE_CONTAINER,
    COMPLETE_IMAGE,
    COMPLETE_PROGRAM,
    COMPLETE_WORDS, /* the words of the definition's `words` */
};

/* A row of an option table. A row without `name` but with `help` is a heading; a row with neither ends the
 * table. */
struct option_def {
    const char *name;  /* long name, without "--" */
    char letter;       /* 0: none */
    const char *value; /* what the value is called in help; NULL: a flag */
    const char *help;  /* one line */
    bool many;         /* may be given several times, every value counts; otherwise the last one wins */
    enum complete complete;
    const char *words; /* COMPLETE_WORDS: separated by blanks */
};

/* What may follow the options. */
struct operand_rule {
    unsigned min, max; /* operands before a command, or in all */
    bool command; /* then comes a command with its own options: the first word after `max` operands, or "--",
                     begins it */
};

struct options;

/* `argv` are the words after the command's name. --help (-h) is known to every table. On success `*ret` is
 * for options_free(); it borrows argv and the table. The error names the option, with the nearest known one.
 */
int options_parse(const struct option_def *table, struct operand_rule rule, int argc, char *const *argv,
                  struct options **ret, struct error *err);
/* Of words that options_parse() refuses: whether --json is among the options all the same, and one of this
 * table. */
bool options_ask_json(const struct option_def *table, struct operand_rule rule, int argc, char *const *argv);
void options_free(struct options *o);

/* `name` must be in the table: asking for another one is a bug and aborts. */
bool options_given(const struct options *o, const char *name);
const char *options_value(const struct options *o, const char *name); /* NULL: not given */
size_t options_values(const struct options *o, const char *name, const char *const **ret);
bool options_help(const struct options *o);

size_t options_operand_count(const struct options *o);
const char *options_operand(const struct options *o, size_t i); /* NULL beyond the end */
/* The command's words, NULL-terminated; NULL when there is none. */
char *const *options_command(const struct options *o);

#endif
