/* Tables of the commands for Workers projects. */
#include "cli/commands.h"

static const struct option_def dev_options[] = {
    {"port", 'p', "PORT", "where it answers HTTP; default 8787; 0: any free port"},
    {"host", 0, "ADDRESS", "on which address; default 127.0.0.1, which only this machine reaches"},
    {"allow-host", 0, "NAME", "a name by which clients may ask, besides localhost", .many = true},
    {"env", 'e', "NAME", "the environment of the configuration (env.NAME)"},
    {"data-dir", 0, "DIR", "where images of containers are kept", .complete = COMPLETE_DIR},
    {"verbose", 'v', NULL, "show the daemon's own log"},
    {NULL},
};

static const struct example dev_examples[] = {
    {"cloister dev", "the project in this directory, on http://127.0.0.1:8787"},
    {"cloister dev shop shop-auth --port 9000",
     "two projects; shop answers, and reaches the other by a service binding"},
    {NULL},
};

const struct command command_dev = {
    .name = "dev",
    .summary = "run a Workers project, and run it anew when its files change",
    .usage = "[OPTION]... [DIR]...",
    .about =
        "Reads wrangler.jsonc, wrangler.json or wrangler.toml in DIR (default: here), bundles the main "
        "module and\n"
        "answers HTTP. What console.log() prints appears here; Ctrl-C ends everything. Durable Objects keep "
        "their\n"
        "data in DIR/.cloister. Further directories are Workers that the first reaches by service bindings.",
    .options = dev_options,
    .rule = {0, 16, false},
    .operand = COMPLETE_DIR,
    .examples = dev_examples,
    .home = HOME_HERE,
    .group = "Workers",
};
