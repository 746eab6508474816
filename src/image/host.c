#include "image/host.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raise it when the skeleton's contents change. */
#define SKELETON_VERSION 2
#define ALTERNATIVES "/etc/alternatives"
#define LOADER_CACHE "/etc/ld.so.cache"
#define LOADER_CACHE_MAX ((size_t)16 << 20)

struct node {
    const char *path;
    mode_t mode;      /* type and permissions */
    const char *text; /* contents, or where a link leads */
};

/* clang-format off */
static const struct node skeleton[] = {
    {"usr", S_IFDIR | 0755}, {"proc", S_IFDIR | 0555}, {"sys", S_IFDIR | 0555}, {"dev", S_IFDIR | 0755},
    {"run", S_IFDIR | 0755}, {"tmp", S_IFDIR | 01777}, {"root", S_IFDIR | 0700}, {"home", S_IFDIR | 0755},
    {"workspace", S_IFDIR | 0755}, {"mnt", S_IFDIR | 0755}, {"opt", S_IFDIR | 0755}, {"srv", S_IFDIR | 0755},
    {"var", S_IFDIR | 0755}, {"var/tmp", S_IFDIR | 01777}, {"var/lib", S_IFDIR | 0755}, {"var/cache", S_IFDIR | 0755},
    {"var/log", S_IFDIR | 0755}, {"var/run", S_IFLNK, "/run"}, {"var/lock", S_IFLNK, "/run/lock"},
    {"etc", S_IFDIR | 0755}, {"etc/alternatives", S_IFDIR | 0755},
    {"etc/passwd", S_IFREG | 0644,
     "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", S_IFREG | 0644, "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"},
    {"etc/hosts", S_IFREG | 0644, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
    {"etc/hostname", S_IFREG | 0644, "cloister\n"},
    {"etc/resolv.conf", S_IFREG | 0644, ""},
    {"etc/nsswitch.conf", S_IFREG | 0644, "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"},
    {"etc/os-release", S_IFLNK, "../usr/lib/os-release"},
    {"etc/mtab", S_IFLNK, "../proc/self/mounts"},
};
/* clang-format on */

static unsigned long long changed(const char *path)
{
    struct stat st;
    return stat(path, &st) < 0
               ? 0
               : (unsigned long long)st.st_mtim.tv_sec * 1000000000u + (unsigned long)st.st_mtim.tv_nsec;
}

void image_host_layer_name(char ret[64])
{
    /* A new alternative or library on the machine makes a new skeleton. */
    snprintf(ret, 64, IMAGE_HOST_PREFIX "%d-%llx-%llx", SKELETON_VERSION, changed(ALTERNATIVES),
             changed(LOADER_CACHE));
}

static int node_make(int root, const struct node *n)
{
    if (S_ISDIR(n->mode))
        return mkdirat(root, n->path, 0700) < 0 ? -1 : fchmodat(root, n->path, n->mode & 07777, 0);
    if (S_ISLNK(n->mode))
        return symlinkat(n->text, root, n->path);
    cleanup_close int fd = openat(root, n->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, n->text, strlen(n->text)) < 0)
        return -1;
    return fchmod(fd, n->mode & 07777);
}

/* bin -> usr/bin and its like, for each that the machine's /usr has. */
static int usr_links(int root)
{
    static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char target[32], host[32];
        struct stat st;
        snprintf(target, sizeof target, "usr/%s", names[i]);
        snprintf(host, sizeof host, "/usr/%s", names[i]);
        if (stat(host, &st) == 0 && S_ISDIR(st.st_mode) && symlinkat(target, root, names[i]) < 0)
            return -1;
    }
    return 0;
}

/* Manual pages are left out: hundreds of links that no program follows. */
static bool leads_into_usr(const char *target)
{
    if (!strncmp(target, "/usr/share/man/", 15))
        return false;
    static const char *const tops[] = {"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/"};
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++)
        if (!strncmp(target, tops[i], strlen(tops[i])))
            return !strstr(target, "/../");
    return false;
}

static int alternative_links(int root)
{
    cleanup_dir DIR *d = opendir(ALTERNATIVES);
    if (!d)
        return errno == ENOENT ? 0 : -1;
    cleanup_close int to = openat(root, "etc/alternatives", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (to < 0)
        return -1;
    for (struct dirent *e; (e = readdir(d));) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (leads_into_usr(target) && symlinkat(target, to, e->d_name) < 0)
            return -1;
    }
    return 0;
}

/* Where libraries lie in /usr: without it every start of a program searches some forty directories. */
static int loader_cache(int root)
{
    cleanup_free char *text = NULL;
    size_t len;
    if (file_slurp(AT_FDCWD, LOADER_CACHE, LOADER_CACHE_MAX, &text, &len, NULL) < 0)
        return 0;
    cleanup_close int fd = openat(root, "etc/ld.so.cache", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || fd_write_all(fd, text, len) < 0)
        return -1;
    return fchmod(fd, 0644);
}

static int skeleton_fill(int tmp)
{
    if (mkdirat(tmp, "fs", 0755) < 0)
        return -1;
    cleanup_close int root = openat(tmp, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || fchmod(root, 0755) < 0)
        return -1;
    for (size_t i = 0; i < sizeof skeleton / sizeof *skeleton; i++)
        if (node_make(root, &skeleton[i]) < 0)
            return -1;
    if (usr_links(root) < 0 || alternative_links(root) < 0 || loader_cache(root) < 0)
        return -1;
    return syncfs(root);
}

static int skeleton_make(const char *data_dir, const char *layer_dir, struct error *err)
{
    char tmp[PATH_MAX], record[PATH_MAX + 16];
    if (store_prepare(data_dir, err) < 0)
        return -1;
    cleanup_close int fd = store_tmp_dir(data_dir, "host", tmp, err);
    if (fd < 0)
        return -1;
    int r = skeleton_fill(fd);
    if (r < 0)
        error_system(err, errno, "cannot make the root skeleton of image host in %s", tmp);
    json_t *o = json_pack("{s:s, s:I}", "kind", "host", "created", (json_int_t)clock_wall_ms());
    snprintf(record, sizeof record, "%s/layer.json", tmp);
    if (r == 0)
        r = store_put_json(data_dir, record, o, err);
    json_decref(o);
    if (r == 0 && rename(tmp, layer_dir) == 0)
        return 0;
    if (r == 0 && errno != ENOTEMPTY && errno != EEXIST) /* those: another process was faster */
        r = error_system(err, errno, "cannot put the root skeleton at %s", layer_dir);
    dir_remove(AT_FDCWD, tmp, NULL);
    return r;
}

static char **list_of(const char *const *texts, size_t n)
{
    char **ret = calloc(n + 1, sizeof *ret);
    for (size_t i = 0; ret && i < n; i++)
        if (!(ret[i] = strdup(texts[i]))) {
            for (size_t k = 0; k < i; k++)
                free(ret[k]);
            free(ret);
            return NULL;
        }
    return ret;
}

struct image *image_host_describe(const char *data_dir, struct error *err)
{
    static const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                      "LANG=C.UTF-8"};
    static const char *const cmd[] = {"/bin/sh"};
    char name[64];
    image_host_layer_name(name);
    struct image *i = calloc(1, sizeof *i);
    if (!i) {
        error_oom(err);
        return NULL;
    }
    i->layers = calloc(2, sizeof *i->layers);
    i->holds = malloc(sizeof *i->holds);
    if (i->layers && i->holds && asprintf(&i->layers[0], "%s/layers/%s/fs", data_dir, name) >= 0) {
        i->holds[0] = -1;
        i->layer_count = 1;
    }
    i->host_usr = true;
    i->id = strdup(IMAGE_HOST);
    i->name = strdup(IMAGE_HOST);
    i->workdir = strdup("/");
    i->user = strdup("");
    i->env = list_of(env, 2);
    i->entrypoint = list_of(NULL, 0);
    i->cmd = list_of(cmd, 1);
    if (!i->layer_count || !i->id || !i->name || !i->workdir || !i->user || !i->env || !i->entrypoint ||
        !i->cmd) {
        image_free(i);
        error_oom(err);
        return NULL;
    }
    return i;
}

int image_host_resolve(const char *data_dir, struct image **ret, struct error *err)
{
    struct image *i = image_host_describe(data_dir, err);
    if (!i)
        return -1;
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", (int)(strlen(i->layers[0]) - 3), i->layers[0]);
    /* The second attempt is for a gc that took the skeleton between making and locking it. */
    for (int attempt = 0; attempt < 3; attempt++) {
        i->holds[0] = image_layer_hold(dir, NULL);
        if (i->holds[0] >= 0) {
            *ret = i;
            return 0;
        }
        if (skeleton_make(data_dir, dir, err) < 0)
            break;
    }
    if (i->holds[0] < 0 && (!err || err->kind == ERROR_NONE))
        error_set(err, ERROR_CORRUPT, "the root skeleton %s cannot be used: remove it and try again", dir);
    image_free(i);
    return -1;
}
