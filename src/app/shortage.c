#include "app/shortage.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_CAP 1100
#define TEXT_CAP 8192

struct shortage {
    struct shortage_config config;
    char *cgroup_dir;
    uv_timer_t timer;
};

static bool read_text(const char *path, char text[TEXT_CAP])
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT_CAP - 1);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The number behind `name` at the beginning of a line. */
static bool find_number(const char *text, const char *name, uint64_t *ret)
{
    size_t len = strlen(name);
    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, name, len) == 0)
            return sscanf(p + len, " %" SCNu64, ret) == 1;
    return false;
}

bool shortage_of_machine(const char *meminfo, uint64_t *ret_left, uint64_t *ret_total)
{
    char text[TEXT_CAP];
    uint64_t left, total;
    if (!read_text(meminfo, text) || !find_number(text, "MemAvailable:", &left) ||
        !find_number(text, "MemTotal:", &total))
        return false;
    *ret_left = left << 10;
    *ret_total = total << 10;
    return true;
}

static bool read_number(const char *dir, const char *file, uint64_t *ret)
{
    char path[PATH_CAP], text[TEXT_CAP];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return read_text(path, text) && sscanf(text, "%" SCNu64, ret) == 1;
}

/* Pages of files that were not used for long are taken back before anything fails. Version 1 counts those of
 * groups below apart. */
static uint64_t reclaimable(const char *dir, bool v2)
{
    char path[PATH_CAP], text[TEXT_CAP];
    uint64_t bytes;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    return read_text(path, text) && find_number(text, v2 ? "inactive_file " : "total_inactive_file ", &bytes)
               ? bytes
               : 0;
}

bool shortage_of_cgroup(const char *dir, uint64_t *ret_left, uint64_t *ret_total)
{
    uint64_t max, used;
    bool v2 = read_number(dir, "memory.current", &used);
    if (!v2 && !read_number(dir, "memory.usage_in_bytes", &used))
        return false;
    /* Without a limit version 2 says "max", and version 1 a number that no machine has. */
    if (!read_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", &max) || max >= INT64_MAX / 2)
        return false;
    uint64_t back = reclaimable(dir, v2);
    used = used > back ? used - back : 0;
    *ret_left = max > used ? max - used : 0;
    *ret_total = max;
    return true;
}

static bool is_short(const struct shortage *s, uint64_t left, uint64_t total)
{
    uint64_t kept = s->config.keep_free ? s->config.keep_free : total / SHORTAGE_SHARE;
    if (left >= kept)
        return false;
    s->config.fn(s->config.user, left, kept);
    return true;
}

static void on_look(uv_timer_t *t)
{
    const struct shortage *s = t->data;
    uint64_t left, total;
    if (shortage_of_machine("/proc/meminfo", &left, &total) && is_short(s, left, total))
        return;
    if (s->cgroup_dir && shortage_of_cgroup(s->cgroup_dir, &left, &total))
        is_short(s, left, total);
}

struct shortage *shortage_new(const struct shortage_config *config)
{
    struct shortage *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->config = *config;
    if (config->cgroup_dir && !(s->cgroup_dir = strdup(config->cgroup_dir))) {
        free(s);
        return NULL;
    }
    uv_timer_init(config->loop, &s->timer);
    s->timer.data = s;
    uv_timer_start(&s->timer, on_look, SHORTAGE_LOOK_MS, SHORTAGE_LOOK_MS);
    uv_unref((uv_handle_t *)&s->timer);
    return s;
}

static void on_closed(uv_handle_t *h)
{
    struct shortage *s = h->data;
    free(s->cgroup_dir);
    free(s);
}

void shortage_free(struct shortage *s)
{
    if (s)
        uv_close((uv_handle_t *)&s->timer, on_closed);
}
