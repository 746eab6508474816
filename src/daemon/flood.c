#include "daemon/flood.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define PIPE_SIZE (512 << 10)

/* The daemon has one loop, and each piece has passed before the next comes: two pipes are enough for all. */
static int ours[2], theirs[2];
static bool opened, unable;

static bool open_pipe(int p[2])
{
    if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    fcntl(p[1], F_SETPIPE_SZ, PIPE_SIZE); /* the machine may refuse: then pieces are smaller */
    return true;
}

static bool ready(void)
{
    if (opened || unable)
        return opened;
    opened = open_pipe(ours) && open_pipe(theirs);
    unable = !opened;
    return opened;
}

static size_t copy_out(uint8_t *to, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = read(ours[0], to + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* cannot happen: so much is in it */
        done += (size_t)n;
    }
    return done;
}

size_t flood_take(int from, uint8_t *copy, size_t len)
{
    if (!ready())
        return 0;
    ssize_t n = splice(from, NULL, ours[1], NULL, len, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n <= 0)
        return 0;
    /* Fewer than all: for the rest whoever sends them on uses the copy. */
    tee(ours[0], theirs[1], (size_t)n, SPLICE_F_NONBLOCK);
    return copy_out(copy, (size_t)n);
}

int flood_pipe(void)
{
    return theirs[0];
}

void flood_clear(void)
{
    uint8_t scrap[4096];
    ssize_t n;
    do
        n = read(theirs[0], scrap, sizeof scrap);
    while (n > 0 || (n < 0 && errno == EINTR));
}
