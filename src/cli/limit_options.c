#include "cli/limit_options.h"

#include "base/parse.h"

#include <stdio.h>

#define MEMORY_MIN ((uint64_t)4 << 20)
#define DISK_MIN ((uint64_t)64 << 10)
#define TIMEOUT_MAX_MS ((uint64_t)366 * 24 * 3600 * 1000)

static int read_size(const struct options *o, const char *name, const char *field, uint64_t min,
                     uint64_t *ret, struct error *err)
{
    const char *text = options_value(o, name);
    char least[16];
    if (!text)
        return 0;
    uint64_t v;
    if (parse_size(text, field, &v, err) < 0)
        return -1;
    if (v < min || v > INT64_MAX)
        return error_field(err, field, "%s: expected at least %s, got \"%s\"", field, size_text(min, least),
                           text);
    *ret = v;
    return 0;
}

static int read_count(const struct options *o, const char *name, const char *field, uint32_t *ret,
                      struct error *err)
{
    const char *text = options_value(o, name);
    uint64_t v;
    if (!text)
        return 0;
    if (parse_u64(text, field, 1, 4u << 20, &v, err) < 0)
        return -1;
    *ret = (uint32_t)v;
    return 0;
}

int timeout_read(const struct options *o, uint64_t *ret_ms, struct error *err)
{
    const char *text = options_value(o, "timeout");
    uint64_t v;
    if (!text)
        return 0;
    if (parse_duration(text, "--timeout", &v, err) < 0)
        return -1;
    if (v == 0 || v > TIMEOUT_MAX_MS)
        return error_field(err, "--timeout", "--timeout: expected 1ms to 366d, got \"%s\"", text);
    *ret_ms = v;
    return 0;
}

int limit_options_read(const struct options *o, struct limit_options *ret, struct error *err)
{
    struct limit_options l = {0};
    const char *cpus = options_value(o, "cpus");
    if (read_size(o, "memory", "--memory", MEMORY_MIN, &l.memory_bytes, err) < 0 ||
        read_size(o, "disk", "--disk", DISK_MIN, &l.disk_bytes, err) < 0 ||
        read_count(o, "pids", "--pids", &l.pids, err) < 0 ||
        read_count(o, "nofile", "--nofile", &l.open_files, err) < 0 ||
        (cpus && parse_cpus(cpus, "--cpus", &l.cpu_milli, err) < 0) ||
        timeout_read(o, &l.timeout_ms, err) < 0)
        return -1;
    *ret = l;
    return 0;
}

const char *size_text(uint64_t bytes, char text[16])
{
    static const char units[] = "BKMGT";
    double v = (double)bytes;
    size_t u = 0;
    for (; v >= 1024 && units[u + 1]; u++)
        v /= 1024;
    snprintf(text, 16, "%.4g%c", v, units[u]);
    return text;
}
