/* Completion scripts for bash, zsh and fish, made from the command tables. Names of containers come from the
 * daemon, by `cloister ps -aq`, when it runs. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/message.h"

#include <string.h>

/* `text` within single quotes of a shell. */
static void quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

typedef void (*command_visit)(const struct command *of, const struct command *c);

/* Their names, with '|' between. */
static void commands_with_subcommands(void)
{
    bool first = true;
    for (const struct command *const *c = commands; *c; c++) {
        if (!(*c)->subcommands)
            continue;
        printf("%s%s", first ? "" : "|", (*c)->name);
        first = false;
    }
}

static void each_command(command_visit visit)
{
    for (const struct command *const *c = commands; *c; c++) {
        visit(NULL, *c);
        for (const struct command *const *s = (*c)->subcommands; s && *s; s++)
            visit(*c, *s);
    }
}

/* ---- bash: sets `words` to what may follow, or `kind` to how to complete ---- */

static const char *kind_word(enum complete k)
{
    static const char *const words[] = {
        [COMPLETE_NONE] = "none",           [COMPLETE_FILE] = "file",   [COMPLETE_DIR] = "dir",
        [COMPLETE_CONTAINER] = "container", [COMPLETE_IMAGE] = "image", [COMPLETE_PROGRAM] = "program",
        [COMPLETE_WORDS] = "words",
    };
    return words[k];
}

static void bash_value_options(const struct option_def *d)
{
    for (; d && (d->name || d->help); d++) {
        if (!d->name || !d->value)
            continue;
        printf("            --%s", d->name);
        if (d->letter)
            printf("|-%c", d->letter);
        printf(") kind=%s ;;\n", kind_word(d->complete));
    }
}

static void option_names(const struct option_def *d)
{
    for (; d && (d->name || d->help); d++)
        if (d->name)
            printf("--%s ", d->name);
    printf("--help");
}

static void bash_case(const struct command *of, const struct command *c)
{
    printf("    '%s%s%s')\n", of ? of->name : "", of ? " " : "", c->name);
    if (c->subcommands) {
        printf("        words='");
        for (const struct command *const *s = c->subcommands; *s; s++)
            printf("%s%s", s == c->subcommands ? "" : " ", (*s)->name);
        printf("' ;;\n");
        return;
    }
    printf("        options='");
    option_names(c->options);
    printf("'\n        operand=%s\n", kind_word(c->operand));
    if (c->words)
        printf("        words='%s'\n", c->words);
    printf("        case $prev in\n");
    bash_value_options(c->options);
    printf("            *) ;;\n        esac ;;\n");
}

static void completion_bash(void)
{
    fputs("# bash completion for cloister\n"
          "_cloister() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command='' options='' words='' kind='' operand='' i\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        [[ ${COMP_WORDS[i]} == -- ]] && { COMPREPLY=($(compgen -c -f -- \"$cur\")); return; }\n"
          "    done\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W '",
          stdout);
    for (const struct command *const *c = commands; *c; c++)
        printf("%s ", (*c)->name);
    fputs("' -- \"$cur\")); return\n"
          "    fi\n"
          "    command=${COMP_WORDS[1]}\n"
          "    case $command in\n"
          "    ",
          stdout);
    commands_with_subcommands();
    fputs(") ((COMP_CWORD > 2)) && command+=\" ${COMP_WORDS[2]}\" ;;\n"
          "    esac\n"
          "    case $command in\n",
          stdout);
    each_command(bash_case);
    fputs(
        "    esac\n"
        "    if [[ -z $kind ]]; then\n"
        "        if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")); return; fi\n"
        "        kind=$operand\n"
        "        [[ -n $words ]] && kind=words\n"
        "    fi\n"
        "    case $kind in\n"
        "    file) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
        "    dir) COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n"
        "    program) COMPREPLY=($(compgen -c -- \"$cur\")) ;;\n"
        "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
        "    image) COMPREPLY=($(compgen -W \"host $(cloister image list -q 2>/dev/null)\" -- \"$cur\")) ;;\n"
        "    container) COMPREPLY=($(compgen -W \"$(cloister ps -aq 2>/dev/null)\" -- \"$cur\")) ;;\n"
        "    esac\n"
        "}\n"
        "complete -o filenames -F _cloister cloister\n",
        stdout);
}

/* ---- zsh ---- */

static const char *zsh_action(enum complete k)
{
    switch (k) {
    case COMPLETE_FILE:
        return "_files";
    case COMPLETE_DIR:
        return "_files -/";
    case COMPLETE_CONTAINER:
        return "_cloister_containers";
    case COMPLETE_IMAGE:
        return "_cloister_images";
    case COMPLETE_PROGRAM:
        return "_command_names -e";
    default:
        return "";
    }
}

/* In an _arguments specification ':' ends a part and brackets enclose the help. */
static void zsh_escape(const char *text, char *to, size_t cap)
{
    size_t n = 0;
    for (; *text && n + 3 < cap; text++) {
        if (strchr(":[]\\", *text))
            to[n++] = '\\';
        to[n++] = *text;
    }
    to[n] = '\0';
}

static void zsh_option(const char *spelling, const struct option_def *d)
{
    char help[256], spec[512];
    zsh_escape(d->help, help, sizeof help);
    int n = snprintf(spec, sizeof spec, "%s%s[%s]", d->many ? "*" : "", spelling, help);
    if (d->value)
        snprintf(spec + n, sizeof spec - (size_t)n, ":%s:%s", strchr(d->value, ':') ? "value" : d->value,
                 zsh_action(d->complete));
    printf(" \\\n            ");
    quoted(spec);
}

static void zsh_case(const struct command *of, const struct command *c)
{
    printf("    '%s%s%s')\n        ", of ? of->name : "", of ? " " : "", c->name);
    if (c->subcommands) {
        printf("local -a sub; sub=(");
        for (const struct command *const *s = c->subcommands; *s; s++) {
            char line[256];
            snprintf(line, sizeof line, "%s:%s", (*s)->name, (*s)->summary);
            quoted(line);
            putchar(' ');
        }
        printf("); _describe command sub ;;\n");
        return;
    }
    printf("_arguments -s");
    for (const struct option_def *d = c->options; d && (d->name || d->help); d++) {
        if (!d->name)
            continue;
        char spelling[64];
        snprintf(spelling, sizeof spelling, "--%s", d->name);
        zsh_option(spelling, d);
        snprintf(spelling, sizeof spelling, "-%c", d->letter);
        if (d->letter)
            zsh_option(spelling, d);
    }
    if (c->words)
        printf(" \\\n            '1:word:(%s)'", c->words);
    else if (c->operand != COMPLETE_NONE && !(c->rule.command && c->rule.max == 0))
        printf(" \\\n            '1:argument:%s'", zsh_action(c->operand));
    if (c->rule.command)
        printf(" \\\n            '*::command:_normal'");
    printf(" ;;\n");
}

static void completion_zsh(void)
{
    fputs("#compdef cloister\n"
          "_cloister_containers() { local -a n; n=(${(f)\"$(cloister ps -aq 2>/dev/null)\"}); _describe "
          "container n }\n"
          "_cloister_images() { local -a n; n=(host ${(f)\"$(cloister image list -q 2>/dev/null)\"}); "
          "compadd -- $n; }\n"
          "_cloister() {\n"
          "    local -a list; local command\n"
          "    if ((CURRENT == 2)); then\n"
          "        list=(",
          stdout);
    for (const struct command *const *c = commands; *c; c++) {
        char line[256];
        snprintf(line, sizeof line, "%s:%s", (*c)->name, (*c)->summary);
        printf("\n            ");
        quoted(line);
    }
    fputs(")\n"
          "        _describe command list; return\n"
          "    fi\n"
          "    command=$words[2]\n"
          "    shift words; ((CURRENT--))\n"
          "    case $command in\n    ",
          stdout);
    commands_with_subcommands();
    fputs(") ((CURRENT > 2)) && { command+=\" $words[2]\"; shift words; ((CURRENT--)); } ;;\n"
          "    esac\n"
          "    case $command in\n",
          stdout);
    each_command(zsh_case);
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _cloister ]]; then _cloister \"$@\"; else compdef _cloister cloister; fi\n",
          stdout);
}

/* ---- fish ---- */

static void fish_condition(const struct command *of, const struct command *c)
{
    if (of)
        printf("complete -c cloister -n '__fish_seen_subcommand_from %s; and __fish_seen_subcommand_from %s'",
               of->name, c->name);
    else
        printf("complete -c cloister -n '__fish_seen_subcommand_from %s'", c->name);
}

static const char *fish_action(enum complete k)
{
    switch (k) {
    case COMPLETE_FILE:
        return " -r -F";
    case COMPLETE_DIR:
        return " -x -a '(__fish_complete_directories)'";
    case COMPLETE_CONTAINER:
        return " -x -a '(cloister ps -aq 2>/dev/null)'";
    case COMPLETE_IMAGE:
        return " -x -a 'host (cloister image list -q 2>/dev/null)'";
    case COMPLETE_PROGRAM:
        return " -x -a '(__fish_complete_command)'";
    default:
        return " -x";
    }
}

static void fish_lines(const struct command *of, const struct command *c)
{
    if (!of) {
        printf("complete -c cloister -n __fish_use_subcommand -f -a %s -d ", c->name);
        quoted(c->summary);
        putchar('\n');
    }
    for (const struct command *const *s = c->subcommands; s && *s; s++) {
        fish_condition(NULL, c);
        printf(" -f -a %s -d ", (*s)->name);
        quoted((*s)->summary);
        putchar('\n');
    }
    for (const struct option_def *d = c->options; d && (d->name || d->help); d++) {
        if (!d->name)
            continue;
        fish_condition(of, c);
        printf(" -l %s", d->name);
        if (d->letter)
            printf(" -s %c", d->letter);
        printf("%s -d ", d->value ? fish_action(d->complete) : "");
        quoted(d->help);
        putchar('\n');
    }
    if (c->words || c->operand == COMPLETE_CONTAINER) {
        fish_condition(of, c);
        if (c->words)
            printf(" -f -a '%s'\n", c->words);
        else
            printf("%s\n", fish_action(c->operand));
    }
}

static void completion_fish(void)
{
    puts("# fish completion for cloister");
    each_command(fish_lines);
}

int cmd_completion(const struct options *o)
{
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};
    const char *shell = options_operand(o, 0);
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shell, shells[i].shell) == 0) {
            shells[i].print();
            return stdout_complete() ? 0 : EXIT_OWN_FAILURE;
        }
    }
    struct error err = {0};
    error_field(&err, "shell", "completion: expected bash, zsh or fish, got \"%.64s\"", shell);
    return message_usage("completion", &err);
}
