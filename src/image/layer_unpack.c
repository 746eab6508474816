#include "image/layer_unpack.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/dir_attrs.h"
#include "image/layer_path.h"
#include "image/tar_names.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define XATTR_KEPT 288

struct unpacker {
    const struct unpack_options *o;
    struct unpack_result *r;
    struct tar_names source;
    struct error source_error;
    struct archive *archive;
    struct layer_path path;
    struct dir_attrs dirs;
    bool root_user;
    uid_t uid; /* whose new files are */
    gid_t gid;
    mode_t umask;
};

static la_ssize_t read_source(struct archive *a, void *user, const void **ret)
{
    struct unpacker *u = user;
    ssize_t n = u->source.source.next(&u->source.source, ret, &u->source_error);
    if (n < 0)
        archive_set_error(a, EIO, "source");
    return n;
}

static int archive_failed(struct unpacker *u, struct error *err)
{
    if (u->source_error.kind != ERROR_NONE) {
        if (err)
            *err = u->source_error;
        return -1;
    }
    const char *why = archive_error_string(u->archive);
    return error_set(err, ERROR_CORRUPT, "the layer is not a valid tar: %s", why ? why : "unknown");
}

static int entry_system(struct error *err, const struct entry_name *n, const char *doing)
{
    return error_system(err, errno, "cannot %s \"%.200s\"", doing, n->path);
}

/* ---- attributes ---- */

static struct timespec entry_mtime(struct archive_entry *e)
{
    struct timespec t = {0};
    if (archive_entry_mtime_is_set(e))
        t = (struct timespec){archive_entry_mtime(e), archive_entry_mtime_nsec(e)};
    if (t.tv_nsec < 0 || t.tv_nsec > 999999999)
        t.tv_nsec = 0;
    return t;
}

static int set_owner(struct unpacker *u, int dir, const struct entry_name *n, struct archive_entry *e,
                     bool existing, struct error *err)
{
    la_int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);
    if (uid < 0 || gid < 0 || uid >= UINT32_MAX || gid >= UINT32_MAX)
        return error_set(err, ERROR_INVALID, "entry \"%.200s\" has an impossible owner", n->path);
    if (!u->root_user) {
        u->r->squashed |= uid != 0 || gid != 0;
        return 0;
    }
    /* New files are ours already: no directory has a set-group-id bit before the end. */
    if ((uid_t)uid == u->uid && (gid_t)gid == u->gid && !existing)
        return 0;
    if (fchownat(dir, n->base, (uid_t)uid, (gid_t)gid, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (errno != EINVAL && errno != EPERM)
        return entry_system(err, n, "set the owner of");
    u->r->squashed = true;
    return 0;
}

static bool xattr_kept(const struct unpacker *u, const char *name, char ret[XATTR_KEPT])
{
    static const char overlay[] = "user.overlay.";
    size_t len = strlen(name);
    if (strncmp(name, "user.", 5) != 0 || len == 5 || len > 255)
        return false;
    bool own = !strncmp(name, overlay, sizeof overlay - 1);
    if (own && !u->o->snapshot)
        return false;
    snprintf(ret, XATTR_KEPT, "%s%s", own ? "user.overlay.overlay." : "",
             own ? name + sizeof overlay - 1 : name);
    return true;
}

static int set_xattrs(struct unpacker *u, int fd, const struct entry_name *n, struct archive_entry *e,
                      struct error *err)
{
    const char *name;
    const void *value;
    size_t size, total = 0;
    char kept[XATTR_KEPT];
    archive_entry_xattr_reset(e);
    while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK) {
        if (!name || !strcmp(name, LITERAL_XATTR) || !strcmp(name, WHITEOUT_XATTR))
            continue;
        total += size + strlen(name);
        if (size > LIMIT_XATTR_VALUE || total > LIMIT_XATTR_TOTAL)
            return error_set(err, ERROR_LIMIT,
                             "entry \"%.200s\": its extended attributes are larger than %d bytes", n->path,
                             LIMIT_XATTR_TOTAL);
        if (fd < 0 || !xattr_kept(u, name, kept)) {
            u->r->xattrs_dropped++;
            continue;
        }
        if (fsetxattr(fd, kept, value, size, 0) < 0) {
            /* What this file system has no room for is counted as dropped; a full disk still fails at the
             * next write. */
            if (errno != ENOTSUP && errno != ENOSPC && errno != E2BIG && errno != ERANGE)
                return entry_system(err, n, "set extended attributes of");
            u->r->xattrs_dropped++;
        }
    }
    return 0;
}

static bool has_mark(struct archive_entry *e, const char *mark)
{
    const char *name;
    const void *value;
    size_t size;
    archive_entry_xattr_reset(e);
    while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK)
        if (name && !strcmp(name, mark))
            return true;
    return false;
}

/* ---- making things ---- */

/* Takes away what has the name, so that the later entry wins. */
static int make_room(struct unpacker *u, int dir, const struct entry_name *n, struct error *err)
{
    int r = 0;
    if (unlinkat(dir, n->base, 0) < 0)
        r = errno == EISDIR || errno == EPERM ? dir_remove(dir, n->base, err)
                                              : entry_system(err, n, "replace");
    layer_path_forget(&u->path); /* what went may have been on the way to the kept parent */
    return r;
}

/* The parent again, after make_room() may have closed it. */
static int parent_of(struct unpacker *u, const struct entry_name *n, struct error *err)
{
    return layer_path_open(&u->path, n->parent, true, err);
}

static int copy_data(struct unpacker *u, int fd, const struct entry_name *n, la_int64_t size,
                     struct error *err)
{
    const void *data;
    size_t len;
    la_int64_t offset, end = 0;
    for (;;) {
        int r = archive_read_data_block(u->archive, &data, &len, &offset);
        if (r == ARCHIVE_EOF)
            break;
        if (r != ARCHIVE_OK)
            return archive_failed(u, err);
        if (offset < end || offset > size || (la_int64_t)len > size - offset)
            return error_set(err, ERROR_CORRUPT, "entry \"%.200s\" has data outside its size", n->path);
        end = offset + (la_int64_t)len;
        while (len > 0) {
            ssize_t w = pwrite(fd, data, len, offset);
            if (w < 0 && errno == EINTR)
                continue;
            if (w < 0)
                return entry_system(err, n, "write");
            data = (const char *)data + w;
            len -= (size_t)w;
            offset += w;
        }
    }
    if (end < size && ftruncate(fd, size) < 0)
        return entry_system(err, n, "write");
    return 0;
}

static int make_file(struct unpacker *u, const struct entry_name *n, struct archive_entry *e,
                     struct error *err)
{
    la_int64_t size = archive_entry_size(e);
    if (size < 0)
        return error_set(err, ERROR_INVALID, "entry \"%.200s\" has a negative size", n->path);
    if ((uint64_t)size > u->o->limits->layer_bytes - u->r->bytes)
        return error_set(err, ERROR_LIMIT,
                         "entry \"%.200s\": the layer's files hold more than the limit of %llu bytes",
                         n->path, (unsigned long long)u->o->limits->layer_bytes);
    u->r->bytes += (uint64_t)size;
    int dir = parent_of(u, n, err);
    if (dir < 0)
        return -1;
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    mode_t mode = archive_entry_perm(e) & 07777;
    cleanup_close int fd = openat(dir, n->base, flags, mode & 0777);
    if (fd < 0 && errno == EEXIST) {
        if (make_room(u, dir, n, err) < 0 || (dir = parent_of(u, n, err)) < 0)
            return -1;
        fd = openat(dir, n->base, flags, mode & 0777);
    }
    if (fd < 0)
        return entry_system(err, n, "create");
    struct timespec times[2] = {entry_mtime(e), entry_mtime(e)};
    if (copy_data(u, fd, n, size, err) < 0 || set_owner(u, dir, n, e, false, err) < 0 ||
        set_xattrs(u, fd, n, e, err) < 0)
        return -1;
    bool final = (mode & ~(mode_t)0777) == 0 && (mode & u->umask) == 0;
    if ((!final && fchmod(fd, mode) < 0) || futimens(fd, times) < 0)
        return entry_system(err, n, "set permissions and times of");
    return 0;
}

/* The directory comes with the tar now: whether it had been implied before does not matter for its looks, but
 * it does for what the layer depends on (its own parents), so the count stays. */
static int make_dir(struct unpacker *u, const struct entry_name *n, struct archive_entry *e,
                    struct error *err)
{
    int dir = parent_of(u, n, err);
    if (dir < 0)
        return -1;
    if (*n->base && mkdirat(dir, n->base, 0700) < 0) {
        struct stat st;
        if (errno != EEXIST || fstatat(dir, n->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return entry_system(err, n, "make directory");
        if (is_whiteout(n->base, dir)) {
            if (whiteout_to_opaque_dir(dir, n->base) < 0)
                return entry_system(err, n, "make directory");
        } else if (!S_ISDIR(st.st_mode)) {
            if (make_room(u, dir, n, err) < 0 || (dir = parent_of(u, n, err)) < 0)
                return -1;
            if (mkdirat(dir, n->base, 0700) < 0)
                return entry_system(err, n, "make directory");
        }
    }
    cleanup_close int fd =
        openat(dir, *n->base ? n->base : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return entry_system(err, n, "open directory");
    struct entry_name self = *n;
    if (!*n->base)
        self.base = ".";
    if (set_owner(u, dir, &self, e, true, err) < 0 || set_xattrs(u, fd, n, e, err) < 0)
        return -1;
    mode_t mode = archive_entry_perm(e) & 07777;
    if (!*n->base)
        mode |= 0700; /* the owner's own access to the layer */
    return dir_attrs_put(&u->dirs, st.st_ino, mode, entry_mtime(e), err);
}

static int make_symlink(struct unpacker *u, const struct entry_name *n, struct archive_entry *e,
                        struct error *err)
{
    const char *target = archive_entry_symlink(e);
    if (!target || !*target || strlen(target) >= LIMIT_PATH)
        return error_set(err, ERROR_INVALID,
                         "symbolic link \"%.200s\" leads to an empty, too long or unreadable name", n->path);
    int dir = parent_of(u, n, err);
    if (dir < 0)
        return -1;
    if (symlinkat(target, dir, n->base) < 0) {
        if (errno != EEXIST)
            return entry_system(err, n, "make symbolic link");
        if (make_room(u, dir, n, err) < 0 || (dir = parent_of(u, n, err)) < 0)
            return -1;
        if (symlinkat(target, dir, n->base) < 0)
            return entry_system(err, n, "make symbolic link");
    }
    struct timespec times[2] = {entry_mtime(e), entry_mtime(e)};
    if (set_owner(u, dir, n, e, false, err) < 0 || set_xattrs(u, -1, n, e, err) < 0)
        return -1;
    return utimensat(dir, n->base, times, AT_SYMLINK_NOFOLLOW) < 0 ? entry_system(err, n, "set times of") : 0;
}

static int refuse_link(const struct entry_name *n, const struct entry_name *to, struct error *err)
{
    return error_set(
        err, ERROR_DENIED,
        "hard link \"%.150s\" leads to \"%.150s\", which is no file of this layer (made before it)", n->path,
        to->path);
}

static int make_hardlink(struct unpacker *u, const struct entry_name *n, struct archive_entry *e,
                         struct error *err)
{
    struct entry_name *to = malloc(sizeof *to);
    if (!to)
        return error_oom(err);
    cleanup_free void *owned = to;
    struct stat from, there;
    struct error why = {0};
    if (entry_name_parse(archive_entry_hardlink(e), to, err) < 0)
        return error_wrap(err, "hard link \"%.150s\"", n->path);
    cleanup_close int to_dir = layer_path_find(&u->path, to->parent, &why);
    if (to_dir < 0 || !*to->base || fstatat(to_dir, to->base, &from, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!S_ISREG(from.st_mode) && !S_ISLNK(from.st_mode)))
        return refuse_link(n, to, err);
    int dir = parent_of(u, n, err);
    if (dir < 0)
        return -1;
    if (fstatat(dir, n->base, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        if (there.st_ino == from.st_ino)
            return 0;
        if (make_room(u, dir, n, err) < 0 || (dir = parent_of(u, n, err)) < 0)
            return -1;
    }
    /* make_room() may have removed the directory that holds the target: then linkat() fails, which is right.
     */
    if (linkat(to_dir, to->base, dir, n->base, 0) < 0)
        return errno == ENOENT ? refuse_link(n, to, err) : entry_system(err, n, "make hard link");
    return 0;
}

/* ---- whiteouts ---- */

static int make_opaque(struct unpacker *u, const struct entry_name *n, struct error *err)
{
    int dir = layer_path_open(&u->path, n->parent, false, err);
    if (dir < 0)
        return -1;
    if (!*n->parent)
        u->r->opaque_root = true;
    return dir_set_opaque(dir, ".") < 0 ? entry_system(err, n, "mark opaque") : 0;
}

static int make_whiteout(struct unpacker *u, const struct entry_name *n, const char *hidden,
                         struct error *err)
{
    int dir = layer_path_open(&u->path, n->parent, false, err);
    struct stat st;
    if (dir < 0)
        return -1;
    if (fstatat(dir, hidden, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        /* A whiteout speaks of the layers below only. A directory of this layer must then not merge with
         * theirs; anything else hides theirs by itself. */
        if (S_ISDIR(st.st_mode) && dir_set_opaque(dir, hidden) < 0)
            return entry_system(err, n, "mark opaque");
        return 0;
    }
    if (mknodat(dir, hidden, S_IFCHR, makedev(0, 0)) < 0)
        return entry_system(err, n, "make whiteout");
    return 0;
}

/* True when the entry was a whiteout of some kind; then *ret_done tells how it went. */
static bool whiteout_handled(struct unpacker *u, const struct entry_name *n, struct archive_entry *e,
                             int *ret_done, struct error *err)
{
    if (u->o->snapshot && has_mark(e, WHITEOUT_XATTR) && archive_entry_filetype(e) == AE_IFREG) {
        *ret_done = make_whiteout(u, n, n->base, err);
        return true;
    }
    if (strncmp(n->base, ".wh.", 4) != 0 || (u->o->snapshot && has_mark(e, LITERAL_XATTR)))
        return false;
    const char *hidden = n->base + 4;
    if (!strncmp(hidden, ".wh.", 4) && strcmp(n->base, ".wh..wh..opq") != 0) {
        u->r->skipped++;
        *ret_done = 0;
    } else if (archive_entry_hardlink(e) || archive_entry_filetype(e) != AE_IFREG) {
        *ret_done = error_set(err, ERROR_DENIED, "whiteout \"%.200s\" is not a regular file", n->path);
    } else if (!strcmp(n->base, ".wh..wh..opq")) {
        *ret_done = make_opaque(u, n, err);
    } else if (!*hidden || !strcmp(hidden, ".") || !strcmp(hidden, "..")) {
        *ret_done =
            error_set(err, ERROR_DENIED, "whiteout \"%.200s\" names nothing that can be removed", n->path);
    } else {
        *ret_done = make_whiteout(u, n, hidden, err);
    }
    return true;
}

/* ---- the archive ---- */

static int unpack_entry(struct unpacker *u, struct archive_entry *e, struct error *err)
{
    struct entry_name *n = malloc(sizeof *n);
    cleanup_free void *owned = n;
    int done;
    if (!n)
        return error_oom(err);
    if (entry_name_parse(archive_entry_pathname(e), n, err) < 0)
        return -1;
    if (*n->base && whiteout_handled(u, n, e, &done, err))
        return done;
    if (archive_entry_hardlink(e))
        return *n->base ? make_hardlink(u, n, e, err)
                        : error_set(err, ERROR_DENIED, "a hard link stands for the root");
    mode_t type = archive_entry_filetype(e);
    if (!*n->base && type != AE_IFDIR)
        return error_set(err, ERROR_DENIED, "an entry that is no directory stands for the root");
    switch (type) {
    case AE_IFREG:
        return make_file(u, n, e, err);
    case AE_IFDIR:
        return make_dir(u, n, e, err);
    case AE_IFLNK:
        return make_symlink(u, n, e, err);
    default:
        u->r->skipped++;
        return 0;
    }
}

static int unpack_all(struct unpacker *u, struct error *err)
{
    struct archive_entry *e;
    if (archive_read_open(u->archive, u, NULL, read_source, NULL) != ARCHIVE_OK)
        return archive_failed(u, err);
    for (;;) {
        int r = archive_read_next_header(u->archive, &e);
        if (r == ARCHIVE_EOF)
            break;
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            return archive_failed(u, err);
        if (++u->r->entries > u->o->limits->layer_entries)
            return error_set(err, ERROR_LIMIT, "the layer has more than the limit of %llu entries",
                             (unsigned long long)u->o->limits->layer_entries);
        if (unpack_entry(u, e, err) < 0)
            return -1;
    }
    if (u->o->whole && u->r->entries == 0)
        return error_set(err, ERROR_CORRUPT, "the archive is empty");
    if (u->o->whole && !u->source.ended)
        return error_set(err, ERROR_CORRUPT, "the archive is cut off: it has no mark of the end");
    return 0;
}

int layer_unpack(int root, struct byte_source *source, const struct unpack_options *o,
                 struct unpack_result *ret, struct error *err)
{
    struct unpacker *u = calloc(1, sizeof *u);
    struct archive *a = archive_read_new();
    /* Names in pax headers are UTF-8; libarchive hands them out in the thread's character set. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = (locale_t)0;
    int r = -1;
    if (!u || !a || !utf8) {
        error_set(err, ERROR_INTERNAL, utf8 ? "out of memory" : "this machine lacks the locale C.UTF-8");
        goto out;
    }
    before = uselocale(utf8);
    *ret = (struct unpack_result){0};
    u->o = o;
    u->r = ret;
    tar_names_init(&u->source, source);
    u->archive = a;
    u->root_user = geteuid() == 0;
    u->uid = geteuid();
    u->gid = getegid();
    u->umask = umask(0);
    umask(u->umask);
    layer_path_init(&u->path, root, o->lowers, o->lower_count, &u->dirs);
    archive_read_support_format_tar(a);
    archive_read_support_format_empty(a);
    r = unpack_all(u, err);
    if (r == 0)
        r = dir_attrs_apply(&u->dirs, root, err);
    ret->implied = u->path.implied;
    layer_path_free(&u->path);
    dir_attrs_free(&u->dirs);
    tar_names_free(&u->source);
out:
    if (a)
        archive_read_free(a);
    if (before)
        uselocale(before);
    if (utf8)
        freelocale(utf8);
    free(u);
    return r;
}
