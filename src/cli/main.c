/* `cloister`: finds the command, runs it here or in the helper program it lives in. It must start fast, so it
 * links no more than the engine needs; whatever wants an HTTP client, archives or a database is a helper in
 * libexec/cloister/. */
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    command_main run;
} own[] = {
    {"run", cmd_run},   {"doctor", cmd_doctor},         {"version", cmd_version},
    {"help", cmd_help}, {"completion", cmd_completion}, {"dev", cmd_dev},
};

static int run_here(const struct command *c, int argc, char **argv)
{
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i].name, c->name) == 0)
            return program_command(NULL, c, argc, argv, own[i].run);
    abort(); /* a row of the command table without a function */
}

/* A closed descriptor 0, 1 or 2 would be taken by the next file that is opened, and guest output written into
 * it. */
static void hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
            _exit(EXIT_OWN_FAILURE);
}

static int overview_without_command(void)
{
    help_overview(stderr);
    return EXIT_OWN_FAILURE;
}

static const char *canonical(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return "version";
    return word;
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    if (argc < 2)
        return overview_without_command();
    const char *word = canonical(argv[1]);
    struct error err = {0};
    if (word[0] == '-') {
        error_field(&err, word, "unknown option \"%.64s\"", word);
        return message_usage(NULL, &err);
    }
    const struct command *c = command_find(commands, word);
    if (!c) {
        command_unknown(commands, NULL, word, &err);
        return message_usage(NULL, &err);
    }
    switch (c->home) {
    case HOME_CLIENT:
        return program_exec_helper("cloister-client", argc - 1, argv + 1);
    case HOME_IMAGE:
        return program_exec_helper("cloister-image", argc - 2, argv + 2);
    case HOME_DAEMON:
        return program_exec_helper("cloister-daemon", argc - 2, argv + 2);
    case HOME_HERE:
        break;
    }
    return run_here(c, argc - 2, argv + 2);
}
