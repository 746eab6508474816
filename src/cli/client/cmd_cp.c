/* cp: trees in and out of a container as tar streams. What comes out is UNTRUSTED INPUT (tar_read.h). */
#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/client/client.h"
#include "cli/copy_target.h"
#include "cli/tar_read.h"
#include "cli/tar_write.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_MAX_BYTES ((uint64_t)16 << 30)
#define MAX_ENTRIES 10000000u

/* "NAME:/path" taken apart; `name` is owned. False for a path of this machine, which a leading "./" or "/"
 * always makes. */
static bool remote(const char *text, char **ret_name, const char **ret_path)
{
    const char *colon = strchr(text, ':');
    if (!colon || memchr(text, '/', (size_t)(colon - text)) || colon == text)
        return false;
    *ret_name = strndup(text, (size_t)(colon - text));
    *ret_path = colon + 1;
    return *ret_name != NULL;
}

/* Whether a path in the container is a directory; a missing one is none. */
static int is_directory(struct http *h, const char *name, const char *path, bool *ret, struct error *err)
{
    json_t *st = NULL;
    cleanup_free char *url = url_make("/v1/containers/%s/files/stat?path=%s", name, path);
    *ret = false;
    if (!url)
        return error_oom(err);
    if (http_json(h, "GET", url, NULL, &st, err) < 0)
        return -1;
    *ret = strcmp(json_text_of(st, "type", ""), "directory") == 0;
    json_decref(st);
    return 0;
}

/* ---- out ---- */

static int unpack(void *user, const void *data, size_t len, struct error *err)
{
    return tar_reader_feed(user, data, len, err);
}

static char *archive_url(const struct options *o, const char *name, const char *path)
{
    const char *const *patterns;
    size_t n = options_values(o, "exclude", &patterns);
    char *url = url_make("/v1/containers/%s/files/archive?path=%s", name, path);
    for (size_t i = 0; url && i < n; i++) {
        cleanup_free char *more = url_make("&exclude=%s", patterns[i]);
        char *longer = NULL;
        if (!more || asprintf(&longer, "%s%s", url, more) < 0)
            longer = NULL;
        free(url);
        url = longer;
    }
    return url;
}

static int report_skipped(const struct tar_reader *r, struct error *err)
{
    const char *first;
    uint64_t n = tar_reader_skipped(r, &first);
    if (n == 0)
        return 0;
    return error_set(err, ERROR_DENIED, "%llu left out, everything else was copied; the first: %s",
                     (unsigned long long)n, first);
}

static int copy_out(struct http *h, const struct options *o, const char *name, const char *path,
                    const char *to, struct error *err)
{
    struct copy_target target = {.dir = -1};
    struct tar_reader *reader = NULL;
    uint64_t max = DEFAULT_MAX_BYTES;
    bool tree;
    if ((options_given(o, "max-size") &&
         parse_size(options_value(o, "max-size"), "--max-size", &max, err) < 0) ||
        is_directory(h, name, path, &tree, err) < 0 || copy_target_open(&target, to, path, tree, err) < 0)
        return -1;
    struct tar_reader_config config = {target.dir, target.as, max, MAX_ENTRIES};
    cleanup_free char *url = archive_url(o, name, path);
    int r = url ? tar_reader_new(&reader, &config, err) : error_oom(err);
    if (r == 0)
        r = http_download(h, url, NULL, unpack, reader, err);
    if (r == 0)
        r = tar_reader_finish(reader, err);
    if (r == 0)
        r = report_skipped(reader, err);
    tar_reader_free(reader);
    copy_target_close(&target);
    return r;
}

/* ---- in ---- */

static ssize_t pack(void *user, void *to, size_t cap, struct error *err)
{
    return tar_writer_read(user, to, cap, err);
}

/* Where the copy goes: `name` in the directory `parent`. A file goes into a directory that exists; a
 * directory becomes DST. */
static int place(struct http *h, const char *container, const char *from, const char *to, char **ret_parent,
                 char **ret_name, struct error *err)
{
    struct stat st;
    struct error absent = {0};
    bool into = to[strlen(to) - 1] == '/';
    if (stat(from, &st) < 0)
        return error_system(err, errno, "cannot read %s", from);
    if (!into && !S_ISDIR(st.st_mode) && is_directory(h, container, to, &into, &absent) < 0 &&
        strcmp(error_code(&absent), "ENOENT") != 0) {
        *err = absent;
        return -1;
    }
    const char *slash = strrchr(to, '/');
    *ret_parent = into ? strdup(to) : strndup(to, slash == to ? 1 : (size_t)(slash - to));
    if (!*ret_parent)
        return error_oom(err);
    *ret_name = into ? copy_source_name(from, err) : strdup(slash + 1);
    return *ret_name ? 0 : -1;
}

static int copy_in(struct http *h, const char *from, const char *container, const char *to, struct error *err)
{
    cleanup_free char *parent = NULL, *name = NULL;
    struct tar_writer *writer = NULL;
    if (place(h, container, from, to, &parent, &name, err) < 0 ||
        tar_writer_open(&writer, from, name, err) < 0)
        return -1;
    cleanup_free char *url =
        url_make("/v1/containers/%s/files/archive?path=%s&parents=true", container, parent);
    int r = url ? http_upload(h, url, pack, writer, NULL, err) : error_oom(err);
    const char *first;
    uint64_t skipped = tar_writer_skipped(writer, &first);
    if (r == 0 && skipped)
        r = error_set(err, ERROR_UNSUPPORTED,
                      "%llu left out, everything else was copied: sockets, devices and FIFOs; the first: %s",
                      (unsigned long long)skipped, first);
    tar_writer_free(writer);
    return r;
}

static int copy(struct http *h, const struct options *o, struct error *err)
{
    const char *src = options_operand(o, 0), *dst = options_operand(o, 1), *src_path = NULL, *dst_path = NULL;
    cleanup_free char *src_name = NULL, *dst_name = NULL;
    bool from = remote(src, &src_name, &src_path), to = remote(dst, &dst_name, &dst_path);
    if (from == to)
        return error_field(err, "operand", "cp: exactly one of \"%.100s\" and \"%.100s\" must be NAME:PATH",
                           src, dst);
    if ((from ? src_path : dst_path)[0] != '/')
        return error_field(err, "path", "cp: the path in the container must be absolute, got \"%.200s\"",
                           from ? src_path : dst_path);
    return from ? copy_out(h, o, src_name, src_path, dst, err) : copy_in(h, src, dst_name, dst_path, err);
}

int cmd_cp(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    int r = client_open(&h, o, &err) < 0 ? -1 : copy(h, o, &err);
    http_close(h);
    return r < 0 ? message_fail(&err) : 0;
}
