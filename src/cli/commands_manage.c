/* Tables of the commands about named containers. */
#include "cli/commands.h"

#define OPT_SOCKET {"socket", 0, "PATH", "the daemon's socket", .complete = COMPLETE_FILE}
#define OPT_JSON {"json", 0, NULL, "print JSON"}

static const struct option_def ps_options[] = {
    {"all", 'a', NULL, "also the stopped ones, with why they stopped"},
    {"label", 0, "K=V", "only those with this label"},
    {"quiet", 'q', NULL, "only the names"},
    OPT_JSON,
    OPT_SOCKET,
    {NULL},
};

static const struct example ps_examples[] = {
    {"cloister ps -a", "every container the daemon knows"},
    {"cloister ps --json | jq -r '.containers[].name'", "for programs"},
    {NULL},
};

const struct command command_ps = {
    .name = "ps",
    .summary = "list containers",
    .usage = "[OPTION]...",
    .options = ps_options,
    .examples = ps_examples,
    .home = HOME_CLIENT,
};

static const struct option_def socket_options[] = {OPT_SOCKET, {NULL}};

static const struct example inspect_examples[] = {
    {"cloister inspect box", "everything the daemon knows about box, as JSON"},
    {"cloister inspect box | jq .usage", "what it uses now"},
    {NULL},
};

const struct command command_inspect = {
    .name = "inspect",
    .summary = "show a container's record as JSON",
    .usage = "[OPTION]... NAME",
    .options = socket_options,
    .rule = {1, 1, false},
    .operand = COMPLETE_CONTAINER,
    .examples = inspect_examples,
    .home = HOME_CLIENT,
};

static const struct option_def logs_options[] = {
    {"follow", 'f', NULL, "go on until the container stops"},
    {"tail", 'n', "N", "only the last N lines of each stream"},
    {"exec", 0, "ID", "the output of this exec; default: the main process"},
    OPT_SOCKET,
    {NULL},
};

static const struct example logs_examples[] = {
    {"cloister logs -f box", "what it prints, as it prints it"},
    {"cloister logs --tail 20 box", "the end of what it printed"},
    {NULL},
};

const struct command command_logs = {
    .name = "logs",
    .summary = "print what a container's main process wrote",
    .usage = "[OPTION]... NAME",
    .about = "What the daemon keeps is bounded: what was dropped is counted and said on stderr.",
    .options = logs_options,
    .rule = {1, 1, false},
    .operand = COMPLETE_CONTAINER,
    .examples = logs_examples,
    .home = HOME_CLIENT,
};

static const struct option_def stats_options[] = {OPT_JSON, OPT_SOCKET, {NULL}};

static const struct example stats_examples[] = {
    {"cloister stats", "memory, CPU time, processes and disk of every running container"},
    {"cloister stats box --json", "of one, for programs"},
    {NULL},
};

const struct command command_stats = {
    .name = "stats",
    .summary = "show what running containers use",
    .usage = "[OPTION]... [NAME]...",
    .options = stats_options,
    .rule = {0, 64, false},
    .operand = COMPLETE_CONTAINER,
    .examples = stats_examples,
    .home = HOME_CLIENT,
};

static const struct option_def stop_options[] = {
    {"timeout", 0, "TIME", "how long to wait after SIGTERM; default 10s"},
    OPT_SOCKET,
    {NULL},
};

static const struct example stop_examples[] = {
    {"cloister stop box", "SIGTERM, and after 10 s the end"},
    {"cloister stop --timeout 1m db", "with more patience"},
    {NULL},
};

const struct command command_stop = {
    .name = "stop",
    .summary = "ask containers to end, then end them",
    .usage = "[OPTION]... NAME...",
    .options = stop_options,
    .rule = {1, 64, false},
    .operand = COMPLETE_CONTAINER,
    .examples = stop_examples,
    .home = HOME_CLIENT,
};

static const struct option_def signal_options[] = {
    {"signal", 's', "SIGNAL", "name or number; default TERM"},
    OPT_SOCKET,
    {NULL},
};

static const struct example signal_examples[] = {
    {"cloister signal -s HUP web", "tell a service to read its configuration again"},
    {"cloister signal -s 10 box", "by number"},
    {NULL},
};

const struct command command_signal = {
    .name = "signal",
    .summary = "send a signal to a container's main process",
    .usage = "[OPTION]... NAME",
    .options = signal_options,
    .rule = {1, 1, false},
    .operand = COMPLETE_CONTAINER,
    .examples = signal_examples,
    .home = HOME_CLIENT,
};

static const struct option_def destroy_options[] = {
    {"reason", 0, "TEXT", "kept in its record"},
    OPT_SOCKET,
    {NULL},
};

static const struct example destroy_examples[] = {
    {"cloister destroy box", "ends every process in it at once"},
    {"cloister destroy --reason 'misbehaved' box", "and keeps why"},
    {NULL},
};

const struct command command_destroy = {
    .name = "destroy",
    .summary = "end containers at once",
    .usage = "[OPTION]... NAME...",
    .about = "The name stays, with the reason; \"cloister rm\" forgets it.",
    .options = destroy_options,
    .rule = {1, 64, false},
    .operand = COMPLETE_CONTAINER,
    .examples = destroy_examples,
    .home = HOME_CLIENT,
};

static const struct option_def rm_options[] = {
    {"force", 'f', NULL, "end it first when it runs"},
    OPT_SOCKET,
    {NULL},
};

static const struct example rm_examples[] = {
    {"cloister rm box", "forgets a stopped container"},
    {"cloister rm -f box", "ends it first"},
    {NULL},
};

const struct command command_rm = {
    .name = "rm",
    .summary = "forget stopped containers",
    .usage = "[OPTION]... NAME...",
    .options = rm_options,
    .rule = {1, 64, false},
    .operand = COMPLETE_CONTAINER,
    .examples = rm_examples,
    .home = HOME_CLIENT,
};
