#include "base/user.h"

#include "base/cleanup.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GETENT "/usr/bin/getent"

extern char **environ;

/* The line's user, if it is about this one; passwd(5): name:password:uid:gid:comment:home:shell. */
static bool take_line(char *line, uid_t uid, struct user *ret)
{
    char *field[7] = {NULL}, *rest = line;
    uint64_t number;
    line[strcspn(line, "\n")] = '\0';
    for (int i = 0; i < 7 && rest; i++)
        field[i] = strsep(&rest, ":");
    if (!field[5] || !field[0][0] || parse_u64(field[2], "uid", 0, UINT32_MAX, &number, NULL) < 0 ||
        number != uid)
        return false;
    ret->name = strdup(field[0]);
    ret->home = strdup(field[5]);
    if (ret->name && ret->home)
        return true;
    user_free(ret);
    return false;
}

static bool search(FILE *f, uid_t uid, struct user *ret)
{
    cleanup_free char *line = NULL;
    size_t cap = 0;
    while (f && getline(&line, &cap, f) >= 0)
        if (take_line(line, uid, ret))
            return true;
    return false;
}

static bool ask(uid_t uid, struct user *ret)
{
    char number[16], name[] = "getent", database[] = "passwd";
    char *argv[] = {name, database, number, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return false;
    snprintf(number, sizeof number, "%u", (unsigned)uid);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, p[1], STDOUT_FILENO);
    int failed = posix_spawn(&pid, GETENT, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(p[1]);
    cleanup_file FILE *f = fdopen(p[0], "r");
    if (!f)
        close(p[0]);
    bool found = !failed && search(f, uid, ret);
    while (!failed && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return found;
}

bool user_find(uid_t uid, struct user *ret)
{
    *ret = (struct user){0};
    cleanup_file FILE *f = fopen("/etc/passwd", "re");
    return search(f, uid, ret) || ask(uid, ret);
}

void user_free(struct user *u)
{
    free(u->name);
    free(u->home);
    *u = (struct user){0};
}
