/* What the process of a hosted Worker is told at its start: its bindings, its Durable Object classes. */
#include "app/host_internal.h"
#include "link/cbor.h"

#include <stdlib.h>
#include <string.h>

static void put_pair(struct buf *b, const char *key, const char *text)
{
    cbor_put_text(b, key);
    cbor_put_text(b, text);
}

static void put_binding(struct buf *b, uint64_t pairs, const char *name, const char *type)
{
    cbor_put_map(b, pairs);
    put_pair(b, "name", name);
    put_pair(b, "type", type);
}

static void put_service(struct buf *b, const struct app_service *s, const char *own_name)
{
    bool other = s->service && strcmp(s->service, own_name) != 0;
    put_binding(b, 2u + other + (s->entrypoint != NULL) + (s->props != NULL), s->name, "service");
    if (other)
        put_pair(b, "service", s->service);
    if (s->entrypoint)
        put_pair(b, "entrypoint", s->entrypoint);
    if (s->props)
        put_pair(b, "props", s->props);
}

static void put_bindings(struct buf *b, const struct app_config *c)
{
    bool assets = c->assets.present && c->assets.binding;
    cbor_put_text(b, "bindings");
    cbor_put_array(b, c->var_count + c->loader_count + c->object_count + c->service_count + assets);
    for (size_t i = 0; i < c->var_count; i++) {
        put_binding(b, 3, c->vars[i].name, "var");
        put_pair(b, "json", c->vars[i].json);
    }
    for (size_t i = 0; i < c->loader_count; i++) {
        put_binding(b, 2u + (c->loaders[i].id != NULL), c->loaders[i].name, "loader");
        if (c->loaders[i].id)
            put_pair(b, "id", c->loaders[i].id);
    }
    for (size_t i = 0; i < c->object_count; i++) {
        put_binding(b, 3, c->objects[i].name, "durableObject");
        put_pair(b, "class", c->objects[i].class_name);
    }
    for (size_t i = 0; i < c->service_count; i++)
        put_service(b, &c->services[i], c->name);
    if (assets)
        put_binding(b, 2, c->assets.binding, "assets");
}

static void put_images(struct buf *b, const struct app_class *c)
{
    uint64_t count = 0;
    for (size_t i = 0; i < c->image_count; i++)
        count += c->images[i].image != NULL;
    cbor_put_text(b, "images");
    cbor_put_map(b, count);
    for (size_t i = 0; i < c->image_count; i++)
        if (c->images[i].image)
            put_pair(b, c->images[i].name, c->images[i].image);
}

static void put_objects(struct buf *b, const struct app_config *c)
{
    cbor_put_text(b, "objects");
    cbor_put_array(b, c->class_count);
    for (size_t i = 0; i < c->class_count; i++) {
        const struct app_class *one = &c->classes[i];
        cbor_put_map(b, one->image_count ? 4 : 3);
        put_pair(b, "class", one->name);
        cbor_put_text(b, "sql");
        cbor_put_bool(b, one->sql);
        cbor_put_text(b, "container");
        cbor_put_bool(b, one->container);
        if (one->image_count)
            put_images(b, one);
    }
}

static void put_extra(struct buf *b, const void *user)
{
    put_bindings(b, user);
    put_objects(b, user);
}

void host_fill_init(const struct host *h, struct init *init)
{
    const struct app_config *c = h->app;
    *init = (struct init){
        .role = "host",
        .name = h->name,
        .limits = {.cpu_ms = c->cpu_ms, .sub_requests = c->subrequests},
        .compatibility_date = c->compatibility_date,
        .compatibility_flags = (const char *const *)c->compatibility_flags,
        .modules = &h->modules,
        .outbound = OUTBOUND_DAEMON,
        .extra_count = 2,
        .extra = put_extra,
        .extra_user = c,
    };
}

int host_classes(const struct app_config *c, struct object_class **ret, size_t *ret_count, struct error *err)
{
    struct object_class *all = calloc(c->class_count ? c->class_count : 1, sizeof *all);
    if (!all)
        return error_oom(err);
    for (size_t i = 0; i < c->class_count; i++) {
        const struct app_class *one = &c->classes[i];
        const char **images = one->image_count ? calloc(2 * one->image_count + 2, sizeof *images) : NULL;
        size_t n = 0;
        if (one->image_count && !images) {
            host_classes_free(all, i);
            return error_oom(err);
        }
        for (size_t k = 0; k < one->image_count; k++) {
            if (!one->images[k].image)
                continue;
            images[n++] = one->images[k].name;
            images[n++] = one->images[k].image;
        }
        all[i] = (struct object_class){.name = one->name,
                                       .sql = one->sql,
                                       .container = one->container,
                                       .images = images,
                                       .instance_type = one->instance_type,
                                       .max_instances = one->max_instances};
    }
    *ret = all;
    *ret_count = c->class_count;
    return 0;
}

void host_classes_free(struct object_class *classes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)classes[i].images);
    free(classes);
}
