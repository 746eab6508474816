#include "image/pack.h"

#include "base/cleanup.h"
#include "image/exclude.h"
#include "image/inode_names.h"
#include "image/layer_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define READ_SIZE ((size_t)256 << 10)
#define XATTR_LIST_MAX 65536
#define EXTENTS_MAX 100000
#define OVERLAY "user.overlay."
#define OVERLAY_ESCAPED "user.overlay.overlay."

struct packer {
    const struct pack_options *o;
    struct pack_result *r;
    struct tar_writer tar;
    struct inode_names links;
    char path[LIMIT_PATH + LIMIT_NAME + 16]; /* of the entry at hand */
    uint8_t *buffer;
    char *xattr_list, *xattr_value;
};

/* A directory being merged: its counterparts, topmost first. */
struct level {
    int fds[PACK_SOURCES_MAX];
    size_t source[PACK_SOURCES_MAX]; /* which of the sources each belongs to */
    size_t count;
};

static uint64_t unshift(const struct pack_ids *ids, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (id - ids[i].disk < ids[i].count)
            return (uint64_t)ids[i].inside + (id - ids[i].disk);
    return count ? 65534 : id;
}

static int cannot(struct packer *p, const char *doing, struct error *err)
{
    return error_system(err, errno, "cannot %s \"%.200s\"", doing, p->path);
}

/* ---- attributes ---- */

static bool xattr_wanted(const char *name, char ret[300])
{
    if (strncmp(name, "user.", 5) != 0)
        return false;
    if (strncmp(name, OVERLAY, sizeof OVERLAY - 1) != 0) {
        snprintf(ret, 300, "%s", name);
        return true;
    }
    /* overlayfs's own are not the container's; those of an overlayfs inside the container are escaped here.
     */
    if (strncmp(name, OVERLAY_ESCAPED, sizeof OVERLAY_ESCAPED - 1) != 0)
        return false;
    snprintf(ret, 300, OVERLAY "%s", name + sizeof OVERLAY_ESCAPED - 1);
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_xattrs(struct packer *p, int fd, struct error *err)
{
    ssize_t n = flistxattr(fd, p->xattr_list, XATTR_LIST_MAX);
    if (n <= 0)
        return n == 0 || errno == ENOTSUP ? 0 : cannot(p, "read attributes of", err);
    char *names[XATTR_LIST_MAX / 16] = {NULL}, wanted[300];
    size_t count = 0;
    for (char *s = p->xattr_list; s < p->xattr_list + n && count < sizeof names / sizeof *names;
         s += strlen(s) + 1)
        names[count++] = s;
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++) {
        if (!xattr_wanted(names[i], wanted))
            continue;
        ssize_t len = fgetxattr(fd, names[i], p->xattr_value, LIMIT_XATTR_VALUE);
        if (len < 0 && errno == ENODATA)
            continue;
        if (len < 0)
            return cannot(p, "read attributes of", err);
        if (tar_add_xattr(&p->tar, wanted, p->xattr_value, (size_t)len, err) < 0)
            return -1;
    }
    return 0;
}

static bool dir_is_opaque(int fd)
{
    char value[2];
    return fgetxattr(fd, OVERLAY "opaque", value, sizeof value) == 1 && value[0] == 'y';
}

static bool is_hidden(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static void describe(struct packer *p, const struct stat *st, bool top, struct tar_entry *e)
{
    const struct pack_options *o = p->o;
    *e = (struct tar_entry){.path = p->path, .mode = st->st_mode & 07777, .mtime = st->st_mtim};
    e->uid = top ? unshift(o->uids, o->uid_count, st->st_uid) : st->st_uid;
    e->gid = top ? unshift(o->gids, o->gid_count, st->st_gid) : st->st_gid;
}

static int mark_literal(struct packer *p, const char *name, struct error *err)
{
    return strncmp(name, ".wh.", 4) ? 0 : tar_add_xattr(&p->tar, LITERAL_XATTR, "1", 1, err);
}

/* ---- entries ---- */

static int count_entry(struct packer *p, uint64_t bytes, struct error *err)
{
    if (++p->r->entries > p->o->limits->layer_entries)
        return error_set(err, ERROR_LIMIT, "more than the limit of %llu changed files",
                         (unsigned long long)p->o->limits->layer_entries);
    if (bytes > p->o->limits->layer_bytes - p->r->bytes)
        return error_set(err, ERROR_LIMIT,
                         "\"%.150s\": the changed files hold more than the limit of %llu bytes", p->path,
                         (unsigned long long)p->o->limits->layer_bytes);
    p->r->bytes += bytes;
    return 0;
}

static int pack_whiteout(struct packer *p, const char *name, struct error *err)
{
    struct tar_entry e = {.path = p->path, .type = '0'};
    if (count_entry(p, 0, err) < 0)
        return -1;
    size_t len = strlen(name), at = strlen(p->path) - len;
    /* Where the usual spelling would be too long or mean something else, the name stands as it is, with a
     * mark. */
    if (len > LIMIT_NAME - 4 || !strncmp(name, ".wh.", 4)) {
        if (tar_add_xattr(&p->tar, WHITEOUT_XATTR, "1", 1, err) < 0)
            return -1;
        return tar_header(&p->tar, &e, err);
    }
    memmove(p->path + at + 4, p->path + at, len + 1);
    memcpy(p->path + at, ".wh.", 4);
    int r = tar_header(&p->tar, &e, err);
    memmove(p->path + at, p->path + at + 4, len + 1);
    return r;
}

static int find_extents(struct packer *p, int fd, uint64_t size, struct tar_hole_map *m, struct error *err)
{
    off_t end = (off_t)size;
    size_t cap = 0;
    for (off_t at = 0; at < end;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0 && errno != ENXIO)
            return cannot(p, "find the holes of", err);
        if (data < 0 || data >= end)
            break;
        off_t hole = lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return cannot(p, "find the holes of", err);
        if (m->count + 2 > cap) {
            cap = cap ? cap * 2 : 16;
            void *grown = cap > EXTENTS_MAX ? NULL : realloc(m->extents, cap * sizeof *m->extents);
            if (!grown)
                return error_set(err, ERROR_LIMIT, "\"%.150s\" has too many holes", p->path);
            m->extents = grown;
        }
        m->extents[m->count][0] = (uint64_t)data;
        m->extents[m->count++][1] = (uint64_t)((hole < end ? hole : end) - data);
        at = hole;
    }
    /* An empty piece at the end tells where the file ends. */
    if (m->count + 1 > cap) {
        void *grown = realloc(m->extents, (m->count + 1) * sizeof *m->extents);
        if (!grown)
            return error_oom(err);
        m->extents = grown;
    }
    m->extents[m->count][0] = size;
    m->extents[m->count++][1] = 0;
    return 0;
}

/* Exactly `len` bytes from `at`, whatever the container does to the file meanwhile. */
static int pack_range(struct packer *p, int fd, uint64_t at, uint64_t len, struct error *err)
{
    bool short_of = false;
    while (len > 0) {
        size_t want = len < READ_SIZE ? (size_t)len : READ_SIZE;
        ssize_t n = short_of ? 0 : pread(fd, p->buffer, want, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cannot(p, "read", err);
        if (n == 0) {
            p->r->changed += !short_of;
            short_of = true;
            memset(p->buffer, 0, want);
            n = (ssize_t)want;
        }
        if (tar_data(&p->tar, p->buffer, (size_t)n, err) < 0)
            return -1;
        at += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

static int pack_contents(struct packer *p, int fd, struct tar_entry *e, bool holes, struct error *err)
{
    struct tar_hole_map map = {0};
    if (!holes) {
        if (tar_header(&p->tar, e, err) < 0)
            return -1;
        return pack_range(p, fd, 0, e->size, err);
    }
    int r = find_extents(p, fd, e->size, &map, err);
    e->sparse = &map;
    if (r == 0)
        r = tar_header(&p->tar, e, err);
    for (size_t i = 0; r == 0 && i < map.count; i++)
        r = pack_range(p, fd, map.extents[i][0], map.extents[i][1], err);
    /* With no data at all nothing has told the writer that the entry is complete; it needs no padding then
     * either. */
    e->sparse = NULL;
    free(map.extents);
    return r;
}

static int pack_file(struct packer *p, int dir, const char *name, bool top, struct error *err)
{
    struct stat st;
    struct tar_entry e;
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0; /* gone since the directory was read */
    if (fd < 0 || fstat(fd, &st) < 0)
        return cannot(p, "open", err);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_STATE, "\"%.200s\" changed while it was packed: pause the container",
                         p->path);
    const char *first = st.st_nlink > 1 ? inode_names_find(&p->links, st.st_dev, st.st_ino) : NULL;
    describe(p, &st, top, &e);
    e.type = first ? '1' : '0';
    e.link = first;
    e.size = first ? 0 : (uint64_t)st.st_size;
    if (count_entry(p, e.size, err) < 0 || mark_literal(p, name, err) < 0)
        return -1;
    if (first)
        return tar_header(&p->tar, &e, err);
    if (st.st_nlink > 1 && inode_names_add(&p->links, st.st_dev, st.st_ino, p->path, err) < 0)
        return -1;
    if (add_xattrs(p, fd, err) < 0)
        return -1;
    return pack_contents(p, fd, &e, (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size, err);
}

static int pack_symlink(struct packer *p, int dir, const char *name, const struct stat *st, bool top,
                        struct error *err)
{
    char target[LIMIT_PATH + 1];
    struct tar_entry e;
    ssize_t n = readlinkat(dir, name, target, LIMIT_PATH);
    if (n < 0)
        return errno == ENOENT ? 0 : cannot(p, "read link", err);
    target[n] = '\0';
    describe(p, st, top, &e);
    const char *first = st->st_nlink > 1 ? inode_names_find(&p->links, st->st_dev, st->st_ino) : NULL;
    e.type = first ? '1' : '2';
    e.link = first ? first : target;
    if (st->st_nlink > 1 && !first && inode_names_add(&p->links, st->st_dev, st->st_ino, p->path, err) < 0)
        return -1;
    if (count_entry(p, 0, err) < 0 || mark_literal(p, name, err) < 0)
        return -1;
    return tar_header(&p->tar, &e, err);
}

/* ---- directories ---- */

static void level_close(struct level *l)
{
    for (size_t i = 0; i < l->count; i++)
        close(l->fds[i]);
    l->count = 0;
}

/* The directories that make up `name`, from source `from` of `l` down to where something hides what is below.
 */
static int level_open(struct packer *p, const struct level *l, size_t from, const char *name,
                      struct level *ret, bool *ret_opaque, struct error *err)
{
    ret->count = 0;
    *ret_opaque = false;
    for (size_t i = from; i < l->count && !*ret_opaque; i++) {
        struct stat st;
        if (fstatat(l->fds[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (!S_ISDIR(st.st_mode)) {
            *ret_opaque = true;
            break;
        }
        int fd = openat(l->fds[i], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            level_close(ret);
            return cannot(p, "open directory", err);
        }
        ret->fds[ret->count] = fd;
        ret->source[ret->count++] = l->source[i];
        *ret_opaque = dir_is_opaque(fd);
    }
    return 0;
}

struct names {
    char **list;
    size_t count, cap;
};

static void names_free(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    free(n->list);
}

static int names_read(struct packer *p, const struct level *l, struct names *n, struct error *err)
{
    for (size_t i = 0; i < l->count; i++) {
        int fd = openat(l->fds[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cleanup_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
            if (fd >= 0)
                close(fd);
            return cannot(p, "read directory", err);
        }
        for (struct dirent *e; (e = readdir(d));) {
            if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
                continue;
            if (n->count == n->cap) {
                n->cap = n->cap ? n->cap * 2 : 32;
                char **grown = realloc(n->list, n->cap * sizeof *grown);
                if (!grown)
                    return error_oom(err);
                n->list = grown;
            }
            if (n->count > p->o->limits->layer_entries)
                return error_set(err, ERROR_LIMIT, "directory \"%.150s\" has more than %llu entries", p->path,
                                 (unsigned long long)p->o->limits->layer_entries);
            if (!(n->list[n->count] = strdup(e->d_name)))
                return error_oom(err);
            n->count++;
        }
    }
    if (n->count > 0)
        qsort(n->list, n->count, sizeof *n->list, by_text);
    return 0;
}

static int pack_level(struct packer *p, struct level *l, bool opaque, unsigned depth, struct error *err);

static int pack_dir(struct packer *p, const struct level *l, size_t from, const char *name, unsigned depth,
                    struct error *err)
{
    struct level *sub = malloc(sizeof *sub);
    cleanup_free void *owned = sub;
    struct stat st;
    struct tar_entry e;
    bool opaque;
    if (!sub)
        return error_oom(err);
    if (depth >= LIMIT_DEPTH)
        return error_set(err, ERROR_LIMIT, "directory \"%.60s...\" lies more than %d levels deep", p->path,
                         LIMIT_DEPTH);
    if (level_open(p, l, from, name, sub, &opaque, err) < 0)
        return -1;
    if (sub->count == 0)
        return 0; /* gone since the directory was read */
    int r = fstat(sub->fds[0], &st) < 0 ? cannot(p, "read directory", err) : 0;
    describe(p, &st, sub->source[0] == 0, &e);
    e.type = '5';
    if (r == 0 && (count_entry(p, 0, err) < 0 || mark_literal(p, name, err) < 0 ||
                   add_xattrs(p, sub->fds[0], err) < 0 || tar_header(&p->tar, &e, err) < 0))
        r = -1;
    if (r == 0)
        r = pack_level(p, sub, opaque, depth + 1, err);
    level_close(sub);
    return r;
}

static int pack_one(struct packer *p, const struct level *l, const char *name, unsigned depth,
                    struct error *err)
{
    struct stat st;
    size_t i = 0;
    while (i < l->count && fstatat(l->fds[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        i++;
    if (i == l->count)
        return 0;
    bool top = l->source[i] == 0;
    if (exclude_matches(p->o->excludes, p->o->exclude_count, p->path, S_ISDIR(st.st_mode))) {
        p->r->excluded++;
        return 0;
    }
    if (is_hidden(&st))
        return pack_whiteout(p, name, err);
    if (S_ISDIR(st.st_mode))
        return pack_dir(p, l, i, name, depth, err);
    if (S_ISREG(st.st_mode))
        return pack_file(p, l->fds[i], name, top, err);
    if (S_ISLNK(st.st_mode))
        return pack_symlink(p, l->fds[i], name, &st, top, err);
    p->r->skipped++;
    return 0;
}

static int pack_level(struct packer *p, struct level *l, bool opaque, unsigned depth, struct error *err)
{
    struct names names = {0};
    size_t len = strlen(p->path);
    int r = names_read(p, l, &names, err);
    if (r == 0 && opaque) {
        struct tar_entry e = {.path = p->path, .type = '0'};
        snprintf(p->path + len, sizeof p->path - len, "%s.wh..wh..opq", len ? "/" : "");
        r = count_entry(p, 0, err) < 0 ? -1 : tar_header(&p->tar, &e, err);
    }
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        if (i > 0 && !strcmp(names.list[i], names.list[i - 1]))
            continue;
        if (len + 1 + strlen(names.list[i]) > LIMIT_PATH) {
            r = error_set(err, ERROR_LIMIT, "a path below \"%.60s...\" is longer than %d bytes", p->path,
                          LIMIT_PATH);
            break;
        }
        snprintf(p->path + len, sizeof p->path - len, "%s%s", len ? "/" : "", names.list[i]);
        r = pack_one(p, l, names.list[i], depth, err);
    }
    p->path[len] = '\0';
    names_free(&names);
    return r;
}

static int pack_root(struct packer *p, const int *sources, size_t count, struct error *err)
{
    struct level *l = calloc(1, sizeof *l);
    struct stat st;
    struct tar_entry e;
    if (!l)
        return error_oom(err);
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        l->fds[i] = openat(sources[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        l->source[i] = i;
        if (l->fds[i] < 0)
            r = error_system(err, errno, "cannot open the directory to pack");
        else
            l->count++;
    }
    if (r == 0 && fstat(l->fds[0], &st) < 0)
        r = error_system(err, errno, "cannot read the directory to pack");
    if (r == 0) {
        describe(p, &st, true, &e);
        e.path = ".";
        e.type = '5';
        r = count_entry(p, 0, err) < 0 || add_xattrs(p, l->fds[0], err) < 0 ? -1
                                                                            : tar_header(&p->tar, &e, err);
    }
    if (r == 0)
        r = pack_level(p, l, false, 0, err);
    level_close(l);
    free(l);
    return r < 0 ? -1 : tar_end(&p->tar, err);
}

int pack_tree(const int *sources, size_t count, const struct pack_options *o, struct byte_sink *sink,
              struct pack_result *ret, struct error *err)
{
    struct packer *p = calloc(1, sizeof *p);
    if (!p)
        return error_oom(err);
    *ret = (struct pack_result){0};
    p->o = o;
    p->r = ret;
    p->buffer = malloc(READ_SIZE);
    p->xattr_list = malloc(XATTR_LIST_MAX);
    p->xattr_value = malloc(LIMIT_XATTR_VALUE);
    tar_writer_init(&p->tar, sink);
    int r = p->buffer && p->xattr_list && p->xattr_value ? pack_root(p, sources, count, err) : error_oom(err);
    tar_writer_free(&p->tar);
    inode_names_free(&p->links);
    free(p->buffer);
    free(p->xattr_list);
    free(p->xattr_value);
    free(p);
    return r;
}
