#include "image/store.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

int store_path(char buf[PATH_MAX], const char *data_dir, struct error *err, const char *fmt, ...)
{
    int n = snprintf(buf, PATH_MAX, "%s/", data_dir);
    if (n > 0 && n < PATH_MAX) {
        va_list ap;
        va_start(ap, fmt);
        int m = vsnprintf(buf + n, (size_t)(PATH_MAX - n), fmt, ap);
        va_end(ap);
        if (m >= 0 && m < PATH_MAX - n)
            return 0;
    }
    return error_field(err, "data-dir", "the data directory's path is too long");
}

int store_prepare(const char *data_dir, struct error *err)
{
    static const char *const names[] = {"blobs", "blobs/sha256", "layers", "images",
                                        "refs",  "snapshots",    "tmp"};
    if (dir_make(data_dir, 0700, err) < 0)
        return -1;
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (store_path(path, data_dir, err, "%s", names[i]) < 0)
            return -1;
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return error_system(err, errno, "cannot create %s", path);
    }
    return 0;
}

bool store_hex_valid(const char *hex)
{
    size_t n = strspn(hex, "0123456789abcdef");
    return n == STORE_HEX_LEN && hex[n] == '\0';
}

const char *store_id_hex(const char *id)
{
    if (strncmp(id, "sha256:", 7) != 0 || !store_hex_valid(id + 7))
        return NULL;
    return id + 7;
}

static void translate(const char *from, char ret[256], const char *a, const char *b)
{
    size_t i = 0;
    for (; i < 255 && from[i]; i++) {
        const char *hit = strchr(a, from[i]);
        ret[i] = hit ? b[hit - a] : from[i];
    }
    ret[i] = '\0';
}

void store_ref_escape(const char *canonical, char ret[256])
{
    translate(canonical, ret, "/:", "+=");
}

void store_ref_unescape(const char *file, char ret[256])
{
    translate(file, ret, "+=", "/:");
}

/* Locks what was just made and makes sure that gc did not take it away in between. */
static bool tmp_lock(int fd, const char *path)
{
    struct stat mine, there;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &mine) == 0 && lstat(path, &there) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

static int tmp_make(const char *data_dir, const char *prefix, bool dir, char ret_path[PATH_MAX],
                    struct error *err)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t r;
        if (getrandom(&r, sizeof r, 0) != sizeof r)
            return error_system(err, errno, "cannot get random bytes");
        if (store_path(ret_path, data_dir, err, "tmp/%s-%016llx", prefix, (unsigned long long)r) < 0)
            return -1;
        if (dir && mkdir(ret_path, 0700) < 0) {
            if (errno == ENOENT && attempt == 0 && store_prepare(data_dir, err) == 0)
                continue;
            return error_system(err, errno, "cannot create %s", ret_path);
        }
        int fd = dir ? open(ret_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                     : open(ret_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 && tmp_lock(fd, ret_path))
            return fd;
        int saved = errno;
        if (fd >= 0)
            close(fd);
        else if (saved == ENOENT && attempt == 0 && store_prepare(data_dir, err) < 0)
            return -1;
        else if (saved != ENOENT && saved != EEXIST)
            return error_system(err, saved, "cannot create %s", ret_path);
    }
    return error_set(err, ERROR_INTERNAL, "cannot keep a temporary entry in %s/tmp", data_dir);
}

int store_tmp_dir(const char *data_dir, const char *prefix, char ret_path[PATH_MAX], struct error *err)
{
    return tmp_make(data_dir, prefix, true, ret_path, err);
}

int store_tmp_file(const char *data_dir, const char *prefix, char ret_path[PATH_MAX], struct error *err)
{
    return tmp_make(data_dir, prefix, false, ret_path, err);
}

static int sync_parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    cleanup_close int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

int store_put(const char *data_dir, const char *path, const void *data, size_t len, struct error *err)
{
    char tmp[PATH_MAX];
    cleanup_close int fd = store_tmp_file(data_dir, "put", tmp, err);
    if (fd < 0)
        return -1;
    if (fd_write_all(fd, data, len) < 0 || fsync(fd) < 0 || rename(tmp, path) < 0 ||
        sync_parent_of(path) < 0) {
        int saved = errno;
        unlink(tmp);
        return error_system(err, saved, "cannot write %s", path);
    }
    return 0;
}

int store_put_json(const char *data_dir, const char *path, json_t *value, struct error *err)
{
    cleanup_free char *text = json_dumps(value, JSON_INDENT(1) | JSON_SORT_KEYS);
    if (!text)
        return error_oom(err);
    return store_put(data_dir, path, text, strlen(text), err);
}

json_t *store_get_json(const char *path, struct error *err)
{
    cleanup_free char *text = NULL;
    size_t len;
    if (file_slurp(AT_FDCWD, path, STORE_RECORD_MAX, &text, &len, err) < 0)
        return NULL;
    json_error_t je;
    json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
    if (!json_is_object(v)) {
        json_decref(v);
        error_set(err, ERROR_CORRUPT, "%s is not a JSON object: line %d: %s", path, je.line, je.text);
        return NULL;
    }
    return v;
}

const char *store_json_text(const json_t *o, const char *key, const char *otherwise)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_string_value(v) : otherwise;
}

int64_t store_json_int(const json_t *o, const char *key, int64_t otherwise)
{
    const json_t *v = json_object_get(o, key);
    return !v ? otherwise : json_is_integer(v) ? json_integer_value(v) : -1;
}

char *store_alias_target(const char *data_dir, const char *name, struct error *err)
{
    char path[PATH_MAX], canonical[256], key_full[256];
    if (store_path(path, data_dir, err, "aliases.json") < 0)
        return NULL;
    if (access(path, F_OK) < 0 || image_name_canonical(name, "image", canonical, NULL) < 0)
        return NULL;
    json_t *aliases = store_get_json(path, err);
    char *ret = NULL;
    const char *key;
    json_t *value;
    json_object_foreach(aliases, key, value)
    {
        if (image_name_canonical(key, "image", key_full, NULL) < 0 || strcmp(key_full, canonical) != 0)
            continue;
        const char *target = json_string_value(value);
        if (!target || image_name_check(target, "image", err) < 0)
            error_set(err, ERROR_CORRUPT, "%s: alias \"%s\" does not hold an image name", path, key);
        else if (!(ret = strdup(target)))
            error_oom(err);
        break;
    }
    json_decref(aliases);
    return ret;
}

const char *store_boot_id(void)
{
    static char id[40];
    if (id[0])
        return id;
    cleanup_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_full(fd, id, sizeof id - 1);
    id[n > 0 ? n : 0] = '\0';
    id[strcspn(id, "\n")] = '\0';
    return id;
}

bool store_layer_complete(const char *layer_dir)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/layer.json", layer_dir) >= (int)sizeof path)
        return false;
    json_t *o = store_get_json(path, NULL);
    /* Without "boot" its files reached the disk before the record did. With it they may only have reached the
     * page cache, which is just as good until the machine restarts. */
    const char *boot = o ? store_json_text(o, "boot", "") : NULL;
    bool complete = boot && (!*boot || !strcmp(boot, store_boot_id()));
    json_decref(o);
    return complete;
}
