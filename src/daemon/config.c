#include "daemon/config.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "daemon/json_in.h"
#include "daemon/spec.h"
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int check_aliases(const json_t *o, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)o, key, value)
    {
        const char *target = json_string_value(value);
        if (!target)
            return error_field(err, "aliases",
                               "aliases: \"%.64s\" must stand for a string, the name of an image", key);
        if (image_name_check(key, "aliases", err) < 0 || image_name_check(target, "aliases", err) < 0)
            return -1;
    }
    return 0;
}

static int read_config(struct config *c, const json_t *o, struct error *err)
{
    static const char *const known[] = {"aliases", "defaults", "pool", "maxContainers", NULL};
    const json_t *aliases = NULL, *limits = NULL;
    int64_t pool = c->pool, max = c->max_containers;
    if (json_in_known(o, "", known, err) < 0 || json_in_object(o, "", "aliases", &aliases, err) < 0 ||
        check_aliases(aliases, err) < 0 || json_in_object(o, "", "defaults", &limits, err) < 0 ||
        (limits && spec_limits(limits, "defaults.", &c->limits, err) < 0) ||
        json_in_int(o, "", "pool", 0, CONFIG_MAX_POOL, &pool, err) < 0 ||
        json_in_int(o, "", "maxContainers", 1, 1000000, &max, err) < 0)
        return -1;
    c->aliases = aliases ? json_incref((json_t *)aliases) : NULL;
    c->pool = (unsigned)pool;
    c->max_containers = (unsigned)max;
    return 0;
}

int config_load(struct config *ret, const char *data_dir, struct error *err)
{
    struct config c = {
        .limits = {.memory_bytes = LIMIT_DEFAULT_MEMORY,
                   .pids = LIMIT_DEFAULT_PIDS,
                   .disk_bytes = LIMIT_DEFAULT_DISK,
                   .open_files = LIMIT_DEFAULT_OPEN_FILES},
        .pool = CONFIG_DEFAULT_POOL,
        .max_containers = CONFIG_DEFAULT_MAX_CONTAINERS,
    };
    char path[PATH_MAX];
    cleanup_free char *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/config.json", data_dir);
    if (access(path, F_OK) == 0) {
        if (file_slurp(AT_FDCWD, path, 1 << 20, &text, &len, err) < 0)
            return -1;
        json_t *o = json_in_parse(text, len, err);
        int r = o ? read_config(&c, o, err) : -1;
        json_decref(o);
        if (r < 0)
            return error_wrap(err, "%s", path);
    } else if (errno != ENOENT) {
        return error_system(err, errno, "cannot read %s", path);
    }
    *ret = c;
    return 0;
}

void config_free(struct config *c)
{
    json_decref(c->aliases);
    c->aliases = NULL;
}

const char *config_image(const struct config *c, const char *name)
{
    const char *target = json_string_value(json_object_get(c->aliases, name));
    return target ? target : name;
}
