#include "image/tool.h"

#include "base/parse.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct option_text {
    char letter;
    const char *name, *value, *help;
};

static const struct option_text texts[] = {
    {'n', "name", "NAME", "what the image is to be called here"},
    {'r', "ref", "REF", "which image of an archive that holds several"},
    {'a', "authfile", "FILE",
     "registry credentials, as skopeo login keeps them (they are never taken from the command line)"},
    {'P', "policy", "FILE", "signature policy for skopeo instead of the machine's"},
    {'t', "tls-verify", "BOOL",
     "false: accept plain HTTP and unknown certificates (for loopback registries that is so anyway)"},
    {'s', "suite", "SUITE", "Debian release (default: bookworm)"},
    {'i', "include", "PKG,...", "packages to install (default: python3,git,curl,ca-certificates)"},
    {'N', "node", NULL, "also install nodejs"},
    {'d', "digest", "HEX", "sha256 of the packed layer"},
    {'u', "upper", "DIR", "the directory to pack: a container's writable layer"},
    {'U', "userns", "FD", "open descriptor of the user namespace in which the directory's owners are meant"},
    {'x', "exclude", "PATTERN", "leave out what matches (may be repeated)"},
    {'g', "grace", "TIME", "keep what is younger than this though nothing names it (default: 1h)"},
    {'w', "no-wait", NULL, "fail at once when another command uses the store"},
    {'R', "remove", NULL, "forget the alias"},
    {'j', "json", NULL, "machine-readable output"},
    {'q', "quiet", NULL, "names only"},
    {'p', "progress", "MODE", "json (one object a line, on standard output), plain or none"},
    {'D', "data-dir", "DIR",
     "where images are kept (default: /var/lib/cloister for root, ~/.local/share/cloister otherwise)"},
    {'h', "help", NULL, "this text"},
};
#define TEXT_COUNT (sizeof texts / sizeof *texts)

static void table_fill(struct option table[TEXT_COUNT + 1])
{
    for (size_t i = 0; i < TEXT_COUNT; i++)
        table[i] = (struct option){texts[i].name, texts[i].value ? required_argument : no_argument, NULL,
                                   texts[i].letter};
    table[TEXT_COUNT] = (struct option){0};
}

static const char *long_name(int letter)
{
    for (size_t i = 0; i < TEXT_COUNT; i++)
        if (texts[i].letter == letter)
            return texts[i].name;
    return "?";
}

static int take(struct tool_options *o, int letter, const char *value, struct error *err)
{
    uint64_t number;
    const struct {
        char letter;
        const char **to;
    } words[] = {{'n', &o->name},       {'r', &o->ref},      {'a', &o->authfile}, {'P', &o->policy},
                 {'s', &o->suite},      {'i', &o->include},  {'d', &o->digest},   {'u', &o->upper},
                 {'t', &o->tls_verify}, {'p', &o->progress}, {'g', &o->grace},    {'D', &o->data_dir}};
    const struct {
        char letter;
        bool *to;
    } flags[] = {{'N', &o->node}, {'w', &o->no_wait}, {'j', &o->json}, {'q', &o->quiet}, {'R', &o->remove}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].letter == letter) {
            *words[i].to = value;
            return 0;
        }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].letter == letter) {
            *flags[i].to = true;
            return 0;
        }
    if (letter == 'U') {
        if (parse_u64(value, "userns", 0, 1 << 20, &number, err) < 0)
            return -1;
        o->userns = (int)number;
        return 0;
    }
    if (o->exclude_count == TOOL_EXCLUDES_MAX)
        return error_field(err, "exclude", "at most %d patterns can be given", TOOL_EXCLUDES_MAX);
    o->exclude[o->exclude_count++] = value;
    return 0;
}

int tool_options_parse(const struct tool_command *c, int argc, char **argv, struct tool_options *ret,
                       bool *ret_help, struct error *err)
{
    struct option table[TEXT_COUNT + 1];
    int letter;
    table_fill(table);
    *ret = (struct tool_options){.userns = -1};
    *ret_help = false;
    opterr = 0;
    optind = 1;
    while ((letter = getopt_long(argc, argv, ":hq", table, NULL)) != -1) {
        if (letter == '?')
            return error_set(err, ERROR_INVALID,
                             "%s does not know the option %s: see \"cloister image %s --help\"", c->name,
                             argv[optind - 1], c->name);
        if (letter == ':')
            return error_set(err, ERROR_INVALID, "option %s needs a value", argv[optind - 1]);
        if (letter == 'h') {
            *ret_help = true;
            return 0;
        }
        if (!strchr(c->allowed, letter) && letter != 'D' && letter != 'p')
            return error_set(err, ERROR_INVALID, "%s does not take --%s: see \"cloister image %s --help\"",
                             c->name, long_name(letter), c->name);
        if (take(ret, letter, optarg, err) < 0)
            return -1;
    }
    for (; optind < argc; optind++) {
        if (ret->operand_count == c->max)
            return error_set(err, ERROR_INVALID, "unexpected \"%.80s\": usage: cloister image %s %s",
                             argv[optind], c->name, c->usage);
        ret->operands[ret->operand_count++] = argv[optind];
    }
    if (ret->operand_count < c->min)
        return error_set(err, ERROR_INVALID, "something is missing: usage: cloister image %s %s", c->name,
                         c->usage);
    return 0;
}

void tool_help_overview(void)
{
    printf("Usage: cloister image COMMAND [OPTION]...\n\n"
           "Get, build, list and remove the images that containers run over. The image `host` (this\n"
           "machine's /usr, read-only, over an otherwise empty root) needs none of this.\n\n"
           "Commands:\n");
    for (const struct tool_command *const *c = tool_commands; *c; c++)
        if (!(*c)->internal)
            printf("  %-12s %s\n", (*c)->name, (*c)->summary);
    printf("\n\"cloister image COMMAND --help\" explains each.\n\n"
           "Examples:\n"
           "  cloister image pull debian:bookworm-slim\n"
           "  docker save my/app | cloister image import - --name my/app\n"
           "  cloister image build-base --name debian --node\n"
           "  cloister image alias cloudflare/debian-trixie debian\n");
}

void tool_help_command(const struct tool_command *c)
{
    printf("Usage: cloister image %s %s\n\n%s\n\n%s\nOptions:\n", c->name, c->usage, c->summary, c->help);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        if (!strchr(c->allowed, texts[i].letter) && !strchr("Dph", texts[i].letter))
            continue;
        char left[40];
        snprintf(left, sizeof left, "--%s%s%s", texts[i].name, texts[i].value ? " " : "",
                 texts[i].value ? texts[i].value : "");
        printf("  %-22s %s\n", left, texts[i].help);
    }
}
