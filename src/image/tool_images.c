#include "image/tool.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "image/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *built_json(const struct built_image *i)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "id", i->id, "name", i->name, "bytes",
                     (json_int_t)i->bytes, "layers", (json_int_t)i->layers, "layersReused",
                     (json_int_t)i->layers_reused, "skipped", (json_int_t)i->skipped, "xattrsDropped",
                     (json_int_t)i->xattrs_dropped, "squashed", i->squashed);
}

static int report(struct tool *t, const struct built_image *i, struct error *err)
{
    if (i->skipped)
        progress_note(&t->progress, "%llu device nodes, fifos or sockets of the image were left out",
                      (unsigned long long)i->skipped);
    if (i->squashed)
        progress_note(&t->progress,
                      "the image's file owners could not all be kept: they belong to the container's root");
    progress_end(&t->progress);
    if (t->progress.json)
        return tool_put(json_pack("{s:s, s:o}", "event", "done", "image", built_json(i)), err);
    if (t->o.json)
        return tool_put(built_json(i), err);
    printf("%s\n", i->name);
    return 0;
}

int command_pull(struct tool *t, struct error *err)
{
    const char *verify = t->o.tls_verify;
    if (verify && strcmp(verify, "false") != 0 && strcmp(verify, "true") != 0)
        return error_field(err, "tls-verify", "--tls-verify is true or false");
    const struct pull_options o = {.name = t->o.name,
                                   .authfile = t->o.authfile,
                                   .policy = t->o.policy,
                                   .insecure = verify && !strcmp(verify, "false")};
    struct built_image built;
    return image_pull(&t->b, t->o.operands[0], &o, &built, err) < 0 ? -1 : report(t, &built, err);
}

int command_import(struct tool *t, struct error *err)
{
    struct built_image built;
    if (image_import(&t->b, t->o.operands[0], t->o.name, t->o.ref, &built, err) < 0)
        return -1;
    return report(t, &built, err);
}

int command_build_base(struct tool *t, struct error *err)
{
    const struct base_options o = {.name = t->o.name ? t->o.name : "debian",
                                   .suite = t->o.suite ? t->o.suite : "bookworm",
                                   .include =
                                       t->o.include ? t->o.include : "python3,git,curl,ca-certificates",
                                   .node = t->o.node};
    struct built_image built;
    return image_build_base(&t->b, &o, &built, err) < 0 ? -1 : report(t, &built, err);
}

/* ---- looking ---- */

static json_t *strings_json(char *const *list)
{
    json_t *a = json_array();
    for (; *list; list++)
        json_array_append_new(a, json_string(*list));
    return a;
}

static json_t *image_json(const struct image *i)
{
    json_t *layers = json_array();
    for (size_t k = 0; k < i->layer_count; k++) {
        const char *end = strrchr(i->layers[k], '/'), *start = end;
        while (start && start > i->layers[k] && start[-1] != '/')
            start--;
        json_array_append_new(layers, json_stringn(start ? start : "", start ? (size_t)(end - start) : 0));
    }
    return json_pack("{s:s, s:s, s:I, s:I, s:b, s:o, s:{s:o, s:o, s:o, s:s, s:s}}", "name", i->name, "id",
                     i->id, "bytes", (json_int_t)i->bytes, "createdAt", (json_int_t)i->created_ms, "hostUsr",
                     i->host_usr, "layers", layers, "config", "env", strings_json(i->env), "entrypoint",
                     strings_json(i->entrypoint), "cmd", strings_json(i->cmd), "cwd", i->workdir, "user",
                     i->user);
}

static void print_size(uint64_t bytes)
{
    if (bytes >= (uint64_t)1 << 30)
        printf("%8.1f GiB", (double)bytes / (1 << 30));
    else
        printf("%8.1f MiB", (double)bytes / (1 << 20));
}

static bool print_image(void *user, const struct image *i)
{
    struct tool *t = user;
    if (t->o.quiet) {
        printf("%s\n", i->name);
    } else if (i->host_usr) {
        printf("%-40s %-14s %12s  %s\n", i->name, "-", "-", "built in");
    } else {
        char when[32] = "";
        time_t s = (time_t)(i->created_ms / 1000);
        struct tm tm;
        if (localtime_r(&s, &tm))
            strftime(when, sizeof when, "%Y-%m-%d %H:%M", &tm);
        printf("%-40s %.12s   ", i->name, i->id + 7);
        print_size(i->bytes);
        printf("  %s\n", when);
    }
    return true;
}

static bool collect_image(void *user, const struct image *i)
{
    return json_array_append_new(user, image_json(i)) == 0;
}

int command_list(struct tool *t, struct error *err)
{
    if (t->o.json) {
        json_t *all = json_array();
        if (image_list(t->b.data_dir, collect_image, all, err) == 0)
            return tool_put(json_pack("{s:o}", "images", all), err);
        json_decref(all);
        return -1;
    }
    if (!t->o.quiet)
        printf("%-40s %-14s %12s  %s\n", "NAME", "ID", "SIZE", "CREATED");
    return image_list(t->b.data_dir, print_image, t, err);
}

int command_inspect(struct tool *t, struct error *err)
{
    struct image *i;
    if (image_resolve(t->b.data_dir, t->o.operands[0], &i, err) < 0)
        return -1;
    json_t *o = image_json(i);
    image_free(i);
    if (t->o.json)
        return tool_put(o, err);
    cleanup_free char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    if (!text)
        return error_oom(err);
    printf("%s\n", text);
    return 0;
}

/* ---- removing ---- */

static int gc_report(struct tool *t, const struct gc_result *g, struct error *err)
{
    if (t->o.json)
        return tool_put(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "layers", (json_int_t)g->layers, "blobs",
                                  (json_int_t)g->blobs, "images", (json_int_t)g->images, "snapshots",
                                  (json_int_t)g->snapshots, "temporary", (json_int_t)g->temporary, "bytes",
                                  (json_int_t)g->bytes),
                        err);
    printf("removed %llu layers, %llu blobs, %llu snapshots, %llu leftovers: %.1f MiB\n",
           (unsigned long long)g->layers, (unsigned long long)g->blobs, (unsigned long long)g->snapshots,
           (unsigned long long)g->temporary, (double)g->bytes / 1048576);
    return 0;
}

int command_gc(struct tool *t, struct error *err)
{
    uint64_t grace = 3600000;
    struct gc_result g;
    if (t->o.grace && parse_duration(t->o.grace, "grace", &grace, err) < 0)
        return -1;
    if (image_gc(t->b.data_dir, (int64_t)grace, !t->o.no_wait, &g, err) < 0)
        return -1;
    return gc_report(t, &g, err);
}

int command_rm(struct tool *t, struct error *err)
{
    struct gc_result g;
    for (size_t i = 0; i < t->o.operand_count; i++) {
        bool kept;
        if (image_remove(t->b.data_dir, t->o.operands[i], &kept, err) < 0)
            return -1;
        if (kept)
            progress_note(&t->progress, "%s is kept for the snapshots that were made of it",
                          t->o.operands[i]);
        if (!t->o.json)
            printf("%s\n", t->o.operands[i]);
    }
    /* A layer that is still young may be part of an image just being made: the next gc has it. */
    if (image_gc(t->b.data_dir, 60000, !t->o.no_wait, &g, err) < 0)
        return -1;
    return t->o.json ? gc_report(t, &g, err) : 0;
}

int command_alias(struct tool *t, struct error *err)
{
    const char *target = t->o.operand_count > 1 ? t->o.operands[1] : NULL;
    if (!target && !t->o.remove)
        return error_field(err, "target", "say what \"%.80s\" is to stand for, or --remove",
                           t->o.operands[0]);
    if (target && t->o.remove)
        return error_field(err, "remove", "--remove takes only the alias");
    return image_alias(t->b.data_dir, t->o.operands[0], target, err);
}
