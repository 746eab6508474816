#include "cli/copy_target.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Last component of a container path; NULL (with an error) where it has none to give to a copy. */
static char *last_component(const char *path, struct error *err)
{
    size_t end = strlen(path), begin;
    while (end > 0 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';)
        begin--;
    char *name = strndup(path + begin, end - begin);
    if (!name) {
        error_oom(err);
        return NULL;
    }
    if (name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
        return name;
    free(name);
    error_field(err, "path", "\"%.200s\" has no name of its own; say what its copy is to be called", path);
    return NULL;
}

/* Splits the target into a directory, opened, and a name in it. */
static int split(const char *to, const char *from, int *ret_dir, char **ret_name, struct error *err)
{
    struct stat st;
    size_t len = strlen(to);
    bool into = (len > 0 && to[len - 1] == '/') || (stat(to, &st) == 0 && S_ISDIR(st.st_mode));
    cleanup_free char *parent = NULL;
    const char *slash = strrchr(to, '/');
    if (into)
        parent = strdup(to);
    else
        parent = slash ? strndup(to, slash == to ? 1 : (size_t)(slash - to)) : strdup(".");
    if (!parent)
        return error_oom(err);
    *ret_name = into ? last_component(from, err) : last_component(to, err);
    if (!*ret_name)
        return -1;
    *ret_dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_dir < 0 ? error_system(err, errno, "cannot open the directory %s", parent) : 0;
}

int copy_target_open(struct copy_target *ret, const char *to, const char *from, bool tree, struct error *err)
{
    cleanup_close int parent = -1;
    cleanup_free char *name = NULL;
    *ret = (struct copy_target){.dir = -1};
    if (split(to, from, &parent, &name, err) < 0)
        return -1;
    if (!tree) {
        ret->dir = steal_fd(&parent);
        ret->as = steal_pointer(&name);
        return 0;
    }
    if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return error_system(err, errno, "cannot make the directory %s", name);
    ret->dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return ret->dir < 0 ? error_system(err, errno, "cannot open the directory %s", name) : 0;
}

void copy_target_close(struct copy_target *t)
{
    if (t->dir >= 0)
        close(t->dir);
    free(t->as);
    *t = (struct copy_target){.dir = -1};
}

char *copy_source_name(const char *path, struct error *err)
{
    cleanup_free char *real = realpath(path, NULL);
    if (!real) {
        error_system(err, errno, "cannot read %s", path);
        return NULL;
    }
    const char *base = strrchr(real, '/') + 1;
    char *copy = strdup(*base ? base : "root");
    if (!copy)
        error_oom(err);
    return copy;
}
