/* Paths, names and temporary entries of the image store; private to src/image/. */
#ifndef CLOISTER_IMAGE_STORE_H
#define CLOISTER_IMAGE_STORE_H

#include "base/error.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_HEX_LEN 64 /* hex digits of a sha256 */
#define STORE_RECORD_MAX ((size_t)8 << 20)
#define STORE_LAYERS_MAX 160 /* an image's layers plus a snapshot chain */

/* "<data_dir>/<printf...>" into buf (PATH_MAX bytes). */
int store_path(char buf[PATH_MAX], const char *data_dir, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Makes the store's directories. */
int store_prepare(const char *data_dir, struct error *err);

/* Exactly 64 lower-case hex digits. */
bool store_hex_valid(const char *hex);
/* "sha256:<hex>" -> its hex digits (inside `id`), or NULL. */
const char *store_id_hex(const char *id);

void store_ref_escape(const char *canonical, char ret[256]);
void store_ref_unescape(const char *file, char ret[256]);

/* A new directory (or file) below tmp/, locked exclusively as long as the descriptor lives, so that gc can
 * tell a leftover from work in progress. */
int store_tmp_dir(const char *data_dir, const char *prefix, char ret_path[PATH_MAX], struct error *err);
int store_tmp_file(const char *data_dir, const char *prefix, char ret_path[PATH_MAX], struct error *err);

/* Writes a small file atomically by way of tmp/ (so that names of full length work). */
int store_put(const char *data_dir, const char *path, const void *data, size_t len, struct error *err);
int store_put_json(const char *data_dir, const char *path, json_t *value, struct error *err);
/* Reads a JSON object of at most STORE_RECORD_MAX bytes. ERROR_SYSTEM/ENOENT when absent. The caller
 * json_decref()s. */
json_t *store_get_json(const char *path, struct error *err);

/* A member of a record, with a default where absent; NULL or -1 when of another type. */
const char *store_json_text(const json_t *o, const char *key, const char *otherwise);
int64_t store_json_int(const json_t *o, const char *key, int64_t otherwise);

/* What `name` stands for in aliases.json: a new string, or NULL when it is no alias (err untouched) or on
 * error (err->kind set). */
char *store_alias_target(const char *data_dir, const char *name, struct error *err);

/* True when the layer directory (".../layers/<x>") is complete: layer.json exists, and was synced or made
 * since this boot. */
bool store_layer_complete(const char *layer_dir);
/* The boot id of the running kernel, "" when unknown. */
const char *store_boot_id(void);

#endif
