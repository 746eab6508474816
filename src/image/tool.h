/* The helper program `cloister-image`: its options and commands. */
#ifndef CLOISTER_IMAGE_TOOL_H
#define CLOISTER_IMAGE_TOOL_H

#include "base/error.h"
#include "image/image_build.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define TOOL_EXCLUDES_MAX 256
#define TOOL_OPERANDS_MAX 40

struct tool_options {
    const char *data_dir, *progress, *name, *ref, *authfile, *policy, *suite, *include, *digest, *upper,
        *tls_verify, *grace;
    const char *exclude[TOOL_EXCLUDES_MAX];
    size_t exclude_count;
    int userns;
    bool json, quiet, node, no_wait, remove;
    const char *operands[TOOL_OPERANDS_MAX];
    size_t operand_count;
};

struct tool {
    struct tool_options o;
    struct image_builder b;
    struct progress progress;
};

struct tool_command {
    const char *name, *usage, *summary;
    const char *allowed; /* letters of the options it takes, see tool_options.c */
    size_t min, max;     /* operands */
    int (*run)(struct tool *t, struct error *err);
    const char *help; /* what follows usage and summary */
    bool internal;    /* for the daemon: not in the overview */
};
extern const struct tool_command *const tool_commands[];

/* argv[0] is the command's name. */
int tool_options_parse(const struct tool_command *c, int argc, char **argv, struct tool_options *ret,
                       bool *ret_help, struct error *err);
void tool_help_overview(void);
void tool_help_command(const struct tool_command *c);

/* One compact line on standard output; takes the reference. */
int tool_put(json_t *o, struct error *err);

int command_pull(struct tool *t, struct error *err);
int command_import(struct tool *t, struct error *err);
int command_build_base(struct tool *t, struct error *err);
int command_list(struct tool *t, struct error *err);
int command_inspect(struct tool *t, struct error *err);
int command_rm(struct tool *t, struct error *err);
int command_alias(struct tool *t, struct error *err);
int command_gc(struct tool *t, struct error *err);
int command_layer_add(struct tool *t, struct error *err);
int command_snapshot_pack(struct tool *t, struct error *err);
int command_snapshot_from_tar(struct tool *t, struct error *err);

#endif
