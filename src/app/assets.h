/* The static files of an application: asked for by a client's path (assets_serve), or by a Worker through its
 * binding (assets_call). The folder is the operator's; no path leaves it (openat2 beneath it, symbolic links
 * included), and names that begin with a dot are not served. */
#ifndef CLOISTER_APP_ASSETS_H
#define CLOISTER_APP_ASSETS_H

#include "app/config.h"
#include "base/error.h"
#include "link/link.h"

#include <stdbool.h>

#define ASSET_MAX ((size_t)25 << 20) /* bytes of one file */

struct assets;
struct http_conn;
struct http_request;

/* `config` is borrowed until assets_reload() or assets_free(). */
int assets_open(struct assets **ret, const struct app_assets *config, struct error *err);
void assets_reload(struct assets *a, const struct app_assets *config);
void assets_free(struct assets *a); /* NULL is fine */

/* Answers a client's request when a file (or the rule for what is not found) does; false: it is the Worker's.
 * `has_worker`: there is one to ask. UNTRUSTED INPUT. */
bool assets_serve(struct assets *a, struct http_conn *c, const struct http_request *r, bool has_worker);
/* `assets` of src/link/worker_protocol.h: answers the call. UNTRUSTED INPUT. */
void assets_call(struct assets *a, struct link_call *call, struct cbor_reader args);

#endif
