#include "image/image_build.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/child.h"
#include "image/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCES_MAX (64 << 10)

static bool only_of(const char *s, const char *allowed)
{
    return *s && strspn(s, allowed) == strlen(s);
}

static void on_line(void *user, const char *line)
{
    if (!strncmp(line, "I: ", 3)) {
        char what[80];
        snprintf(what, sizeof what, "%.75s", line + 3);
        progress_stage(user, "build", what, 0);
    }
}

/* The machine's own sources when they are for that suite, so that its mirrors are used; otherwise
 * mmdebstrap's default. */
static const char *machine_sources(const char *suite)
{
    static const char *const files[] = {"/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup_free char *text = NULL;
        if (file_slurp(-1, files[i], SOURCES_MAX, &text, NULL, NULL) == 0 && strstr(text, suite))
            return files[i];
    }
    return NULL;
}

/* The image names no source, name or resolver of this machine, whatever mmdebstrap took over (a private
 * mirror's address may even hold credentials). */
static void hook_text(const char *suite, char *ret, size_t size)
{
    snprintf(ret, size,
             "rm -rf \"$1\"/etc/apt/sources.list.d/* \"$1\"/etc/apt/auth.conf* "
             "\"$1\"/etc/apt/apt.conf.d/99mmdebstrap && "
             "echo '# To use apt: deb MIRROR %s main' > \"$1\"/etc/apt/sources.list && "
             "rm -f \"$1\"/etc/resolv.conf \"$1\"/etc/hostname && : > \"$1\"/etc/resolv.conf && "
             "echo localhost > \"$1\"/etc/hostname",
             suite);
}

static int check_options(const struct base_options *o, struct error *err)
{
    if (image_name_check(o->name, "name", err) < 0)
        return -1;
    if (!only_of(o->suite, "abcdefghijklmnopqrstuvwxyz0123456789-") || o->suite[0] == '-')
        return error_field(err, "suite", "\"%.40s\" is no name of a Debian suite (such as bookworm)",
                           o->suite);
    if (strlen(o->include) > 4096 || !only_of(o->include, "abcdefghijklmnopqrstuvwxyz0123456789+-.,:") ||
        o->include[0] == '-')
        return error_field(err, "include", "expected package names with commas between them");
    return 0;
}

struct base_child {
    struct child *child;
    bool finished;
};

/* A root file system counts only if the program that made it ended well. */
static int confirm(void *user, struct error *err)
{
    struct base_child *b = user;
    b->finished = true;
    return child_finish(b->child, false, err);
}

int image_build_base(const struct image_builder *b, const struct base_options *o, struct built_image *ret,
                     struct error *err)
{
    if (check_options(o, err) < 0)
        return -1;
    char include[4200], hook[1024], hook_option[1100];
    snprintf(include, sizeof include, "--include=%s%s", o->include, o->node ? ",nodejs" : "");
    hook_text(o->suite, hook, sizeof hook);
    snprintf(hook_option, sizeof hook_option, "--customize-hook=%s", hook);
    const char *sources = machine_sources(o->suite);
    const char *argv[] = {"mmdebstrap",
                          "--variant=minbase",
                          include,
                          "--dpkgopt=path-exclude=/usr/share/man/*",
                          "--dpkgopt=path-exclude=/usr/share/doc/*",
                          "--dpkgopt=path-include=/usr/share/doc/*/copyright",
                          "--dpkgopt=path-exclude=/usr/share/locale/*",
                          hook_option,
                          "--format=tar",
                          "--",
                          o->suite,
                          "-",
                          sources,
                          NULL};
    struct child c;
    progress_stage(b->progress, "build", o->suite, 0);
    if (child_start(&c, (char *const *)argv, true, on_line, b->progress, err) < 0)
        return -1;
    struct base_child run = {.child = &c};
    struct error why = {0};
    int r = import_rootfs(b, c.out, o->name, confirm, &run, ret, &why);
    if (run.finished) {
        if (r < 0 && err)
            *err = why;
        return r;
    }
    /* The archive broke off or was refused. If the program failed by itself, its own words tell more. */
    struct error child_error = {0};
    bool own_failure =
        child_finish(&c, why.kind != ERROR_CORRUPT, &child_error) < 0 && why.kind == ERROR_CORRUPT;
    if (err)
        *err = own_failure ? child_error : why;
    return -1;
}
