/* /etc/passwd and /etc/group of an image, as the agent reads them. First line of the input: the name that is
 * looked for. */
#include "agent/userdb.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_passwd(const char *text, size_t len, const char *name, uid_t uid)
{
    struct passwd_entry e, again;
    if (!passwd_find(text, len, name, uid, &e))
        return;
    check(strlen(e.name) < sizeof e.name && strlen(e.home) < sizeof e.home);
    check(e.home[0] == '\0' || e.home[0] == '/');
    check(e.uid != (uid_t)-1 && e.gid != (gid_t)-1);
    check(name ? strcmp(e.name, name) == 0 : e.uid == uid);
    check(!strchr(e.name, ':') && !strchr(e.name, '\n'));
    check(passwd_find(text, len, e.name, 0, &again)); /* what is found by number is found by name as well */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *line_end = len ? memchr(data, '\n', len) : NULL;
    size_t name_len = line_end ? (size_t)(line_end - data) : 0;
    if (name_len >= USERDB_MAX_NAME)
        return 0;
    char name[USERDB_MAX_NAME];
    memcpy(name, data, name_len);
    name[name_len] = '\0';
    size_t skip = line_end ? name_len + 1 : 0;
    /* a copy of exactly this size, so that a read beyond it is seen */
    char *text = malloc(len - skip + !(len - skip));
    memcpy(text, data + skip, len - skip);
    len -= skip;
    gid_t gid, groups[3];
    check_passwd(text, len, name, 0);
    check_passwd(text, len, NULL, 0);
    check_passwd(text, len, NULL, 1000);
    if (group_find(text, len, name, &gid))
        check(gid != (gid_t)-1);
    int n = group_memberships(text, len, name, groups, 3);
    check(n >= 0 && n <= 3);
    free(text);
    return 0;
}
