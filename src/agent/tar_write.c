#include "agent/tar_write.h"

#include <string.h>

/* An id or a size that does not fit its field. */
static void put_large(struct buf *records, const char *key, uint64_t v, uint64_t most)
{
    if (v > most)
        pax_put_number(records, key, v);
}

void tar_put_header(struct buf *b, char type, const char *path, const char *link, const struct stat *st,
                    uint64_t size)
{
    struct buf records;
    struct ustar h;
    uint64_t mtime = st->st_mtim.tv_sec < 0 ? 0 : (uint64_t)st->st_mtim.tv_sec;
    buf_init(&records, 0);
    if (strlen(path) > sizeof h.name)
        pax_put_text(&records, "path", path);
    if (link && strlen(link) > sizeof h.link)
        pax_put_text(&records, "linkpath", link);
    put_large(&records, "size", size, USTAR_MAX_LONG);
    put_large(&records, "uid", st->st_uid, USTAR_MAX_ID);
    put_large(&records, "gid", st->st_gid, USTAR_MAX_ID);
    if (st->st_mtim.tv_nsec != 0 || st->st_mtim.tv_sec < 0 || mtime > USTAR_MAX_LONG)
        pax_put_time(&records, "mtime", &st->st_mtim);
    pax_put_header(b, &records);
    buf_free(&records);
    ustar_init(&h, path, type, size);
    ustar_put_number(h.mode, sizeof h.mode, st->st_mode & 07777);
    ustar_put_number(h.uid, sizeof h.uid, st->st_uid);
    ustar_put_number(h.gid, sizeof h.gid, st->st_gid);
    ustar_put_number(h.mtime, sizeof h.mtime, mtime);
    if (link)
        ustar_put_text(h.link, sizeof h.link, link);
    ustar_seal(&h);
    buf_append(b, &h, sizeof h);
}
