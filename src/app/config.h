/* The configuration of a Workers project: wrangler.jsonc, wrangler.json or wrangler.toml, read into plain
 * structs, with .dev.vars beside it. The file is the operator's own (trusted), but it may be wrong in any
 * way: every error names the file, the field and the remedy, and whatever is not supported becomes one
 * warning.
 *
 * Nothing here starts anything. Bundling is src/app/bundle.h, static files are src/app/assets.h. */
#ifndef CLOISTER_APP_CONFIG_H
#define CLOISTER_APP_CONFIG_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A binding whose value is data: env[name]. */
struct app_var {
    char *name;
    char *json; /* the value as JSON text; a secret's is a JSON string */
    bool secret;
};

struct app_loader {
    char *name; /* the binding: env[name] */
    char *id;   /* loaders of this Worker with the same id share their cache; NULL: has one of its own */
};

/* A binding to a Durable Object namespace. */
struct app_object_binding {
    char *name;
    char *class_name; /* a class of this Worker: objects of other scripts (script_name) are refused */
};

struct app_image {
    char *name;  /* "" for the only one (`image`), else the key in `images` */
    char *image; /* a reference or a name known to the image store; NULL when it is to be built from ... */
    char *
        dockerfile; /* ... this file, an absolute path. Cloister builds none: the caller refuses or maps it */
};

enum app_scheduling { APP_SCHEDULING_DEFAULT, APP_SCHEDULING_DURABLE_OBJECT };

/* What a Durable Object class is: the union of migrations, `exports`, bindings and containers. */
struct app_class {
    char *name;
    char *storage;  /* the first name that it had: its objects are stored under it, so a rename keeps them */
    bool sql;       /* new_sqlite_classes, or exports' storage "sqlite", or mentioned in no migration */
    bool container; /* an entry of `containers` names it */
    enum app_scheduling scheduling;
    struct app_image *images;
    size_t image_count;
    char *instance_type; /* a type's name ("lite", "basic", "standard-1"...); NULL: the default, or custom: */
    unsigned vcpu_milli; /* 0: not custom */
    unsigned memory_mib;
    unsigned disk_mb;
    unsigned max_instances; /* 0: not limited */
};

struct app_service {
    char *name;
    char *service;    /* the hosted Worker's name; NULL: this Worker itself */
    char *entrypoint; /* NULL: the default export */
    char *props;      /* JSON text or NULL: ctx.props of the callee */
};

enum app_html_handling { APP_HTML_AUTO, APP_HTML_FORCE_SLASH, APP_HTML_DROP_SLASH, APP_HTML_NONE };
enum app_not_found { APP_NOT_FOUND_NONE, APP_NOT_FOUND_404_PAGE, APP_NOT_FOUND_SPA };

struct app_assets {
    bool present;
    char *directory; /* absolute */
    char *binding;   /* env[binding].fetch(); NULL: none */
    enum app_html_handling html_handling;
    enum app_not_found not_found;
    bool navigation;       /* what a browser navigates to gets `not_found` before the Worker is asked */
    bool run_worker_first; /* for every path ... */
    char **run_worker_first_routes; /* ... or for these patterns (star is any text, "!" excludes), or NULL */
};

/* One rule for files that are imported as something else than code. */
enum app_module_kind { APP_MODULE_TEXT, APP_MODULE_DATA, APP_MODULE_WASM };
struct app_rule {
    enum app_module_kind kind;
    char *suffix; /* ".wasm"; of wrangler's `rules` only globs that name a suffix are taken */
};

struct app_config {
    char *file;      /* the configuration file, absolute */
    char *directory; /* where it lies, absolute; relative paths start here */
    char *name;
    char *main;                 /* absolute path of the entry module; NULL: assets only */
    char *compatibility_date;   /* "YYYY-MM-DD" */
    char **compatibility_flags; /* NULL-terminated, never NULL */
    struct app_var *vars;
    size_t var_count;
    struct app_loader *loaders;
    size_t loader_count;
    struct app_object_binding *objects;
    size_t object_count;
    struct app_class *classes;
    size_t class_count;
    struct app_service *services;
    size_t service_count;
    struct app_assets assets;
    struct app_rule *rules; /* besides the default ones */
    size_t rule_count;
    char **crons;    /* triggers.crons, NULL-terminated, never NULL */
    char **defines;  /* esbuild's --define, "key=value", NULL-terminated, never NULL */
    char **aliases;  /* esbuild's --alias, "from=to", NULL-terminated, never NULL */
    char *tsconfig;  /* absolute, or NULL */
    unsigned cpu_ms; /* limits.cpu_ms; 0: the default */
    unsigned subrequests;
    char *dev_vars;  /* the file of secrets that was read or would be, absolute: worth watching */
    char **warnings; /* one line each, names file and field; NULL-terminated, never NULL */
};

struct app_config_options {
    const char *environment; /* --env NAME: its fields replace the top level's; NULL: none */
    /* Looked up for declared secrets that .dev.vars lacks; NULL: none. `environ`, usually. */
    char *const *environ;
    /* `cloister serve`: a declared secret without a value is an error instead of a warning. */
    bool secrets_required;
};

/* Reads the project in `directory` (or the configuration file of that path). NULL on failure: err->field is
 * the field, the message names file, line where it is known, and remedy. */
struct app_config *app_config_read(const char *directory, const struct app_config_options *options,
                                   struct error *err);
void app_config_free(struct app_config *c);

const struct app_class *app_config_class(const struct app_config *c, const char *name);

/* JSON with comments and trailing commas, as a tree: jansson's json_t (declared as void to keep jansson out
 * of this header's users). NULL on failure; messages are "line L, column C: ...". `text` need not end in NUL.
 * Depth at most 64, size at most 4 MiB, duplicate keys refused. */
struct json_t;
struct json_t *app_jsonc_parse(const char *text, size_t len, struct error *err);
/* The same for TOML 1.0; dates become strings. */
struct json_t *app_toml_parse(const char *text, size_t len, struct error *err);

#endif
