/* "fs.list" */
#include "agent/fs_entry.h"
#include "agent/fs_path.h"
#include "agent/fs_stream.h"
#include "agent/fs_walk.h"
#include "base/cleanup.h"

#include <errno.h>

struct listing {
    struct fs_out out;
    bool recursive;
    uint64_t count;
    struct buf entry;
};

static int list_one(void *user, const struct walk_entry *e, struct error *err)
{
    struct listing *l = user;
    char target[PATH_MAX];
    buf_clear(&l->entry);
    fs_put_entry(&l->entry, e->path, &e->st,
                 S_ISLNK(e->st.st_mode) ? fs_link_target(e->dir, e->name, target) : NULL);
    if (l->entry.failed)
        return error_oom(err);
    fs_out_put(&l->out, l->entry.data, l->entry.len);
    l->count++;
    if (l->out.errnum)
        return fs_out_flush(&l->out, err);
    return l->recursive;
}

int fs_list(const struct fs_request *q, const struct fs_io *io, struct buf *ret, struct error *err)
{
    static struct listing l;
    int fd = fs_open_directory(q->path, err);
    if (fd < 0)
        return -1;
    l.recursive = q->recursive;
    l.count = 0;
    buf_init(&l.entry, 64 << 10);
    fs_out_init(&l.out, io->out);
    int r = fs_walk(fd, list_one, &l, err);
    buf_free(&l.entry);
    if (r < 0 || fs_out_flush(&l.out, err) < 0)
        return -1;
    cbor_put_map(ret, 1);
    cbor_put_text(ret, "count");
    cbor_put_uint(ret, l.count);
    return 0;
}
