/* The agent's tar reader over arbitrary bytes, given in pieces. Whatever entry it makes out must be the same
 * after it was written and read again. */
#include "agent/tar_read.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct input {
    const uint8_t *p;
    size_t left;
    size_t piece;
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static ssize_t give(void *user, void *data, size_t len, struct error *err)
{
    struct input *in = user;
    (void)err;
    if (len > in->left)
        len = in->left;
    if (len > in->piece)
        len = in->piece;
    memcpy(data, in->p, len);
    in->p += len;
    in->left -= len;
    return (ssize_t)len;
}

static void check_round_trip(const struct tar_entry *e)
{
    static struct tar_entry again;
    struct buf b;
    struct tar_reader t;
    struct stat st = {
        .st_mode = e->mode, .st_uid = (uid_t)e->uid, .st_gid = (gid_t)e->gid, .st_mtim = e->mtime};
    if (e->uid > UINT32_MAX || e->gid > UINT32_MAX)
        return;
    buf_init(&b, 0);
    tar_put_header(&b, e->type, e->path, e->link[0] ? e->link : NULL, &st, e->size);
    check(!b.failed && b.len % USTAR_BLOCK == 0);
    struct input in = {b.data, b.len, 4096};
    tar_reader_init(&t, give, &in);
    check(tar_next(&t, &again, NULL) == 1 && in.left == 0);
    check(again.type == e->type && again.size == e->size && again.mode == e->mode);
    check(again.uid == e->uid && again.gid == e->gid);
    check(again.mtime.tv_sec == e->mtime.tv_sec && again.mtime.tv_nsec == e->mtime.tv_nsec);
    check(strcmp(again.path, e->path) == 0 && strcmp(again.link, e->link) == 0);
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct tar_entry e;
    if (len == 0)
        return 0;
    struct input in = {data + 1, len - 1, data[0] ? (size_t)data[0] * 7 : 1};
    struct tar_reader t;
    struct error err = {0};
    int r;
    tar_reader_init(&t, give, &in);
    while ((r = tar_next(&t, &e, &err)) == 1) {
        check(e.path[0] && strnlen(e.path, PATH_MAX) < PATH_MAX && strnlen(e.link, PATH_MAX) < PATH_MAX);
        check(e.type == TAR_FILE || e.size == 0);
        check(e.mtime.tv_nsec >= 0 && e.mtime.tv_nsec < 1000000000);
        check_round_trip(&e);
        uint8_t some[300];
        uint64_t got = 0;
        ssize_t n = 1;
        /* every other entry is read, the rest skipped */
        while ((e.mode & 1) && (n = tar_read_data(&t, some, sizeof some, &err)) > 0)
            got += (uint64_t)n;
        if (n < 0)
            return 0;
        check(!(e.mode & 1) || got == e.size);
    }
    check(r == 0 || err.message[0]);
    return 0;
}
