/* Tables of the commands about files and snapshots. */
#include "cli/commands.h"

#define OPT_SOCKET {"socket", 0, "PATH", "the daemon's socket", .complete = COMPLETE_FILE}
#define OPT_JSON {"json", 0, NULL, "print JSON"}

static const struct option_def cp_options[] = {
    {"exclude", 0, "PATTERN", "leave these out (copying from a container)", .many = true},
    {"max-size", 0, "SIZE", "most bytes taken out of a container; default 16G"},
    OPT_SOCKET,
    {NULL},
};

static const struct example cp_examples[] = {
    {"cloister cp report.csv box:/data/", "into the directory /data"},
    {"cloister cp box:/data/out ./out", "a tree, which becomes ./out"},
    {NULL},
};

const struct command command_cp = {
    .name = "cp",
    .summary = "copy files between this machine and a container",
    .usage = "[OPTION]... SRC NAME:DST | NAME:SRC DST",
    .about =
        "Directories are copied whole. DST is the name the copy gets; with a / at its end, or when it is a\n"
        "directory on this machine, the directory it goes into. What comes out of a container is not "
        "trusted:\n"
        "nothing is written outside DST, symbolic links that lead out of the copied tree, devices and FIFOs "
        "are\n"
        "left out and named, and setuid bits are cleared.",
    .options = cp_options,
    .rule = {2, 2, false},
    .operand = COMPLETE_FILE,
    .examples = cp_examples,
    .home = HOME_CLIENT,
};

static const struct option_def socket_options[] = {OPT_SOCKET, {NULL}};

static const struct option_def ls_options[] = {
    {"all", 'a', NULL, "also names that begin with a dot"},
    {"recursive", 'R', NULL, "also what is in directories"},
    {"long", 'l', NULL, "type, mode, owner, size and time"},
    OPT_JSON,
    OPT_SOCKET,
    {NULL},
};
static const struct example ls_examples[] = {
    {"cloister files ls box /etc", "names"},
    {"cloister files ls -alR box /workspace", "everything below, in full"},
    {NULL},
};
static const struct command files_ls = {
    .name = "ls",
    .summary = "list a directory",
    .usage = "[OPTION]... NAME PATH",
    .options = ls_options,
    .rule = {2, 2, false},
    .operand = COMPLETE_CONTAINER,
    .examples = ls_examples,
    .home = HOME_CLIENT,
};

static const struct option_def cat_options[] = {
    {"offset", 0, "N", "begin at this byte"},
    {"length", 0, "N", "at most so many bytes"},
    OPT_SOCKET,
    {NULL},
};
static const struct example cat_examples[] = {
    {"cloister files cat box /etc/os-release", "prints the file"},
    {"cloister files cat --length 16 box /data/blob | xxd", "its first bytes"},
    {NULL},
};
static const struct command files_cat = {
    .name = "cat",
    .summary = "print a file",
    .usage = "[OPTION]... NAME PATH",
    .options = cat_options,
    .rule = {2, 2, false},
    .operand = COMPLETE_CONTAINER,
    .examples = cat_examples,
    .home = HOME_CLIENT,
};

static const struct option_def write_options[] = {
    {"mode", 0, "OCTAL", "permissions; default: the replaced file's, else 0644"},
    {"parents", 'p', NULL, "make missing directories"},
    {"append", 'a', NULL, "add to its end"},
    {"exclusive", 0, NULL, "fail when it exists"},
    OPT_SOCKET,
    {NULL},
};
static const struct example write_examples[] = {
    {"echo hello | cloister files write box /tmp/greeting", "from stdin"},
    {"cloister files write --mode 755 -p box /opt/x/run < run", "with permissions and directories"},
    {NULL},
};
static const struct command files_write = {
    .name = "write",
    .summary = "write a file from stdin, whole or not at all",
    .usage = "[OPTION]... NAME PATH",
    .options = write_options,
    .rule = {2, 2, false},
    .operand = COMPLETE_CONTAINER,
    .examples = write_examples,
    .home = HOME_CLIENT,
};

static const struct option_def stat_options[] = {
    {"no-follow", 0, NULL, "about a symbolic link itself"},
    OPT_JSON,
    OPT_SOCKET,
    {NULL},
};
static const struct example stat_examples[] = {
    {"cloister files stat box /bin/sh", "type, mode, owner, size and time"},
    {"cloister files stat --no-follow --json box /bin/sh", "of the link, for programs"},
    {NULL},
};
static const struct command files_stat = {
    .name = "stat",
    .summary = "tell about a file",
    .usage = "[OPTION]... NAME PATH",
    .options = stat_options,
    .rule = {2, 2, false},
    .operand = COMPLETE_CONTAINER,
    .examples = stat_examples,
    .home = HOME_CLIENT,
};

static const struct option_def mkdir_options[] = {
    {"parents", 'p', NULL, "make missing parents; an existing directory is fine"},
    {"mode", 0, "OCTAL", "permissions; default 0755"},
    OPT_SOCKET,
    {NULL},
};
static const struct example mkdir_examples[] = {
    {"cloister files mkdir box /data", "one directory"},
    {"cloister files mkdir -p box /data/a/b", "with its parents"},
    {NULL},
};
static const struct command files_mkdir = {
    .name = "mkdir",
    .summary = "make a directory",
    .usage = "[OPTION]... NAME PATH",
    .options = mkdir_options,
    .rule = {2, 2, false},
    .operand = COMPLETE_CONTAINER,
    .examples = mkdir_examples,
    .home = HOME_CLIENT,
};

static const struct option_def files_rm_options[] = {
    {"recursive", 'r', NULL, "a directory and what is in it"},
    {"force", 'f', NULL, "a missing file is fine"},
    OPT_SOCKET,
    {NULL},
};
static const struct example files_rm_examples[] = {
    {"cloister files rm box /tmp/x", "a file"},
    {"cloister files rm -rf box /data", "a tree"},
    {NULL},
};
static const struct command files_rm = {
    .name = "rm",
    .summary = "remove a file or a directory",
    .usage = "[OPTION]... NAME PATH",
    .options = files_rm_options,
    .rule = {2, 2, false},
    .operand = COMPLETE_CONTAINER,
    .examples = files_rm_examples,
    .home = HOME_CLIENT,
};

static const struct example mv_examples[] = {
    {"cloister files mv box /tmp/new /data/current", "replaces the target in one step"},
    {"cloister files mv box /data /old", "a directory as well"},
    {NULL},
};
static const struct command files_mv = {
    .name = "mv",
    .summary = "rename a file or a directory",
    .usage = "[OPTION]... NAME FROM TO",
    .options = socket_options,
    .rule = {3, 3, false},
    .operand = COMPLETE_CONTAINER,
    .examples = mv_examples,
    .home = HOME_CLIENT,
};

static const struct option_def watch_options[] = {
    {"recursive", 'r', NULL, "also what is in directories"},
    OPT_SOCKET,
    {NULL},
};
static const struct example watch_examples[] = {
    {"cloister files watch box /workspace", "one JSON object a line, until Ctrl-C"},
    {"cloister files watch -r box /workspace | jq -r .path", "only the paths"},
    {NULL},
};
static const struct command files_watch = {
    .name = "watch",
    .summary = "print changes as they happen",
    .usage = "[OPTION]... NAME PATH",
    .options = watch_options,
    .rule = {2, 2, false},
    .operand = COMPLETE_CONTAINER,
    .examples = watch_examples,
    .home = HOME_CLIENT,
};

static const struct command *const files_commands[] = {
    &files_ls, &files_cat, &files_write, &files_stat, &files_mkdir, &files_rm, &files_mv, &files_watch, NULL,
};

const struct command command_files = {
    .name = "files",
    .summary = "list, read, write and watch files in a running container",
    .subcommands = files_commands,
    .home = HOME_CLIENT,
};

static const struct option_def create_options[] = {
    {"dir", 0, "DIR", "only this directory of the container"},
    {"name", 0, "NAME", "a name for people"},
    {"exclude", 0, "PATTERN", "leave these out", .many = true},
    OPT_JSON,
    OPT_SOCKET,
    {NULL},
};
static const struct example create_examples[] = {
    {"id=$(cloister snapshot create box)", "prints the id"},
    {"cloister snapshot create --dir /workspace --name work --exclude node_modules box",
     "one directory of it"},
    {NULL},
};
static const struct command snapshot_create = {
    .name = "create",
    .summary = "save the files a container has changed",
    .usage = "[OPTION]... NAME",
    .about =
        "Files come back in any container of the same image: cloister start --snapshot ID, or cloister run\n"
        "--snapshot ID. Processes do not. A snapshot is kept for 30 days after its last use.",
    .options = create_options,
    .rule = {1, 1, false},
    .operand = COMPLETE_CONTAINER,
    .examples = create_examples,
    .home = HOME_CLIENT,
};

static const struct option_def list_options[] = {
    OPT_JSON, {"quiet", 'q', NULL, "only the ids"}, OPT_SOCKET, {NULL}};
static const struct example list_examples[] = {
    {"cloister snapshot list", "all of them"},
    {"cloister snapshot list --json", "for programs"},
    {NULL},
};
static const struct command snapshot_list = {
    .name = "list",
    .summary = "list snapshots",
    .usage = "[OPTION]...",
    .options = list_options,
    .examples = list_examples,
    .home = HOME_CLIENT,
};

static const struct example snapshot_rm_examples[] = {
    {"cloister snapshot rm 0f9c2e7d51b84a60b3d1f7a2c4e69d80", "one"},
    {"cloister snapshot list -q | xargs cloister snapshot rm", "all"},
    {NULL},
};
static const struct command snapshot_rm = {
    .name = "rm",
    .summary = "remove snapshots",
    .usage = "[OPTION]... ID...",
    .options = socket_options,
    .rule = {1, 1024, false},
    .examples = snapshot_rm_examples,
    .home = HOME_CLIENT,
};

static const struct command *const snapshot_commands[] = {&snapshot_create, &snapshot_list, &snapshot_rm,
                                                          NULL};

const struct command command_snapshot = {
    .name = "snapshot",
    .summary = "save, list and remove what containers have changed",
    .subcommands = snapshot_commands,
    .home = HOME_CLIENT,
};
