#include "image/image.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/host.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Letters, digits, '.', '_' and '-', beginning with a letter, a digit or '_': so no "..", no option. */
static bool word_valid(const char *s, size_t len)
{
    if (len == 0 || (!alnum(s[0]) && s[0] != '_'))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!alnum(s[i]) && s[i] != '.' && s[i] != '_' && s[i] != '-')
            return false;
    return true;
}

/* One part between slashes: a word, with ":port" in the first of several, with ":tag" in the last. */
static bool part_valid(const char *s, size_t len, bool first, bool last)
{
    const char *colon = memchr(s, ':', len);
    if (!colon)
        return word_valid(s, len);
    size_t left = (size_t)(colon - s), right = len - left - 1;
    if (!word_valid(s, left))
        return false;
    if (last)
        return right <= 128 && word_valid(colon + 1, right);
    return first && right > 0 && right <= 5 && strspn(colon + 1, "0123456789") == right;
}

static bool digest_valid(const char *s)
{
    size_t digits = 0;
    if (!strncmp(s, "sha256:", 7))
        digits = 64;
    else if (!strncmp(s, "sha512:", 7))
        digits = 128;
    return digits > 0 && strlen(s) == 7 + digits && strspn(s + 7, "0123456789abcdef") == digits;
}

static bool name_valid(const char *name)
{
    size_t len = strcspn(name, "@");
    if (name[len] && !digest_valid(name + len + 1))
        return false;
    for (size_t at = 0;;) {
        const char *slash = memchr(name + at, '/', len - at);
        size_t n = slash ? (size_t)(slash - name) - at : len - at;
        if (!part_valid(name + at, n, at == 0, !slash))
            return false;
        if (!slash)
            return true;
        at += n + 1;
    }
}

int image_name_check(const char *name, const char *field, struct error *err)
{
    size_t len = strlen(name);
    if (len == 0)
        return error_field(err, field, "an image name must not be empty");
    if (len > 255)
        return error_field(err, field, "an image name has at most 255 bytes");
    if (!name_valid(name))
        return error_field(err, field,
                           "\"%.80s\" is no image name: expected [registry[:port]/]path[:tag][@digest] of "
                           "letters, digits, dots, "
                           "dashes and underscores",
                           name);
    return 0;
}

int image_name_canonical(const char *name, const char *field, char ret[256], struct error *err)
{
    if (image_name_check(name, field, err) < 0)
        return -1;
    /* The default registry goes without saying. */
    if (!strncmp(name, "docker.io/", 10))
        name += strncmp(name + 10, "library/", 8) ? 10 : 18;
    const char *slash = strrchr(name, '/');
    bool tagged = strchr(slash ? slash : name, ':') || strchr(name, '@') || !strcmp(name, IMAGE_HOST);
    int n = snprintf(ret, 256, "%s%s", name, tagged ? "" : ":latest");
    if (n > 255)
        return error_field(err, field, "an image name has at most 255 bytes with its tag");
    return 0;
}

void image_free(struct image *i)
{
    if (!i)
        return;
    for (size_t n = 0; n < i->layer_count; n++) {
        if (i->holds && i->holds[n] >= 0)
            close(i->holds[n]);
        if (i->layers)
            free(i->layers[n]);
    }
    char **const lists[] = {i->env, i->entrypoint, i->cmd};
    for (size_t l = 0; l < 3; l++) {
        for (char **p = lists[l]; p && *p; p++)
            free(*p);
        free(lists[l]);
    }
    free(i->holds);
    free(i->layers);
    free(i->id);
    free(i->name);
    free(i->workdir);
    free(i->user);
    free(i);
}

/* A NULL-terminated copy of a JSON array of strings (absent or null: empty). */
static char **strings_of(const json_t *array, struct error *err)
{
    size_t n = json_is_array(array) ? json_array_size(array) : 0;
    if (array && !json_is_array(array) && !json_is_null(array)) {
        error_set(err, ERROR_CORRUPT, "expected a list of texts");
        return NULL;
    }
    char **ret = calloc(n + 1, sizeof *ret);
    for (size_t i = 0; ret && i < n; i++) {
        const char *s = json_string_value(json_array_get(array, i));
        if (!s || !(ret[i] = strdup(s))) {
            error_set(err, s ? ERROR_INTERNAL : ERROR_CORRUPT,
                      s ? "out of memory" : "expected a list of texts");
            for (size_t k = 0; k < i; k++)
                free(ret[k]);
            free(ret);
            return NULL;
        }
    }
    if (!ret)
        error_oom(err);
    return ret;
}

static int layers_of(struct image *img, const char *data_dir, const json_t *layers, struct error *err)
{
    size_t n = json_array_size(layers);
    if (!json_is_array(layers) || n > STORE_LAYERS_MAX)
        return error_set(err, ERROR_CORRUPT, "\"layers\" is not a list of at most %d layers",
                         STORE_LAYERS_MAX);
    img->layers = calloc(n + 1, sizeof *img->layers);
    img->holds = calloc(n + 1, sizeof *img->holds);
    if (!img->layers || !img->holds)
        return error_oom(err);
    for (size_t i = 0; i < n; i++) {
        const char *hex = json_string_value(json_array_get(layers, i));
        if (!hex || !store_hex_valid(hex))
            return error_set(err, ERROR_CORRUPT, "layer %zu is not named by a sha256", i);
        if (asprintf(&img->layers[i], "%s/layers/%s/fs", data_dir, hex) < 0) {
            img->layers[i] = NULL;
            return error_oom(err);
        }
        img->holds[i] = -1;
        img->layer_count = i + 1;
    }
    return 0;
}

static int fill_config(struct image *img, const json_t *record, struct error *err)
{
    const json_t *config = json_object_get(record, "config");
    const char *workdir = store_json_text(config, "WorkingDir", "/");
    const char *user = store_json_text(config, "User", "");
    if (!(img->env = strings_of(json_object_get(config, "Env"), err)) ||
        !(img->entrypoint = strings_of(json_object_get(config, "Entrypoint"), err)) ||
        !(img->cmd = strings_of(json_object_get(config, "Cmd"), err)))
        return -1;
    img->workdir = strdup(workdir && *workdir ? workdir : "/");
    img->user = strdup(user ? user : "");
    return img->workdir && img->user ? 0 : error_oom(err);
}

/* Reads images/<hex>.json, without locking anything. */
static struct image *record_read(const char *data_dir, const char *hex, const char *name, struct error *err)
{
    char path[PATH_MAX];
    if (store_path(path, data_dir, err, "images/%s.json", hex) < 0)
        return NULL;
    json_t *record = store_get_json(path, err);
    if (!record)
        return NULL;
    struct image *img = calloc(1, sizeof *img);
    if (!img)
        error_oom(err);
    int r = img ? 0 : -1;
    if (r == 0 && ((img->name = strdup(name)) == NULL || asprintf(&img->id, "sha256:%s", hex) < 0))
        r = error_oom(err);
    if (r == 0)
        r = layers_of(img, data_dir, json_object_get(record, "layers"), err);
    if (r == 0)
        r = fill_config(img, record, err);
    if (r == 0) {
        img->bytes = (uint64_t)store_json_int(record, "bytes", 0);
        img->created_ms = store_json_int(record, "created", 0);
    }
    json_decref(record);
    if (r < 0) {
        error_wrap(err, "%s", path);
        image_free(img);
        return NULL;
    }
    return img;
}

int image_layer_hold(const char *layer_dir, struct error *err)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(layer_dir, '/');
    size_t len = slash && !strcmp(slash, "/fs") ? (size_t)(slash - layer_dir) : strlen(layer_dir);
    if (snprintf(dir, sizeof dir, "%.*s", (int)len, layer_dir) >= (int)sizeof dir)
        return error_system(err, ENAMETOOLONG, "cannot open layer %.64s", layer_dir);
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat locked, there;
    int r;
    do
        r = fd < 0 ? -1 : flock(fd, LOCK_SH);
    while (r < 0 && errno == EINTR);
    if (r < 0 || fstat(fd, &locked) < 0)
        return error_system(err, errno, "cannot open layer %s", dir);
    /* gc moves a layer away while it holds the exclusive lock: only what is still in its place counts. */
    if (lstat(dir, &there) < 0 || there.st_ino != locked.st_ino || !store_layer_complete(dir))
        return error_set(err, ERROR_NOT_FOUND, "layer %s is not there any more or incomplete", dir);
    return steal_fd(&fd);
}

static int hold_all(struct image *img, struct error *err)
{
    for (size_t i = 0; i < img->layer_count; i++) {
        struct error why = {0};
        img->holds[i] = image_layer_hold(img->layers[i], &why);
        if (img->holds[i] < 0)
            return error_set(err, ERROR_CORRUPT,
                             "a layer of image %s is missing: pull or import it again (%s)",
                             *img->name ? img->name : img->id, why.message);
    }
    return 0;
}

static int ref_read(const char *data_dir, const char *canonical, char ret_hex[STORE_HEX_LEN + 1],
                    struct error *err)
{
    char file[256], path[PATH_MAX];
    cleanup_free char *text = NULL;
    store_ref_escape(canonical, file);
    if (store_path(path, data_dir, err, "refs/%s", file) < 0 ||
        file_slurp(AT_FDCWD, path, 256, &text, NULL, err) < 0)
        return -1;
    text[strcspn(text, "\n")] = '\0';
    const char *hex = store_id_hex(text);
    if (!hex)
        return error_set(err, ERROR_CORRUPT, "%s does not hold an image id", path);
    memcpy(ret_hex, hex, STORE_HEX_LEN + 1);
    return 0;
}

static int not_found(const char *name, struct error *err)
{
    error_clear(err);
    if (store_id_hex(name))
        return error_set(err, ERROR_NOT_FOUND, "no image %s (see \"cloister image list\")", name);
    return error_set(err, ERROR_NOT_FOUND,
                     "no image \"%s\": get it with \"cloister image pull %s\" or see \"cloister image list\"",
                     name, name);
}

static int resolve_stored(const char *data_dir, const char *name, struct image **ret, struct error *err)
{
    char canonical[256], hex[STORE_HEX_LEN + 1];
    struct error why = {0};
    if (image_name_canonical(name, "image", canonical, err) < 0)
        return -1;
    const char *id = store_id_hex(name);
    if (id)
        memcpy(hex, id, sizeof hex);
    else if (ref_read(data_dir, canonical, hex, &why) < 0)
        return why.errnum == ENOENT ? not_found(name, err) : (err ? (*err = why, -1) : -1);
    struct image *img = record_read(data_dir, hex, id ? "" : canonical, &why);
    if (!img)
        return why.errnum == ENOENT ? not_found(name, err) : (err ? (*err = why, -1) : -1);
    if (hold_all(img, err) < 0) {
        image_free(img);
        return -1;
    }
    *ret = img;
    return 0;
}

/* Layers are mounted after the caller may have changed its working directory: their paths must be absolute.
 */
static char *absolute(const char *dir, struct error *err)
{
    char *ret = NULL;
    if (dir[0] == '/')
        ret = strdup(dir);
    else {
        cleanup_free char *cwd = getcwd(NULL, 0);
        if (!cwd || asprintf(&ret, "%s/%s", cwd, dir) < 0)
            ret = NULL;
    }
    if (!ret)
        error_oom(err);
    return ret;
}

int image_resolve(const char *data_dir, const char *name, struct image **ret, struct error *err)
{
    if (image_name_check(name, "image", err) < 0)
        return -1;
    cleanup_free char *dir = absolute(data_dir, err);
    if (!dir)
        return -1;
    struct error why = {0};
    cleanup_free char *target = strcmp(name, IMAGE_HOST) ? store_alias_target(dir, name, &why) : NULL;
    if (!target && why.kind != ERROR_NONE) {
        if (err)
            *err = why;
        return -1;
    }
    const char *wanted = target ? target : name;
    if (!strcmp(wanted, IMAGE_HOST))
        return image_host_resolve(dir, ret, err);
    if (resolve_stored(dir, wanted, ret, err) < 0)
        return target ? error_wrap(err, "\"%s\" stands for \"%s\"", name, target) : -1;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in refs/, unescaped, with `host` among them, sorted; the caller frees each and the array. */
struct names {
    char **list;
    size_t count, capacity;
};

static bool names_add(struct names *to, const char *name)
{
    if (to->count == to->capacity) {
        size_t capacity = to->capacity ? to->capacity * 2 : 16;
        char **grown = realloc(to->list, capacity * sizeof *grown);
        if (!grown)
            return false;
        to->list = grown;
        to->capacity = capacity;
    }
    char *copy = strdup(name);
    if (!copy)
        return false;
    to->list[to->count++] = copy;
    return true;
}

static void names_free(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    free(n->list);
}

/* The host's, then those of the references, sorted; on success the caller frees them. */
static int ref_names(const char *data_dir, struct names *ret, struct error *err)
{
    char path[PATH_MAX], name[256];
    if (store_path(path, data_dir, err, "refs") < 0)
        return -1;
    cleanup_dir DIR *d = opendir(path);
    struct names all = {NULL};
    bool complete = names_add(&all, IMAGE_HOST);
    for (struct dirent *e; complete && d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        store_ref_unescape(e->d_name, name);
        complete = names_add(&all, name);
    }
    if (!complete) {
        names_free(&all);
        return error_oom(err);
    }
    qsort(all.list, all.count, sizeof *all.list, by_text);
    *ret = all;
    return 0;
}

int image_list(const char *data_dir, bool (*visit)(void *user, const struct image *i), void *user,
               struct error *err)
{
    struct names names = {NULL};
    if (ref_names(data_dir, &names, err) < 0)
        return -1;
    int r = 0;
    bool go = true;
    for (size_t i = 0; go && r == 0 && i < names.count; i++) {
        char hex[STORE_HEX_LEN + 1];
        const char *name = names.list[i];
        struct error why = {0};
        struct image *img = NULL;
        if (!strcmp(name, IMAGE_HOST))
            img = image_host_describe(data_dir, &why);
        else if (ref_read(data_dir, name, hex, &why) == 0)
            img = record_read(data_dir, hex, name, &why);
        if (img)
            go = visit(user, img);
        else if (why.errnum != ENOENT) { /* ENOENT: removed in the meantime */
            r = -1;
            if (err)
                *err = why;
        }
        image_free(img);
    }
    names_free(&names);
    return r;
}
