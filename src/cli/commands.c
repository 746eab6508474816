#include "cli/commands.h"

#include "cli/suggest.h"

#include <string.h>

static const struct option_def doctor_options[] = {
    {"json", 0, NULL, "print one JSON object"},
    {"data-dir", 0, "DIR", "judge this directory as the place for images", .complete = COMPLETE_DIR},
    {NULL},
};

static const struct example doctor_examples[] = {
    {"cloister doctor", "what this machine can enforce, and what to do about the rest"},
    {"sudo cloister doctor", "the same for containers run by root"},
    {NULL},
};

static const struct command command_doctor = {
    .name = "doctor",
    .summary = "say what this machine can enforce, and how to get the rest",
    .usage = "[OPTION]...",
    .about =
        "Each property is tried for real, in a child process. What is limited or missing is named with its\n"
        "exact blocker and a remedy. The last line is the grade of isolation that a container gets.",
    .options = doctor_options,
    .examples = doctor_examples,
    .exits = EXITS_DOCTOR,
};

static const struct example completion_examples[] = {
    {"cloister completion bash > ~/.local/share/bash-completion/completions/cloister",
     "bash, from the next shell on"},
    {"cloister completion fish > ~/.config/fish/completions/cloister.fish", "fish"},
    {NULL},
};

static const struct command command_completion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .usage = "bash|zsh|fish",
    .rule = {1, 1, false},
    .operand = COMPLETE_WORDS,
    .words = "bash zsh fish",
    .examples = completion_examples,
};

static const struct option_def version_options[] = {
    {"json", 0, NULL, "print one JSON object"},
    {NULL},
};

static const struct example version_examples[] = {
    {"cloister version", "for people"},
    {"cloister version --json", "for programs"},
    {NULL},
};

static const struct command command_version = {
    .name = "version",
    .summary = "print the version",
    .usage = "[--json]",
    .options = version_options,
    .examples = version_examples,
};

static const struct example help_examples[] = {
    {"cloister help run", "everything about run"},
    {"cloister help snapshot create", "a command of a command"},
    {NULL},
};

static const struct command command_help = {
    .name = "help",
    .summary = "explain a command",
    .usage = "[COMMAND]...",
    .rule = {0, 2, false},
    .examples = help_examples,
};

/* Of `image` only names and summaries are here, for help and completion: its helper program has the details.
 */
static const struct command image_pull = {"pull", "fetch an image from a registry", .home = HOME_IMAGE};
static const struct command image_import = {"import", "take an image from an archive or a directory",
                                            .home = HOME_IMAGE};
static const struct command image_build = {"build-base", "make a Debian image with mmdebstrap",
                                           .home = HOME_IMAGE};
static const struct command image_list = {"list", "list the images", .home = HOME_IMAGE};
static const struct command image_inspect = {"inspect", "show an image's configuration and layers",
                                             .home = HOME_IMAGE};
static const struct command image_rm = {"rm", "remove an image", .home = HOME_IMAGE};
static const struct command image_alias = {"alias", "let a name stand for another image", .home = HOME_IMAGE};
static const struct command image_gc = {"gc", "remove what nothing needs any more", .home = HOME_IMAGE};
static const struct command *const image_commands[] = {&image_pull,  &image_import,  &image_build,
                                                       &image_list,  &image_inspect, &image_rm,
                                                       &image_alias, &image_gc,      NULL};

static const struct command command_image = {
    .name = "image",
    .summary = "get, build, list and remove images",
    .usage = "COMMAND ...",
    .subcommands = image_commands,
    .home = HOME_IMAGE,
    .group = "Images, files and snapshots",
};

static const struct command command_serve = {
    .name = "serve",
    .summary = "run the daemon that keeps named containers, and hosts a Workers project",
    .usage = "[OPTION]...",
    .home = HOME_DAEMON,
    .group = "This machine",
};

const struct command *const commands[] = {
    &command_run,   &command_start, &command_exec,   &command_ps,         &command_inspect,
    &command_logs,  &command_stats, &command_stop,   &command_signal,     &command_destroy,
    &command_rm,    &command_dev,   &command_image,  &command_snapshot,   &command_cp,
    &command_files, &command_serve, &command_doctor, &command_completion, &command_version,
    &command_help,  NULL,
};

const struct command *command_find(const struct command *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp((*list)->name, name) == 0)
            return *list;
    return NULL;
}

int command_unknown(const struct command *const *list, const char *of, const char *word, struct error *err)
{
    struct suggestion s;
    suggest_init(&s, word, strlen(word));
    for (; *list; list++)
        suggest_offer(&s, (*list)->name);
    const char *space = of ? " " : "", *prefix = of ? of : "";
    if (suggest_best(&s))
        return error_field(err, "command", "unknown command \"%s%s%.64s\"; did you mean \"%s%s%s\"?", prefix,
                           space, word, prefix, space, suggest_best(&s));
    return error_field(err, "command", "unknown command \"%s%s%.64s\"", prefix, space, word);
}
