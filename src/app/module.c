#include "app/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct code *code_new(const void *bytes, size_t len)
{
    struct code *c = malloc(sizeof *c + len);
    if (!c)
        return NULL;
    c->refs = 1;
    c->len = len;
    if (len > 0)
        memcpy(c->bytes, bytes, len);
    return c;
}

struct code *code_ref(struct code *c)
{
    c->refs++;
    return c;
}

void code_unref(struct code *c)
{
    if (c && --c->refs == 0)
        free(c);
}

static const char *const type_names[MODULE_TYPES] = {
    [MODULE_JS] = "js",     [MODULE_TS] = "ts",     [MODULE_CJS] = "cjs",   [MODULE_TEXT] = "text",
    [MODULE_DATA] = "data", [MODULE_JSON] = "json", [MODULE_WASM] = "wasm", [MODULE_PY] = "py",
};

const char *module_type_name(enum module_type t)
{
    return type_names[t];
}

bool module_is_compiled(enum module_type t)
{
    return t == MODULE_JS || t == MODULE_TS || t == MODULE_CJS;
}

int modules_add(struct modules *m, const char *name, enum module_type type, const void *bytes, size_t len,
                struct error *err)
{
    struct module *more = realloc(m->all, (m->count + 1) * sizeof *more);
    if (!more)
        return error_oom(err);
    m->all = more;
    struct module one = {.name = strdup(name), .type = type, .code = code_new(bytes, len)};
    if (!one.name || !one.code) {
        free(one.name);
        code_unref(one.code);
        return error_oom(err);
    }
    m->all[m->count++] = one;
    return 0;
}

void modules_free(struct modules *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->all[i].name);
        code_unref(m->all[i].code);
    }
    free(m->all);
    free(m->main);
    *m = (struct modules){0};
}

/* ---- UNTRUSTED INPUT: what a host Worker's process says it wants to load ---- */

static int read_type(const char *text, const char *name, enum module_type *ret, struct error *err)
{
    for (int i = 0; text && i < MODULE_TYPES; i++)
        if (strcmp(type_names[i], text) == 0) {
            *ret = (enum module_type)i;
            return 0;
        }
    return error_field(err, "modules", "modules: \"%.200s\" has no type that is known here", name);
}

static int read_module(struct modules *m, const struct cbor_reader *map, size_t *total, struct error *err)
{
    struct cbor_reader value;
    const uint8_t *data;
    size_t len;
    enum module_type type = MODULE_JS;
    char *name = cbor_map_dup(map, "name", MODULE_NAME_MAX), *text = cbor_map_dup(map, "type", 16);
    int r = -1;
    if (!name || !*name)
        error_field(err, "modules", "modules: a name is missing, or longer than %u bytes", MODULE_NAME_MAX);
    else if (read_type(text, name, &type, err) < 0)
        ;
    else if (!cbor_map_find(map, "data", &value) || cbor_get_bytes(&value, &data, &len) < 0)
        error_field(err, "modules", "modules: \"%.200s\" has no data", name);
    else if (len > MODULES_MAX_BYTES - *total)
        error_set(err, ERROR_LIMIT, "the modules are larger than %zu MiB together", MODULES_MAX_BYTES >> 20);
    else
        r = modules_add(m, name, type, data, len, err);
    if (r == 0)
        *total += len;
    free(name);
    free(text);
    return r;
}

static const struct module *find(const struct modules *m, const char *name, size_t before)
{
    for (size_t i = 0; i < before; i++)
        if (strcmp(m->all[i].name, name) == 0)
            return &m->all[i];
    return NULL;
}

static int check(const struct modules *m, struct error *err)
{
    if (!m->main)
        return error_field(err, "mainModule", "mainModule: the name of the main module is missing");
    const struct module *main = find(m, m->main, m->count);
    if (!main)
        return error_field(err, "mainModule", "mainModule: there is no module \"%.200s\" among the modules",
                           m->main);
    for (size_t i = 0; i < m->count; i++)
        if (m->all[i].type == MODULE_PY)
            return error_set(err, ERROR_UNSUPPORTED,
                             "\"%.200s\" is a Python module: the Python runtime is not installed",
                             m->all[i].name);
    if (!module_is_compiled(main->type))
        return error_field(err, "mainModule", "mainModule: \"%.200s\" is a module of type %s, not of code",
                           m->main, module_type_name(main->type));
    return 0;
}

int modules_read(struct modules *ret, const struct cbor_reader *map, struct error *err)
{
    struct modules m = {0};
    struct cbor_reader list;
    uint64_t count;
    size_t total = 0;
    if (!cbor_map_find(map, "modules", &list) || cbor_get_array(&list, MODULES_MAX, &count) < 0)
        return error_field(err, "modules", "modules: a list of at most %u modules is expected", MODULES_MAX);
    for (uint64_t i = 0; i < count; i++) {
        struct cbor_reader one = list;
        if (cbor_skip(&list) < 0 || read_module(&m, &one, &total, err) < 0)
            goto fail;
        const char *name = m.all[m.count - 1].name;
        if (find(&m, name, m.count - 1)) {
            error_field(err, "modules", "modules: \"%.200s\" is there twice", name);
            goto fail;
        }
    }
    m.main = cbor_map_dup(map, "mainModule", MODULE_NAME_MAX);
    if (check(&m, err) < 0)
        goto fail;
    *ret = m;
    return 0;
fail:
    modules_free(&m);
    return -1;
}
