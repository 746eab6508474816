/* Writing a POSIX pax archive: ustar headers, preceded by an extended header where a name is long, not
 * UTF-8-safe to cut, or a value does not fit. */
#ifndef CLOISTER_AGENT_TAR_WRITE_H
#define CLOISTER_AGENT_TAR_WRITE_H

#include "base/buf.h"
#include "base/ustar.h"

#include <sys/stat.h>

/* Type flags of the format. */
enum {
    TAR_FILE = '0',
    TAR_HARDLINK = '1',
    TAR_SYMLINK = '2',
    TAR_CHAR = '3',
    TAR_BLOCKDEV = '4',
    TAR_DIRECTORY = '5',
    TAR_FIFO = '6',
};

/* Appends the header blocks of one entry. `link`: NULL, or the target of a symbolic or hard link. `size`: of
 * the data that follows (0 for all but TAR_FILE). Directories should end with '/'. */
void tar_put_header(struct buf *b, char type, const char *path, const char *link, const struct stat *st,
                    uint64_t size);

#endif
