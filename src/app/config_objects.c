/* Durable Object classes and the containers that belong to them. */
#include "app/config_read.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct app_class *find_class(struct app_config *c, const char *name)
{
    return (struct app_class *)app_config_class(c, name);
}

/* The class, made when it is new. A new one has SQLite storage until a migration says otherwise. */
static struct app_class *add_class(struct config_reader *r, const char *name)
{
    struct app_config *c = r->config;
    struct app_class *k = find_class(c, name);
    if (k)
        return k;
    k = array_add(&c->classes, &c->class_count, sizeof *k, r->err);
    if (!k)
        return NULL;
    k->sql = true;
    k->name = strdup(name);
    k->storage = strdup(name);
    if (!k->name || !k->storage) {
        error_oom(r->err);
        return NULL;
    }
    return k;
}

static int read_binding(struct config_reader *r, const json_t *v, const char *at)
{
    struct app_config *c = r->config;
    if (!json_is_object(v))
        return config_fail(r, at, "an object with name and class_name is wanted");
    struct app_object_binding *b = array_add(&c->objects, &c->object_count, sizeof *b, r->err);
    if (!b || config_needed(r, v, at, "name", "the name in env", &b->name) < 0 ||
        config_needed(r, v, at, "class_name", "the name of an exported class", &b->class_name) < 0)
        return -1;
    char *script = NULL;
    if (config_text(r, v, at, "script_name", &script) < 0)
        return -1;
    bool other = script && strcmp(script, c->name) != 0;
    free(script);
    if (other)
        return config_fail(r, field_key(at, "script_name").path,
                           "objects of another Worker cannot be bound; call that Worker through `services`");
    if (!add_class(r, b->class_name))
        return -1;
    return config_known(r, v, at, "name class_name script_name");
}

/* Calls `apply` for every text of a list. */
static int each_text(struct config_reader *r, const json_t *o, const char *at, const char *key,
                     int (*apply)(struct config_reader *r, const char *text, const char *at))
{
    json_t *list, *v;
    size_t i;
    if (config_list(r, o, at, key, &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        struct field f = field_index(field_key(at, key).path, i);
        if (!json_is_string(v) || json_string_length(v) == 0)
            return config_fail(r, f.path, "the name of a class is wanted");
        if (apply(r, json_string_value(v), f.path) < 0)
            return -1;
    }
    return 0;
}

static int new_sqlite_class(struct config_reader *r, const char *name, const char *at)
{
    struct app_class *k = add_class(r, name);
    if (!k)
        return -1;
    k->sql = true;
    return 0;
}

static int new_class(struct config_reader *r, const char *name, const char *at)
{
    struct app_class *k = add_class(r, name);
    if (!k)
        return -1;
    k->sql = false;
    return 0;
}

static void class_free(struct app_class *k)
{
    free(k->name);
    free(k->storage);
    for (size_t i = 0; i < k->image_count; i++) {
        free(k->images[i].name);
        free(k->images[i].image);
        free(k->images[i].dockerfile);
    }
    free(k->images);
    free(k->instance_type);
}

static int deleted_class(struct config_reader *r, const char *name, const char *at)
{
    struct app_config *c = r->config;
    struct app_class *k = find_class(c, name);
    if (k) {
        class_free(k);
        c->class_count--;
        memmove(k, k + 1, (size_t)(c->classes + c->class_count - k) * sizeof *k);
    }
    return config_warn(r, at, "what objects of \"%s\" stored stays on disk until it is removed by hand",
                       name);
}

/* A renamed class keeps its storage: it stays under the name that the class had first. */
static int rename_classes(struct config_reader *r, const json_t *o, const char *at)
{
    json_t *list, *v;
    size_t i;
    if (config_list(r, o, at, "renamed_classes", &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        struct field f = field_index(field_key(at, "renamed_classes").path, i);
        const char *from = json_string_value(json_object_get(v, "from"));
        const char *to = json_string_value(json_object_get(v, "to"));
        if (!from || !*from || !to || !*to)
            return config_fail(r, f.path, "an object with from and to is wanted");
        struct app_class *k = add_class(r, from);
        if (!k)
            return -1;
        if (find_class(r->config, to))
            return config_fail(r, f.path, "there is a class \"%s\" already", to);
        char *name = strdup(to);
        if (!name)
            return error_oom(r->err);
        free(k->name);
        k->name = name;
    }
    return 0;
}

/* Migrations apply in their order; there is no record of which did before, since they only say what is. */
static int read_migrations(struct config_reader *r, const json_t *root)
{
    json_t *list, *v;
    size_t i;
    if (config_list(r, root, "", "migrations", &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        struct field f = field_index("migrations", i);
        if (!json_is_object(v))
            return config_fail(r, f.path, "an object is wanted");
        if (json_object_get(v, "transferred_classes"))
            return config_fail(r, field_key(f.path, "transferred_classes").path,
                               "objects cannot be taken over from another Worker; remove the field");
        if (each_text(r, v, f.path, "new_sqlite_classes", new_sqlite_class) < 0 ||
            each_text(r, v, f.path, "new_classes", new_class) < 0 || rename_classes(r, v, f.path) < 0 ||
            each_text(r, v, f.path, "deleted_classes", deleted_class) < 0 ||
            config_known(r, v, f.path, "tag new_sqlite_classes new_classes renamed_classes deleted_classes") <
                0)
            return -1;
    }
    return 0;
}

/* The newer way to declare classes: {"Name": {"type": "durable-object", "storage": "sqlite"}}. */
static int read_exports(struct config_reader *r, const json_t *root)
{
    json_t *map, *v;
    const char *key;
    if (config_map(r, root, "", "exports", &map) < 0)
        return -1;
    json_object_foreach(map, key, v)
    {
        struct field f = field_key("exports", key);
        if (!json_is_object(v))
            return config_fail(r, f.path, "an object with a type is wanted");
        const char *type = json_string_value(json_object_get(v, "type"));
        if (!type || strcmp(type, "durable-object") != 0) {
            if (config_warn(r, field_key(f.path, "type").path,
                            "only \"durable-object\" means something here; every exported entrypoint can be "
                            "called as it is") < 0)
                return -1;
            continue;
        }
        const char *storage = json_string_value(json_object_get(v, "storage"));
        struct app_class *k = add_class(r, key);
        if (!k)
            return -1;
        k->sql = !storage || strcmp(storage, "sqlite") == 0;
        if (config_known(r, v, f.path, "type storage") < 0)
            return -1;
    }
    return 0;
}

/* A path to a Dockerfile rather than the name of an image. */
static bool is_dockerfile(const char *directory, const char *image)
{
    const char *last = strrchr(image, '/');
    last = last ? last + 1 : image;
    if (strncmp(last, "Dockerfile", strlen("Dockerfile")) != 0 && image[0] != '.' && image[0] != '/')
        return false;
    char *path = path_below(directory, image);
    bool found = path && access(path, F_OK) == 0;
    free(path);
    return found || image[0] == '.' || strncmp(last, "Dockerfile", strlen("Dockerfile")) == 0;
}

static int add_image(struct config_reader *r, struct app_class *k, const char *name, const char *image,
                     const char *dockerfile, const char *at)
{
    struct app_image *i = array_add(&k->images, &k->image_count, sizeof *i, r->err);
    if (!i)
        return -1;
    if (image && is_dockerfile(r->config->directory, image)) {
        dockerfile = image;
        image = NULL;
    }
    i->name = strdup(name);
    i->image = image ? strdup(image) : NULL;
    i->dockerfile = dockerfile ? path_below(r->config->directory, dockerfile) : NULL;
    if (!i->name || (image && !i->image) || (dockerfile && !i->dockerfile))
        return error_oom(r->err);
    if (i->dockerfile && access(i->dockerfile, R_OK) < 0)
        return config_fail(r, at, "there is no file %s", i->dockerfile);
    if (i->dockerfile)
        return config_warn(
            r, at,
            "Dockerfiles are not built here: build the image with any tool, `cloister image pull` "
            "or `import` it, and give its name");
    return 0;
}

static int read_images(struct config_reader *r, const json_t *v, const char *at, struct app_class *k)
{
    const json_t *image = json_object_get(v, "image");
    json_t *images, *one;
    const char *key;
    if (image && !json_is_string(image))
        return config_fail(r, field_key(at, "image").path, "the name of an image is wanted");
    if (image && add_image(r, k, "", json_string_value(image), NULL, field_key(at, "image").path) < 0)
        return -1;
    if (config_map(r, v, at, "images", &images) < 0)
        return -1;
    json_object_foreach(images, key, one)
    {
        struct field f = field_key(field_key(at, "images").path, key);
        const char *reference =
            json_is_string(one) ? json_string_value(one) : json_string_value(json_object_get(one, "image"));
        const char *dockerfile = json_string_value(json_object_get(one, "dockerfile"));
        if (!reference == !dockerfile)
            return config_fail(r, f.path,
                               "a name of an image, or an object with image or dockerfile, is wanted");
        if (add_image(r, k, key, reference, dockerfile, f.path) < 0)
            return -1;
    }
    return 0;
}

static int read_custom_instance(struct config_reader *r, const json_t *v, const char *at, struct app_class *k)
{
    const json_t *vcpu = json_object_get(v, "vcpu");
    if (vcpu) {
        double n = json_number_value(vcpu);
        if (!json_is_number(vcpu) || !(n >= 0.01 && n <= 1024))
            return config_fail(r, field_key(at, "vcpu").path, "a number from 0.01 to 1024 is wanted");
        k->vcpu_milli = (unsigned)(n * 1000 + 0.5);
    }
    if (config_uint(r, v, at, "memory_mib", 1u << 20, &k->memory_mib) < 0 ||
        config_uint(r, v, at, "disk_mb", 1u << 24, &k->disk_mb) < 0)
        return -1;
    return config_known(r, v, at, "vcpu memory_mib disk_mb");
}

static int read_container(struct config_reader *r, const json_t *v, const char *at)
{
    char *class_name = NULL;
    if (!json_is_object(v))
        return config_fail(r, at, "an object with class_name is wanted");
    if (config_needed(r, v, at, "class_name", "the name of an exported Durable Object class", &class_name) <
        0)
        return -1;
    struct app_class *k = add_class(r, class_name);
    free(class_name);
    if (!k)
        return -1;
    if (k->container)
        return config_fail(r, field_key(at, "class_name").path, "there is a container for \"%s\" already",
                           k->name);
    k->container = true;

    const json_t *policy = json_object_get(v, "scheduling_policy");
    const char *word = json_string_value(policy);
    if (policy && !(word && (strcmp(word, "durable_object") == 0 || strcmp(word, "default") == 0)))
        return config_fail(r, field_key(at, "scheduling_policy").path,
                           "\"default\" or \"durable_object\" is wanted");
    k->scheduling =
        word && strcmp(word, "durable_object") == 0 ? APP_SCHEDULING_DURABLE_OBJECT : APP_SCHEDULING_DEFAULT;

    if (read_images(r, v, at, k) < 0)
        return -1;
    if (k->scheduling == APP_SCHEDULING_DEFAULT && k->image_count == 0)
        return config_fail(
            r, field_key(at, "image").path,
            "missing: give the name of an image, or \"scheduling_policy\": \"durable_object\"");
    const json_t *type = json_object_get(v, "instance_type");
    struct field f = field_key(at, "instance_type");
    if (json_is_object(type) && read_custom_instance(r, type, f.path, k) < 0)
        return -1;
    if (type && !json_is_object(type) && config_text(r, v, at, "instance_type", &k->instance_type) < 0)
        return -1;
    if (config_uint(r, v, at, "max_instances", 1000000, &k->max_instances) < 0)
        return -1;
    return config_known(r, v, at,
                        "class_name name image images scheduling_policy instance_type max_instances");
}

int config_read_objects(struct config_reader *r, const json_t *root)
{
    json_t *map, *list, *v;
    size_t i;
    if (read_migrations(r, root) < 0 || read_exports(r, root) < 0)
        return -1;
    if (config_map(r, root, "", "durable_objects", &map) < 0 ||
        (map && config_known(r, map, "durable_objects", "bindings") < 0) ||
        config_list(r, map, "durable_objects", "bindings", &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        if (read_binding(r, v, field_index("durable_objects.bindings", i).path) < 0)
            return -1;
    }
    if (config_list(r, root, "", "containers", &list) < 0)
        return -1;
    json_array_foreach(list, i, v)
    {
        if (read_container(r, v, field_index("containers", i).path) < 0)
            return -1;
    }
    return 0;
}

void config_classes_free(struct app_config *c)
{
    for (size_t i = 0; i < c->class_count; i++)
        class_free(&c->classes[i]);
    free(c->classes);
    for (size_t i = 0; i < c->object_count; i++) {
        free(c->objects[i].name);
        free(c->objects[i].class_name);
    }
    free(c->objects);
}

const struct app_class *app_config_class(const struct app_config *c, const char *name)
{
    for (size_t i = 0; i < c->class_count; i++)
        if (strcmp(c->classes[i].name, name) == 0)
            return &c->classes[i];
    return NULL;
}
