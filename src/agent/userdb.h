/* Users and groups of the image: /etc/passwd and /etc/group, parsed here, bounded. UNTRUSTED INPUT: the files
 * are whatever the image or the guest made of them. */
#ifndef CLOISTER_AGENT_USERDB_H
#define CLOISTER_AGENT_USERDB_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define USERDB_MAX_FILE (1u << 20)
#define USERDB_MAX_GROUPS 64
#define USERDB_MAX_NAME 256

struct passwd_entry {
    uid_t uid;
    gid_t gid;
    char name[USERDB_MAX_NAME];
    char home[1024]; /* "" when absent, relative or too long */
};

struct identity {
    uid_t uid;
    gid_t gid;
    gid_t groups[USERDB_MAX_GROUPS];
    int group_count;
    char home[1024]; /* "/" when unknown */
};

/* Finds by name, or by uid when name is NULL. The first match wins; malformed lines are skipped. */
bool passwd_find(const char *text, size_t len, const char *name, uid_t uid, struct passwd_entry *ret);
bool group_find(const char *text, size_t len, const char *name, gid_t *ret);
/* Groups that list `user` as a member, at most `max`; number found. */
int group_memberships(const char *text, size_t len, const char *user, gid_t *ret, int max);

/* Resolves "name", "uid", "name:group", "uid:gid" against files below the present root. A group given
 * explicitly replaces the primary group and there are then no supplementary groups. Errors carry field
 * "user". `want_home` false: the caller needs no home directory (saves reading /etc/passwd for plain
 * numbers). */
int identity_resolve(const char *spec, bool want_home, struct identity *ret, struct error *err);

#endif
