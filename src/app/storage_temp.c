/* Temporary files of SQLite (sorting, tables that a statement needs for itself, journals of statements):
 * beside the objects' files instead of in a directory for everybody, and of a bounded size together. A VFS of
 * each storage's, which hands all other files to SQLite's own: sqlite.org/vfs.html. */
#include "app/storage_internal.h"

#include <stdio.h>
#include <string.h>

struct temp_file {
    sqlite3_file file; /* first, as SQLite wants it */
    struct storage_temp *temp;
    uint64_t bytes;
    char *path;                       /* SQLite's own VFS goes on pointing at it */
    _Alignas(8) unsigned char real[]; /* SQLite aligns no better */
};

static sqlite3_file *real_of(sqlite3_file *f)
{
    return (sqlite3_file *)((struct temp_file *)f)->real;
}

static void set_size(struct temp_file *f, uint64_t bytes)
{
    f->temp->bytes += bytes - f->bytes;
    f->bytes = bytes;
}

static int temp_close(sqlite3_file *f)
{
    struct temp_file *t = (struct temp_file *)f;
    int r = real_of(f)->pMethods->xClose(real_of(f));
    set_size(t, 0);
    sqlite3_free(t->path);
    return r;
}

static int temp_read(sqlite3_file *f, void *to, int len, sqlite3_int64 at)
{
    return real_of(f)->pMethods->xRead(real_of(f), to, len, at);
}

static int temp_write(sqlite3_file *f, const void *from, int len, sqlite3_int64 at)
{
    struct temp_file *t = (struct temp_file *)f;
    uint64_t end = (uint64_t)at + (uint64_t)len;
    if (end > t->bytes && t->temp->bytes + (end - t->bytes) > t->temp->max_bytes)
        return SQLITE_FULL;
    if (end > t->bytes)
        set_size(t, end);
    return real_of(f)->pMethods->xWrite(real_of(f), from, len, at);
}

static int temp_truncate(sqlite3_file *f, sqlite3_int64 len)
{
    struct temp_file *t = (struct temp_file *)f;
    if ((uint64_t)len < t->bytes)
        set_size(t, (uint64_t)len);
    return real_of(f)->pMethods->xTruncate(real_of(f), len);
}

static int temp_sync(sqlite3_file *f, int flags)
{
    return SQLITE_OK; /* nobody reads it after a crash */
}

static int temp_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    return real_of(f)->pMethods->xFileSize(real_of(f), ret);
}

static int temp_lock(sqlite3_file *f, int level)
{
    return SQLITE_OK;
}

static int temp_reserved(sqlite3_file *f, int *ret)
{
    *ret = 0;
    return SQLITE_OK;
}

/* Hints about sizes and mappings: none is needed. */
static int temp_control(sqlite3_file *f, int op, void *arg)
{
    return SQLITE_NOTFOUND;
}

static int temp_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int temp_device(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static const sqlite3_io_methods temp_methods = {
    .iVersion = 1,
    .xClose = temp_close,
    .xRead = temp_read,
    .xWrite = temp_write,
    .xTruncate = temp_truncate,
    .xSync = temp_sync,
    .xFileSize = temp_size,
    .xLock = temp_lock,
    .xUnlock = temp_lock,
    .xCheckReservedLock = temp_reserved,
    .xFileControl = temp_control,
    .xSectorSize = temp_sector,
    .xDeviceCharacteristics = temp_device,
};

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    struct storage_temp *temp = vfs->pAppData;
    uint64_t random;
    if (name)
        return temp->real->xOpen(temp->real, name, f, flags, ret_flags);
    struct temp_file *t = (struct temp_file *)f;
    memset(t, 0, (size_t)vfs->szOsFile);
    t->temp = temp;
    sqlite3_randomness(sizeof random, &random);
    t->path = sqlite3_mprintf("%s/.temp-%016llx", temp->dir, random);
    if (!t->path)
        return SQLITE_NOMEM;
    int r = temp->real->xOpen(temp->real, t->path, real_of(f), flags, ret_flags);
    if (r == SQLITE_OK)
        f->pMethods = &temp_methods;
    else
        sqlite3_free(t->path);
    return r;
}

int storage_temp_open(struct storage_temp *t, const char *dir, uint64_t max_bytes, struct error *err)
{
    t->real = sqlite3_vfs_find(NULL);
    if (!t->real)
        return error_set(err, ERROR_SYSTEM, "SQLite cannot reach files on this machine");
    t->vfs = *t->real;
    t->dir = dir;
    t->max_bytes = max_bytes;
    snprintf(t->name, sizeof t->name, "cloister-%p", (void *)t);
    t->vfs.zName = t->name;
    t->vfs.pNext = NULL;
    t->vfs.pAppData = t;
    t->vfs.szOsFile = (int)sizeof(struct temp_file) + t->real->szOsFile;
    t->vfs.xOpen = on_open;
    return sqlite3_vfs_register(&t->vfs, 0) == SQLITE_OK ? 0 : error_oom(err);
}

void storage_temp_close(struct storage_temp *t)
{
    sqlite3_vfs_unregister(&t->vfs);
}
