/* cloister-image: what `cloister image ...` runs. Fetches, verifies, unpacks, packs and collects; the engine
 * itself only reads what this program has put into the store. */
#include "image/tool.h"

#include "base/cleanup.h"
#include "base/paths.h"
#include "image/store.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAILED 125

/* clang-format off */
static const struct tool_command pull = {"pull", "[OPTION]... REFERENCE", "Fetch an image from a registry (with skopeo)", "naPtj", 1, 1,
    command_pull,
    "REFERENCE is [registry/]path[:tag][@digest], as for docker pull. The manifest, the configuration and\n"
    "every layer are verified against their digests before anything is used. Registries on loopback\n"
    "may speak plain HTTP; all others must use TLS unless --tls-verify=false is given.\n", false};
static const struct tool_command import = {"import", "[OPTION]... FILE|-|DIR", "Take an image from an archive or a directory", "nrj", 1, 1,
    command_import,
    "FILE (or standard input) is an OCI archive, a docker archive (docker save) or a tar of a root file\n"
    "system, plain or compressed; DIR is an OCI layout. Which of these it is, is seen from its contents.\n", false};
static const struct tool_command build_base = {"build-base", "[OPTION]...", "Make a small Debian image (with mmdebstrap)", "nsiNj", 0, 0,
    command_build_base,
    "The packages come from this machine's own apt sources for that release, otherwise from\n"
    "Debian's. The default name is debian.\n", false};
static const struct tool_command list = {"list", "[OPTION]...", "List the images", "jq", 0, 0, command_list, "", false};
static const struct tool_command inspect = {"inspect", "NAME", "Show an image's configuration and layers", "j", 1, 1, command_inspect, "", false};
static const struct tool_command rm = {"rm", "NAME...", "Remove images", "jw", 1, TOOL_OPERANDS_MAX, command_rm,
    "Forgets the names. An image goes with its last name, and its layers when no other image and no\n"
    "running container uses them. Images that a snapshot needs are kept for it.\n", false};
static const struct tool_command alias = {"alias", "[OPTION]... NAME [TARGET]", "Let a name stand for another image", "R", 1, 2, command_alias,
    "Afterwards NAME means TARGET wherever an image is named. One step only: TARGET is not looked up\n"
    "among the aliases again.\n", false};
static const struct tool_command gc = {"gc", "[OPTION]...", "Remove what nothing needs any more", "gwj", 0, 0, command_gc,
    "Layers without an image, expired snapshots, leftovers of interrupted commands. What a running\n"
    "container uses stays. Safe to run at any time.\n", false};
static const struct tool_command layer_add = {"layer-add", "--digest HEX [BLOB]", "Unpack a snapshot layer after verifying it", "d", 0, 1,
    command_layer_add, "BLOB defaults to the store's own file of that digest.\n", true};
static const struct tool_command snapshot_pack = {"snapshot-pack", "--upper DIR [OPTION]... [LAYER-DIR...]",
    "Pack a container's writable layer as a snapshot layer", "uUx", 0, TOOL_OPERANDS_MAX, command_snapshot_pack,
    "With LAYER-DIRs (unpacked snapshot layers, bottom first) these are merged below DIR into one layer.\n\n"
    "A PATTERN without a slash matches a name at any depth. One with a slash is matched part by part\n"
    "from the top: * and ? stay within a part, ** stands for any number of parts; a slash at the end\n"
    "means directories only. What lies below a match is left out with it.\n", true};
static const struct tool_command snapshot_from_tar = {"snapshot-from-tar", "[OPTION]...", "Pack a tar from standard input as a snapshot layer",
    "x", 0, 0, command_snapshot_from_tar, "Patterns as for snapshot-pack.\n", true};
/* clang-format on */

const struct tool_command *const tool_commands[] = {
    &pull,  &import, &build_base, &list,          &inspect,           &rm,
    &alias, &gc,     &layer_add,  &snapshot_pack, &snapshot_from_tar, NULL};

int tool_put(json_t *o, struct error *err)
{
    cleanup_free char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!line)
        return error_oom(err);
    printf("%s\n", line);
    return fflush(stdout) == 0 ? 0 : error_set(err, ERROR_GONE, "cannot write to standard output");
}

static int fail(const struct tool *t, const struct error *e)
{
    if (t && t->progress.json) {
        json_t *inner = json_pack("{s:s, s:s}", "code", error_code(e), "message", e->message);
        if (*e->field)
            json_object_set_new(inner, "field", json_string(e->field));
        tool_put(json_pack("{s:s, s:o}", "event", "error", "error", inner), NULL);
    }
    fputs("cloister image: ", stderr);
    for (const char *p = e->message; *p; p++)
        fputc((unsigned char)*p < 32 || *p == 127 ? '?' : *p, stderr);
    fputc('\n', stderr);
    return FAILED;
}

static const struct tool_command *find(const char *name)
{
    for (const struct tool_command *const *c = tool_commands; *c; c++)
        if (!strcmp((*c)->name, name))
            return *c;
    return NULL;
}

static int run(struct tool *t, const struct tool_command *c, struct error *err)
{
    struct paths paths;
    if (paths_init(&paths, t->o.data_dir, NULL, NULL, err) < 0)
        return -1;
    t->b.data_dir = paths.data_dir;
    t->b.progress = &t->progress;
    int r = image_limits_load(&t->b.limits, err);
    if (r == 0)
        r = paths_private_dir(paths.data_dir, err);
    if (r == 0)
        r = store_prepare(paths.data_dir, err);
    if (r == 0)
        r = c->run(t, err);
    progress_end(&t->progress);
    paths_free(&paths);
    return r;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct tool t = {0};
    bool help = false;
    /* `--data-dir DIR` may also stand before the command's name. */
    const char *early_dir = argc > 2 && !strcmp(argv[1], "--data-dir") ? argv[2] : NULL;
    if (early_dir) {
        argv += 2;
        argc -= 2;
    }
    umask(022);
    signal(SIGPIPE, SIG_IGN);
    /* Directories are walked with a descriptor a level. */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 4096) {
        files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        const struct tool_command *about = argc > 2 ? find(argv[2]) : NULL;
        if (about)
            tool_help_command(about);
        else
            tool_help_overview();
        return argc < 2 ? FAILED : 0;
    }
    const struct tool_command *c = find(argv[1]);
    if (!c) {
        error_set(&err, ERROR_INVALID, "no command \"%.60s\": see \"cloister image --help\"", argv[1]);
        return fail(NULL, &err);
    }
    if (tool_options_parse(c, argc - 1, argv + 1, &t.o, &help, &err) < 0) {
        progress_init(&t.progress, t.o.progress);
        return fail(&t, &err);
    }
    if (help) {
        tool_help_command(c);
        return 0;
    }
    if (!progress_init(&t.progress, t.o.progress)) {
        error_field(&err, "progress", "expected json, plain or none");
        return fail(&t, &err);
    }
    if (!t.o.data_dir)
        t.o.data_dir = early_dir;
    return run(&t, c, &err) < 0 ? fail(&t, &err) : 0;
}
