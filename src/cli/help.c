#include "cli/help.h"

#include "cli/message.h"

#include <string.h>

#define OPTION_COLUMN 28

static void heading(FILE *to, const char *text)
{
    fprintf(to, "\n%s%s%s\n", style_begin(to, STYLE_BOLD), text, style_end(to));
}

static void command_rows(FILE *to, const struct command *const *list)
{
    for (; *list; list++) {
        if ((*list)->group)
            heading(to, (*list)->group);
        fprintf(to, "  %-12s%s\n", (*list)->name, (*list)->summary);
    }
}

void help_overview(FILE *to)
{
    fprintf(to, "%scloister%s runs code that you don't trust.\n", style_begin(to, STYLE_BOLD), style_end(to));
    fprintf(to, "\nUsage:  cloister COMMAND [OPTION]... [ARG]...\n");
    command_rows(to, commands);
    heading(to, "Try");
    fprintf(to, "  cloister run -- python3 -c 'print(6*7)'\n  cloister doctor\n");
    fprintf(to, "\n\"cloister help COMMAND\" explains a command. CLOISTER_DATA_DIR, CLOISTER_RUN_DIR and "
                "CLOISTER_SOCKET\n"
                "name other places for images, run time state and the daemon's socket.\n");
}

static void option_row(FILE *to, const struct option_def *d)
{
    char left[64], letter[5] = "   ";
    if (d->letter)
        snprintf(letter, sizeof letter, "-%c,", d->letter);
    int n = snprintf(left, sizeof left, "  %s --%s%s%s", letter, d->name, d->value ? " " : "",
                     d->value ? d->value : "");
    if (n > OPTION_COLUMN - 2)
        fprintf(to, "%s\n%*s%s", left, OPTION_COLUMN, "", d->help);
    else
        fprintf(to, "%-*s%s", OPTION_COLUMN, left, d->help);
    fprintf(to, "%s\n", d->many ? " (repeatable)" : "");
}

static void option_rows(FILE *to, const struct option_def *d)
{
    if (!d || d->name)
        heading(to, "Options");
    for (; d && (d->name || d->help); d++) {
        if (d->name)
            option_row(to, d);
        else
            heading(to, d->help);
    }
    static const struct option_def help = {"help", 'h', NULL, "this text"};
    option_row(to, &help);
}

static void exit_rows(FILE *to, enum exit_codes which)
{
    static const char *const texts[] = {
        [EXITS_TOOL] = "  0    done\n"
                       "  125  it failed; stderr says why\n",
        [EXITS_COMMAND] =
            "  the command's own, or 128+N when signal N ended it, and\n"
            "  124  the time limit ended it\n"
            "  125  Cloister itself failed: bad option, no such container, no such image, ...\n"
            "  126  the command was found but cannot be executed\n"
            "  127  the command was not found\n"
            "  137  also: the memory limit ended it; stderr says so\n"
            "  With --json, 125 of the command is {\"exitCode\": 125, ...}, ours is {\"error\": ...}.\n",
        [EXITS_DOCTOR] = "  0    containers can run here, with the grade that the last line says\n"
                         "  125  they cannot, or bad usage\n",
    };
    heading(to, "Exit codes");
    fputs(texts[which], to);
}

static void example_rows(FILE *to, const struct example *e)
{
    if (!e)
        return;
    heading(to, "Examples");
    for (; e->line; e++)
        fprintf(to, "  %s\n      %s%s%s\n", e->line, style_begin(to, STYLE_DIM), e->does, style_end(to));
}

static void help_group(FILE *to, const struct command *c)
{
    fprintf(to, "\nUsage:  cloister %s COMMAND [OPTION]... [ARG]...\n", c->name);
    heading(to, "Commands");
    command_rows(to, c->subcommands);
    fprintf(to, "\n\"cloister help %s COMMAND\" explains one.\n", c->name);
}

void help_command(FILE *to, const struct command *of, const struct command *c)
{
    fprintf(to, "%scloister %s%s%s%s: %s.\n", style_begin(to, STYLE_BOLD), of ? of->name : "", of ? " " : "",
            c->name, style_end(to), c->summary);
    if (c->subcommands) {
        help_group(to, c);
        return;
    }
    fprintf(to, "\nUsage:  cloister %s%s%s %s\n", of ? of->name : "", of ? " " : "", c->name, c->usage);
    if (c->about)
        fprintf(to, "\n%s\n", c->about);
    option_rows(to, c->options);
    exit_rows(to, c->exits);
    example_rows(to, c->examples);
}
