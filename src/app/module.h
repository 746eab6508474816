/* Modules of a Worker on their way into its process. */
#ifndef CLOISTER_APP_MODULE_H
#define CLOISTER_APP_MODULE_H

#include "base/error.h"
#include "link/cbor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODULES_MAX 1000u
#define MODULES_MAX_BYTES ((size_t)64 << 20) /* all of one Worker's together */
#define MODULE_NAME_MAX 1024u

/* Bytes that several hold: the cache, and every Worker that is being started from it. Never changed. */
struct code {
    uint32_t refs;
    size_t len;
    uint8_t bytes[];
};
struct code *code_new(const void *bytes,
                      size_t len); /* a copy; one reference, the caller's. NULL: no memory */
struct code *code_ref(struct code *c);
void code_unref(struct code *c); /* NULL is fine */

enum module_type {
    MODULE_JS,
    MODULE_TS,
    MODULE_CJS,
    MODULE_TEXT,
    MODULE_DATA,
    MODULE_JSON,
    MODULE_WASM,
    MODULE_PY,
};
#define MODULE_TYPES 8
const char *module_type_name(enum module_type t);
bool module_is_compiled(enum module_type t); /* goes through the module compiler */

struct module {
    char *name;
    enum module_type type;
    struct code *code;
};

struct modules {
    struct module *all;
    size_t count;
    char *main; /* the name of one of them */
};

/* Appends one; copies name and bytes. */
int modules_add(struct modules *m, const char *name, enum module_type type, const void *bytes, size_t len,
                struct error *err);
void modules_free(struct modules *m);
/* From the arguments of `load`: mainModule and modules. Errors say which field is wrong. UNTRUSTED INPUT. */
int modules_read(struct modules *ret, const struct cbor_reader *map, struct error *err);

#endif
