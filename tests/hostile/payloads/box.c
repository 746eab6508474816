/* The program of the test images: a few commands in one static binary, so that an image can hold nothing
 * else. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

extern char **environ;

static char type_of(mode_t mode)
{
    return S_ISDIR(mode)    ? 'd'
           : S_ISREG(mode)  ? 'f'
           : S_ISLNK(mode)  ? 'l'
           : S_ISCHR(mode)  ? 'c'
           : S_ISBLK(mode)  ? 'b'
           : S_ISFIFO(mode) ? 'p'
           : S_ISSOCK(mode) ? 's'
                            : '?';
}

static int fail(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerrorname_np(errno));
    return 1;
}

static int cat(const char *path)
{
    char data[4096];
    ssize_t n;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail(path);
    while ((n = read(fd, data, sizeof data)) > 0)
        fwrite(data, 1, (size_t)n, stdout);
    close(fd);
    return n < 0 ? fail(path) : 0;
}

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        return fail(path);
    return close(fd);
}

static int show(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return fail(path);
    printf("%c %04o %u:%u dev %u:%u links %lu size %lld\n", type_of(st.st_mode), (unsigned)st.st_mode & 07777,
           st.st_uid, st.st_gid, major(st.st_rdev), minor(st.st_rdev), (unsigned long)st.st_nlink,
           (long long)st.st_size);
    return 0;
}

/* One line a path, "type path"; stays off the kernel's file systems. */
static void find(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        char path[PATH_MAX];
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        int n = snprintf(path, sizeof path, "%s/%s", strcmp(dir, "/") ? dir : "", e->d_name);
        if (n >= (int)sizeof path || lstat(path, &st) < 0)
            continue;
        printf("%c %s\n", type_of(st.st_mode), path);
        if (S_ISDIR(st.st_mode) && strcmp(path, "/proc") && strcmp(path, "/sys") && strcmp(path, "/dev"))
            find(path);
    }
    closedir(d);
}

static int link_target(const char *path)
{
    char to[PATH_MAX];
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n < 0)
        return fail(path);
    to[n] = '\0';
    puts(to);
    return 0;
}

static int filesystem(const char *path)
{
    struct statfs st;
    if (statfs(path, &st) < 0)
        return fail(path);
    printf("%lx\n", (unsigned long)st.f_type);
    return 0;
}

static int attributes(const char *path)
{
    char names[65536];
    ssize_t n = llistxattr(path, names, sizeof names);
    if (n < 0)
        return fail(path);
    for (char *p = names; p < names + n; p += strlen(p) + 1)
        puts(p);
    return 0;
}

static int identity(void)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");
    printf("uid %u euid %u gid %u egid %u\n", getuid(), geteuid(), getgid(), getegid());
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "Cap", 3) || !strncmp(line, "NoNewPrivs", 10) || !strncmp(line, "Groups", 6))
            fputs(line, stdout);
    if (f)
        fclose(f);
    return 0;
}

static int environment(void)
{
    for (char **e = environ; *e; e++)
        puts(*e);
    return 0;
}

static int where(void)
{
    char dir[PATH_MAX];
    if (!getcwd(dir, sizeof dir))
        return fail("cwd");
    puts(dir);
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "",
               *more = argc > 3 ? argv[3] : "";
    if (!strcmp(verb, "cat"))
        return cat(arg);
    if (!strcmp(verb, "put"))
        return put(arg, more);
    if (!strcmp(verb, "stat"))
        return show(arg);
    if (!strcmp(verb, "find"))
        return find(arg), 0;
    if (!strcmp(verb, "readlink"))
        return link_target(arg);
    if (!strcmp(verb, "statfs"))
        return filesystem(arg);
    if (!strcmp(verb, "xattrs"))
        return attributes(arg);
    if (!strcmp(verb, "id"))
        return identity();
    if (!strcmp(verb, "env"))
        return environment();
    if (!strcmp(verb, "pwd"))
        return where();
    if (!strcmp(verb, "sleep"))
        return (int)sleep((unsigned)atoi(arg));
    if (!strcmp(verb, "exec") && argc > 2) {
        execv(argv[2], argv + 2);
        return fail(argv[2]);
    }
    if (!strcmp(verb, "as") && argc > 4) { /* as UID PROGRAM VERB...: gives up root first */
        uid_t u = (uid_t)atoi(arg);
        if (setresgid(u, u, u) < 0 || setresuid(u, u, u) < 0)
            return fail("setresuid");
        execv(argv[3], argv + 3);
        return fail(argv[3]);
    }
    if (!strcmp(verb, "echo")) {
        puts(arg);
        return 0;
    }
    fprintf(stderr, "box: cat put stat find readlink statfs xattrs id env pwd sleep exec as echo\n");
    return 2;
}
