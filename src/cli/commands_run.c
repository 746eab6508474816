/* Tables of the commands that run something: run, start, exec. */
#include "cli/commands.h"

#define HEADING(text) {NULL, 0, NULL, text}
#define OPT_ENV                                                                                              \
    {"env", 'e', "K=V", "set a variable; -e K takes its value from your environment", .many = true}
#define OPT_ENV_FILE                                                                                         \
    {"env-file", 0, "FILE", "variables from a file, one K=V a line", .many = true, .complete = COMPLETE_FILE}
#define OPT_CWD {"cwd", 'C', "DIR", "working directory in the container"}
#define OPT_USER {"user", 'u', "USER", "run as this user of the image: name or uid, with :group if wanted"}
#define OPT_TTY {"tty", 't', NULL, "give the command a terminal"}
#define OPT_LABEL {"label", 0, "K=V", "a label to find it by", .many = true}
#define OPT_IMAGE                                                                                            \
    {"image", 0, "IMAGE", "what it sees as /; default: host, this machine's /usr read-only",                 \
     .complete = COMPLETE_IMAGE}
#define OPT_SNAPSHOT {"snapshot", 0, "ID", "start from these saved files"}
#define OPT_SOCKET {"socket", 0, "PATH", "the daemon's socket", .complete = COMPLETE_FILE}
#define OPT_DATA_DIR {"data-dir", 0, "DIR", "where images are kept", .complete = COMPLETE_DIR}
#define OPT_RUN_DIR {"run-dir", 0, "DIR", "where run time state is kept", .complete = COMPLETE_DIR}

#define LIMIT_OPTIONS                                                                                        \
    HEADING("Limits"), {"memory", 'm', "SIZE", "memory, such as 512M; default 1G"},                          \
        {"cpus", 0, "N", "CPUs, such as 0.5; default: no limit"},                                            \
        {"pids", 0, "N", "processes and threads; default 1024"},                                             \
        {"disk", 0, "SIZE", "bytes it may write to its files; default 512M"},                                \
        {"nofile", 0, "N", "open files of a process; default 4096"},                                         \
        {"timeout", 0, "TIME", "end everything after this time, such as 30s"}

static const struct option_def run_options[] = {
    HEADING("What runs"),
    OPT_IMAGE,
    OPT_SNAPSHOT,
    OPT_ENV,
    OPT_ENV_FILE,
    OPT_CWD,
    OPT_USER,
    OPT_TTY,
    {"interactive", 'i', NULL, "pass stdin on (it always is; accepted for habit's sake)"},
    {"no-stdin", 0, NULL, "the command finds its stdin at its end"},
    {"hostname", 0, "NAME", "host name inside; default: the name, or \"cloister\""},
    {"name", 0, "NAME", "a name for messages and the result; not kept"},
    {"label", 0, "K=V", "a label that the JSON result repeats", .many = true},
    LIMIT_OPTIONS,
    HEADING("Files"),
    {"copy-in", 0, "SRC:DST", "copy a file or directory in before the command starts", .many = true,
     .complete = COMPLETE_FILE},
    {"copy-out", 0, "SRC:DST", "copy a file or directory out after it has ended", .many = true},
    HEADING("Output"),
    {"json", 0, NULL, "print one JSON object with everything at the end"},
    {"timings", 0, NULL, "say on stderr how long each stage of the start took"},
    {"quiet", 'q', NULL, "no notes on stderr; errors still are"},
    HEADING("Places"),
    OPT_DATA_DIR,
    OPT_RUN_DIR,
    {NULL},
};

static const struct example run_examples[] = {
    {"cloister run -- python3 -c 'print(6*7)'",
     "Python from this machine, with none of your files, no network, no environment"},
    {"cloister run --memory 256M --timeout 10s --copy-in app:/app -C /app -- ./test",
     "a program you don't trust, within limits"},
    {NULL},
};

const struct command command_run = {
    .name = "run",
    .summary = "run a command in a fresh container; no daemon needed",
    .usage = "[OPTION]... [--] [COMMAND [ARG]...]",
    .about =
        "Stdin, stdout, stderr and signals pass through; the exit code is the command's. Nothing of your "
        "files,\n"
        "your environment, your processes or your network is visible inside but what you pass. Without a\n"
        "command the image's own is run. When it ends, everything in the container ends and is deleted.\n"
        "\n"
        "In SRC:DST, DST is the name the copy gets; with a / at its end, the directory it goes into. Copied "
        "in,\n"
        "files belong to root of the container. With --copy-out the container outlives the command until "
        "the\n"
        "files are out. Signals INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are forwarded; the third INT "
        "within\n"
        "two seconds ends the container.",
    .options = run_options,
    .rule = {0, 0, true},
    .operand = COMPLETE_PROGRAM,
    .examples = run_examples,
    .exits = EXITS_COMMAND,
    .group = "Run",
};

static const struct option_def start_options[] = {
    HEADING("What runs"),
    OPT_IMAGE,
    OPT_SNAPSHOT,
    OPT_ENV,
    OPT_ENV_FILE,
    OPT_CWD,
    OPT_USER,
    OPT_LABEL,
    {"mount", 0, "SNAPSHOT:DIR", "put the saved files of a directory (snapshot create --dir) at DIR",
     .many = true},
    LIMIT_OPTIONS,
    HEADING("Output"),
    {"json", 0, NULL, "print the container's record"},
    {"timings", 0, NULL, "say how long each stage of the start took"},
    HEADING("Daemon"),
    OPT_SOCKET,
    {NULL},
};

static const struct example start_examples[] = {
    {"cloister start box -- sleep infinity", "a container that waits for exec"},
    {"cloister start api --image debian --memory 1G -e PORT=80 -- python3 -m http.server",
     "a service in the image debian"},
    {NULL},
};

const struct command command_start = {
    .name = "start",
    .summary = "start a named container in the daemon",
    .usage = "[OPTION]... NAME [OPTION]... [-- COMMAND [ARG]...]",
    .about = "The container lives as long as its main process: the command, or the image's own. Its output "
             "is kept\n"
             "for \"cloister logs\". Starting a running container is an error.",
    .options = start_options,
    .rule = {1, 1, true},
    .operand = COMPLETE_CONTAINER,
    .examples = start_examples,
    .home = HOME_CLIENT,
    .group = "Named containers (need the daemon: cloister serve)",
};

static const struct option_def exec_options[] = {
    {"interactive", 'i', NULL, "pass stdin on; without it the command finds its stdin at its end"},
    OPT_TTY,
    OPT_ENV,
    OPT_ENV_FILE,
    OPT_CWD,
    OPT_USER,
    {"timeout", 0, "TIME", "kill the command and all its children after this time"},
    {"detach", 'd', NULL, "leave it running and print its id"},
    {"json", 0, NULL, "print one JSON object with everything at the end"},
    OPT_SOCKET,
    {NULL},
};

static const struct example exec_examples[] = {
    {"cloister exec box -- ls -l /tmp", "one command"},
    {"cloister exec -it box -- bash", "a shell on a terminal"},
    {NULL},
};

const struct command command_exec = {
    .name = "exec",
    .summary = "run one more command in a running container",
    .usage = "[OPTION]... NAME [--] COMMAND [ARG]...",
    .about = "No shell is involved: the words after NAME are the program and its arguments.",
    .options = exec_options,
    .rule = {1, 1, true},
    .operand = COMPLETE_CONTAINER,
    .examples = exec_examples,
    .exits = EXITS_COMMAND,
    .home = HOME_CLIENT,
};
