/* What the command line unpacks when it copies out of a container (src/cli/tar_read.c), over arbitrary bytes
 * given in pieces: whatever the archive says, nothing beside the target directory appears or changes. */
#include "base/fd.h"
#include "cli/tar_read.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char base[] = "/tmp/cloister-fuzz.XXXXXX";
static int base_fd = -1;

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void clean_up(void)
{
    dir_remove(AT_FDCWD, base, NULL);
}

/* A directory that holds a canary; archives go into "in" beside it. */
static void set_up(void)
{
    if (base_fd >= 0)
        return;
    check(mkdtemp(base) != NULL);
    atexit(clean_up);
    base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(base_fd, "canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, "safe", 4) == 4 && fchmod(fd, 0400) == 0);
    close(fd);
}

static void check_nothing_escaped(void)
{
    char text[8] = {0};
    struct stat st;
    int fd = openat(base_fd, "canary", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    check(fd >= 0 && fstat(fd, &st) == 0 && read(fd, text, sizeof text) == 4 && strcmp(text, "safe") == 0);
    check(st.st_nlink == 1 && (st.st_mode & 07777) == 0400);
    close(fd);
    DIR *d = opendir(base);
    check(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        check(e->d_name[0] == '.' || strcmp(e->d_name, "in") == 0 || strcmp(e->d_name, "canary") == 0);
    closedir(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct tar_reader *r = NULL;
    struct error err = {0};
    if (len < 2)
        return 0;
    set_up();
    check(mkdirat(base_fd, "in", 0700) == 0);
    int in = openat(base_fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A link out of the directory that was there before. */
    check(in >= 0 && symlinkat("..", in, "old") == 0);
    struct tar_reader_config config = {
        .dir = in, .as = data[0] & 1 ? "one" : NULL, .max_bytes = 1 << 20, .max_entries = 64};
    size_t piece = data[1] ? data[1] * 7u : 100000;
    check(tar_reader_new(&r, &config, &err) == 0);
    int result = 0;
    for (size_t i = 2; result == 0 && i < len; i += piece)
        result = tar_reader_feed(r, data + i, len - i < piece ? len - i : piece, &err);
    if (result == 0)
        result = tar_reader_finish(r, &err);
    check(result == 0 || (err.kind != ERROR_NONE && err.message[0]));
    tar_reader_free(r);
    close(in);
    check_nothing_escaped();
    check(dir_remove(base_fd, "in", NULL) == 0);
    return 0;
}
