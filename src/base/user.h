/* Who a user of this machine is. Not through the C library, whose getpwuid(3) loads other libraries as it
 * goes: the command line is linked statically, to start fast. */
#ifndef CLOISTER_BASE_USER_H
#define CLOISTER_BASE_USER_H

#include <stdbool.h>
#include <sys/types.h>

struct user {
    char *name, *home; /* owned; home is "" where none is given */
};

/* From /etc/passwd, else from what getent(1) says (a directory service). False: nobody has this number, and
 * *ret is empty. */
bool user_find(uid_t uid, struct user *ret);
void user_free(struct user *u); /* an empty one too */

#endif
