#include "agent/userdb.h"

#include "agent/kernel.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define MAX_ID 4294967294u /* 2^32-1 means "no change" to the kernel */

struct field {
    const char *p;
    size_t len;
};

/* Splits the next line into `count` colon-separated fields. False at the end of the text. `*ok` says whether
 * the line had at least that many. */
static bool next_line(const char **at, const char *end, struct field *fields, int count, bool *ok)
{
    if (*at >= end)
        return false;
    const char *line = *at;
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop)
        stop = end;
    *at = stop < end ? stop + 1 : end;
    *ok = memchr(line, '\0', (size_t)(stop - line)) == NULL;
    for (int i = 0; i < count; i++) {
        const char *colon = line <= stop ? memchr(line, ':', (size_t)(stop - line)) : NULL;
        const char *until = colon ? colon : stop;
        if (line > stop) {
            *ok = false;
            return true;
        }
        fields[i] = (struct field){line, (size_t)(until - line)};
        line = until + 1;
    }
    return true;
}

static bool field_is(const struct field *f, const char *text)
{
    return f->len == strlen(text) && memcmp(f->p, text, f->len) == 0;
}

static bool field_id(const struct field *f, unsigned *ret)
{
    char text[16];
    uint64_t v;
    if (f->len == 0 || f->len >= sizeof text)
        return false;
    memcpy(text, f->p, f->len);
    text[f->len] = '\0';
    if (parse_u64(text, "id", 0, MAX_ID, &v, NULL) < 0)
        return false;
    *ret = (unsigned)v;
    return true;
}

static bool field_copy(const struct field *f, char *to, size_t cap)
{
    if (f->len >= cap)
        return false;
    memcpy(to, f->p, f->len);
    to[f->len] = '\0';
    return true;
}

bool passwd_find(const char *text, size_t len, const char *name, uid_t uid, struct passwd_entry *ret)
{
    const char *at = text, *end = text + len;
    struct field f[6];
    bool ok;
    while (next_line(&at, end, f, 6, &ok)) {
        unsigned u, g;
        if (!ok || !field_id(&f[2], &u) || !field_id(&f[3], &g))
            continue;
        if (name ? !field_is(&f[0], name) : u != uid)
            continue;
        if (!field_copy(&f[0], ret->name, sizeof ret->name))
            continue;
        if (f[5].len == 0 || f[5].p[0] != '/' || !field_copy(&f[5], ret->home, sizeof ret->home))
            ret->home[0] = '\0';
        ret->uid = u;
        ret->gid = g;
        return true;
    }
    return false;
}

bool group_find(const char *text, size_t len, const char *name, gid_t *ret)
{
    const char *at = text, *end = text + len;
    struct field f[3];
    bool ok;
    while (next_line(&at, end, f, 3, &ok)) {
        unsigned g;
        if (ok && field_is(&f[0], name) && field_id(&f[2], &g)) {
            *ret = g;
            return true;
        }
    }
    return false;
}

static bool lists_member(struct field members, const char *user)
{
    const char *p = members.p, *end = p + members.len;
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *until = comma ? comma : end;
        struct field one = {p, (size_t)(until - p)};
        if (field_is(&one, user))
            return true;
        p = until + 1;
    }
    return false;
}

int group_memberships(const char *text, size_t len, const char *user, gid_t *ret, int max)
{
    const char *at = text, *end = text + len;
    struct field f[4];
    bool ok;
    int n = 0;
    while (n < max && next_line(&at, end, f, 4, &ok)) {
        unsigned g;
        if (ok && field_id(&f[2], &g) && lists_member(f[3], user))
            ret[n++] = g;
    }
    return n;
}

/* Reads a file of the image: a regular file that is not in procfs, of bounded size; anything else counts as
 * empty or is an error. The caller frees. */
static int read_image_file(const char *path, char **ret, size_t *ret_len, struct error *err)
{
    cleanup_close int fd =
        sys_openat2(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0, RESOLVE_NO_MAGICLINKS);
    struct stat st;
    struct statfs fs;
    *ret = NULL;
    *ret_len = 0;
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fstatfs(fd, &fs) < 0 ||
        fs.f_type == PROC_SUPER_MAGIC_NUMBER)
        return error_field(err, "user", "%s of the image is not a regular file", path);
    if (st.st_size > USERDB_MAX_FILE)
        return error_field(err, "user", "%s of the image is larger than %u bytes", path, USERDB_MAX_FILE);
    char *text = malloc((size_t)st.st_size + 1);
    if (!text)
        return error_oom(err);
    ssize_t n = fd_read_full(fd, text, (size_t)st.st_size);
    if (n < 0) {
        free(text);
        return error_system(err, errno, "cannot read %s of the image", path);
    }
    *ret = text;
    *ret_len = (size_t)n;
    return 0;
}

static int resolve_user(const char *name, bool explicit_group, bool want_home, struct identity *ret,
                        char *user, struct error *err)
{
    uint64_t number = 0;
    bool numeric = parse_u64(name, "user", 0, MAX_ID, &number, NULL) == 0;
    user[0] = '\0';
    ret->uid = (uid_t)number;
    ret->gid = 0;
    if (numeric && explicit_group && !want_home)
        return 0;
    cleanup_free char *text = NULL;
    size_t len;
    if (read_image_file("/etc/passwd", &text, &len, err) < 0)
        return -1;
    struct passwd_entry entry;
    if (text && passwd_find(text, len, numeric ? NULL : name, (uid_t)number, &entry)) {
        ret->uid = entry.uid;
        ret->gid = entry.gid;
        memcpy(user, entry.name, USERDB_MAX_NAME);
        if (entry.home[0])
            memcpy(ret->home, entry.home, sizeof ret->home);
        return 0;
    }
    if (!numeric)
        return error_field(err, "user", "the image has no user \"%.64s\" in /etc/passwd", name);
    if (number == 0)
        memcpy(ret->home, "/root", sizeof "/root");
    return 0;
}

static int resolve_groups(const char *group, const char *user, struct identity *ret, struct error *err)
{
    uint64_t number;
    if (group && parse_u64(group, "user", 0, MAX_ID, &number, NULL) == 0) {
        ret->gid = (gid_t)number;
        return 0;
    }
    if (!group && !*user)
        return 0;
    cleanup_free char *text = NULL;
    size_t len;
    if (read_image_file("/etc/group", &text, &len, err) < 0)
        return -1;
    if (!group) {
        ret->group_count = text ? group_memberships(text, len, user, ret->groups, USERDB_MAX_GROUPS) : 0;
        return 0;
    }
    if (!text || !group_find(text, len, group, &ret->gid))
        return error_field(err, "user", "the image has no group \"%.64s\" in /etc/group", group);
    return 0;
}

int identity_resolve(const char *spec, bool want_home, struct identity *ret, struct error *err)
{
    char name[USERDB_MAX_NAME], user[USERDB_MAX_NAME];
    const char *colon = strchr(spec, ':');
    size_t len = colon ? (size_t)(colon - spec) : strlen(spec);
    const char *group = colon ? colon + 1 : NULL;
    if (len == 0 || len >= sizeof name ||
        (group && (!*group || strchr(group, ':') || strlen(group) >= sizeof name)))
        return error_field(err, "user", "\"user\" must be a name or number, optionally with \":group\"");
    memcpy(name, spec, len);
    name[len] = '\0';
    *ret = (struct identity){.home = "/"};
    if (resolve_user(name, group != NULL, want_home, ret, user, err) < 0)
        return -1;
    return resolve_groups(group, user, ret, err);
}
