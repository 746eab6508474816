/* Says when what a bundle was made of has changed. Directories are watched, not files, because editors
 * replace files; what lies in node_modules is taken to stay as it is. */
#include "app/bundle.h"

#include "app/bundle_internal.h"
#include "app/config_read.h"
#include "base/cleanup.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define QUIET_MS 100 /* a change is told this long after the last one of its burst */
#define MAX_DIRECTORIES 512
#define MAX_DEPTH 8

static bool in_list(char *const *list, const char *path)
{
    for (; list && *list; list++)
        if (strcmp(*list, path) == 0)
            return true;
    return false;
}

static void on_quiet(uv_timer_t *timer)
{
    struct bundle *b = timer->data;
    b->changed(b->changed_user);
}

static void on_event(uv_fs_event_t *handle, const char *name, int events, int status)
{
    struct watch *w = handle->data;
    struct bundle *b = w->bundle;
    if (status < 0 || !name || b->closing)
        return;
    cleanup_free char *path = text_format("%s/%s", w->directory, name);
    /* After a failed run nobody knows what would have gone in: every file counts. */
    if (path && (!b->inputs || in_list(b->inputs, path) || in_list(b->extra, path)))
        uv_timer_start(&b->timer, on_quiet, QUIET_MS, 0);
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *w = handle->data;
    struct bundle *b = w->bundle;
    free(w->directory);
    free(w);
    bundle_release(b);
}

static int watch_directory(struct bundle *b, const char *directory, struct error *err)
{
    for (size_t i = 0; i < b->watch_count; i++)
        if (strcmp(b->watches[i]->directory, directory) == 0)
            return 0;
    if (b->watch_count == MAX_DIRECTORIES)
        return error_set(err, ERROR_LIMIT, "more than %d directories to watch", MAX_DIRECTORIES);
    struct watch *w = calloc(1, sizeof *w);
    struct watch **slot = w ? array_add(&b->watches, &b->watch_count, sizeof *slot, err) : NULL;
    if (!slot || !(w->directory = strdup(directory))) {
        if (slot)
            b->watch_count--;
        free(w);
        return error_oom(err);
    }
    *slot = w;
    w->bundle = b;
    w->handle.data = w;
    uv_fs_event_init(b->loop, &w->handle);
    b->handles++;
    int r = uv_fs_event_start(&w->handle, on_event, directory, 0);
    return r < 0 ? error_system(err, -r, "cannot watch %s", directory) : 0;
}

static int watch_file(struct bundle *b, const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *directory = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : NULL;
    if (!directory)
        return error_oom(err);
    return watch_directory(b, directory, err);
}

/* A directory and those below it, as far as the limits go. */
static int watch_tree(struct bundle *b, const char *directory, unsigned depth, struct error *err)
{
    if (watch_directory(b, directory, err) < 0)
        return -1;
    cleanup_dir DIR *dir = depth < MAX_DEPTH ? opendir(directory) : NULL;
    struct dirent *e;
    while (dir && (e = readdir(dir)) != NULL && b->watch_count < MAX_DIRECTORIES) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, "node_modules") == 0)
            continue;
        cleanup_free char *path = text_format("%s/%s", directory, e->d_name);
        struct stat st;
        if (path && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && watch_tree(b, path, depth + 1, err) < 0)
            return -1;
    }
    return 0;
}

int bundle_watch(struct bundle *b, bundle_changed_fn changed, void *user, struct error *err)
{
    if (b->watching || b->closing)
        return error_set(err, ERROR_STATE, "the bundle is watched already");
    b->watching = true;
    b->changed = changed;
    b->changed_user = user;
    b->timer.data = b;
    uv_timer_init(b->loop, &b->timer);
    b->handles++;
    for (char **p = b->extra; *p; p++)
        if (watch_file(b, *p, err) < 0)
            return -1;
    if (!b->inputs) {
        cleanup_free char *directory = strndup(b->main, (size_t)(strrchr(b->main, '/') - b->main));
        return directory ? watch_tree(b, directory, 0, err) : error_oom(err);
    }
    for (char **p = b->inputs; *p; p++)
        if (!strstr(*p, "/node_modules/") && watch_file(b, *p, err) < 0)
            return -1;
    return 0;
}

void bundle_watch_stop(struct bundle *b)
{
    for (size_t i = 0; i < b->watch_count; i++)
        uv_close((uv_handle_t *)&b->watches[i]->handle, on_watch_closed);
    free(b->watches);
    b->watches = NULL;
    b->watch_count = 0;
    if (b->watching)
        uv_close((uv_handle_t *)&b->timer, bundle_closed);
}
