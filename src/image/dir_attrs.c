#include "image/dir_attrs.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dir_attr {
    ino_t ino; /* 0: free */
    int64_t sec;
    uint32_t nsec;
    uint32_t mode;
};

void dir_attrs_free(struct dir_attrs *d)
{
    free(d->slots);
    *d = (struct dir_attrs){0};
}

static struct dir_attr *slot_of(const struct dir_attrs *d, ino_t ino)
{
    size_t i = (size_t)((uint64_t)ino * 0x9e3779b97f4a7c15u >> 20) & (d->size - 1);
    while (d->slots[i].ino && d->slots[i].ino != ino)
        i = (i + 1) & (d->size - 1);
    return &d->slots[i];
}

static int grow(struct dir_attrs *d, struct error *err)
{
    struct dir_attrs bigger = {.size = d->size ? d->size * 2 : 256, .used = d->used};
    bigger.slots = calloc(bigger.size, sizeof *bigger.slots);
    if (!bigger.slots)
        return error_oom(err);
    for (size_t i = 0; i < d->size; i++)
        if (d->slots[i].ino)
            *slot_of(&bigger, d->slots[i].ino) = d->slots[i];
    free(d->slots);
    *d = bigger;
    return 0;
}

int dir_attrs_put(struct dir_attrs *d, ino_t ino, mode_t mode, struct timespec mtime, struct error *err)
{
    if ((d->used + 1) * 4 > d->size * 3 && grow(d, err) < 0)
        return -1;
    struct dir_attr *s = slot_of(d, ino);
    d->used += s->ino == 0;
    *s = (struct dir_attr){ino, mtime.tv_sec, (uint32_t)mtime.tv_nsec, mode};
    return 0;
}

/* `fd` is consumed. Depth is bounded by what the unpacker makes. */
static int apply_below(const struct dir_attrs *d, int fd)
{
    cleanup_dir DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -1;
    }
    struct stat st;
    if (fstat(dirfd(dir), &st) < 0)
        return -1;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_type != DT_DIR || !strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        int child = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (child < 0 || apply_below(d, child) < 0)
            return -1;
    }
    const struct dir_attr *s = slot_of(d, st.st_ino);
    if (!s->ino)
        return 0;
    struct timespec times[2] = {{s->sec, s->nsec}, {s->sec, s->nsec}};
    if (((st.st_mode ^ s->mode) & 07777) && fchmod(dirfd(dir), s->mode & 07777) < 0)
        return -1;
    return futimens(dirfd(dir), times);
}

int dir_attrs_apply(const struct dir_attrs *d, int root, struct error *err)
{
    if (!d->size)
        return 0;
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || apply_below(d, fd) < 0)
        return error_system(err, errno, "cannot set permissions and times of directories");
    return 0;
}
