/* Bundles an application's entry module with esbuild, asynchronously, and says when what went into the bundle
 * has changed. esbuild is a program of its own (libexec/cloister/esbuild, or $CLOISTER_ESBUILD); it runs as
 * whoever runs this, on the operator's own sources: nothing here is untrusted. */
#ifndef CLOISTER_APP_BUNDLE_H
#define CLOISTER_APP_BUNDLE_H

#include "app/config.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum bundle_kind { BUNDLE_JS, BUNDLE_TEXT, BUNDLE_DATA, BUNDLE_WASM };

struct bundle_module {
    char *name; /* what imports of it say; the main module's is "index.js" */
    enum bundle_kind kind;
    uint8_t *data;
    size_t size;
};

struct bundle_result {
    struct bundle_module
        *modules; /* [0] is the main module: an ES module, not yet through the module compiler */
    size_t module_count;
    char **inputs; /* absolute paths of every file that went in; NULL-terminated */
};

struct bundle;

/* Runs once, from the loop, for each bundle_start(). Either `result` (the callee takes it and frees it with
 * bundle_result_free()) or `err` is NULL. err->message is one sentence; `details` is esbuild's whole report
 * (file:line:column: message, several lines), NULL when there is none. */
typedef void (*bundle_done_fn)(void *user, struct bundle_result *result, const struct error *err,
                               const char *details);
/* Runs when inputs (or the configuration file, or .dev.vars) have changed, once for each burst of changes.
 * Call app_config_read() and bundle_start() again then. */
typedef void (*bundle_changed_fn)(void *user);

/* `config` is borrowed for the call only. NULL on failure: no esbuild, no entry module. */
struct bundle *bundle_start(uv_loop_t *loop, const struct app_config *config, bundle_done_fn done, void *user,
                            struct error *err);
/* Starts watching what the finished bundle was made of; after a failed one, the sources' directory. At most
 * once. */
int bundle_watch(struct bundle *b, bundle_changed_fn changed, void *user, struct error *err);
/* Ends a running esbuild and the watching; no callback runs afterwards. NULL is fine. */
void bundle_close(struct bundle *b);

void bundle_result_free(struct bundle_result *r);

/* The esbuild program: $CLOISTER_ESBUILD, else beside this program's helpers. Malloc'ed; NULL with an error
 * that says how to get it. */
char *bundle_find_esbuild(struct error *err);

#endif
